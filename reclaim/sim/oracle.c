// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * oracle.c - bounds: what could be had by who knows more than any hypervisor does.
 *
 * LFU: perfect counts of every access since the beginning, also of pages that are out. The bound that
 * is fair where nothing changes: it knows the past, all of it.
 *
 * A0: keeps the pages with the highest true probability, and has one frame for the rest (A. V. Aho,
 * P. J. Denning, J. D. Ullman, "Principles of optimal page replacement", JACM 18(1), 1971: the optimum
 * for independent accesses). Where the workload has no true probabilities, the counts of the
 * whole of it stand in.
 *
 * MIN: evicts the page whose next access is furthest away (L. A. Belady, "A study of replacement
 * algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966). It knows the future of
 * accesses, not that of pages given up.
 */
#include <stdlib.h>
#include <string.h>
#include "heap.h"
#include "sim.h"

/* --- LFU and MIN: a heap each --------------------------------------------------------------- */

struct ranked {
	struct heap heap;
	uint32_t limit;
	uint32_t *next_use; /* MIN: of the page accessed at each access; SIM_NEVER */
	uint8_t *in;
};

static struct ranked *ranked_create(const struct sim_setup *setup, bool largest_first)
{
	struct ranked *r = sim_alloc(1, sizeof(*r));

	heap_init(&r->heap, setup->workload->nr_pages, largest_first);
	r->limit = setup->limit;
	r->in = sim_alloc(setup->workload->nr_pages, 1);
	return r;
}

/* The key of @page is as it should be. */
static bool ranked_access(struct ranked *r, uint32_t page)
{
	if (r->in[page]) {
		heap_rekey(&r->heap, page);
		return true;
	}
	if (r->heap.nr == r->limit)
		r->in[heap_replace_top(&r->heap, page)] = 0;
	else
		heap_add(&r->heap, page);
	r->in[page] = 1;
	return false;
}

static void ranked_forget(void *state, uint32_t page)
{
	struct ranked *r = state;

	if (!r->in[page])
		return;
	heap_remove(&r->heap, page);
	r->in[page] = 0;
}

static void ranked_destroy(void *state)
{
	struct ranked *r = state;

	heap_free(&r->heap);
	free(r->next_use);
	free(r->in);
	free(r);
}

static void *lfu_create(const struct sim_setup *setup)
{
	return ranked_create(setup, false);
}

static bool lfu_access(void *state, uint32_t at, uint32_t page)
{
	struct ranked *r = state;

	r->heap.keys[page]++;
	return ranked_access(r, page);
}

const struct sim_policy sim_lfu = {
	.name = "lfu",
	.about = "least frequently used, counts of all accesses ever",
	.create = lfu_create,
	.access = lfu_access,
	.forget = ranked_forget,
	.destroy = ranked_destroy,
};

static void *min_create(const struct sim_setup *setup)
{
	const struct sim_workload *w = setup->workload;
	uint32_t *last = sim_alloc(w->nr_pages, sizeof(*last));
	struct ranked *r = ranked_create(setup, true);

	r->next_use = sim_alloc(w->nr_accesses, sizeof(*r->next_use));
	for (uint32_t page = 0; page < w->nr_pages; page++)
		last[page] = SIM_NEVER;
	for (uint32_t at = w->nr_accesses; at--;) {
		r->next_use[at] = last[w->accesses[at]];
		last[w->accesses[at]] = at;
	}
	free(last);
	return r;
}

static bool min_access(void *state, uint32_t at, uint32_t page)
{
	struct ranked *r = state;

	r->heap.keys[page] = r->next_use[at];
	return ranked_access(r, page);
}

const struct sim_policy sim_min = {
	.name = "min",
	.about = "Belady's: the next access furthest away",
	.create = min_create,
	.access = min_access,
	.forget = ranked_forget,
	.destroy = ranked_destroy,
};

/* --- A0 ------------------------------------------------------------------------------------- */

struct a0 {
	uint8_t *in;
	uint32_t guest; /* the page in the last frame; SIM_NEVER: none */
};

struct a0_rank {
	double weight;
	uint32_t page;
};

static int a0_compare(const void *a, const void *b)
{
	const struct a0_rank *x = a, *y = b;

	return x->weight > y->weight ? -1 : x->weight < y->weight;
}

static struct a0_rank *a0_rank(const struct sim_workload *w)
{
	struct a0_rank *ranks = sim_alloc(w->nr_pages, sizeof(*ranks));
	uint32_t *count = sim_alloc(w->nr_pages, sizeof(*count));

	for (uint32_t at = 0; at < w->nr_accesses; at++)
		count[w->accesses[at]]++;
	for (uint32_t page = 0; page < w->nr_pages; page++) {
		ranks[page].page = page;
		if (!count[page]) /* never touched: no frame is wasted on it */
			ranks[page].weight = -1;
		else
			ranks[page].weight = w->weights ? w->weights[page] : count[page];
	}
	qsort(ranks, w->nr_pages, sizeof(*ranks), a0_compare);
	free(count);
	return ranks;
}

static void *a0_create(const struct sim_setup *setup)
{
	struct a0 *a0 = sim_alloc(1, sizeof(*a0));
	struct a0_rank *ranks = a0_rank(setup->workload);

	a0->in = sim_alloc(setup->workload->nr_pages, 1);
	a0->guest = SIM_NEVER;
	for (uint32_t i = 0; i + 1 < setup->limit; i++)
		a0->in[ranks[i].page] = 1;
	free(ranks);
	return a0;
}

static bool a0_access(void *state, uint32_t at, uint32_t page)
{
	struct a0 *a0 = state;

	if (a0->in[page] || page == a0->guest)
		return true;
	a0->guest = page;
	return false;
}

static void a0_destroy(void *state)
{
	struct a0 *a0 = state;

	free(a0->in);
	free(a0);
}

const struct sim_policy sim_a0 = {
	.name = "a0",
	.about = "the pages of the highest true probability",
	.create = a0_create,
	.access = a0_access,
	.destroy = a0_destroy,
};
