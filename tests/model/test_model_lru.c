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
#include "lru_model_run.h"

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
static struct reclaim_stats seen; /* in all runs: what never happened was not tested */
static uint32_t seen_thrashing, seen_blind;

static void begin(uint32_t nr_pages, enum reclaim_order order)
{
	rng = base_seed * 0x9e3779b97f4a7c15 + nr_pages * 8ULL + order;
	rng = rng ? rng : 1;
	model_begin(&m, nr_pages, order);
}

static void add_up(void)
{
	seen.agings += m.want.agings;
	seen.promoted += m.want.promoted;
	seen.evicted += m.want.evicted;
	seen.refaults_near += m.want.refaults_near;
	seen.graduated += m.want.graduated;
	seen.tier_protected += m.want.tier_protected;
	seen.young_skipped += m.want.young_skipped;
	seen.ahead_used += m.want.ahead_used;
	seen.ahead_wasted += m.want.ahead_wasted;
	seen.stretches_skipped += m.want.stretches_skipped;
}

static void run(uint32_t nr_pages, enum reclaim_order order, uint32_t nr_steps,
		uint32_t compare_every)
{
	begin(nr_pages, order);
	for (uint32_t i = 1; i <= nr_steps * length; i++) {
		model_step(&m);
		seen_thrashing += m.ttl_taken;
		seen_blind += m.blind;
		if (i % compare_every == 0)
			model_compare(&m);
	}
	model_compare(&m);
	add_up();
	model_drain(&m);
	model_compare(&m);
	model_end(&m);
}

static void test_small(void **state)
{
	static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 500, 511, 512, 513, 1500};

	for (uint32_t order = 0; order < RECLAIM_NR_ORDERS; order++)
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
			run(sizes[i], (enum reclaim_order)order, 80000, 1 + sizes[i] / 64);
}

static void test_large(void **state)
{
	for (uint32_t order = 0; order < RECLAIM_NR_ORDERS; order++)
		run(4097, (enum reclaim_order)order, 10000, 50);
	run(70000, RECLAIM_ORDER_AUTO, 3000, 200);
	/* More words than a census looks at. */
	run((1u << 20) + 17, RECLAIM_ORDER_FREQUENCY, 200, 100);
}

/* After the tests above. */
static void test_everything_happened(void **state)
{
	assert_true(seen.agings && seen.promoted && seen.evicted && seen.refaults_near);
	assert_true(seen.graduated && seen.tier_protected && seen.young_skipped);
	assert_true(seen.ahead_used && seen.ahead_wasted && seen.stretches_skipped);
	assert_true(seen_thrashing && seen_blind);
}

/* --- properties ----------------------------------------------------------------------------- */

static void whole_pass(void)
{
	m.now_ns += 10 * MODEL_SEC;
	reclaim_tick(m.r, m.now_ns);
	reclaim_begin_pass(m.r, true);
	reclaim_end_pass(m.r, 0);
}

static void fill(uint32_t nr_pages, enum reclaim_order order)
{
	begin(nr_pages, order);
	reclaim_note_resident(m.r, 0, nr_pages, RECLAIM_FOUND);
	whole_pass();
	whole_pass();
}

/* Pages pass through the window one generation an aging, and the oldest collects them. */
static void test_window(void **state)
{
	struct reclaim_stats st;
	struct reclaim_page page;

	begin(1000, RECLAIM_ORDER_GENERATIONS);
	for (uint32_t i = 0; i < 10; i++) {
		m.now_ns += MODEL_SEC;
		reclaim_tick(m.r, m.now_ns);
		reclaim_age(m.r);
		reclaim_note_resident(m.r, 100 * i, 10 + i, RECLAIM_NEW);
		reclaim_get_stats(m.r, &st);
		assert_int_equal(st.max_seq, RECLAIM_MAX_NR_GENS + i);
		assert_int_equal(st.nr_gens,
				 MIN(MAX(i + 1, RECLAIM_MIN_NR_GENS), RECLAIM_MAX_NR_GENS));
		assert_int_equal(st.gens[st.nr_gens - 1].pages, 10 + i);
		assert_int_equal(st.gens[st.nr_gens - 1].birth_ns, m.now_ns);
		for (uint32_t p = 0; p <= i; p++) {
			reclaim_get_page(m.r, 100 * p, &page);
			assert_int_equal(page.seq, st.max_seq - MIN(i - p, LRU_YOUTH_MAX));
		}
	}
	assert_int_equal(st.gens[0].pages, 10 + 11 + 12 + 13 + 14 + 15 + 16);
	reclaim_note_gone(m.r, 0, 1000);
	reclaim_get_stats(m.r, &st);
	assert_int_equal(st.nr_gens, RECLAIM_MIN_NR_GENS);
	model_end(&m);
}

/* As often as it takes to find something, or to know that there is nothing. */
static uint32_t search(struct page_run *runs, uint32_t max, bool urgent)
{
	uint32_t nr;

	do
		nr = reclaim_pick(m.r, runs, MODEL_ROOM, max, urgent);
	while (!nr && reclaim_is_searching(m.r));
	return nr;
}

