// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * run.c - one policy over one workload: the only place where anything is counted.
 *
 * DOC: the hot set under a scan
 *
 * Of a workload with scans it is also counted what they do to the hot set: how many hot pages
 * refault, each once, from a scan's begin until 4 N accesses after its end (by then one that was lost
 * has been missed), as a share of the hot set, in the mean over the scans that are counted.
 */
#include <stdlib.h>
#include <string.h>
#include "sim.h"

#define NO_SCAN UINT32_MAX

struct hot_watch {
	uint8_t *lost; /* hot pages counted already in this scan */
	uint32_t scan;
	uint64_t count;
};

/* The counted scan in whose window @at is. */
static uint32_t scan_at(const struct sim_workload *w, uint32_t at)
{
	for (uint32_t k = 0; k < w->nr_scans; k++)
		if (w->scan_begin[k] >= w->warm_up && at >= w->scan_begin[k] &&
		    at < (uint64_t)w->scan_end[k] + 4ull * w->nr_pages)
			return k;
	return NO_SCAN;
}

static void watch_refault(struct hot_watch *watch, const struct sim_workload *w, uint32_t at,
			  uint32_t page)
{
	uint32_t scan;

	if (!w->is_hot[page])
		return;
	scan = scan_at(w, at);
	if (scan == NO_SCAN)
		return;
	if (scan != watch->scan) {
		memset(watch->lost, 0, w->nr_pages);
		watch->scan = scan;
	}
	watch->count += !watch->lost[page];
	watch->lost[page] = 1;
}

static double watch_share(const struct hot_watch *watch, const struct sim_workload *w)
{
	uint32_t scans = 0;

	for (uint32_t k = 0; k < w->nr_scans; k++)
		scans += w->scan_begin[k] >= w->warm_up;
	return scans && w->nr_hot ? (double)watch->count / scans / w->nr_hot : 0;
}

/* The guest gave pages up before access @at: @next is the first event not yet told. */
static uint32_t forget_until(const struct sim_policy *policy, void *state, uint8_t *seen,
			     const struct sim_workload *w, uint32_t next, uint32_t at)
{
	for (; next < w->nr_forgets && w->forgets[next].at <= at; next++) {
		struct page_run run = w->forgets[next].run;

		memset(seen + run.first, 0, run.nr);
		for (uint32_t i = 0; policy->forget && i < run.nr; i++)
			policy->forget(state, run.first + i);
	}
	return next;
}

void sim_run(const struct sim_column *column, const struct sim_setup *setup,
	     struct sim_result *ret_result)
{
	const struct sim_policy *policy = column->policy;
	const struct sim_workload *w = setup->workload;
	struct hot_watch watch = {.scan = NO_SCAN};
	uint8_t *seen = sim_alloc(w->nr_pages, 1);
	void *state = policy->create(setup);
	uint32_t next_forget = 0;
	uint64_t refaults = 0;

	if (w->is_hot)
		watch.lost = sim_alloc(w->nr_pages, 1);
	for (uint32_t at = 0; at < w->nr_accesses; at++) {
		uint32_t page = w->accesses[at];

		if (next_forget < w->nr_forgets)
			next_forget = forget_until(policy, state, seen, w, next_forget, at);
		if (!policy->access(state, at, page) && seen[page] && at >= w->warm_up) {
			refaults++;
			if (w->is_hot)
				watch_refault(&watch, w, at, page);
		}
		seen[page] = 1;
	}
	memset(ret_result, 0, sizeof(*ret_result));
	ret_result->refaults = refaults;
	ret_result->counted = w->nr_accesses - w->warm_up;
	ret_result->hot_share = watch_share(&watch, w);
	if (policy->passes)
		ret_result->passes = policy->passes(state);
	if (policy->describe)
		policy->describe(state, ret_result->note, sizeof(ret_result->note));
	policy->destroy(state);
	free(watch.lost);
	free(seen);
}
