// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reclaim_pass.c - passes of the sampler: whether, where, and what is concluded at their end.
 */
#include "decay.h"
#include "reclaim_internal.h"

#define STRETCH_WORDS	  (RECLAIM_STRETCH / WORD_PAGES)
#define AGE_SHARE	  0.7 /* of capacity in the youngest generation: time for a new one */
#define MAX_AGINGS	  16u /* between passes */
#define HALVE_ROUNDS_FREQ 64u /* rounds between halvings, by the order in use */
#define HALVE_ROUNDS_GEN  4u
#define REUSE_LEAST	  0.25 /* units: shorter intervals say too little about reuse */
#define REUSE_MOST	  0.999

bool reclaim_should_scan(const struct reclaim *r, uint32_t resident)
{
	enum reclaim_reason reason;

	return reclaim_has(r, RECLAIM_AGING) && r->policy.order != RECLAIM_ORDER_RANDOM &&
	       !governor_is_idle(&r->gov, resident) &&
	       pacer_is_due(&r->pacer, &r->policy, reclaim_capacity(r), r->now_ns, &reason);
}

void reclaim_begin_pass(struct reclaim *r, bool full)
{
	stretches_begin_pass(&r->stretches, full || r->pacer.asked);
}

/* Stretch @s is not looked at in this pass: it is as it was. */
static void presume(struct reclaim *r, uint32_t s)
{
	uint32_t end = MIN((s + 1) * STRETCH_WORDS, r->lru.nr_words);
	uint8_t streak = r->stretches.streak[s];

	r->stats.stretches_skipped++;
	if (r->stretches.cost != RECLAIM_SCAN_PER_YOUNG_PAGE)
		return;
	for (uint32_t w = s * STRETCH_WORDS; w < end; w++) {
		uint64_t young = r->lru.words[w].resident & ~r->lru.words[w].ahead;

		reclaim_note_young(r, w * WORD_PAGES, &young, 1);
	}
	r->stretches.streak[s] = streak;
}

static bool is_empty(const struct reclaim *r, uint32_t s)
{
	return !((const uint8_t *)r->lru.summary)[s];
}

bool reclaim_next_scan(struct reclaim *r, uint32_t max, struct page_run *ret_run)
{
	struct stretches *st = &r->stretches;
	struct page_run run = {0};

	for (; st->next < st->nr && run.nr + RECLAIM_STRETCH <= MAX(max, RECLAIM_STRETCH);
	     st->next++) {
		bool look = !is_empty(r, st->next) && stretches_is_due(st, st->next);

		if (!look && run.nr)
			break;
		if (!look) {
			if (!is_empty(r, st->next))
				presume(r, st->next);
			continue;
		}
		if (!run.nr)
			run.first = st->next * RECLAIM_STRETCH;
		run.nr = MIN((st->next + 1) * RECLAIM_STRETCH, r->nr_pages) - run.first;
		r->stats.stretches_scanned++;
	}
	*ret_run = run;
	return run.nr;
}

/* Those longest on probation, where there are more than fit, have stayed without anybody's asking. */
static void graduate_surplus(struct reclaim *r, uint32_t capacity)
{
	uint32_t room = probation_room(&r->probation, capacity);

	while (r->lru.probation > room) {
		uint32_t idx = reclaim_dequeue(r);

		if (idx == RECLAIM_NO_PAGE)
			break;
		lru_gen_set_probation(&r->lru, idx / WORD_PAGES, word_bit(idx), false);
	}
}

/* What share of main memory is touched in how long? For the distance of refaults. */
static void learn_reuse(struct reclaim *r, double len, bool regular)
{
	double main = r->lru.resident - r->lru.probation;
	double share = MIN(r->reused / (main + 1), REUSE_MOST);

	if (regular || len > REUSE_LEAST * r->pacer.unit_ns) {
		r->reuse_log2 = decay_log2(1 - share);
		r->reuse_len_ns = len;
	}
	r->reused = 0;
}

static void end_round(struct reclaim *r)
{
	uint32_t often = r->sweep.order == LRU_BY_GENERATION ? HALVE_ROUNDS_GEN :
							       HALVE_ROUNDS_FREQ;
	bool halve = ++r->rounds >= often;

	if (halve)
		r->rounds = 0;
	lru_gen_end_round(&r->lru, halve);
}

/* More would tell nothing, and turn the epochs over before the census has been everywhere. */
void reclaim_age(struct reclaim *r)
{
	if (r->agings >= MAX_AGINGS)
		return;
	r->agings++;
	lru_gen_age(&r->lru, r->now_ns);
	r->stats.agings++;
	sweep_wet(&r->sweep, 0);
}

/* All that depends on how many pages there are of each kind. */
static void take_stock(struct reclaim *r, uint32_t capacity)
{
	census_take(&r->census, &r->lru, r->lru.epochs.pass);
	judge_set_bounds(&r->judge, &r->census, capacity, reclaim_random(r));
	r->census_evictions = r->shadow.evictions;
	graduate_surplus(r, capacity);
	sweep_restart(&r->sweep, &r->lru, &r->census, reclaim_key_order(r), reclaim_random(r));
	r->victim_freq = r->sweep.order == LRU_BY_FREQUENCY ? r->sweep.key >> 2 : 0;
}

/* What min_ttl protects is known by generation: none may last much longer than that. */
static bool is_time_to_age(const struct reclaim *r, uint32_t capacity)
{
	uint64_t age_ns = r->now_ns - r->lru.birth_ns[LRU_YOUTH_MAX];

	return r->lru.by_youth[LRU_YOUTH_MAX] >= AGE_SHARE * capacity ||
	       (r->policy.min_ttl_ns && age_ns >= r->policy.min_ttl_ns);
}

void reclaim_end_pass(struct reclaim *r, uint64_t cost_ns)
{
	uint32_t capacity = reclaim_capacity(r);
	struct alarm_scene scene = reclaim_scene(r);
	double len = (double)(r->now_ns - r->pacer.pass_ns + 1);
	double units = len / r->pacer.unit_ns;
	enum reclaim_reason reason = RECLAIM_PASS_ASKED;

	pacer_is_due(&r->pacer, &r->policy, capacity, r->now_ns, &reason);
	r->stats.passes[reason]++;
	learn_reuse(r, len, reason == RECLAIM_PASS_PERIOD);
	judge_end_pass(&r->judge, capacity, units);
	alarm_end_pass(&r->alarm, &scene, reason == RECLAIM_PASS_PERIOD);
	tiers_update(&r->tiers, units);
	probation_relax(&r->probation, capacity, units);
	pacer_end_pass(&r->pacer, reason, capacity, r->now_ns, cost_ns);
	lru_gen_end_pass(&r->lru);
	r->agings = 0;
	if (is_time_to_age(r, capacity))
		reclaim_age(r);
	if (pacer_round_ends(&r->pacer, &r->policy, r->lru.counted, r->lru.resident, r->now_ns))
		end_round(r);
	take_stock(r, capacity);
	r->stats.thrashing = r->ttl_taken;
	r->ttl_taken = false;
	r->searching = false;
}

bool reclaim_is_thrashing(const struct reclaim *r)
{
	return r->stats.thrashing;
}
