// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reclaim_evict.c - which pages to evict: from probation, by one of the two orders, or at random.
 */
#include "reclaim_internal.h"

#define RANDOM_RUN_MAX 16u /* pages: long enough that runs are exercised, short enough to be spread */
#define FIRST_PASSES   4u  /* times the shortest period: by then they have been made, or nobody makes any */
#define MAX_LOOKS    4096u /* words in one pick: some 0.3 ms, with the lock held */
#define PEEK_SHARE     0.1 /* of resident pages put off: nearly all have been touched */

enum lru_key_order reclaim_key_order(const struct reclaim *r)
{
	if (r->policy.order == RECLAIM_ORDER_GENERATIONS)
		return LRU_BY_GENERATION;
	if (r->policy.order == RECLAIM_ORDER_FREQUENCY)
		return LRU_BY_FREQUENCY;
	if (alarm_is_on(&r->alarm, r->now_ns))
		return LRU_BY_GENERATION;
	return judge_order(&r->judge);
}

/* Up to @nr pages from probation, those longest there first. */
static void take_probation(struct reclaim *r, struct sweep_batch *b, uint32_t nr)
{
	/* Those put off go to the end of the queue, each at most once. */
	uint32_t tries = r->lru.probation;

	while (nr && tries-- && b->looks && b->left && b->nr < b->room) {
		uint32_t idx = reclaim_dequeue(r);
		const struct lru_word *word;

		if (idx == RECLAIM_NO_PAGE)
			return;
		b->looks--;
		word = lru_gen_word(&r->lru, idx / WORD_PAGES);
		if (!(lru_gen_pickable(&r->lru, word) & word_bit(idx))) {
			reclaim_enqueue(r, idx);
			continue;
		}
		lru_gen_isolate(&r->lru, idx / WORD_PAGES, word_bit(idx));
		sweep_add(b, idx, 1);
		nr--;
	}
}

/*
 * The youngest youth that min_ttl lets go, plus one. When a page of a generation was touched last is not
 * known, but it was before the next generation was born; for the youngest, it may be now.
 */
static uint32_t ttl_youth_end(const struct reclaim *r)
{
	uint32_t y = 0;

	if (!r->policy.min_ttl_ns)
		return LRU_YOUTH_MAX + 1;
	while (y < LRU_YOUTH_MAX && r->now_ns - r->lru.birth_ns[y + 1] >= r->policy.min_ttl_ns)
		y++;
	return y;
}

static void take_main(struct reclaim *r, struct sweep_batch *b, bool urgent, uint32_t youth_end)
{
	const uint32_t two_youngest = (LRU_YOUTH_MAX + 1 - RECLAIM_MIN_NR_GENS) << LRU_FREQ_BITS;
	struct sweep_rules rules = {
		.key_end = r->sweep.order == LRU_BY_GENERATION && !urgent ? two_youngest :
									    LRU_NR_KEYS,
		.youth_end = youth_end,
		.tiers = reclaim_has(r, RECLAIM_TIERS) && r->tiers.protected && !r->lru.undeferred ? &r->tiers : NULL,
		.protected = &r->stats.tier_protected,
	};

	sweep_take(&r->sweep, &r->lru, &r->census, &rules, b);
	r->victim_freq = r->sweep.order == LRU_BY_FREQUENCY ? r->sweep.key >> 2 : 0;
}

static void pick_coldest(struct reclaim *r, struct sweep_batch *b, bool urgent)
{
	uint32_t room = probation_room(&r->probation, reclaim_capacity(r));
	uint32_t ttl = ttl_youth_end(r);

	if (r->lru.probation - MIN(r->lru.probation, r->lru.isolated) >= room)
		take_probation(r, b, r->lru.probation - room + 1);
	take_main(r, b, urgent, ttl);
	if (!b->nr && b->looks && urgent && ttl <= LRU_YOUTH_MAX) {
		take_main(r, b, urgent, LRU_YOUTH_MAX + 1);
		r->ttl_taken |= b->nr;
	}
	if (!b->nr && b->looks)
		take_probation(r, b, b->left);
}

