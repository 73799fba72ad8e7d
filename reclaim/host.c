// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * host.c - one budget, many guests: a target for each.
 *
 * DOC: shares
 *
 * A division begins with what each guest holds: its resident pages, but not more than its ceiling
 * (the smaller of its size and limit), and not less than its protection. What these add up to is
 * either too much or not.
 *
 *	too much	the excess is taken, and no page more: above high first, then idle
 *			pages, then the rest above protection, then protections, by the
 *			same part from each
 *	not too much	the headroom is given: back to those that fill what they had, to
 *			those that want pages, up to high, up to the ceiling
 *
 * Each of these is a stage, and a stage begins when the one before it has done all it can; so it
 * can be said of each page why it was taken. Within a stage guest i gets level * rate_i, but not
 * more than cap_i. Taking, cap is what the stage may take of it and rate is cap / weight. Giving,
 * cap is what it may have in all above what it began with, rate is its weight, and it keeps what
 * it has from earlier stages; so these do not count twice, and who has been served waits until
 * others have as much. Only the level is to be found, such that the sum is right. Parts are
 * rounded down, and the pages left go to the largest remainders, the first of equals first.
 *
 * Why no overshoot: a reclaimer that asks each guest for a little more than needed, to be on the
 * safe side, keeps all of them a little below what they could have, for ever, and their refaults
 * make the other guests' excess. (The kernel's proportional reclaim, get_scan_count() in
 * mm/vmscan.c, has the same aim: what is protected does not count, what is above is scanned in
 * proportion.) What a guest has above its own limit is another matter; it goes in any case and is
 * not part of the excess.
 *
 * DOC: targets that do not flutter
 *
 * The reclaimer keeps a guest a little below its target (governor.c: up to two gaps), and how
 * much below changes all the time. A division that took this for headroom would hand it to
 * somebody else, and the guest would be made to keep below what is left, and so on. Hence, where
 * there is headroom: a guest less than two gaps below its target fills it, and gets it again, but
 * for what is idle in it; a target does not rise by two gaps or less (by less than an eighth of a
 * gap where pages are wanted); and it is not lowered by more than what others got. So the same
 * facts give the same targets, and facts that differ by less than the gaps hardly ever others.
 * Where there is none, targets follow the facts at once: hysteresis would be overshoot.
 */
#include <assert.h>
#include <errno.h>
#include "governor.h"
#include "host.h"

/* What is kept of the promise before anybody else gets anything. */
static uint32_t base_of(const struct host_share *s, const struct host_policy *policy)
{
	uint64_t used = MIN(s->resident, host_ceiling(s));

	if (policy->lend_beyond == RECLAIM_NO_LIMIT)
		return host_promise(s);
	return (uint32_t)MIN(host_promise(s), used + policy->lend_beyond);
}

static uint32_t start_of(const struct host_share *s, const struct host_policy *policy)
{
	return MAX(MIN(s->resident, host_ceiling(s)), base_of(s, policy));
}

/* How far below its target the reclaimer keeps a guest: what differs by no more is the same. */
static uint32_t band_of(uint32_t target)
{
	return 2 * governor_gap(&(struct governor) {.limit = target});
}

struct host_policy host_policy_default(void)
{
	return (struct host_policy) {
		.budget = HOST_NO_BUDGET,
		.lend_beyond = RECLAIM_NO_LIMIT,
	};
}

int host_check_share(const struct host_share *share)
{
	if (share->weight < 1 || share->weight > HOST_WEIGHT_MAX)
		return -EINVAL;
	return share->size > HOST_PAGES_MAX ? -ERANGE : 0;
}

/* --- dividing ------------------------------------------------------------------------------- */

static double part_at(const struct host_share *s, double level)
{
	return MAX(MIN(level * s->rate, s->cap), s->floor);
}

/* The level at which the parts add up to @total, which is less than all caps and not less than all
 * floors. Found by halving, then computed from those parts that still vary there. */
static double level_of(const struct host_share *shares, uint32_t nr, uint64_t total)
{
	double low = 0, high = 0, rest = (double)total, rate = 0;

	for (uint32_t i = 0; i < nr; i++) {
		if (shares[i].cap)
			high = MAX(high, shares[i].cap / shares[i].rate);
	}
	for (uint32_t halving = 0; halving < 64; halving++) {
		double middle = low + (high - low) / 2, sum = 0;

		if (middle <= low || middle >= high)
			break;
		for (uint32_t i = 0; i < nr; i++)
			sum += part_at(&shares[i], middle);
		if (sum <= (double)total)
			low = middle;
		else
			high = middle;
	}
	for (uint32_t i = 0; i < nr; i++) {
		const struct host_share *s = &shares[i];
		double at = low * s->rate;

		if (at > s->floor && at < s->cap)
			rate += s->rate;
		else
			rest -= part_at(s, low);
	}
	return rate > 0 ? MIN(MAX(rest / rate, low), high) : low;
}

