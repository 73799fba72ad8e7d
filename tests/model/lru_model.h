/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_model.h - the reclaim core beside a model that keeps one struct per page, driven by a stream of numbers.
 *
 * The model is as plain as can be: no planes, no epochs, no running counts; what it wants to know it finds by
 * walking all pages. It predicts residency, generation, frequency, probation and every mark of every page
 * after each step, the queue of probation included, and checks that each pick was allowed and left nothing
 * that was due, and that each pass looked where it had to.
 *
 * Taken from the core, because it depends on estimates, are: whether a refault was near (but not for pages
 * that were never evicted), up to which frequency main pages are being evicted, the length of the queue of
 * probation, and which of the two orders is in use while it may choose.
 *
 * lru_model_facts.h, lru_model_pick.h and lru_model_pass.h have the steps, lru_model_run.h puts them in a
 * row: with random numbers for the model test, with the fuzzer's bytes for fuzz_reclaim.
 */
#ifndef TEST_LRU_MODEL_H
#define TEST_LRU_MODEL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <reclaim/reclaim_internal.h>

#define MODEL_ROOM	   48
#define MODEL_SEC	   1000000000ULL
#define MODEL_STRETCH(idx) ((idx) / RECLAIM_STRETCH)

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __func__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/**
 * struct model_page - what is known of a page
 * @refaulted: its last refault was near
 * @evicted: was evicted once, or more often
 * @picked: in the pick that is being checked
 */
struct model_page {
	bool resident, isolated, deferred, ahead, touched, counted, probation, refaulted, evicted;
	bool picked;
	uint8_t youth, freq, hint;
};

/** struct model_stretch - @changed: to be looked at in the next pass; @skipped: passes in a row */
struct model_stretch {
	bool changed;
	uint8_t skipped;
};

/**
 * struct model - a guest
 * @birth_ns: of the generations, by youth
 * @queue: of probation, a ring: entries may be out of date
 * @reused: touches since the last pass, less those of pages that left
 * @at: where the pass is
 * @rounds: since the last halving; @round_passes: since the last round
 * @want: counters that the core must have
 */
struct model {
	struct model_page *pages;
	struct model_stretch *stretches;
	uint32_t nr;
	uint32_t limit;
	uint64_t now_ns, begun_ns, pass_ns;
	uint64_t max_seq;
	uint64_t birth_ns[RECLAIM_MAX_NR_GENS];
	uint32_t *queue;
	uint32_t queue_room, queue_head, queue_nr;
	uint32_t reused;
	uint32_t at;
	bool full;
	bool blind, ttl_taken;
	uint32_t agings;
	uint32_t passes, rounds, round_passes;
	struct reclaim_stats want;
	uint32_t centre; /* ranges are chosen near it, so that they meet */
	struct reclaim_conf conf;
	void *mem;
	struct reclaim *r;
	uint64_t (*number)(void *arg); /* the stream */
	void *arg;
};

/* --- numbers -------------------------------------------------------------------------------- */

static inline uint32_t model_below(struct model *m, uint64_t n)
{
	return (uint32_t)((m->number(m->arg) >> 16) % n);
}

static inline bool model_one_in(struct model *m, uint32_t n)
{
	return !model_below(m, n);
}

static inline uint32_t model_idx(struct model *m)
{
	if (model_one_in(m, 30))
		m->centre = model_below(m, m->nr);
	return (uint32_t)(((uint64_t)m->centre + model_below(m, 1500)) % m->nr);
}

static inline struct page_run model_run(struct model *m)
{
	struct page_run run = {.first = model_idx(m)};
	uint32_t longest = model_one_in(m, 10) ? 5000 : model_one_in(m, 3) ? 1 : 150;

	run.nr = model_below(m, MIN(longest, m->nr - run.first) + 1);
	return run;
}

/* --- counting ------------------------------------------------------------------------------- */

static inline uint32_t model_count_resident(const struct model *m)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		nr += m->pages[i].resident;
	return nr;
}

static inline uint32_t model_count_youth(const struct model *m, uint32_t youth)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		nr += m->pages[i].resident && m->pages[i].youth == youth;
	return nr;
}

static inline uint32_t model_count_probation(const struct model *m)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		nr += m->pages[i].resident && m->pages[i].probation;
	return nr;
}

static inline uint32_t model_count_deferred(const struct model *m)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		nr += m->pages[i].deferred;
	return nr;
}

/* @resident: counted by the caller, who may know without a walk. */
static inline uint32_t model_capacity(const struct model *m, uint32_t resident)
{
	return m->limit == RECLAIM_NO_LIMIT ? MAX(resident, 1u) : m->limit;
}

/* --- the queue of probation ----------------------------------------------------------------- */