/* The first pickable pages at or after word @from, and before @end, at most @max of one run. */
static bool take_any_between(struct reclaim *r, uint32_t from, uint32_t end, uint32_t max,
			     struct sweep_batch *b)
{
	for (uint32_t w = from; w < end; w++) {
		uint32_t first, nr;
		uint64_t mask;

		if (!lru_gen_has_resident(&r->lru, w))
			continue;
		mask = lru_gen_pickable(&r->lru, lru_gen_word(&r->lru, w));
		if (!mask)
			continue;
		first = (uint32_t)(reclaim_random(r) % WORD_PAGES);
		if (mask >> first)
			mask = mask >> first << first;
		mask = word_lowest_run(mask, max, &first, &nr);
		lru_gen_isolate(&r->lru, w, mask);
		sweep_add(b, w * WORD_PAGES + first, nr);
		return true;
	}
	return false;
}

static void pick_random(struct reclaim *r, struct sweep_batch *b)
{
	while (b->left && b->nr < b->room && lru_gen_nr_pickable(&r->lru)) {
		uint32_t from = (uint32_t)(reclaim_random(r) % r->lru.nr_words);
		uint32_t len = 1 + (uint32_t)(reclaim_random(r) % RANDOM_RUN_MAX);

		len = MIN(len, b->left);
		if (!take_any_between(r, from, r->lru.nr_words, len, b))
			take_any_between(r, 0, from, len, b);
	}
}

static void pick(struct reclaim *r, struct sweep_batch *b, bool urgent)
{
	if (r->policy.order == RECLAIM_ORDER_RANDOM)
		pick_random(r, b);
	else
		pick_coldest(r, b, urgent);
}

/* Before the first passes nobody knows anything; but a limit is not kept waiting for them. */
static bool may_pick(const struct reclaim *r)
{
	return r->policy.order == RECLAIM_ORDER_RANDOM || r->pacer.first >= PACER_FIRST ||
	       r->now_ns - r->begun_ns >= FIRST_PASSES * r->policy.min_period_ns;
}

uint32_t reclaim_pick(struct reclaim *r, struct page_run *runs, uint32_t nr_runs, uint32_t max,
		      bool urgent)
{
	struct sweep_batch b = {
		.runs = runs,
		.room = nr_runs,
		.left = MIN(max, RECLAIM_PICK_MAX),
		.looks = MAX_LOOKS,
	};

	r->searching = false;
	if (!nr_runs || !max || !reclaim_has(r, RECLAIM_EVICTION) || !may_pick(r))
		return 0;
	pick(r, &b, urgent);
	if (!b.nr && b.looks && urgent && r->lru.deferred && !r->lru.undeferred) {
		/* What was put off is by now the only hope of a waiting fault. */
		lru_gen_undefer(&r->lru);
		sweep_restart(&r->sweep, &r->lru, &r->census, r->sweep.order, reclaim_random(r));
		pick(r, &b, urgent);
	}
	r->searching = !b.looks;
	sweep_sort(&b);
	for (uint32_t i = 0; i < b.nr; i++)
		r->stats.picked += runs[i].nr;
	return b.nr;
}

bool reclaim_is_searching(const struct reclaim *r)
{
	return r->searching;
}

bool reclaim_wants_peek(const struct reclaim *r)
{
	return r->policy.order != RECLAIM_ORDER_RANDOM && !r->lru.undeferred &&
	       r->lru.deferred < PEEK_SHARE * r->lru.resident;
}

bool reclaim_spare_young(struct reclaim *r, uint32_t idx)
{
	const struct lru_word *word = lru_gen_word(&r->lru, idx / WORD_PAGES);
	uint64_t bit = word_bit(idx);

	/* On probation, or here since this pass began: its own fault set the bit. */
	if (!reclaim_wants_peek(r) || !(word->isolated & bit) ||
	    (word->probation | word->touched) & bit)
		return false;
	lru_gen_put_back(&r->lru, idx, true);
	stretches_note_change(&r->stretches, idx / RECLAIM_STRETCH);
	r->stats.young_skipped++;
	return true;
}
