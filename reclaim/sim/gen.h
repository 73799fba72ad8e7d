/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gen.h - synthetic workloads by name.
 */
#ifndef SIM_GEN_H
#define SIM_GEN_H

#include "sim.h"

#define GEN_PAGES_MIN	 256u
#define GEN_PAGES_MAX	 (1u << 24)
#define GEN_ACCESSES_MIN 1000u
#define GEN_ACCESSES_MAX (1u << 30)

/** struct gen - a workload that can be made; those held out are not in the suite, see gen.c */
struct gen {
	const char *name;
	const char *about;
	uint32_t id; /* goes into the seed: a workload does not depend on what else is made */
	bool held_out;
	bool stationary; /* each page has one probability all along, and they differ */
	void (*make)(const struct gen *gen, struct sim_workload *w, uint64_t *rng);
	double a, b, c; /* parameters of make() */
};

/** gens - all of them, the suite first; ends with a name of NULL */
extern const struct gen gens[];

/** gen_find() - NULL when there is none of that name */
const struct gen *gen_find(const char *name);

/** gen_make() - @nr_pages in GEN_PAGES_MIN.., @nr_accesses in GEN_ACCESSES_MIN..; any @seed */
void gen_make(const struct gen *gen, uint32_t nr_pages, uint32_t nr_accesses, uint64_t seed,
	      struct sim_workload *w);

#endif