static inline uint32_t model_dequeue(struct model *m)
{
	while (m->queue_nr) {
		uint32_t idx = m->queue[m->queue_head++ % m->queue_room];
		const struct model_page *p = &m->pages[idx];

		m->queue_nr--;
		if (p->resident && p->probation && !p->isolated)
			return idx;
	}
	return RECLAIM_NO_PAGE;
}

static inline void model_enqueue(struct model *m, uint32_t idx)
{
	if (m->queue_nr == m->queue_room) {
		uint32_t oldest = model_dequeue(m);

		if (oldest != RECLAIM_NO_PAGE)
			m->pages[oldest].probation = false;
	}
	must(m->queue_nr < m->queue_room);
	m->queue[(m->queue_head + m->queue_nr++) % m->queue_room] = idx;
}

/* Whoever is on probation and not handed out has a place in the queue: or nobody would ever pick it. */
static inline void model_compare_queue(const struct model *m)
{
	uint8_t *there = calloc(m->nr, 1);

	must(there);
	must(m->r->probation.tail - m->r->probation.head == m->queue_nr);
	for (uint32_t i = 0; i < m->queue_nr; i++)
		there[m->queue[(m->queue_head + i) % m->queue_room]] = 1;
	for (uint32_t i = 0; i < m->nr; i++)
		must(there[i] || !m->pages[i].resident || !m->pages[i].probation ||
		     m->pages[i].isolated);
	free(there);
}

/* --- comparing ------------------------------------------------------------------------------ */

static inline void model_compare_page(const struct model *m, uint32_t i)
{
	const struct model_page *p = &m->pages[i];
	struct lru_word word = lru_gen_peek_word(&m->r->lru, i / WORD_PAGES);
	uint64_t bit = word_bit(i);
	struct reclaim_page got;

	reclaim_get_page(m->r, i, &got);
	must(got.resident == p->resident);
	must(got.isolated == p->isolated);
	must(got.probation == p->probation);
	must(got.seq == m->max_seq - LRU_YOUTH_MAX + p->youth);
	must(got.frequency == p->freq);
	must(got.tier == (p->hint | (p->refaulted ? 4u : 0u)));
	must(!!(word.deferred & bit) == p->deferred);
	must(!!(word.ahead & bit) == p->ahead);
	must(!!(word.touched & bit) == p->touched);
	must(!!(word.counted & bit) == p->counted);
}

static inline void model_compare_gens(const struct model *m, const struct reclaim_stats *st)
{
	uint32_t oldest = 0, sum = 0;

	while (oldest < RECLAIM_MAX_NR_GENS - RECLAIM_MIN_NR_GENS && !model_count_youth(m, oldest))
		oldest++;
	must(st->max_seq == m->max_seq);
	must(st->min_seq == m->max_seq - LRU_YOUTH_MAX + oldest);
	must(st->nr_gens == RECLAIM_MAX_NR_GENS - oldest);
	for (uint32_t i = 0; i < st->nr_gens; i++) {
		must(st->gens[i].seq == st->min_seq + i);
		must(st->gens[i].pages == model_count_youth(m, oldest + i));
		must(st->gens[i].birth_ns == m->birth_ns[oldest + i]);
		sum += st->gens[i].pages;
	}
	must(sum == st->resident && sum == model_count_resident(m));
}

static inline void model_compare_counters(const struct model *m, const struct reclaim_stats *st)
{
	const struct reclaim_stats *want = &m->want;
	uint64_t passes = 0;

	must(st->picked == want->picked && st->evicted == want->evicted);
	must(st->agings == want->agings && st->promoted == want->promoted);
	must(st->refaults == want->refaults && st->refaults_near == want->refaults_near);
	must(st->graduated == want->graduated && st->young_skipped == want->young_skipped);
	must(st->ahead_used == want->ahead_used && st->ahead_wasted == want->ahead_wasted);
	must(st->tier_protected == want->tier_protected);
	must(st->stretches_scanned == want->stretches_scanned);
	must(st->stretches_skipped == want->stretches_skipped);
	for (uint32_t i = 0; i < RECLAIM_NR_REASONS; i++)
		passes += st->passes[i];
	must(passes == m->passes);
}

static inline void model_compare(const struct model *m)
{
	struct reclaim_stats st;
	uint32_t isolated = 0;

	must(reclaim_verify(m->r));
	for (uint32_t i = 0; i < m->nr; i++) {
		model_compare_page(m, i);
		isolated += m->pages[i].isolated;
	}
	reclaim_get_stats(m->r, &st);
	must(st.limit == m->limit && st.isolated == isolated);
	must(st.probation == model_count_probation(m));
	must(m->r->lru.deferred == model_count_deferred(m));
	must(m->r->reused == m->reused && m->r->lru.undeferred == m->blind);
	model_compare_gens(m, &st);
	model_compare_counters(m, &st);
	model_compare_queue(m);
}

#endif