static uint32_t count_fractions(const struct host_share *shares, uint32_t nr, uint32_t least)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < nr; i++)
		count += shares[i].part < shares[i].cap && shares[i].fraction >= least;
	return count;
}

/* One page more for the @left guests with the largest remainders; returns how many got one. */
static uint64_t round_up(struct host_share *shares, uint32_t nr, uint64_t left)
{
	uint32_t least = 0, eligible = count_fractions(shares, nr, 0);
	uint64_t equals;

	if (eligible <= left) {
		for (uint32_t i = 0; i < nr; i++)
			shares[i].part += shares[i].part < shares[i].cap;
		return eligible;
	}
	for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
		if (count_fractions(shares, nr, least | bit) >= left)
			least |= bit;
	}
	equals = left;
	if (least < UINT32_MAX)
		equals -= count_fractions(shares, nr, least + 1);
	for (uint32_t i = 0; i < nr; i++) {
		struct host_share *s = &shares[i];

		if (s->part == s->cap || s->fraction < least)
			continue;
		if (s->fraction == least) {
			if (!equals)
				continue;
			equals--;
		}
		s->part++;
	}
	return left;
}

/*
 * Set each @part, from @floor, @cap and @rate. Returns how much they are together above the floors:
 * @amount, or all there is room for if that is less.
 */
static uint64_t divide(struct host_share *shares, uint32_t nr, uint64_t amount)
{
	uint64_t room = 0, floors = 0, left;
	double level;

	for (uint32_t i = 0; i < nr; i++) {
		floors += shares[i].floor;
		room += shares[i].cap - shares[i].floor;
	}
	for (uint32_t i = 0; i < nr; i++)
		shares[i].part = amount ? shares[i].cap : shares[i].floor;
	if (amount >= room || !amount)
		return MIN(amount, room);

	left = amount;
	level = level_of(shares, nr, floors + amount);
	for (uint32_t i = 0; i < nr; i++) {
		struct host_share *s = &shares[i];
		double exact = part_at(s, level);
		uint32_t more = (uint32_t)exact - s->floor;

		s->fraction = (uint32_t)((exact - (uint32_t)exact) * 4294967296.0);
		more = (uint32_t)MIN(more, left);
		s->part = s->floor + more;
		left -= more;
	}
	while (left)
		left -= round_up(shares, nr, left);
	return amount;
}

/* --- taking --------------------------------------------------------------------------------- */

enum stage {
	TAKE_HIGH,
	TAKE_IDLE,
	TAKE_REST,
	TAKE_LOW,
	GIVE_BACK,
	GIVE_WANTED,
	GIVE_HIGH,
	GIVE_LIMIT,
};

static uint32_t takable(const struct host_share *s, const struct host_policy *policy,
			enum stage stage)
{
	uint32_t base = base_of(s, policy), floor, gone, idle;

	switch (stage) {
	case TAKE_HIGH:
		floor = MAX(base, s->high);
		return s->now - MIN(floor, s->now);
	case TAKE_IDLE: /* what had to go so far was of it already, or will be */
		gone = s->resident - MIN(s->now, s->resident);
		idle = MIN(s->idle, s->resident);
		return MIN(idle - MIN(gone, idle), s->now - base);
	case TAKE_REST:
		return s->now - base;
	default:
		return s->now;
	}
}

static uint64_t take(struct host_share *shares, uint32_t nr, const struct host_policy *policy,
		     enum stage stage, uint64_t amount)
{
	uint64_t taken;

	if (!amount)
		return 0;
	for (uint32_t i = 0; i < nr; i++) {
		struct host_share *s = &shares[i];

		s->floor = 0;
		s->cap = takable(s, policy, stage);
		s->rate = stage == TAKE_LOW ? s->cap : (double)s->cap / s->weight;
	}
	taken = divide(shares, nr, amount);
	for (uint32_t i = 0; i < nr; i++)
		shares[i].now -= shares[i].part;
	return taken;
}

static void take_excess(struct host_share *shares, uint32_t nr, const struct host_policy *policy,
			struct host_sums *sums)
{
	uint64_t left = sums->over;

