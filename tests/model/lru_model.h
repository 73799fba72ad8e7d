/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_model.h - the reclaim core beside a model that keeps one struct per page, driven by a stream of numbers.
 *
 * The model is as plain as can be: no planes, no epochs, no running counts; what it wants to know it finds by
 * walking all pages. It predicts residency, generation, frequency and every mark of every page after each
 * step, and checks that each pick was allowed and each pass looked where it had to. What depends on
 * estimates (who is admitted, when a round ends) it takes from the core and checks for its direction.
 *
 * Used with random numbers by the model test, and with the fuzzer's bytes by fuzz_reclaim.
 */
#ifndef TEST_LRU_MODEL_H
#define TEST_LRU_MODEL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <reclaim/reclaim_internal.h>

#define MODEL_ROOM 48
#define MODEL_SEC  1000000000ULL

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __func__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct model_page {
	bool resident, isolated, deferred, ahead, touched, counted, probation;
	uint32_t youth, freq, hint;
};

struct model {
	struct model_page *pages;
	uint32_t nr;
	uint32_t limit;
	uint64_t now_ns;
	uint64_t max_seq;
	uint64_t picked;
	uint32_t centre; /* ranges are chosen near it, so that they meet */
	struct reclaim_conf conf;
	void *mem;
	struct reclaim *r;
	uint64_t (*number)(void *arg); /* the stream */
	void *arg;
};

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

static inline uint32_t model_count_resident(const struct model *m)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		nr += m->pages[i].resident;
	return nr;
}

static inline void model_touch(struct model_page *p)
{
	if (!p->touched)
		p->probation = false;
	if (!p->counted && p->freq < LRU_FREQ_MAX)
		p->freq++;
	p->counted = true;
	p->touched = true;
	p->ahead = false;
	p->youth = LRU_YOUTH_MAX;
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
	must((got.tier & 3) == p->hint);
	must(!!(word.deferred & bit) == p->deferred);
	must(!!(word.ahead & bit) == p->ahead);
	must(!!(word.touched & bit) == p->touched);
	must(!!(word.counted & bit) == p->counted);
}

static inline void model_compare(const struct model *m)
{
	struct reclaim_stats st;
	uint32_t by_youth[RECLAIM_MAX_NR_GENS] = {0};
	uint32_t isolated = 0, probation = 0, sum = 0;

	must(reclaim_verify(m->r));
	for (uint32_t i = 0; i < m->nr; i++) {
		model_compare_page(m, i);
		by_youth[m->pages[i].youth] += m->pages[i].resident;
		isolated += m->pages[i].isolated;
		probation += m->pages[i].resident && m->pages[i].probation;
	}
	reclaim_get_stats(m->r, &st);
	must(st.max_seq == m->max_seq && st.limit == m->limit && st.picked == m->picked);
	must(st.isolated == isolated && st.probation == probation);
	must(st.nr_gens == st.max_seq - st.min_seq + 1);
	must(st.nr_gens >= RECLAIM_MIN_NR_GENS && st.nr_gens <= RECLAIM_MAX_NR_GENS);
	for (uint32_t i = 0; i < st.nr_gens; i++) {
		must(st.gens[i].seq == st.min_seq + i);
		must(st.gens[i].pages ==
		     by_youth[st.gens[i].seq + LRU_YOUTH_MAX - st.max_seq]);
		must(!i || st.gens[i].birth_ns >= st.gens[i - 1].birth_ns);
		sum += st.gens[i].pages;
	}
	must(sum == st.resident && sum == model_count_resident(m));
}

/* Pages may have graduated since the model looked; none has gone the other way. */
static inline void model_see_graduates(struct model *m)
{
	struct reclaim_page got;

	for (uint32_t i = 0; i < m->nr; i++) {
		if (!m->pages[i].probation)
			continue;
		reclaim_get_page(m->r, i, &got);
		must(m->pages[i].resident || got.probation);
		m->pages[i].probation = got.probation;
	}
}

/* --- steps: the same to both ---------------------------------------------------------------- */

static inline void model_enter(struct model *m, uint32_t i, enum reclaim_origin origin)
{
	struct model_page *p = &m->pages[i];
	struct reclaim_page got;

	if (p->resident)
		return;
	p->resident = true;
	if (origin == RECLAIM_NEW || origin == RECLAIM_REFAULT)
		model_touch(p);
	p->ahead = origin == RECLAIM_PREFETCH;
	p->youth = origin == RECLAIM_FOUND ? 0 : LRU_YOUTH_MAX - p->ahead;
	reclaim_get_page(m->r, i, &got);
	/* Those read ahead are on probation, unless the queue was full; those found are not. */
	must(origin != RECLAIM_FOUND || !got.probation);
	p->probation = got.probation;
}

