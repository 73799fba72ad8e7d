// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_model_lru.c - random facts and decisions, the core beside its model (lru_model.h), page by page.
 *
 * EBB_SEED=n repeats a run, the seed is printed first; EBB_STEPS=n multiplies its length.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>
#include "lru_model.h"

static uint64_t base_seed;
static uint64_t rng;
static uint32_t length = 1;

static uint64_t next_random(void *arg)
{
	(void)arg;
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static struct model m = {.number = next_random};

static void run(uint32_t nr_pages, enum reclaim_order order, uint32_t nr_steps, uint32_t compare_every)
{
	rng = base_seed * 0x9e3779b97f4a7c15 + nr_pages * 8ULL + order;
	rng = rng ? rng : 1;
	model_begin(&m, nr_pages, order);
	for (uint32_t i = 1; i <= nr_steps * length; i++) {
		model_step(&m);
		if (i % compare_every == 0)
			model_compare(&m);
	}
	model_compare(&m);
	model_end(&m);
}

static void test_small(void **state)
{
	static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 500, 511, 512, 513, 1500};

	for (uint32_t order = 0; order < RECLAIM_NR_ORDERS; order++)
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
			run(sizes[i], (enum reclaim_order)order, 20000, 1 + sizes[i] / 64);
}

static void test_large(void **state)
{
	run(4103, RECLAIM_ORDER_AUTO, 20000, 50);
	run(70000, RECLAIM_ORDER_AUTO, 4000, 200);
	/* More words than a census looks at. */
	run((1u << 20) + 17, RECLAIM_ORDER_FREQUENCY, 300, 100);
}

/* What stays cold is taken in the end, each page once before any is taken twice. */
static void fair(enum reclaim_order order)
{
	struct page_run runs[MODEL_ROOM];
	uint32_t nr_pages = 20000, taken = 0, nr;

	rng = base_seed | 1;
	model_begin(&m, nr_pages, order);
	reclaim_note_resident(m.r, 0, nr_pages, RECLAIM_FOUND);
	reclaim_tick(m.r, 10 * MODEL_SEC);
	reclaim_begin_pass(m.r, true);
	reclaim_end_pass(m.r, 0);
	while ((nr = reclaim_pick(m.r, runs, MODEL_ROOM, 64, false))) {
		for (uint32_t i = 0; i < nr; i++)
			for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++) {
				assert_false(m.pages[p].isolated);
				m.pages[p].isolated = true;
				taken++;
				/* Half of them come back as busy: they wait for the next pass. */
				if (p % 2)
					reclaim_note_kept(m.r, p, RECLAIM_KEPT_BUSY);
				else
					reclaim_note_evicted(m.r, p);
			}
	}
	assert_int_equal(taken, nr_pages);
	reclaim_tick(m.r, 20 * MODEL_SEC);
	reclaim_begin_pass(m.r, true);
	reclaim_end_pass(m.r, 0);
	for (taken = 0; (nr = reclaim_pick(m.r, runs, MODEL_ROOM, 64, false));)
		for (uint32_t i = 0; i < nr; i++)
			taken += runs[i].nr;
	assert_int_equal(taken, nr_pages / 2);
	model_end(&m);
}

static void test_fairness(void **state)
{
	fair(RECLAIM_ORDER_AUTO);
	fair(RECLAIM_ORDER_GENERATIONS);
	fair(RECLAIM_ORDER_FREQUENCY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_fairness),
	};
	const char *seed = getenv("EBB_SEED"), *steps = getenv("EBB_STEPS");

	base_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	length = steps ? (uint32_t)strtoul(steps, NULL, 0) : 1;
	printf("EBB_SEED=%" PRIu64 "\n", base_seed);
	fflush(stdout);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
