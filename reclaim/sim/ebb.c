// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ebb.c - the reclaim core itself, fed as the daemon feeds it.
 *
 * DOC: what the core is told
 *
 * Faults, evictions, accessed bits when it asks for a pass, and the time. Never N, the number of
 * accesses, or that this is no guest. Time is virtual. A hit only sets an accessed bit; so does the
 * access that faults, as in a real page table. A victim is looked at once more before it goes, where
 * the core says that this is worth it. Costs are none: a pass takes no time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"

#define TICKS_PER_PERIOD 64u
#define PASS_PAGES	 4096u
#define SKIPS_MAX	 64u

struct ebb {
	struct reclaim *core;
	void *mem; /* of the core */
	const struct sim_workload *workload;
	uint32_t limit, resident;
	uint32_t next_tick, tick; /* in accesses */
	uint32_t mark;		  /* of a recorded trace: where time is */
	uint64_t passes;
	bool *in, *was_in;
	uint64_t *accessed; /* bits */
};

static bool ebb_bit(const struct ebb *ebb, uint32_t page)
{
	return ebb->accessed[page / 64] >> page % 64 & 1;
}

static void ebb_set_bit(struct ebb *ebb, uint32_t page)
{
	ebb->accessed[page / 64] |= 1ull << page % 64;
}

static void ebb_clear_bit(struct ebb *ebb, uint32_t page)
{
	ebb->accessed[page / 64] &= ~(1ull << page % 64);
}

/* The time of access @at, which never goes back. */
static uint64_t ebb_now(struct ebb *ebb, uint32_t at)
{
	const struct sim_workload *w = ebb->workload;
	const struct sim_mark *a, *b;

	if (!w->nr_marks)
		return (uint64_t)at * SIM_NS_PER_ACCESS;
	while (ebb->mark + 1 < w->nr_marks && w->marks[ebb->mark + 1].at <= at)
		ebb->mark++;
	a = &w->marks[ebb->mark];
	if (ebb->mark + 1 == w->nr_marks)
		return a->ns;
	b = a + 1;
	return a->ns + (uint64_t)((double)(b->ns - a->ns) * (at - a->at) / (b->at - a->at));
}

/* The mean, so that a period of one N accesses means the same everywhere. */
static double ebb_ns_per_access(const struct sim_workload *w)
{
	if (!w->nr_marks || !w->nr_accesses)
		return SIM_NS_PER_ACCESS;
	return MAX(1.0, (double)(w->marks[w->nr_marks - 1].ns - w->marks[0].ns) / w->nr_accesses);
}

static void ebb_make_core(struct ebb *ebb, const struct sim_setup *setup)
{
	const struct sim_workload *w = setup->workload;
	struct reclaim_conf conf = {
		.nr_pages = w->nr_pages,
		.seed = setup->seed,
		.scan_cost = RECLAIM_SCAN_PER_PAGE,
		.policy = reclaim_policy_default(),
	};
	size_t size = (reclaim_size(w->nr_pages) + 63) / 64 * 64;
	double period_ns = setup->period * w->nr_pages * ebb_ns_per_access(w);

	conf.policy.order = setup->knobs->order;
	conf.policy.features = setup->knobs->features;
	conf.policy.period_ns = (uint64_t)period_ns;
	conf.policy.min_period_ns = (uint64_t)(period_ns * setup->knobs->min_period);
	conf.policy.min_ttl_ns = 0;
	conf.policy.scan_permille = 0;
	conf.policy.ahead_max = 1;
	ebb->mem = aligned_alloc(64, size);
	if (ebb->mem) {
		memset(ebb->mem, 0, size);
		ebb->core = reclaim_init(ebb->mem, size, &conf, 0);
		if (ebb->core)
			return;
	}
	fprintf(stderr, "ebb-sim: the core refuses %" PRIu32 " pages with a period of %.0f ns\n",
		w->nr_pages, period_ns);
	exit(1);
}

static void *ebb_create(const struct sim_setup *setup)
{
	uint32_t nr_pages = setup->workload->nr_pages;
	struct ebb *ebb = sim_alloc(1, sizeof(*ebb));
	double tick = setup->period * nr_pages / TICKS_PER_PERIOD;

	ebb->workload = setup->workload;
	ebb->limit = setup->limit;
	ebb_make_core(ebb, setup);
	ebb->tick = (uint32_t)MIN(MAX(tick, 1.0), 1e9);
	ebb->next_tick = ebb->tick;
	ebb->in = sim_alloc(nr_pages, sizeof(*ebb->in));
	ebb->was_in = sim_alloc(nr_pages, sizeof(*ebb->was_in));
	ebb->accessed = sim_alloc((nr_pages + 63) / 64, sizeof(*ebb->accessed));
	reclaim_set_limit(ebb->core, ebb->limit);
	return ebb;
}

static void ebb_pass(struct ebb *ebb)
{
	uint64_t words[PASS_PAGES / 64];
	struct page_run run;

	reclaim_begin_pass(ebb->core, false);
	while (reclaim_next_scan(ebb->core, PASS_PAGES, &run)) {
		uint64_t *bits = ebb->accessed + run.first / 64;
		uint32_t nr_words = (run.nr + 63) / 64;

		memcpy(words, bits, nr_words * sizeof(*words));
		memset(bits, 0, nr_words * sizeof(*bits));
		reclaim_note_young(ebb->core, run.first, words, nr_words);
	}
	reclaim_end_pass(ebb->core, 0);
	ebb->passes++;
}