static inline void model_step_resident(struct model *m)
{
	enum reclaim_origin origin = (enum reclaim_origin)model_below(m, 4);
	struct page_run run = model_run(m);

	reclaim_note_resident(m->r, run.first, run.nr, origin);
	for (uint32_t i = run.first; i < run.first + run.nr; i++)
		model_enter(m, i, origin);
	model_see_graduates(m);
}

static inline void model_step_gone(struct model *m)
{
	struct page_run run = model_run(m);

	reclaim_note_gone(m->r, run.first, run.nr);
	memset(&m->pages[run.first], 0, run.nr * sizeof(m->pages[0]));
}

static inline void model_young(struct model *m, uint32_t first, uint32_t nr_words)
{
	uint64_t young[16];
	uint32_t thin = model_below(m, 4);

	for (uint32_t i = 0; i < nr_words; i++) {
		young[i] = m->number(m->arg);
		for (uint32_t t = 0; t < thin; t++)
			young[i] &= m->number(m->arg);
		if (model_one_in(m, 4))
			young[i] = model_one_in(m, 2) ? ~0ULL : 0;
	}
	reclaim_note_young(m->r, first, young, nr_words);
	for (uint32_t b = 0; b < nr_words * 64 && first + b < m->nr; b++) {
		struct model_page *p = &m->pages[first + b];

		if (young[b / 64] >> b % 64 & 1 && p->resident && !p->isolated)
			model_touch(p);
	}
}

static inline void model_step_young(struct model *m)
{
	model_young(m, model_idx(m) / 64 * 64, model_below(m, 17)); /* may reach past the guest */
}

static inline bool model_stretch_holds(const struct model *m, uint32_t first)
{
	for (uint32_t i = first; i < first + RECLAIM_STRETCH && i < m->nr; i++)
		if (m->pages[i].resident)
			return true;
	return false;
}

/* Stretches from @from up to @to were passed over: empty, or taken for what they were. */
static inline void model_passed_over(struct model *m, uint32_t from, uint32_t to, bool full)
{
	for (; from < to; from += RECLAIM_STRETCH) {
		must(!full || !model_stretch_holds(m, from));
		if (m->conf.scan_cost != RECLAIM_SCAN_PER_YOUNG_PAGE)
			continue;
		for (uint32_t i = from; i < from + RECLAIM_STRETCH && i < m->nr; i++)
			if (m->pages[i].resident && !m->pages[i].isolated)
				model_touch(&m->pages[i]);
	}
}

static inline void model_look(struct model *m, bool full)
{
	uint32_t max = model_one_in(m, 3) ? 1 : model_below(m, 5000);
	uint32_t at = 0;
	struct page_run run;

	reclaim_begin_pass(m->r, full);
	while (reclaim_next_scan(m->r, max, &run)) {
		must(run.first % RECLAIM_STRETCH == 0 && run.first >= at && run.nr);
		must(run.nr <= MAX(max, RECLAIM_STRETCH) && run.first + run.nr <= m->nr);
		must(run.nr % RECLAIM_STRETCH == 0 || run.first + run.nr == m->nr);
		model_passed_over(m, at, run.first, full);
		at = run.first + run.nr;
		for (uint32_t i = run.first; i < at; i += RECLAIM_STRETCH)
			must(model_stretch_holds(m, i));
		for (uint32_t w = run.first; w < at; w += 8 * 64)
			model_young(m, w, MIN(words_for(at - w), 8u));
	}
	model_passed_over(m, at, m->nr, full);
}

static inline void model_age(struct model *m)
{
	m->max_seq++;
	for (uint32_t i = 0; i < m->nr; i++)
		if (m->pages[i].youth)
			m->pages[i].youth--;
}

static inline void model_step_pass(struct model *m)
{
	uint64_t agings = m->r->stats.agings;
	uint16_t round, halving = m->r->lru.epochs.halving;
	uint32_t youngest = 0, resident = model_count_resident(m);
	double capacity = m->limit == RECLAIM_NO_LIMIT ? MAX(resident, 1u) : m->limit;

	round = m->r->lru.epochs.round;
	model_look(m, model_one_in(m, 3));
	reclaim_end_pass(m->r, model_below(m, 1000000));
	for (uint32_t i = 0; i < m->nr; i++) {
		youngest += m->pages[i].resident && m->pages[i].youth == LRU_YOUTH_MAX;
		m->pages[i].touched = false;
		m->pages[i].deferred = false;
	}
	must((m->r->stats.agings > agings) == (youngest >= 0.7 * capacity));
	if (m->r->stats.agings > agings)
		model_age(m);
	for (uint32_t i = 0; i < m->nr; i++) {
		if (m->r->lru.epochs.round != round)
			m->pages[i].counted = false;
		if (m->r->lru.epochs.halving != halving)
			m->pages[i].freq /= 2;
	}
	model_see_graduates(m);
}

