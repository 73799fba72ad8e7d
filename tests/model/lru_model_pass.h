/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_model_pass.h - passes of the sampler, whole or with other things happening between their parts.
 */
#ifndef TEST_LRU_MODEL_PASS_H
#define TEST_LRU_MODEL_PASS_H

#include "lru_model_facts.h"

#define MODEL_AGE_SHARE	   0.7 /* of capacity in the youngest generation: a new one begins */
#define MODEL_ROUND_SHARE  0.6 /* of resident pages touched: a round ends, */
#define MODEL_ROUND_PASSES 16u /* or after that many passes */
#define MODEL_MOST_AGINGS  16u /* between passes */
#define MODEL_MOST_SKIPPED 3u  /* passes in a row: each stretch is looked at in one of four */

static inline bool model_stretch_holds(const struct model *m, uint32_t first)
{
	for (uint32_t i = first; i < first + RECLAIM_STRETCH && i < m->nr; i++)
		if (m->pages[i].resident)
			return true;
	return false;
}

/* Stretches up to @to were passed over: empty, or taken for what they were. */
static inline void model_passed_over(struct model *m, uint32_t to)
{
	for (uint32_t from = m->at; from < to; from += RECLAIM_STRETCH) {
		struct model_stretch *s = &m->stretches[MODEL_STRETCH(from)];

		if (!model_stretch_holds(m, from))
			continue;
		must(!m->full && !s->changed);
		must(++s->skipped <= MODEL_MOST_SKIPPED);
		m->want.stretches_skipped++;
		if (m->conf.scan_cost != RECLAIM_SCAN_PER_YOUNG_PAGE)
			continue;
		for (uint32_t i = from; i < from + RECLAIM_STRETCH && i < m->nr; i++)
			if (m->pages[i].resident && !m->pages[i].isolated && !m->pages[i].ahead)
				model_touch(m, &m->pages[i]);
	}
	m->at = MAX(m->at, to);
}

static inline void model_begin_pass(struct model *m, bool full)
{
	/* A pass that is given up has passed nobody over. */
	for (uint32_t i = MODEL_STRETCH(m->at); i < m->r->stretches.nr; i++)
		m->stretches[i].skipped = 0;
	m->full = full || m->r->pacer.asked;
	m->at = 0;
	reclaim_begin_pass(m->r, full);
}

/* Look where the pass says; false at its end. */
static inline bool model_scan(struct model *m, uint32_t max)
{
	struct page_run run;

	if (!reclaim_next_scan(m->r, max, &run)) {
		must(!run.nr);
		model_passed_over(m, m->nr);
		return false;
	}
	must(run.first % RECLAIM_STRETCH == 0 && run.first >= m->at && run.nr);
	must(run.nr <= MAX(max, RECLAIM_STRETCH) && run.first + run.nr <= m->nr);
	must(run.nr % RECLAIM_STRETCH == 0 || run.first + run.nr == m->nr);
	model_passed_over(m, run.first);
	m->at = run.first + run.nr;
	for (uint32_t i = run.first; i < m->at; i += RECLAIM_STRETCH) {
		must(model_stretch_holds(m, i));
		m->stretches[MODEL_STRETCH(i)].skipped = 0;
		m->want.stretches_scanned++;
	}
	for (uint32_t w = run.first; w < m->at; w += 8 * 64)
		model_young(m, w, MIN(words_for(m->at - w), 8u));
	return true;
}

static inline void model_age(struct model *m)
{
	if (m->agings++ >= MODEL_MOST_AGINGS)
		return;
	if (!model_count_youth(m, 0))
		m->birth_ns[0] = m->birth_ns[1];
	m->birth_ns[1] = m->birth_ns[2];
	m->birth_ns[2] = m->birth_ns[3];
	m->birth_ns[3] = m->now_ns;
	m->max_seq++;
	m->want.agings++;
	for (uint32_t i = 0; i < m->nr; i++)
		if (m->pages[i].youth)
			m->pages[i].youth--;
}

/* Rounds end when enough was touched; frequencies are halved after some rounds. */
static inline void model_end_round(struct model *m, uint32_t halve_after)
{
	uint32_t counted = 0, resident = model_count_resident(m);
	bool halve;

	for (uint32_t i = 0; i < m->nr; i++)
		counted += m->pages[i].resident && m->pages[i].counted;
	if (counted < MODEL_ROUND_SHARE * resident && ++m->round_passes < MODEL_ROUND_PASSES)
		return;
	m->round_passes = 0;
	halve = ++m->rounds >= halve_after;
	m->rounds = halve ? 0 : m->rounds;
	for (uint32_t i = 0; i < m->nr; i++) {
		m->pages[i].counted = false;
		m->pages[i].freq >>= halve;
	}
}

