/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_fixture.h - short random workloads for tests of the simulator. EBB_SEED repeats a run.
 */
#ifndef TESTS_SIM_FIXTURE_H
#define TESTS_SIM_FIXTURE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <reclaim/sim/rng.h>
#include <reclaim/sim/sim.h>

#define PAGES  40u
#define LENGTH 600u

static uint64_t rnd;

static inline uint32_t below(uint32_t n)
{
	return rng_below(&rnd, n);
}

/* A short workload of one of several kinds: skewed, even, loops, and all of them mixed. */
static inline void make_workload(struct sim_workload *w, uint32_t nr_pages, uint32_t length)
{
	uint32_t kind = below(4), loop = 0;

	memset(w, 0, sizeof(*w));
	w->nr_pages = nr_pages;
	w->nr_accesses = length;
	w->accesses = sim_alloc(length, sizeof(*w->accesses));
	for (uint32_t i = 0; i < length; i++) {
		uint32_t now = kind == 3 ? below(3) : kind;

		if (now == 0)
			w->accesses[i] = below(1 + below(nr_pages));
		else if (now == 1)
			w->accesses[i] = below(nr_pages);
		else
			w->accesses[i] = loop++ % nr_pages;
	}
	sim_workload_finish(w);
}

static inline struct sim_setup make_setup(const struct sim_workload *w, uint32_t limit)
{
	static struct sim_knobs knobs;

	knobs = sim_knobs_default();
	return (struct sim_setup) {
		.workload = w, .limit = limit, .period = .5, .seed = 1, .knobs = &knobs};
}

static inline void seed_fixture(void)
{
	const char *seed = getenv("EBB_SEED");

	rnd = (seed ? strtoull(seed, NULL, 0) : 20261201) | 1;
	printf("EBB_SEED=%" PRIu64 "\n", rnd);
}

#endif
