/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_model_facts.h - pages come, are touched and go: the same told to the core and to the model.
 */
#ifndef TEST_LRU_MODEL_FACTS_H
#define TEST_LRU_MODEL_FACTS_H

#include "lru_model.h"

static inline void model_count_touch(struct model_page *p)
{
	if (!p->counted && p->freq < LRU_FREQ_MAX)
		p->freq++;
	p->counted = true;
	p->touched = true;
}

/* A resident page is seen to have been used. */
static inline void model_touch(struct model *m, struct model_page *p)
{
	m->reused += !p->touched;
	m->want.graduated += !p->touched && p->probation;
	m->want.ahead_used += p->ahead;
	m->want.promoted += p->youth != LRU_YOUTH_MAX;
	if (!p->touched)
		p->probation = false;
	model_count_touch(p);
	p->ahead = false;
	p->youth = LRU_YOUTH_MAX;
}

/* A resident page leaves. */
static inline void model_leave(struct model *m, struct model_page *p)
{
	m->reused -= m->reused && p->touched;
	p->resident = p->isolated = p->deferred = p->ahead = false;
}

/* --- coming --------------------------------------------------------------------------------- */

/* Page @i faults while @resident others are there. Whether it was near only the core knows. */
static inline void model_fault(struct model *m, uint32_t i, bool back, uint32_t resident)
{
	struct model_page *p = &m->pages[i];
	bool repeat = p->touched, near = false;
	struct reclaim_page got;

	if (back) {
		reclaim_get_page(m->r, i, &got);
		near = got.tier & 4;
		must(!near || p->evicted);
		p->refaulted = near;
		m->want.refaults++;
		m->want.refaults_near += near;
	}
	model_count_touch(p);
	m->reused++;
	p->resident = true;
	p->youth = LRU_YOUTH_MAX;
	p->probation = !repeat && m->r->sweep.order != LRU_BY_GENERATION &&
		       resident >= model_capacity(m, resident) / 2 &&
		       p->freq < m->r->victim_freq + (near ? 1 : 2);
	if (p->probation)
		model_enqueue(m, i);
	m->stretches[MODEL_STRETCH(i)].changed = true;
}

static inline void model_enter(struct model *m, uint32_t i, enum reclaim_origin origin,
			       uint32_t resident)
{
	struct model_page *p = &m->pages[i];

	if (origin == RECLAIM_NEW || origin == RECLAIM_REFAULT) {
		model_fault(m, i, origin == RECLAIM_REFAULT, resident);
		return;
	}
	p->resident = true;
	p->ahead = p->probation = origin == RECLAIM_PREFETCH;
	p->youth = p->ahead ? LRU_YOUTH_MAX - 1 : 0;
	if (p->probation)
		model_enqueue(m, i);
	m->stretches[MODEL_STRETCH(i)].changed = true;
}

static inline void model_step_resident(struct model *m)
{
	enum reclaim_origin origin = (enum reclaim_origin)model_below(m, 4);
	struct page_run run = model_run(m);
	uint32_t resident = model_count_resident(m);

	reclaim_note_resident(m->r, run.first, run.nr, origin);
	for (uint32_t i = run.first; i < run.first + run.nr; i++)
		if (!m->pages[i].resident)
			model_enter(m, i, origin, resident++);
}

/* --- going ---------------------------------------------------------------------------------- */

static inline void model_step_gone(struct model *m)
{
	struct page_run run = model_run(m);

	reclaim_note_gone(m->r, run.first, run.nr);
	for (uint32_t i = run.first; i < run.first + run.nr; i++) {
		struct model_page *p = &m->pages[i];

		if (p->resident)
			model_leave(m, p);
		*p = (struct model_page) {.evicted = p->evicted};
	}
}

static inline void model_evicted(struct model *m, uint32_t idx)
{
	struct model_page *p = &m->pages[idx];

	reclaim_note_evicted(m->r, idx);
	if (!p->isolated)
		return;
	m->want.ahead_wasted += p->ahead;
	m->want.evicted++;
	p->evicted = true;
	model_leave(m, p);
}