static inline uint32_t model_pickable(const struct model *m, bool urgent)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		nr += m->pages[i].resident && !m->pages[i].isolated &&
		      (urgent || !m->pages[i].deferred);
	return nr;
}

/* May page @i have been picked? */
static inline bool model_may_pick(const struct model *m, uint32_t i, bool urgent)
{
	const struct model_page *p = &m->pages[i];

	if (!p->resident || p->isolated || (p->deferred && !urgent))
		return false;
	if (urgent || p->probation || m->r->sweep.order == LRU_BY_FREQUENCY)
		return true;
	return p->youth < RECLAIM_MIN_NR_GENS || m->r->policy.order == RECLAIM_ORDER_RANDOM;
}

static inline void model_step_pick(struct model *m)
{
	struct page_run runs[MODEL_ROOM];
	uint32_t room = model_one_in(m, 3) ? model_below(m, 4) : model_below(m, MODEL_ROOM + 1);
	uint32_t max = model_one_in(m, 3) ? model_below(m, 4) : model_below(m, 700);
	bool urgent = model_one_in(m, 3);
	uint32_t may = model_pickable(m, urgent);
	uint32_t nr = reclaim_pick(m->r, runs, room, max, urgent);
	uint32_t total = 0;
	struct reclaim_stats st;

	must(nr <= room);
	for (uint32_t i = 0; i < nr; i++) {
		must(runs[i].nr && (!i || runs[i].first > runs[i - 1].first + runs[i - 1].nr));
		for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++) {
			must(p < m->nr && model_may_pick(m, p, urgent));
			m->pages[p].isolated = true;
			m->pages[p].deferred = false;
		}
		total += runs[i].nr;
	}
	m->picked += total;
	must(total <= MIN(max, RECLAIM_PICK_MAX));
	/* When faults wait nothing is held back: only what there is, was asked for, or is switched off. */
	if (urgent && room && max && may && m->r->policy.features & RECLAIM_EVICTION)
		must(total || m->r->pacer.first < PACER_FIRST);
	/* Tiers put some off; an urgent pick may have taken that back for all. */
	reclaim_get_stats(m->r, &st);
	for (uint32_t i = 0; i < m->nr; i++) {
		struct lru_word word = lru_gen_peek_word(&m->r->lru, i / WORD_PAGES);
		bool deferred = word.deferred & word_bit(i);

		must(deferred == m->pages[i].deferred || urgent || st.tier_protected);
		m->pages[i].deferred = deferred;
	}
}

/* Report one page that is handed out; or, now and then, one that is not. */
static inline void model_step_report(struct model *m)
{
	uint32_t how = model_below(m, 5), idx = model_idx(m);
	struct model_page *p;

	for (uint32_t i = 0; i < m->nr && !m->pages[idx].isolated && !model_one_in(m, 1000); i++)
		idx = (idx + 1) % m->nr;
	p = &m->pages[idx];
	if (how == 0) {
		bool isolated = p->isolated, spared = reclaim_spare_young(m->r, idx);

		must(!spared || (isolated && !p->probation && !p->touched));
		p->isolated &= !spared;
		p->deferred |= spared;
		return;
	}
	if (how < 3) {
		reclaim_note_evicted(m->r, idx);
		if (p->isolated)
			p->resident = p->isolated = p->ahead = false;
		return;
	}
	how = model_below(m, 3);
	reclaim_note_kept(m->r, idx, (enum reclaim_kept)how);
	if (!p->isolated)
		return;
	p->isolated = false;
	if (how == RECLAIM_KEPT_TOUCHED) {
		p->probation = false;
		model_touch(p);
	}
	p->deferred = how == RECLAIM_KEPT_BUSY &&
		      m->r->policy.order != RECLAIM_ORDER_RANDOM;
	model_see_graduates(m); /* its return to a full queue lets others out */
}

static inline void model_step_hint(struct model *m)
{
	struct page_run run = model_run(m);
	uint32_t hint = model_below(m, RECLAIM_NR_HINTS);

	reclaim_note_hint(m->r, run.first, run.nr, (enum reclaim_hint)hint);
	for (uint32_t i = run.first; i < run.first + run.nr; i++)
		m->pages[i].hint = hint;
}

