// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reclaim.c - the door of the reclaim core: facts, and where each leads a page.
 *
 * DOC: the policy, in one place
 *
 * A resident page is on *probation* or in *main* memory.
 *
 * Where pages enter:
 *
 *	FOUND		main, oldest		nobody knows: looked at before it goes
 *	NEW, REFAULT	main, youngest		if it proved itself, see below
 *			probation, youngest	else
 *	PREFETCH	probation, youngest-1	a guess: no touch yet
 *	kept, TOUCHED	main, youngest
 *	kept, else	where it was		BUSY: not picked again in this pass
 *
 * A page that faults has proved itself if it has been touched in two rounds more than those being
 * evicted now (one, if its refault is near), or was touched in this very interval already, or if
 * eviction goes by generation (then age is all that counts), or if less than half of memory is in
 * use. A page on probation proves itself when a pass sees it used again; its fault's
 * own accessed bit does not count.
 *
 * What goes first: from probation while it holds more than its share, the one longest there; else
 * from main memory, by frequency or by generation, whichever the judge prefers (judge.c), or by
 * generation in an emergency (alarm.c). In generation order the two youngest stay unless faults
 * wait for room.
 *
 * Which refaults are *near*: if since the page's eviction d others were evicted, and R of those in
 * main memory were used, an exact LRU of our size would have kept the page if d + R, and those on
 * probation, fit. R is not counted but estimated, from the share of main memory that was touched in
 * the last interval and the time the page was away.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include "decay.h"
#include "reclaim_internal.h"

#define MEM_ALIGN      64u
#define NEAR_MARGIN    0.9 /* of capacity: an estimate in doubt is far */
#define ADMIT_FREQ_NEAR 1u /* rounds more than those being evicted: for a near refault, */
#define ADMIT_FREQ     2u  /* and for any page */
#define EMPTY_SHARE    2u  /* below 1/2 of capacity there is no need to be choosy */