static void ebb_maybe_pass(struct ebb *ebb, uint64_t now)
{
	reclaim_tick(ebb->core, now);
	if (reclaim_should_scan(ebb->core, ebb->resident))
		ebb_pass(ebb);
}

static uint32_t ebb_pick(struct ebb *ebb)
{
	struct page_run run;

	do {
		if (reclaim_pick(ebb->core, &run, 1, 1, false) ||
		    (!reclaim_is_searching(ebb->core) &&
		     reclaim_pick(ebb->core, &run, 1, 1, true)))
			return run.first;
	} while (reclaim_is_searching(ebb->core));
	fprintf(stderr, "ebb-sim: the core found nothing to evict of %" PRIu32 "\n", ebb->resident);
	exit(1);
}

static void ebb_evict(struct ebb *ebb)
{
	for (uint32_t skips = 0;; skips++) {
		uint32_t page = ebb_pick(ebb);

		if (skips < SKIPS_MAX && reclaim_wants_peek(ebb->core) && ebb_bit(ebb, page) &&
		    reclaim_spare_young(ebb->core, page))
			continue;
		reclaim_note_evicted(ebb->core, page);
		ebb_clear_bit(ebb, page);
		ebb->in[page] = false;
		ebb->resident--;
		return;
	}
}

static void ebb_fault(struct ebb *ebb, uint32_t at, uint32_t page)
{
	uint64_t now = ebb_now(ebb, at);

	reclaim_tick(ebb->core, now);
	while (ebb->resident >= ebb->limit)
		ebb_evict(ebb);
	reclaim_note_resident(ebb->core, page, 1,
			      ebb->was_in[page] ? RECLAIM_REFAULT : RECLAIM_NEW);
	ebb_set_bit(ebb, page);
	ebb->in[page] = ebb->was_in[page] = true;
	ebb->resident++;
	ebb_maybe_pass(ebb, now);
}

static bool ebb_access(void *state, uint32_t at, uint32_t page)
{
	struct ebb *ebb = state;
	bool hit = ebb->in[page];

	if (hit)
		ebb_set_bit(ebb, page);
	else
		ebb_fault(ebb, at, page);
	if (at >= ebb->next_tick) {
		ebb->next_tick = at + MIN(ebb->tick, UINT32_MAX - at);
		ebb_maybe_pass(ebb, ebb_now(ebb, at));
	}
	return hit;
}

static void ebb_forget(void *state, uint32_t page)
{
	struct ebb *ebb = state;

	reclaim_note_gone(ebb->core, page, 1);
	ebb_clear_bit(ebb, page);
	ebb->resident -= ebb->in[page];
	ebb->in[page] = ebb->was_in[page] = false;
}

static uint64_t ebb_passes(const void *state)
{
	return ((const struct ebb *)state)->passes;
}

static void ebb_describe(const void *state, char *buf, size_t size)
{
	static const char *const order_names[RECLAIM_NR_ORDERS] = {"auto", "generations",
								   "frequency", "random"};
	const struct ebb *ebb = state;
	struct reclaim_stats s;

	reclaim_get_stats(ebb->core, &s);
	snprintf(buf, size,
		 "passes %" PRIu64 " (period %" PRIu64 ", surge %" PRIu64 ", emergency %" PRIu64
		 "), emergencies %" PRIu64 ", agings %" PRIu64 ", order %s, loss g %.0f f %.0f, "
		 "probation %" PRIu32 "/%" PRIu32 " of %" PRIu32 ", graduated %" PRIu64
		 ", near %" PRIu64 " of %" PRIu64 " refaults, kept young %" PRIu64
		 ", unit %.2f N, stretches %" PRIu64 " scanned %" PRIu64 " skipped",
		 ebb->passes, s.passes[RECLAIM_PASS_PERIOD], s.passes[RECLAIM_PASS_SURGE],
		 s.passes[RECLAIM_PASS_EMERGENCY], s.emergencies, s.agings,
		 s.order < RECLAIM_NR_ORDERS ? order_names[s.order] : "?", s.loss_generations,
		 s.loss_frequency, s.probation, s.probation_target, s.resident, s.graduated,
		 s.refaults_near, s.refaults, s.young_skipped,
		 (double)s.unit_ns / ebb_ns_per_access(ebb->workload) / ebb->workload->nr_pages,
		 s.stretches_scanned, s.stretches_skipped);
}

static void ebb_destroy(void *state)
{
	struct ebb *ebb = state;

	free(ebb->mem);
	free(ebb->in);
	free(ebb->was_in);
	free(ebb->accessed);
	free(ebb);
}

const struct sim_policy sim_ebb = {
	.name = "ebb",
	.about = "ebb's reclaim core, sampled",
	.samples = true,
	.create = ebb_create,
	.access = ebb_access,
	.forget = ebb_forget,
	.passes = ebb_passes,
	.describe = ebb_describe,
	.destroy = ebb_destroy,
};