static inline void model_graduate_surplus(struct model *m, uint32_t capacity)
{
	uint32_t room = probation_room(&m->r->probation, capacity);

	for (uint32_t surplus = model_count_probation(m); surplus > room; surplus--) {
		uint32_t idx = model_dequeue(m);

		if (idx == RECLAIM_NO_PAGE)
			break;
		m->pages[idx].probation = false;
	}
}

static inline void model_check_order(const struct model *m)
{
	enum reclaim_order order = m->r->policy.order;
	struct reclaim_stats st;

	reclaim_get_stats(m->r, &st);
	must(order == RECLAIM_ORDER_AUTO ? st.order != RECLAIM_ORDER_RANDOM : st.order == order);
}

static inline void model_end_pass(struct model *m, uint64_t cost_ns)
{
	uint32_t capacity = model_capacity(m, model_count_resident(m));
	uint32_t halve_after = m->r->sweep.order == LRU_BY_GENERATION ? 4 : 64;

	reclaim_end_pass(m->r, cost_ns);
	for (uint32_t i = 0; i < m->nr; i++) {
		m->pages[i].touched = false;
		m->pages[i].deferred = false;
	}
	m->agings = 0;
	if (model_count_youth(m, LRU_YOUTH_MAX) >= MODEL_AGE_SHARE * capacity ||
	    (m->r->policy.min_ttl_ns &&
	     m->now_ns - m->birth_ns[LRU_YOUTH_MAX] >= m->r->policy.min_ttl_ns))
		model_age(m);
	model_end_round(m, halve_after);
	model_graduate_surplus(m, capacity);
	model_check_order(m);
	must(reclaim_is_thrashing(m->r) == m->ttl_taken);
	m->ttl_taken = m->blind = false;
	m->reused = 0;
	m->pass_ns = m->now_ns;
	m->passes++;
}

static inline void model_step_pass(struct model *m)
{
	uint32_t max = model_one_in(m, 3) ? 1 : model_below(m, 5000);

	model_begin_pass(m, model_one_in(m, 3));
	while (model_scan(m, max))
		;
	model_end_pass(m, model_below(m, 1000000));
}

/* Passes in a row, most of the guest touched in each: frequencies rise as far as they can. */
static inline void model_step_season(struct model *m)
{
	uint64_t young = ~0ULL;

	for (uint32_t passes = model_below(m, 80); passes; passes--) {
		uint32_t idle = model_below(m, m->nr / 5 + 1);

		model_begin_pass(m, true);
		for (uint32_t i = idle / 64 * 64; i < m->nr; i++) {
			if (i % 64 == 0)
				reclaim_note_young(m->r, i, &young, 1);
			if (m->pages[i].resident && !m->pages[i].isolated)
				model_touch(m, &m->pages[i]);
			m->stretches[MODEL_STRETCH(i)].changed = false;
		}
		model_end_pass(m, 0);
	}
}

/* A part of a pass; the daemon does other things in between, and a hostile guest sees to that. */
static inline void model_step_part(struct model *m)
{
	switch (model_below(m, 8)) {
	case 0:
		model_begin_pass(m, model_one_in(m, 3));
		break;
	case 1:
		model_end_pass(m, model_below(m, 100 * MODEL_SEC));
		break;
	default:
		model_scan(m, model_below(m, 1100));
	}
}

static inline void model_step_age(struct model *m)
{
	for (uint32_t agings = model_one_in(m, 20) ? 20 : 1; agings; agings--) {
		reclaim_age(m->r);
		model_age(m);
	}
}

/* Wanted passes come no closer than they may, and the first ones as soon as they may. */
static inline void model_ask_scan(const struct model *m, uint32_t resident)
{
	const struct reclaim_policy *p = &m->r->policy;
	bool wants = reclaim_should_scan(m->r, resident);
	bool may = m->limit != RECLAIM_NO_LIMIT && resident && p->features & RECLAIM_AGING &&
		   4 * (uint64_t)resident >= 3 * (uint64_t)m->limit &&
		   p->order != RECLAIM_ORDER_RANDOM && m->now_ns - m->pass_ns >= p->min_period_ns;

	must(may || !wants);
	if (may && !p->scan_permille &&
	    (m->passes < 2 || m->now_ns - m->pass_ns >= 16 * p->period_ns))
		must(wants);
}

#endif