static size_t aligned(size_t size)
{
	return (size + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
}

size_t reclaim_size(uint32_t nr_pages)
{
	return aligned(sizeof(struct reclaim)) + aligned(lru_gen_size(nr_pages)) +
	       aligned(shadow_size(nr_pages)) + aligned(probation_size(nr_pages)) +
	       aligned(tiers_size(nr_pages)) + aligned(stretches_size(nr_pages));
}

struct reclaim_policy reclaim_policy_default(void)
{
	return (struct reclaim_policy) {
		.order = RECLAIM_ORDER_AUTO,
		.features = RECLAIM_ALL_FEATURES,
		.period_ns = 2000000000,
		.min_period_ns = 200000000,
		.scan_permille = 50,
		.ahead_max = 16,
	};
}

static bool policy_is_sane(const struct reclaim_policy *p)
{
	return p->order < RECLAIM_NR_ORDERS && !(p->features & ~(uint32_t)RECLAIM_ALL_FEATURES) &&
	       p->period_ns && p->period_ns <= RECLAIM_TIME_MAX && p->min_ttl_ns <= RECLAIM_TIME_MAX &&
	       p->min_period_ns <= p->period_ns && p->scan_permille <= 1000 &&
	       p->ahead_max >= 1 && p->ahead_max <= READAHEAD_MAX;
}

struct reclaim *reclaim_init(void *mem, size_t size, const struct reclaim_conf *conf,
			     uint64_t now_ns)
{
	struct reclaim *r = mem;
	uint32_t nr = conf->nr_pages;
	uint8_t *at = mem;

	if (!mem || !nr || nr > 1u << 29 || !policy_is_sane(&conf->policy) ||
	    size < reclaim_size(nr) || (uintptr_t)mem % MEM_ALIGN)
		return NULL;
	r->policy = conf->policy;
	r->nr_pages = nr;
	r->now_ns = now_ns;
	r->begun_ns = now_ns;
	r->random = conf->seed;
	r->gov.limit = RECLAIM_NO_LIMIT;
	at += aligned(sizeof(*r));
	lru_gen_init(&r->lru, at, nr, now_ns);
	at += aligned(lru_gen_size(nr));
	shadow_init(&r->shadow, at, nr, now_ns);
	at += aligned(shadow_size(nr));
	probation_init(&r->probation, at, nr);
	at += aligned(probation_size(nr));
	tiers_init(&r->tiers, at, nr);
	at += aligned(tiers_size(nr));
	stretches_init(&r->stretches, at, nr, conf->scan_cost);
	sweep_init(&r->sweep, nr);
	pacer_init(&r->pacer, now_ns, conf->policy.period_ns);
	r->ra.nr_pages = nr;
	readahead_set_max(&r->ra, conf->policy.ahead_max);
	return r;
}

int reclaim_set_policy(struct reclaim *r, const struct reclaim_policy *policy)
{
	if (!policy_is_sane(policy))
		return -EINVAL;
	if (policy->ahead_max != r->policy.ahead_max)
		readahead_set_max(&r->ra, policy->ahead_max);
	r->policy = *policy;
	if (reclaim_key_order(r) != r->sweep.order)
		sweep_restart(&r->sweep, &r->lru, &r->census, reclaim_key_order(r), reclaim_random(r));
	sweep_wet(&r->sweep, 0);
	return 0;
}

void reclaim_tick(struct reclaim *r, uint64_t now_ns)
{
	r->now_ns = MAX(r->now_ns, now_ns);
}

void reclaim_set_limit(struct reclaim *r, uint32_t pages)
{
	r->gov.limit = pages;
}

struct alarm_scene reclaim_scene(const struct reclaim *r)
{
	return (struct alarm_scene) {
		.now_ns = r->now_ns,
		.last_pass_ns = r->pacer.pass_ns,
		.unit_ns = r->pacer.unit_ns,
		.capacity = reclaim_capacity(r),
	};
}

/* --- pages come ----------------------------------------------------------------------------- */

/* Pages of @mask, resident, are touched: by an access seen, or by a write that we stood in the way of. */
static void touch_pages(struct reclaim *r, uint32_t w, uint64_t mask)
{
	struct lru_word *word = lru_gen_word(&r->lru, w);
	uint64_t fresh = mask & ~word->touched;
	uint64_t used = mask & word->ahead;

	if (fresh)
		judge_note_touch(&r->judge, word, w, fresh, fresh);
	if (fresh & word->probation) {
		r->stats.graduated += word_count(fresh & word->probation);
		lru_gen_set_probation(&r->lru, w, fresh & word->probation, false);
		sweep_wet(&r->sweep, 0);
	}
	if (used) {
		word->ahead &= ~used;
		r->stats.ahead_used += word_count(used);
		readahead_note_used(&r->ra, word_count(used));
	}
	lru_gen_count_touch(&r->lru, w, mask);
	word->touched |= mask;
	r->reused += word_count(fresh);
	r->stats.promoted += lru_gen_promote(&r->lru, w, mask);
}

void reclaim_note_young(struct reclaim *r, uint32_t first, const uint64_t *young, uint32_t nr_words)
{
	const uint32_t per_stretch = RECLAIM_STRETCH / WORD_PAGES;
	uint32_t base = first / WORD_PAGES;
	uint32_t resident = 0, seen = 0;

	assert(first % WORD_PAGES == 0);
	nr_words = MIN(nr_words, base < r->lru.nr_words ? r->lru.nr_words - base : 0);
	for (uint32_t i = 0; i < nr_words; i++) {
		uint32_t w = base + i;
		const struct lru_word *word = &r->lru.words[w];
		uint64_t mask = young[i] & word->resident & ~word->isolated;

		if (mask)
			touch_pages(r, w, mask);
		resident += word_count(word->resident);
		seen += word_count(mask);
		if ((w + 1) % per_stretch && w + 1 < r->lru.nr_words && i + 1 < nr_words)
			continue;
		/* A part of a stretch tells that it is not cold, but not that it is. */
		if (w - w % per_stretch >= base &&
		    ((w + 1) % per_stretch == 0 || w + 1 == r->lru.nr_words))
			stretches_note_look(&r->stretches, w / per_stretch, resident, seen);
		else if (seen)
			stretches_note_change(&r->stretches, w / per_stretch);
		resident = seen = 0;
	}
}

/* Of main memory, how many pages were used in the last @ago_ns? */
static double estimate_reused(const struct reclaim *r, uint64_t ago_ns)
{
	double main = r->lru.resident - r->lru.probation;
	double intervals = (double)ago_ns / MAX(r->reuse_len_ns, 1.0);
	double share = 1 - decay_exp2(-r->reuse_log2);

	if (intervals <= 1)
		share = 1 - decay_exp2(-r->reuse_log2 * intervals);
	else
		share = MIN(share * intervals, 1.0);
	return main * share;
}

static bool is_near(const struct reclaim *r, uint32_t idx)
{
	uint32_t distance;
	uint64_t ago_ns;

	if (!pacer_is_warm(&r->pacer) ||
	    !shadow_distance(&r->shadow, idx, r->now_ns, &distance, &ago_ns))
		return false;
	return distance + r->lru.probation + estimate_reused(r, ago_ns) <
	       NEAR_MARGIN * reclaim_capacity(r);
}

/* A page came back from the store: what does that say? */
static void learn_from_refault(struct reclaim *r, uint32_t idx, bool near)
{
	const struct lru_word *word = lru_gen_word(&r->lru, idx / WORD_PAGES);
	const struct alarm_scene scene = reclaim_scene(r);

	r->stats.refaults++;
	r->stats.refaults_near += near;
	tiers_note_refault(&r->tiers, idx, near);
	if (!near)
		return;
	if (word->touched & word_bit(idx))
		r->judge.repeats++;
	if (word->probation & word_bit(idx) && alarm_is_unusual(&r->alarm, &scene))
		probation_missed(&r->probation, scene.capacity);
}

static bool has_proved_itself(const struct reclaim *r, const struct lru_word *word,
			      uint32_t idx, bool near, bool repeat)
{
	uint32_t enough = r->victim_freq + (near ? ADMIT_FREQ_NEAR : ADMIT_FREQ);

	return repeat || r->sweep.order == LRU_BY_GENERATION ||
	       r->lru.resident < reclaim_capacity(r) / EMPTY_SHARE ||
	       word_freq_of(word, idx) >= enough;
}

/* Page @idx of main memory may be evicted from now on. */
static void wet_page(struct reclaim *r, uint32_t idx)
{
	const struct lru_word *word = lru_gen_word(&r->lru, idx / WORD_PAGES);
	uint32_t youth = word_youth_of(word, idx), freq = word_freq_of(word, idx);

	sweep_wet(&r->sweep, r->sweep.order == LRU_BY_GENERATION ? youth << LRU_FREQ_BITS | freq :
								   freq << 2 | youth);
}

static void enter(struct reclaim *r, uint32_t idx, uint32_t youth, bool probation)
{
	uint32_t w = idx / WORD_PAGES;

	lru_gen_set_probation(&r->lru, w, word_bit(idx), probation);
	lru_gen_enter(&r->lru, w, word_bit(idx), youth);
	stretches_note_change(&r->stretches, idx / RECLAIM_STRETCH);
	if (probation)
		reclaim_enqueue(r, idx);
	else
		wet_page(r, idx);
}

static void note_fault(struct reclaim *r, uint32_t idx, bool back)
{
	uint32_t w = idx / WORD_PAGES;
	uint64_t bit = word_bit(idx);
	struct lru_word *word = lru_gen_word(&r->lru, w);
	struct alarm_scene scene = reclaim_scene(r);
	bool near = back && is_near(r, idx);
	bool repeat = word->touched & bit;

	if (!repeat)
		judge_note_touch(&r->judge, word, w, bit,
				 back && shadow_is_since(&r->shadow, idx, r->census_evictions) ?
					 bit :
					 0);
	if (back)
		learn_from_refault(r, idx, near);
	r->pacer.faults++;
	if (pacer_is_warm(&r->pacer) &&
	    alarm_note_fault(&r->alarm, &scene, near) != ALARM_QUIET)
		r->pacer.asked = true;
	lru_gen_count_touch(&r->lru, w, bit);
	word->touched |= bit;
	r->reused++;
	enter(r, idx, LRU_YOUTH_MAX, !has_proved_itself(r, word, idx, near, repeat));
}

void reclaim_note_resident(struct reclaim *r, uint32_t first, uint32_t nr,
			   enum reclaim_origin origin)
{
	uint64_t end = (uint64_t)first + nr;

	assert(end <= r->nr_pages);
	for (uint32_t idx = first; idx < end; idx++) {
		struct lru_word *word = lru_gen_word(&r->lru, idx / WORD_PAGES);

		if (word->resident & word_bit(idx))
			continue;
		if (origin == RECLAIM_NEW || origin == RECLAIM_REFAULT) {
			note_fault(r, idx, origin == RECLAIM_REFAULT);
		} else if (origin == RECLAIM_PREFETCH) {
			enter(r, idx, LRU_YOUTH_MAX - 1, true);
			word->ahead |= word_bit(idx);
		} else {
			enter(r, idx, 0, false);
		}
	}
}

/* --- pages go ------------------------------------------------------------------------------- */

/* Pages of @mask, resident, leave. */
static void leave(struct reclaim *r, uint32_t w, uint64_t mask)
{
	const struct lru_word *word = lru_gen_word(&r->lru, w);

	r->reused -= MIN(r->reused, word_count(mask & word->touched));
	lru_gen_leave(&r->lru, w, mask);
}

void reclaim_note_gone(struct reclaim *r, uint32_t first, uint32_t nr)
{
	uint64_t end = (uint64_t)first + nr;

	assert(end <= r->nr_pages);
	for (uint32_t w = first / WORD_PAGES; nr && w <= (end - 1) / WORD_PAGES; w++) {
		uint64_t mask = word_range(w, first, end);

		if (lru_gen_has_resident(&r->lru, w))
			leave(r, w, mask & r->lru.words[w].resident);
		lru_gen_forget(&r->lru, w, mask);
		tiers_forget(&r->tiers, w, mask);
	}
}

void reclaim_note_evicted(struct reclaim *r, uint32_t idx)
{
	uint32_t w = idx / WORD_PAGES;

	/* Not isolated: it was discarded meanwhile, and maybe is back as somebody else. */
	if (!lru_gen_is_isolated(&r->lru, idx))
		return;
	if (lru_gen_word(&r->lru, w)->ahead & word_bit(idx)) {
		r->stats.ahead_wasted++;
		readahead_note_wasted(&r->ra, 1);
	}
	leave(r, w, word_bit(idx));
	shadow_note(&r->shadow, idx, r->now_ns);
	tiers_note_evicted(&r->tiers, idx);
	r->stats.evicted++;
}

void reclaim_note_kept(struct reclaim *r, uint32_t idx, enum reclaim_kept why)
{
	uint32_t w = idx / WORD_PAGES;
	/* In random order chance puts others first, and no pass need come to end a deferral. */
	bool defer = why != RECLAIM_KEPT_ERROR && r->policy.order != RECLAIM_ORDER_RANDOM;

	if (!lru_gen_is_isolated(&r->lru, idx))
		return;
	if (why == RECLAIM_KEPT_TOUCHED) {
		lru_gen_put_back(&r->lru, idx, false);
		lru_gen_set_probation(&r->lru, w, word_bit(idx), false);
		touch_pages(r, w, word_bit(idx));
		wet_page(r, idx);
		return;
	}
	lru_gen_put_back(&r->lru, idx, defer);
	if (!defer || r->lru.undeferred)
		wet_page(r, idx);
	if (lru_gen_word(&r->lru, w)->probation & word_bit(idx))
		reclaim_enqueue(r, idx);
}

void reclaim_note_hint(struct reclaim *r, uint32_t first, uint32_t nr, enum reclaim_hint hint)
{
	assert((uint64_t)first + nr <= r->nr_pages);
	tiers_set_hint(&r->tiers, first, nr, hint);
}

/* --- the queue of probation ----------------------------------------------------------------- */

uint32_t reclaim_dequeue(struct reclaim *r)
{
	while (!probation_is_empty(&r->probation)) {
		uint32_t idx = probation_pop(&r->probation);
		const struct lru_word *word = lru_gen_word(&r->lru, idx / WORD_PAGES);

		if (word->resident & word->probation & ~word->isolated & word_bit(idx))
			return idx;
	}
	return RECLAIM_NO_PAGE;
}

void reclaim_enqueue(struct reclaim *r, uint32_t idx)
{
	if (probation_is_full(&r->probation)) {
		uint32_t oldest = reclaim_dequeue(r);

		if (oldest != RECLAIM_NO_PAGE) {
			lru_gen_set_probation(&r->lru, oldest / WORD_PAGES, word_bit(oldest), false);
			wet_page(r, oldest);
		}
	}
	probation_push(&r->probation, idx);
}

/* --- decisions that are made elsewhere ------------------------------------------------------ */

uint32_t reclaim_high_watermark(const struct reclaim *r)
{
	return governor_high(&r->gov);
}

uint32_t reclaim_excess(const struct reclaim *r, uint32_t resident)
{
	return reclaim_has(r, RECLAIM_EVICTION) ? governor_excess(&r->gov, resident) : 0;
}

uint32_t reclaim_readahead(struct reclaim *r, uint32_t idx)
{
	uint32_t nr = readahead_fault(&r->ra, idx);

	return reclaim_has(r, RECLAIM_AHEAD) ? nr : 0;
}