	left -= sums->cut_high = take(shares, nr, policy, TAKE_HIGH, left);
	left -= sums->cut_idle = take(shares, nr, policy, TAKE_IDLE, left);
	left -= sums->cut_rest = take(shares, nr, policy, TAKE_REST, left);
	sums->cut_low = take(shares, nr, policy, TAKE_LOW, left);
}

/* --- giving --------------------------------------------------------------------------------- */

/* The last target, where there was one and it can still be kept; 0 otherwise. */
static uint32_t before_of(const struct host_share *s)
{
	return s->before == RECLAIM_NO_LIMIT ? 0 : MIN(s->before, host_ceiling(s));
}

/* What a guest may have above what it began with when this stage ends. */
static uint32_t givable(const struct host_share *s, enum stage stage)
{
	uint32_t before = before_of(s), room = host_ceiling(s) - s->start, short_of;

	switch (stage) {
	case GIVE_BACK:
		short_of = before - MIN(s->start, before);
		return short_of <= band_of(before) ? short_of - MIN(s->idle, short_of) : 0;
	case GIVE_WANTED: /* more than it has, if it fills that */
		return MIN(s->wanted, room - s->floor) + s->floor;
	case GIVE_HIGH:
		return MIN(s->high - MIN(s->start, s->high), room);
	default:
		return room;
	}
}

static uint64_t give(struct host_share *shares, uint32_t nr, enum stage stage, uint64_t amount)
{
	uint64_t given;

	if (!amount)
		return 0;
	for (uint32_t i = 0; i < nr; i++) {
		struct host_share *s = &shares[i];

		s->floor = s->now - s->start;
		s->cap = MAX(givable(s, stage), s->floor);
		s->rate = s->weight;
	}
	given = divide(shares, nr, amount);
	for (uint32_t i = 0; i < nr; i++)
		shares[i].now = shares[i].start + shares[i].part;
	return given;
}

/* Is the rise of a target too small to be worth a change? Who wants pages is moved by less. */
static bool is_small_rise(const struct host_share *s, uint32_t before)
{
	uint32_t band = band_of(before) / (s->wanted ? 16 : 1);

	return s->before != RECLAIM_NO_LIMIT && s->now > before &&
	       s->now - before <= MAX(band, 1) && before >= s->start;
}

/* Undo small rises, lower targets only as far as somebody gets the pages; returns what is left. */
static uint64_t hold_still(struct host_share *shares, uint32_t nr, uint64_t left)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct host_share *s = &shares[i];
		uint32_t before = before_of(s);

		if (is_small_rise(s, before)) {
			left += s->now - before;
			s->now = before;
		}
		s->floor = 0;
		s->cap = before - MIN(s->now, before);
		s->rate = s->cap;
	}
	left -= divide(shares, nr, left);
	for (uint32_t i = 0; i < nr; i++)
		shares[i].now += shares[i].part;
	return left;
}

static void give_headroom(struct host_share *shares, uint32_t nr, struct host_sums *sums,
			  uint64_t headroom)
{
	for (enum stage stage = GIVE_BACK; stage <= GIVE_LIMIT; stage++)
		headroom -= give(shares, nr, stage, headroom);
	sums->unused = hold_still(shares, nr, headroom);
}

/* --- the door ------------------------------------------------------------------------------- */

void host_set_targets(struct host_share *shares, uint32_t nr, const struct host_policy *policy,
		      struct host_sums *ret_sums)
{
	bool budgeted = policy->budget != HOST_NO_BUDGET;
	struct host_sums sums = {0};
	uint64_t held = 0;

	assert(nr <= HOST_GUESTS_MAX);
	for (uint32_t i = 0; i < nr; i++) {
		struct host_share *s = &shares[i];

		assert(!host_check_share(s));
		s->before = s->target;
		s->start = s->now = budgeted ? start_of(s, policy) : s->limit;
		held += s->now;
		sums.low += base_of(s, policy);
		sums.resident += s->resident;
	}
	if (budgeted) {
		sums.over = held - MIN(policy->budget, held);
		sums.missing = sums.low - MIN(policy->budget, sums.low);
		sums.is_scaled = sums.missing > 0;
		if (sums.over)
			take_excess(shares, nr, policy, &sums);
		else
			give_headroom(shares, nr, &sums, policy->budget - held);
	}
	for (uint32_t i = 0; i < nr; i++) {
		struct host_share *s = &shares[i];

		s->target = s->now;
		s->cut = s->resident - MIN(s->resident, s->target);
		sums.targets += s->target;
		sums.cut += s->cut;
		sums.changed += s->target != s->before;
	}
	if (ret_sums)
		*ret_sums = sums;
}