static inline void model_step_age(struct model *m)
{
	reclaim_age(m->r);
	model_age(m);
}

static inline void model_step_ask(struct model *m)
{
	uint32_t resident = model_below(m, 2 * (uint64_t)m->nr);
	uint32_t gap, excess = 0;

	if (model_one_in(m, 4)) {
		m->limit = model_one_in(m, 5) ? RECLAIM_NO_LIMIT : model_below(m, (uint64_t)m->nr + 1);
		reclaim_set_limit(m->r, m->limit);
	}
	gap = MIN(MIN(MAX(m->limit / 64, 256u), 4096u), m->limit / 4);
	if (m->limit != RECLAIM_NO_LIMIT && resident > m->limit - gap)
		excess = resident - m->limit + 2 * gap;
	must(resident > reclaim_high_watermark(m->r) || !excess);
	if (!(m->r->policy.features & RECLAIM_EVICTION))
		excess = 0;
	must(reclaim_excess(m->r, resident) == excess);
	if (reclaim_should_scan(m->r, resident))
		must(m->limit != RECLAIM_NO_LIMIT && m->r->policy.features & RECLAIM_AGING);
	must(reclaim_readahead(m->r, model_idx(m)) < 64);
}

static inline void model_step_policy(struct model *m)
{
	struct reclaim_policy policy = reclaim_policy_default(), before = m->r->policy;
	int rc;

	policy.order = (enum reclaim_order)model_below(m, RECLAIM_NR_ORDERS + 1);
	policy.features = model_one_in(m, 2) ? RECLAIM_ALL_FEATURES : model_below(m, 17);
	policy.min_ttl_ns = model_one_in(m, 2) ? 0 : model_below(m, 10) * MODEL_SEC;
	policy.scan_permille = model_below(m, 1100);
	policy.ahead_max = model_below(m, 66);
	rc = reclaim_set_policy(m->r, &policy);
	must(!rc || rc == -EINVAL);
	must(!rc == (policy.order < RECLAIM_NR_ORDERS && policy.features <= RECLAIM_ALL_FEATURES &&
		     policy.scan_permille <= 1000 && policy.ahead_max >= 1 && policy.ahead_max <= 64));
	must(!rc || !memcmp(&before, &m->r->policy, sizeof(before)));
}

static inline void model_step_time(struct model *m)
{
	m->now_ns += model_below(m, 3 * MODEL_SEC);
	reclaim_tick(m->r, m->now_ns);
	reclaim_tick(m->r, m->now_ns - model_below(m, 1000)); /* does not go back */
	must(m->r->now_ns == m->now_ns);
}

static inline void model_step(struct model *m)
{
	static void (*const steps[])(struct model *) = {
		model_step_resident, model_step_resident, model_step_resident, model_step_gone,
		model_step_young,    model_step_pick,	  model_step_pick,     model_step_report,
		model_step_report,   model_step_report,	  model_step_report,   model_step_ask,
		model_step_pass,     model_step_hint,	  model_step_time,     model_step_time,
	};

	if (model_one_in(m, 60))
		model_step_policy(m);
	else if (model_one_in(m, 60))
		model_step_age(m);
	else
		steps[model_below(m, ARRAY_SIZE(steps))](m);
}

static inline void model_begin(struct model *m, uint32_t nr_pages, enum reclaim_order order)
{
	size_t size = (reclaim_size(nr_pages) + 63) / 64 * 64;

	m->conf = (struct reclaim_conf) {
		.nr_pages = nr_pages,
		.seed = m->number(m->arg),
		.scan_cost = (enum reclaim_scan_cost)model_below(m, 2),
		.policy = reclaim_policy_default(),
	};
	m->conf.policy.order = order;
	m->nr = nr_pages;
	m->limit = RECLAIM_NO_LIMIT;
	m->now_ns = MODEL_SEC;
	m->max_seq = LRU_YOUTH_MAX;
	m->picked = 0;
	m->pages = calloc(nr_pages, sizeof(m->pages[0]));
	m->mem = aligned_alloc(64, size);
	must(m->pages && m->mem);
	memset(m->mem, 0, size);
	m->r = reclaim_init(m->mem, size, &m->conf, m->now_ns);
	must(m->r);
	m->centre = model_below(m, nr_pages);
}

static inline void model_end(struct model *m)
{
	free(m->pages);
	free(m->mem);
}

#endif
