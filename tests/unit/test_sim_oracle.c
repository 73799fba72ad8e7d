// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_oracle.c - the simulator's bounds, MIN against an exhaustive search, and its plain
 * multi-generational LRU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <reclaim/sim/mglru.c>
#include <reclaim/sim/oracle.c>
#include "sim_fixture.h"

/* --- oracles -------------------------------------------------------------------------------- */

/* Ties are free, so there is no likeness: whoever went must have had the smallest count. */
static void test_lfu_evicts_the_least_counted(void **state)
{
	uint32_t count[PAGES] = {0}, evictions = 0;
	uint8_t before[PAGES];
	struct sim_workload w;
	struct sim_setup setup;
	struct ranked *r;

	make_workload(&w, PAGES, 5 * LENGTH);
	setup = make_setup(&w, 12);
	r = sim_lfu.create(&setup);
	for (uint32_t at = 0; at < w.nr_accesses; at++) {
		uint32_t page = w.accesses[at], resident = 0;
		bool hit;

		memcpy(before, r->in, PAGES);
		hit = sim_lfu.access(r, at, page);
		assert_int_equal(hit, before[page]);
		count[page]++;
		for (uint32_t p = 0; p < PAGES; p++) {
			resident += r->in[p];
			if (!before[p] || r->in[p])
				continue;
			evictions++;
			for (uint32_t q = 0; q < PAGES; q++)
				assert_true(!before[q] || count[q] >= count[p]);
		}
		assert_true(r->in[page] && resident <= 12);
	}
	assert_true(evictions > 10);
	sim_lfu.destroy(r);
	sim_workload_free(&w);
}

static void assert_heap_sane(const struct heap *h, const uint8_t *in)
{
	uint32_t nr = 0;

	for (uint32_t page = 0; page < PAGES; page++)
		nr += in[page];
	assert_int_equal(h->nr, nr);
	for (uint32_t slot = 0; slot < h->nr; slot++) {
		uint32_t page = h->slots[slot], parent = h->slots[slot ? (slot - 1) / 2 : 0];

		assert_true(in[page]);
		assert_int_equal(h->place[page], slot);
		assert_true(h->largest_first ? h->keys[parent] >= h->keys[page] :
					       h->keys[parent] <= h->keys[page]);
	}
}

static void test_heap(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		uint8_t in[PAGES] = {0};
		struct heap h;

		heap_init(&h, PAGES, i);
		for (uint32_t step = 0; step < 3000; step++) {
			uint32_t page = below(PAGES), what = below(3);

			h.keys[page] = in[page] && what ? h.keys[page] : below(30);
			if (in[page] && what)
				heap_remove(&h, page);
			else if (in[page])
				heap_rekey(&h, page);
			else if (h.nr && what == 2)
				in[heap_replace_top(&h, page)] = 0;
			else
				heap_add(&h, page);
			in[page] = !(in[page] && what);
			assert_heap_sane(&h, in);
		}
		heap_free(&h);
	}
}

/* Fewest misses from access @at on, with the pages of the mask @in present: tries every victim. */
static uint32_t fewest(const struct sim_workload *w, uint32_t at, uint32_t in, uint32_t limit)
{
	uint32_t bit, best = UINT32_MAX;

	if (at == w->nr_accesses)
		return 0;
	bit = 1u << w->accesses[at];
	if (in & bit)
		return fewest(w, at + 1, in, limit);
	if ((uint32_t)__builtin_popcount(in) < limit)
		return 1 + fewest(w, at + 1, in | bit, limit);
	for (uint32_t p = 0; p < w->nr_pages; p++) {
		uint32_t misses;

		if (!(in & 1u << p))
			continue;
		misses = fewest(w, at + 1, (in & ~(1u << p)) | bit, limit);
		best = MIN(best, misses);
	}
	return 1 + best;
}

static void test_min_is_the_minimum(void **state)
{
	for (uint32_t round = 0; round < 150; round++) {
		uint32_t nr_pages = 3 + below(4), limit = 1 + below(MIN(3, nr_pages - 1));
		uint32_t misses = 0;
		struct sim_workload w;
		struct sim_setup setup;
		void *min;

		make_workload(&w, nr_pages, 8 + below(9));
		setup = make_setup(&w, limit);
		min = sim_min.create(&setup);
		for (uint32_t at = 0; at < w.nr_accesses; at++)
			misses += !sim_min.access(min, at, w.accesses[at]);
		assert_int_equal(misses, fewest(&w, 0, 0, limit));
		sim_min.destroy(min);
		sim_workload_free(&w);
	}
}

static void test_a0_keeps_the_most_probable(void **state)
{
	uint32_t accesses[] = {0, 1, 2, 3, 3, 2, 0, 2, 1, 4, 4, 0};
	bool hits[] = {1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1};
	double weights[] = {9, 8, 3, 2, 1, 100};
	struct sim_workload w = {.nr_pages = 6,
				 .nr_accesses = ARRAY_SIZE(accesses),
				 .accesses = accesses,
				 .weights = weights};
	struct sim_setup setup =
		make_setup(&w, 3); /* 0, 1 (5 is never touched), and one for the rest */
	void *a0 = sim_a0.create(&setup);

	for (uint32_t at = 0; at < w.nr_accesses; at++)
		assert_int_equal(sim_a0.access(a0, at, accesses[at]), hits[at]);
	sim_a0.destroy(a0);
}

/* --- the sampled one ------------------------------------------------------------------------ */

static void assert_mglru_sane(const struct mglru *m)
{
	uint32_t count[NR_GENS] = {0}, resident = 0;

	for (uint32_t page = 0; page < m->nr_pages; page++) {
		if (!m->gen[page])
			continue;
		count[m->gen[page] - 1]++;
		resident++;
	}
	assert_memory_equal(count, m->count, sizeof(count));
	assert_int_equal(resident, m->resident);
	assert_true(resident <= m->limit);
	assert_in_range(m->max_seq - m->min_seq, 1, NR_GENS - 1);
}

/* Counts agree, and a page of the two youngest generations (as they are afterwards) never went. */
static void test_mglru_evicts_old_generations(void **state)
{
	uint8_t before[PAGES];
	uint32_t evictions = 0;
	struct sim_workload w;
	struct sim_setup setup;
	struct mglru *m;

	make_workload(&w, PAGES, 5 * LENGTH);
	setup = make_setup(&w, 20);
	m = sim_mglru.create(&setup);
	for (uint32_t at = 0; at < w.nr_accesses; at++) {
		uint64_t samples = m->samples;

		memcpy(before, m->gen, PAGES);
		sim_mglru.access(m, at, w.accesses[at]);
		assert_mglru_sane(m);
		assert_true(m->gen[w.accesses[at]]);
		for (uint32_t p = 0; p < PAGES && samples == m->samples; p++) {
			if (!before[p] || m->gen[p])
				continue;
			evictions++;
			assert_int_not_equal(before[p], mglru_gen(m->max_seq));
			assert_int_not_equal(before[p], mglru_gen(m->max_seq - 1));
		}
	}
	assert_true(evictions > 10);
	assert_in_range(sim_mglru.passes(m), w.nr_accesses / 20 - 2, w.nr_accesses / 20);
	sim_mglru.destroy(m);
	sim_workload_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lfu_evicts_the_least_counted),
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_min_is_the_minimum),
		cmocka_unit_test(test_a0_keeps_the_most_probable),
		cmocka_unit_test(test_mglru_evicts_old_generations),
	};

	seed_fixture();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
