// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reclaim_look.c - looking in: statistics, single pages, and a recount of everything.
 */
#include "reclaim_internal.h"

static enum reclaim_order order_in_use(const struct reclaim *r)
{
	if (r->policy.order == RECLAIM_ORDER_RANDOM)
		return RECLAIM_ORDER_RANDOM;
	return r->sweep.order == LRU_BY_GENERATION ? RECLAIM_ORDER_GENERATIONS :
						     RECLAIM_ORDER_FREQUENCY;
}

static void get_gens(const struct lru_gen *lru, struct reclaim_stats *st)
{
	uint32_t y = (uint32_t)(lru_gen_min_seq(lru) + LRU_YOUTH_MAX - lru->max_seq);

	for (; y <= LRU_YOUTH_MAX; y++)
		st->gens[st->nr_gens++] = (struct reclaim_gen_stats) {
			.seq = lru->max_seq - LRU_YOUTH_MAX + y,
			.birth_ns = lru->birth_ns[y],
			.pages = lru->by_youth[y],
		};
}

void reclaim_get_stats(const struct reclaim *r, struct reclaim_stats *ret_stats)
{
	struct reclaim_stats *st = ret_stats;

	*st = r->stats;
	st->min_seq = lru_gen_min_seq(&r->lru);
	st->max_seq = r->lru.max_seq;
	st->limit = r->gov.limit;
	st->resident = r->lru.resident;
	st->isolated = r->lru.isolated;
	st->probation = r->lru.probation;
	st->probation_target = probation_room(&r->probation, reclaim_capacity(r));
	get_gens(&r->lru, st);
	for (uint32_t i = 0; i < RECLAIM_NR_TIERS; i++)
		st->tiers[i] = (struct reclaim_tier_stats) {
			.evicted = r->tiers.avg[i].evicted + r->tiers.now[i].evicted,
			.refaulted = r->tiers.avg[i].refaulted + r->tiers.now[i].refaulted,
			.is_protected = r->tiers.protected >> i & 1,
		};
	st->order = order_in_use(r);
	st->emergency = alarm_is_on(&r->alarm, r->now_ns);
	st->emergencies = r->alarm.emergencies;
	st->unit_ns = (uint64_t)r->pacer.unit_ns;
	st->loss_generations = r->judge.slow[LRU_BY_GENERATION];
	st->loss_frequency = r->judge.slow[LRU_BY_FREQUENCY];
}

void reclaim_get_page(const struct reclaim *r, uint32_t idx, struct reclaim_page *ret_page)
{
	struct lru_word word = lru_gen_peek_word(&r->lru, idx / WORD_PAGES);
	uint64_t bit = word_bit(idx);

	*ret_page = (struct reclaim_page) {
		.resident = word.resident & bit,
		.isolated = word.isolated & bit,
		.probation = word.probation & bit,
		.seq = r->lru.max_seq - LRU_YOUTH_MAX + word_youth_of(&word, idx),
		.frequency = word_freq_of(&word, idx),
		.tier = tiers_of(&r->tiers, idx),
	};
}

bool reclaim_verify(const struct reclaim *r)
{
	return lru_gen_verify(&r->lru);
}