static inline void model_kept(struct model *m, uint32_t idx, enum reclaim_kept why)
{
	struct model_page *p = &m->pages[idx];

	reclaim_note_kept(m->r, idx, why);
	if (!p->isolated)
		return;
	p->isolated = false;
	p->deferred = why == RECLAIM_KEPT_BUSY && m->r->policy.order != RECLAIM_ORDER_RANDOM;
	if (why == RECLAIM_KEPT_TOUCHED) {
		p->probation = false;
		model_touch(m, p);
	} else if (p->probation) {
		model_enqueue(m, idx); /* if the queue is full, that lets another one out */
	}
}

static inline void model_spare(struct model *m, uint32_t idx)
{
	struct model_page *p = &m->pages[idx];
	bool peek = m->r->policy.order != RECLAIM_ORDER_RANDOM && !m->blind &&
		    model_count_deferred(m) < 0.1 * model_count_resident(m);
	bool spare = peek && p->isolated && !p->probation && !p->touched;

	must(reclaim_wants_peek(m->r) == peek);
	must(reclaim_spare_young(m->r, idx) == spare);
	if (!spare)
		return;
	p->isolated = false;
	p->deferred = true;
	m->stretches[MODEL_STRETCH(idx)].changed = true;
	m->want.young_skipped++;
}

/* Report one page that is handed out; or, now and then, one that is not. */
static inline void model_step_report(struct model *m)
{
	uint32_t how = model_below(m, 8), idx = model_idx(m);

	for (uint32_t i = 0; i < m->nr && !m->pages[idx].isolated && !model_one_in(m, 1000); i++)
		idx = (idx + 1) % m->nr;
	if (how == 0)
		model_spare(m, idx);
	else if (how < 5)
		model_evicted(m, idx);
	else
		model_kept(m, idx, (enum reclaim_kept)(how - 5));
}

/* The store answers: all that are handed out in some range leave, and now and then one stays. */
static inline void model_step_report_many(struct model *m)
{
	struct page_run run = model_run(m);

	for (uint32_t i = run.first; i < run.first + run.nr; i++) {
		if (!m->pages[i].isolated)
			continue;
		if (model_one_in(m, 8))
			model_kept(m, i, (enum reclaim_kept)model_below(m, 3));
		else
			model_evicted(m, i);
	}
}

/* --- being touched -------------------------------------------------------------------------- */

/* 64 of them; the stream need not be that random. */
static inline uint64_t model_bits(struct model *m)
{
	uint64_t z = m->number(m->arg) * 0x9e3779b97f4a7c15;

	return z ^ z >> 29;
}

static inline void model_young(struct model *m, uint32_t first, uint32_t nr_words)
{
	uint64_t young[16];
	uint32_t thin = model_below(m, 4);

	for (uint32_t i = 0; i < nr_words; i++) {
		young[i] = model_bits(m);
		for (uint32_t t = 0; t < thin; t++)
			young[i] &= model_bits(m);
		if (model_one_in(m, 4))
			young[i] = model_one_in(m, 2) ? ~0ULL : 0;
	}
	reclaim_note_young(m->r, first, young, nr_words);
	for (uint32_t b = 0; b < nr_words * 64 && first + b < m->nr; b++) {
		struct model_page *p = &m->pages[first + b];

		if (young[b / 64] >> b % 64 & 1 && p->resident && !p->isolated)
			model_touch(m, p);
		m->stretches[MODEL_STRETCH(first + b)].changed = false; /* a look like any other */
	}
}

static inline void model_step_young(struct model *m)
{
	model_young(m, model_idx(m) / 64 * 64, model_below(m, 17)); /* may reach past the guest */
}

static inline void model_step_hint(struct model *m)
{
	struct page_run run = model_run(m);
	uint32_t hint = model_below(m, RECLAIM_NR_HINTS);

	reclaim_note_hint(m->r, run.first, run.nr, (enum reclaim_hint)hint);
	for (uint32_t i = run.first; i < run.first + run.nr; i++)
		m->pages[i].hint = (uint8_t)hint;
}

#endif
