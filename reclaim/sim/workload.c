// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * workload.c - what workloads have in common, the memory they are in, and their random draws.
 */
#include <stdio.h>
#include <stdlib.h>
#include "rng.h"
#include "sim.h"

void *sim_alloc(size_t nr, size_t size)
{
	void *mem = calloc(nr ? nr : 1, size);

	if (!mem) {
		fprintf(stderr,
			"ebb-sim: out of memory: use fewer --pages, --accesses or --jobs\n");
		exit(1);
	}
	return mem;
}

void *sim_grow(void *mem, size_t nr, size_t size)
{
	void *grown = reallocarray(mem, nr ? nr : 1, size);

	if (!grown) {
		fprintf(stderr, "ebb-sim: out of memory\n");
		exit(1);
	}
	return grown;
}

void sim_workload_finish(struct sim_workload *w)
{
	uint8_t *seen = sim_alloc(w->nr_pages, 1);

	w->warm_up = w->nr_accesses / 3;
	w->footprint = 0;
	for (uint32_t i = 0; i < w->nr_accesses; i++) {
		w->footprint += !seen[w->accesses[i]];
		seen[w->accesses[i]] = 1;
	}
	free(seen);
}

void sim_workload_free(struct sim_workload *w)
{
	free(w->accesses);
	free(w->weights);
	free(w->is_hot);
	free(w->marks);
	free(w->forgets);
	*w = (struct sim_workload) {0};
}

/* Walker's method, as made linear by M. Vose (IEEE Trans. Softw. Eng. 17(9), 1991). */
void alias_init(struct alias *alias, const double *weights, uint32_t n)
{
	uint32_t *small = sim_alloc(n, sizeof(*small)), *large = sim_alloc(n, sizeof(*large));
	double *share = sim_alloc(n, sizeof(*share));
	uint32_t nr_small = 0, nr_large = 0;
	double sum = 0;

	alias->n = n;
	alias->keep = sim_alloc(n, sizeof(*alias->keep));
	alias->other = sim_alloc(n, sizeof(*alias->other));
	for (uint32_t i = 0; i < n; i++)
		sum += weights[i];
	for (uint32_t i = 0; i < n; i++) {
		share[i] = weights[i] * n / sum;
		if (share[i] < 1)
			small[nr_small++] = i;
		else
			large[nr_large++] = i;
	}
	while (nr_small && nr_large) {
		uint32_t s = small[--nr_small], l = large[--nr_large];

		alias->keep[s] = (float)share[s];
		alias->other[s] = l;
		share[l] -= 1 - share[s];
		if (share[l] < 1)
			small[nr_small++] = l;
		else
			large[nr_large++] = l;
	}
	/* What is left is full, but for rounding. */
	while (nr_large)
		alias->keep[large[--nr_large]] = 1;
	while (nr_small)
		alias->keep[small[--nr_small]] = 1;
	free(small);
	free(large);
	free(share);
}

void alias_free(struct alias *alias)
{
	free(alias->keep);
	free(alias->other);
}
