// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mglru.c - the multi-generational LRU, plain: what ebb started from.
 *
 * Four generations. Once a period the accessed bits are read and the pages touched move to a new
 * youngest generation; a fifth one merges the two oldest. New pages are youngest. The oldest generation is
 * evicted, in a random order, the two youngest never: when only they are left, another is begun
 * without looking at any bits (after Y. Zhao, "Multi-Gen LRU framework", Linux 6.1, 2022, without its
 * tiers, Bloom filters and feedback of refaults).
 */
#include <stdlib.h>
#include "rng.h"
#include "sim.h"

#define NR_GENS 4u

struct mglru {
	uint32_t nr_pages, limit, resident;
	uint32_t period, next_sample; /* in accesses */
	uint64_t min_seq, max_seq, samples;
	uint32_t count[NR_GENS]; /* of generation seq % NR_GENS */
	uint32_t *order;	 /* the oldest generation, as it is to be evicted */
	uint32_t nr_order, next;
	bool order_is_made;
	uint64_t rng;
	uint8_t *gen; /* seq % NR_GENS + 1; 0: out */
	bool *accessed;
};

static void *mglru_create(const struct sim_setup *setup)
{
	struct mglru *m = sim_alloc(1, sizeof(*m));
	double period = setup->period * setup->workload->nr_pages;

	m->nr_pages = setup->workload->nr_pages;
	m->limit = setup->limit;
	m->period = (uint32_t)MIN(MAX(period, 1.0), 1e9);
	m->next_sample = m->period;
	m->max_seq = 1;
	m->order = sim_alloc(m->nr_pages, sizeof(*m->order));
	m->rng = 12345;
	m->gen = sim_alloc(m->nr_pages, 1);
	m->accessed = sim_alloc(m->nr_pages, sizeof(*m->accessed));
	return m;
}

static void mglru_move(struct mglru *m, uint32_t page, uint8_t gen)
{
	if (m->gen[page])
		m->count[m->gen[page] - 1]--;
	if (gen)
		m->count[gen - 1]++;
	m->gen[page] = gen;
}

static uint8_t mglru_gen(uint64_t seq)
{
	return seq % NR_GENS + 1;
}

/* The window is full: the oldest generation joins the next. */
static void mglru_merge(struct mglru *m)
{
	for (uint32_t page = 0; page < m->nr_pages; page++)
		if (m->gen[page] == mglru_gen(m->min_seq))
			mglru_move(m, page, mglru_gen(m->min_seq + 1));
	m->min_seq++;
	m->order_is_made = false;
}

static void mglru_sample(struct mglru *m)
{
	m->samples++;
	if (m->max_seq - m->min_seq == NR_GENS - 1)
		mglru_merge(m);
	m->max_seq++;
	for (uint32_t page = 0; page < m->nr_pages; page++) {
		if (!m->gen[page] || !m->accessed[page])
			continue;
		m->accessed[page] = false;
		mglru_move(m, page, mglru_gen(m->max_seq));
	}
}

/* Make sure that there is a generation to evict from, and that its order is made. */
static void mglru_prepare(struct mglru *m)
{
	if (m->order_is_made && m->count[m->min_seq % NR_GENS])
		return;
	m->order_is_made = true;
	m->nr_order = m->next = 0;
	while (!m->count[m->min_seq % NR_GENS]) {
		if (m->min_seq + 1 >= m->max_seq)
			m->max_seq++;
		m->min_seq++;
	}
	if (m->min_seq + 1 >= m->max_seq)
		m->max_seq++;
	for (uint32_t page = 0; page < m->nr_pages; page++)
		if (m->gen[page] == mglru_gen(m->min_seq))
			m->order[m->nr_order++] = page;
	rng_shuffle(&m->rng, m->order, m->nr_order);
}

static void mglru_forget(void *state, uint32_t page)
{
	struct mglru *m = state;

	m->resident -= !!m->gen[page];
	mglru_move(m, page, 0);
	m->accessed[page] = false;
}

static void mglru_evict(struct mglru *m)
{
	mglru_prepare(m);
	while (m->gen[m->order[m->next]] != mglru_gen(m->min_seq))
		m->next++;
	mglru_forget(m, m->order[m->next++]);
}

static bool mglru_access(void *state, uint32_t at, uint32_t page)
{
	struct mglru *m = state;

	if (at >= m->next_sample) {
		mglru_sample(m);
		m->next_sample = at + MIN(m->period, UINT32_MAX - at);
	}
	if (m->gen[page]) {
		m->accessed[page] = true;
		return true;
	}
	if (m->resident >= m->limit)
		mglru_evict(m);
	mglru_move(m, page, mglru_gen(m->max_seq));
	m->accessed[page] = true;
	m->resident++;
	return false;
}

static uint64_t mglru_passes(const void *state)
{
	return ((const struct mglru *)state)->samples;
}

static void mglru_destroy(void *state)
{
	struct mglru *m = state;

	free(m->order);
	free(m->gen);
	free(m->accessed);
	free(m);
}

const struct sim_policy sim_mglru = {
	.name = "mglru",
	.about = "plain multi-generational LRU, sampled",
	.samples = true,
	.create = mglru_create,
	.access = mglru_access,
	.forget = mglru_forget,
	.passes = mglru_passes,
	.destroy = mglru_destroy,
};