/* What stays cold is taken in the end, each page once before any is taken twice. */
static void fair(enum reclaim_order order)
{
	struct page_run runs[MODEL_ROOM];
	uint32_t nr_pages = 20000, taken = 0, nr;

	fill(nr_pages, order);
	while ((nr = search(runs, 64, false))) {
		for (uint32_t i = 0; i < nr; i++)
			for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++) {
				assert_false(m.pages[p].picked);
				m.pages[p].picked = true;
				taken++;
				/* Half of them come back as busy: they wait for the next pass. */
				if (p % 2)
					reclaim_note_kept(m.r, p, RECLAIM_KEPT_BUSY);
				else
					reclaim_note_evicted(m.r, p);
			}
	}
	assert_int_equal(taken, nr_pages);
	whole_pass();
	for (taken = 0; (nr = search(runs, 64, false));)
		for (uint32_t i = 0; i < nr; i++)
			taken += runs[i].nr;
	assert_int_equal(taken, nr_pages / 2);
	model_end(&m);
}

/* Equal pages come round in a circle, even if each is given back at once: the store refuses, say. */
static void fair_circle(enum reclaim_order order)
{
	struct page_run runs[MODEL_ROOM];
	uint32_t nr_pages = 20000, taken = 0, nr;

	fill(nr_pages, order);
	while (taken < nr_pages) {
		nr = search(runs, MIN(64u, nr_pages - taken), false);
		assert_true(nr);
		for (uint32_t i = 0; i < nr; i++)
			for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++) {
				assert_false(m.pages[p].picked);
				m.pages[p].picked = true;
				taken++;
				reclaim_note_kept(m.r, p, RECLAIM_KEPT_ERROR);
			}
	}
	model_end(&m);
}

static void test_fairness(void **state)
{
	for (uint32_t order = 0; order < RECLAIM_ORDER_RANDOM; order++) {
		fair((enum reclaim_order)order);
		fair_circle((enum reclaim_order)order);
	}
}

/* Pages of all sorts: some passes of random touches, each page with a bent of its own. */
static void fill_with_all_sorts(uint32_t nr_pages, enum reclaim_order order)
{
	begin(nr_pages, order);
	reclaim_note_resident(m.r, 0, nr_pages, RECLAIM_FOUND);
	for (uint32_t pass = 0; pass < 40; pass++) {
		reclaim_begin_pass(m.r, true);
		for (uint32_t w = 0; w < words_for(nr_pages); w++) {
			uint64_t young = 0;

			for (uint32_t b = 0; b < 64; b++)
				young |= (uint64_t)(next_random(NULL) >> 20 & 127 & ~b ? 0 : 1)
					 << b;
			young |= w % 8 < 3 ? 0 : next_random(NULL) & next_random(NULL);
			reclaim_note_young(m.r, w * 64, &young, 1);
		}
		m.now_ns += 10 * MODEL_SEC;
		reclaim_tick(m.r, m.now_ns);
		reclaim_end_pass(m.r, 0);
		if (pass % 4 == 0)
			reclaim_age(m.r);
	}
	whole_pass(); /* counts anew after the last aging */
}

static uint32_t key_of(enum lru_key_order order, uint32_t idx)
{
	struct lru_word word = lru_gen_peek_word(&m.r->lru, idx / 64);
	uint32_t youth = word_youth_of(&word, idx), freq = word_freq_of(&word, idx);

	return order == LRU_BY_GENERATION ? youth * (LRU_FREQ_MAX + 1) + freq :
					    freq * (LRU_YOUTH_MAX + 1) + youth;
}

/* Which circle takes which key: each as many keys as hold 1/256 of the pages. */
static void plan_circles(enum lru_key_order order, uint32_t *circle_of)
{
	uint32_t nr[LRU_NR_KEYS] = {0}, sum = 0, circle = 0;

	for (uint32_t i = 0; i < m.nr; i++)
		nr[key_of(order, i)]++;
	for (uint32_t key = 0; key < LRU_NR_KEYS; key++) {
		circle_of[key] = circle;
		sum += nr[key];
		if (sum < MAX(m.nr / 256.0, 1.0))
			continue;
		sum = 0;
		circle++;
	}
	assert_true(circle > 5);
}

/* The coldest go first: all of them, before the next colder ones. */
static void coldest_first(enum reclaim_order order, bool urgent, uint32_t nr_pages)
{
	enum lru_key_order by =
		order == RECLAIM_ORDER_GENERATIONS ? LRU_BY_GENERATION : LRU_BY_FREQUENCY;
	uint32_t circle_of[LRU_NR_KEYS], circle = 0, nr, taken = 0, may = 0;
	struct page_run runs[MODEL_ROOM];

	fill_with_all_sorts(nr_pages, order);
	plan_circles(by, circle_of);
	for (uint32_t i = 0; i < nr_pages; i++)
		may += urgent || by == LRU_BY_FREQUENCY || key_of(by, i) < 2 * (LRU_FREQ_MAX + 1);
	while ((nr = search(runs, 1, urgent))) {
		assert_int_equal(nr, 1);
		assert_true(circle_of[key_of(by, runs[0].first)] >= circle);
		circle = circle_of[key_of(by, runs[0].first)];
		taken++;
	}
	assert_int_equal(taken, may);
	model_end(&m);
}

static void test_coldest_first(void **state)
{
	static const uint32_t sizes[] = {1000, 5000, 30001};

	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		coldest_first(RECLAIM_ORDER_FREQUENCY, false, sizes[i]);
		coldest_first(RECLAIM_ORDER_GENERATIONS, false, sizes[i]);
		coldest_first(RECLAIM_ORDER_GENERATIONS, true, sizes[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_everything_happened),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_fairness),
		cmocka_unit_test(test_coldest_first),
	};
	const char *seed = getenv("EBB_SEED"), *steps = getenv("EBB_STEPS");

	base_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	length = steps ? (uint32_t)strtoul(steps, NULL, 0) : 1;
	printf("EBB_SEED=%" PRIu64 "\n", base_seed);
	fflush(stdout);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
