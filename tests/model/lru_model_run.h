/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_model_run.h - a guest from its beginning to its end, a step at a time.
 */
#ifndef TEST_LRU_MODEL_RUN_H
#define TEST_LRU_MODEL_RUN_H

#include "lru_model_pass.h"
#include "lru_model_pick.h"

static inline void model_step_ask(struct model *m)
{
	uint32_t resident = model_below(m, 2 * (uint64_t)m->nr), idx = model_idx(m);
	uint32_t gap, excess = 0, ahead;

	if (model_one_in(m, 4)) {
		m->limit =
			model_one_in(m, 5) ? RECLAIM_NO_LIMIT : model_below(m, (uint64_t)m->nr + 1);
		reclaim_set_limit(m->r, m->limit);
	}
	gap = MIN(MIN(MAX(m->limit / 64, 256u), 4096u), m->limit / 4);
	if (m->limit != RECLAIM_NO_LIMIT && resident > m->limit - gap)
		excess = resident - m->limit + 2 * gap;
	must((resident > reclaim_high_watermark(m->r)) == (excess > 0));
	if (!(m->r->policy.features & RECLAIM_EVICTION))
		excess = 0;
	must(reclaim_excess(m->r, resident) == excess);
	model_ask_scan(m, resident);
	ahead = reclaim_readahead(m->r, idx);
	must(ahead < m->r->policy.ahead_max && ahead < m->nr - idx);
	must(!ahead || m->r->policy.features & RECLAIM_AHEAD);
}

static inline void model_step_policy(struct model *m)
{
	static const uint64_t periods[] = {1, MODEL_SEC / 1000, MODEL_SEC, 2 * MODEL_SEC,
					   24 * 3600 * MODEL_SEC};
	struct reclaim_policy policy = reclaim_policy_default(), before = m->r->policy;
	int rc;

	policy.order = (enum reclaim_order)model_below(m, RECLAIM_NR_ORDERS + 1);
	policy.features = model_one_in(m, 2) ? RECLAIM_ALL_FEATURES : model_below(m, 17);
	policy.min_ttl_ns = model_one_in(m, 2) ? 0 : model_below(m, 10) * MODEL_SEC;
	policy.scan_permille = model_one_in(m, 2) ? 0 : model_below(m, 1100);
	policy.ahead_max = model_below(m, 66);
	if (model_one_in(m, 3))
		policy.period_ns = periods[model_below(m, ARRAY_SIZE(periods))];
	if (model_one_in(m, 3))
		policy.min_period_ns =
			model_below(m, 2) * periods[model_below(m, ARRAY_SIZE(periods))];
	rc = reclaim_set_policy(m->r, &policy);
	must(!rc || rc == -EINVAL);
	must(!rc == (policy.order < RECLAIM_NR_ORDERS && policy.features <= RECLAIM_ALL_FEATURES &&
		     policy.min_period_ns <= policy.period_ns && policy.scan_permille <= 1000 &&
		     policy.ahead_max >= 1 && policy.ahead_max <= 64));
	must(!rc || !memcmp(&before, &m->r->policy, sizeof(before)));
}

static inline void model_step_time(struct model *m)
{
	if (model_one_in(m, 50))
		m->now_ns += model_below(m, 100 * 24 * 3600) * MODEL_SEC;
	m->now_ns += model_one_in(m, 3) ? model_below(m, 3) : model_below(m, 3 * MODEL_SEC);
	reclaim_tick(m->r, m->now_ns);
	reclaim_tick(m->r, m->now_ns - model_below(m, 1000)); /* does not go back */
	must(m->r->now_ns == m->now_ns);
}

static inline void model_step(struct model *m)
{
	static void (*const steps[])(struct model *) = {
		model_step_resident,	model_step_resident, model_step_resident, model_step_gone,
		model_step_young,	model_step_pick,     model_step_pick,	  model_step_report,
		model_step_report,	model_step_report,   model_step_ask,	  model_step_pass,
		model_step_report_many, model_step_part,     model_step_hint,	  model_step_time,
	};

	if (model_one_in(m, 60))
		model_step_policy(m);
	else if (model_one_in(m, 60))
		model_step_age(m);
	else if (model_one_in(m, 1000))
		model_step_season(m);
	else
		steps[model_below(m, ARRAY_SIZE(steps))](m);
}

static inline void model_begin(struct model *m, uint32_t nr_pages, enum reclaim_order order)
{
	size_t size = (reclaim_size(nr_pages) + 63) / 64 * 64;
	struct model fresh = {.number = m->number, .arg = m->arg};

	*m = fresh;
	m->conf = (struct reclaim_conf) {
		.nr_pages = nr_pages,
		.seed = m->number(m->arg),
		.scan_cost = (enum reclaim_scan_cost)model_below(m, 2),
		.policy = reclaim_policy_default(),
	};
	m->conf.policy.order = order;
	m->nr = nr_pages;
	m->limit = RECLAIM_NO_LIMIT;
	m->now_ns = m->begun_ns = m->pass_ns = MODEL_SEC;
	m->max_seq = LRU_YOUTH_MAX;
	for (uint32_t y = 0; y < RECLAIM_MAX_NR_GENS; y++)
		m->birth_ns[y] = m->now_ns;
	m->pages = calloc(nr_pages, sizeof(m->pages[0]));
	m->stretches = calloc(MODEL_STRETCH(nr_pages - 1) + 1, sizeof(m->stretches[0]));
	m->mem = aligned_alloc(64, size);
	must(m->pages && m->stretches && m->mem);
	memset(m->mem, 0, size);
	m->r = reclaim_init(m->mem, size, &m->conf, m->now_ns);
	must(m->r);
	m->queue_room = m->r->probation.room;
	m->queue = calloc(m->queue_room, sizeof(m->queue[0]));
	must(m->queue);
	m->centre = model_below(m, nr_pages);
}

/* Everybody comes back from where he was sent, and then all there is can be picked: nobody gets lost. */
static inline void model_drain(struct model *m)
{
	struct reclaim_policy policy = reclaim_policy_default();
	uint64_t before;

	policy.order = m->r->policy.order;
	must(!reclaim_set_policy(m->r, &policy));
	m->now_ns += 10 * MODEL_SEC;
	reclaim_tick(m->r, m->now_ns);
	for (uint32_t i = 0; i < m->nr; i++)
		model_kept(m, i, RECLAIM_KEPT_ERROR);
	do {
		before = m->want.picked;
		model_pick_some(m, MODEL_ROOM, RECLAIM_PICK_MAX, true);
	} while (m->want.picked > before || reclaim_is_searching(m->r));
	for (uint32_t i = 0; i < m->nr; i++) {
		must(m->pages[i].resident == m->pages[i].isolated);
		model_evicted(m, i);
	}
	must(!model_count_resident(m));
}

static inline void model_end(struct model *m)
{
	free(m->pages);
	free(m->stretches);
	free(m->queue);
	free(m->mem);
}

#endif
