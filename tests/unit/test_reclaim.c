// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_reclaim.c - the door of the reclaim core: where facts lead, what is picked, when to age.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ebb/reclaim.h>

#define ROOM 64
#define SEC  1000000000ULL

static void *mem;
static struct reclaim *r;
static struct page_run runs[ROOM];

static void make_with(const struct reclaim_conf *conf)
{
	size_t size = (reclaim_size(conf->nr_pages) + 63) / 64 * 64;

	free(mem);
	mem = aligned_alloc(64, size);
	assert_non_null(mem);
	memset(mem, 0, size);
	r = reclaim_init(mem, size, conf, SEC);
	assert_non_null(r);
}

static void make(uint32_t nr_pages)
{
	struct reclaim_conf conf = {
		.nr_pages = nr_pages,
		.min_age_ns = 2 * SEC,
		.readahead_max = 16,
	};

	make_with(&conf);
}

static int teardown(void **state)
{
	free(mem);
	mem = NULL;
	return 0;
}

static struct reclaim_stats stats(void)
{
	struct reclaim_stats s;

	assert_true(reclaim_verify(r));
	reclaim_get_stats(r, &s);
	return s;
}

static uint32_t pick(uint32_t max, bool urgent)
{
	uint32_t nr = reclaim_pick(r, runs, ROOM, max, urgent);

	assert_true(reclaim_verify(r));
	return nr;
}

static void assert_pick(uint32_t max, bool urgent, uint32_t first, uint32_t nr)
{
	assert_int_equal(pick(max, urgent), 1);
	assert_int_equal(runs[0].first, first);
	assert_int_equal(runs[0].nr, nr);
}

static void age(uint32_t times)
{
	while (times--)
		reclaim_age(r, SEC);
}

static void test_init_refuses_nonsense(void **state)
{
	const struct reclaim_conf good = {.nr_pages = 1000, .readahead_max = 1};
	struct reclaim_conf conf;
	size_t size = (reclaim_size(1000) + 127) / 64 * 64;
	uint8_t *m = aligned_alloc(64, size);

	assert_non_null(m);
	memset(m, 0, size);
	assert_null(reclaim_init(m, reclaim_size(1000) - 1, &good, 0));
	assert_null(reclaim_init(m + 8, size - 8, &good, 0));
	assert_null(reclaim_init(NULL, size, &good, 0));
	conf = good, conf.nr_pages = 0;
	assert_null(reclaim_init(m, size, &conf, 0));
	conf = good, conf.readahead_max = 0;
	assert_null(reclaim_init(m, size, &conf, 0));
	conf = good, conf.readahead_max = 65;
	assert_null(reclaim_init(m, size, &conf, 0));
	conf = good, conf.order = (enum reclaim_order)7;
	assert_null(reclaim_init(m, size, &conf, 0));
	assert_non_null(reclaim_init(m, reclaim_size(1000), &good, 0));
	free(m);
}

static void test_size_is_within_promise(void **state)
{
	size_t fixed = reclaim_size(1);

	for (uint64_t nr = 1; nr <= UINT32_MAX; nr = nr * 3 + 1)
		assert_true(reclaim_size((uint32_t)nr) <= nr + fixed);
}

static void test_origins(void **state)
{
	make(1000);
	age(2);
	reclaim_note_resident(r, 900, 1, RECLAIM_FOUND); /* keeps the window at its old end */
	age(1);
	reclaim_note_resident(r, 0, 10, RECLAIM_FOUND);
	reclaim_note_resident(r, 10, 20, RECLAIM_PREFETCH);
	reclaim_note_resident(r, 30, 30, RECLAIM_NEW);
	reclaim_note_resident(r, 60, 40, RECLAIM_REFAULT);
	reclaim_note_resident(r, 0, 100, RECLAIM_NEW); /* all known: nothing moves */
	assert_int_equal(stats().nr_gens, 3);
	assert_int_equal(stats().gens[0].pages, 11);
	assert_int_equal(stats().gens[1].pages, 20);
	assert_int_equal(stats().gens[2].pages, 70);
	assert_int_equal(stats().gens[2].seq, stats().max_seq);
	assert_int_equal(stats().gens[0].seq, stats().min_seq);
}

static void test_found_is_looked_at_before_it_goes(void **state)
{
	uint64_t young = 0xf0;

	make(1000);
	reclaim_note_resident(r, 0, 10, RECLAIM_FOUND);
	assert_int_equal(pick(10, false), 0);
	reclaim_note_young(r, 0, &young, 1);
	age(1);
	assert_int_equal(pick(10, false), 2);
	assert_int_equal(runs[0].nr, 4);
	assert_int_equal(runs[1].first, 8);
	assert_int_equal(stats().promoted, 4);
	assert_int_equal(stats().isolated, 6);
	assert_int_equal(stats().picked, 6);
}

static void test_two_youngest_only_when_urgent(void **state)
{
	make(1000);
	reclaim_note_resident(r, 100, 10, RECLAIM_PREFETCH);
	reclaim_note_resident(r, 0, 10, RECLAIM_NEW);
	assert_int_equal(pick(100, false), 0);
	assert_pick(100, true, 100, 10); /* the older one first, and not both in one batch */
	assert_pick(4, true, 0, 4);
	age(2);
	assert_pick(100, false, 4, 6);
	assert_int_equal(pick(100, true), 0);
}

static void test_oldest_first(void **state)
{
	make(1000);
	for (uint32_t i = 0; i < 3; i++) {
		reclaim_note_resident(r, 300 - 100 * i, 10, RECLAIM_NEW);
		age(1);
	}
	assert_pick(100, false, 300, 10);
	assert_pick(100, false, 200, 10);
	assert_int_equal(pick(100, false), 0);
	assert_pick(100, true, 100, 10);
}

static void test_kept(void **state)
{
	make(1000);
	reclaim_note_resident(r, 0, 20, RECLAIM_NEW);
	age(2);
	assert_pick(3, false, 0, 3);
	reclaim_note_kept(r, 0, RECLAIM_KEPT_BUSY);
	reclaim_note_kept(r, 1, RECLAIM_KEPT_ERROR);
	reclaim_note_kept(r, 2, RECLAIM_KEPT_TOUCHED);
	reclaim_note_kept(r, 0, RECLAIM_KEPT_TOUCHED); /* no longer isolated: ignored */
	assert_int_equal(stats().gens[0].pages, 19);
	assert_int_equal(stats().gens[2].pages, 1);
	assert_int_equal(stats().isolated, 0);
	assert_int_equal(stats().promoted, 1);
	assert_pick(100, false, 3, 17); /* others first */
	assert_pick(100, false, 1, 1);	/* then what the store refused */
	assert_int_equal(pick(100, false), 0);
	age(1);
	assert_pick(100, false, 0, 1); /* and what was busy, after an aging */
	assert_int_equal(pick(100, false), 0);
}

static void test_busy_pages_do_not_dam_the_next_generation(void **state)
{
	make(1000);
	reclaim_note_resident(r, 0, 2, RECLAIM_NEW);
	age(1);
	reclaim_note_resident(r, 2, 2, RECLAIM_NEW);
	age(2);
	assert_pick(10, false, 0, 2);
	reclaim_note_kept(r, 0, RECLAIM_KEPT_BUSY);
	reclaim_note_kept(r, 1, RECLAIM_KEPT_BUSY);
	assert_pick(10, false, 2, 2);
	reclaim_note_kept(r, 2, RECLAIM_KEPT_BUSY);
	reclaim_note_kept(r, 3, RECLAIM_KEPT_BUSY);
	assert_int_equal(pick(10, false), 0);
	assert_pick(10, true, 0, 2); /* the last hope of a waiting fault */
}

static void test_late_reports_change_nothing(void **state)
{
	make(1000);
	reclaim_note_resident(r, 0, 10, RECLAIM_NEW);
	age(2);
	assert_pick(4, false, 0, 4);
	reclaim_note_gone(r, 0, 2);
	reclaim_note_resident(r, 0, 1, RECLAIM_NEW);
	reclaim_note_evicted(r, 0); /* the old page 0; the new one is resident */
	reclaim_note_kept(r, 1, RECLAIM_KEPT_BUSY);
	reclaim_note_evicted(r, 999);
	assert_int_equal(stats().isolated, 2);
	assert_int_equal(stats().gens[0].pages, 6);
	assert_int_equal(stats().gens[2].pages, 1);
}

static void test_isolated_pages_are_not_young(void **state)
{
	uint64_t young = ~0ULL;

	make(1000);
	reclaim_note_resident(r, 0, 10, RECLAIM_NEW);
	age(2);
	assert_pick(4, false, 0, 4);
	reclaim_note_young(r, 0, &young, 1);
	assert_int_equal(stats().promoted, 6);
	assert_int_equal(stats().isolated, 4);
	reclaim_note_kept(r, 0, RECLAIM_KEPT_ERROR);
	assert_int_equal(stats().gens[0].pages, 1);
	for (uint32_t i = 0; i < 4; i++)
		reclaim_note_evicted(r, i); /* page 0 is not out: ignored */
	assert_int_equal(stats().isolated, 0);
	assert_int_equal(stats().gens[0].pages, 1);
}

static void test_should_age_needs_a_limit_in_sight(void **state)
{
	make(100000);
	reclaim_note_resident(r, 0, 40000, RECLAIM_NEW);
	assert_int_equal(reclaim_excess(r, 40000), 0);
	assert_false(reclaim_should_age(r, 40000, 100 * SEC));
	reclaim_set_limit(r, 40000);
	assert_int_equal(stats().limit, 40000);
	assert_int_equal(reclaim_excess(r, 40000), 2 * (40000 / 64));
	assert_false(reclaim_should_age(r, 29999, 100 * SEC));
	assert_true(reclaim_should_age(r, 30000, 100 * SEC));
	reclaim_set_limit(r, RECLAIM_NO_LIMIT);
	assert_false(reclaim_should_age(r, 40000, 100 * SEC));
}

static void test_should_age_waits_for_min_age(void **state)
{
	make(1000);
	reclaim_set_limit(r, 500);
	assert_false(reclaim_should_age(r, 500, 0)); /* a clock that went back */
	assert_false(reclaim_should_age(r, 500, 3 * SEC - 1));
	assert_true(reclaim_should_age(r, 500, 3 * SEC));
	reclaim_age(r, 10 * SEC);
	assert_false(reclaim_should_age(r, 500, 12 * SEC - 1));
	assert_true(reclaim_should_age(r, 500, 12 * SEC));
}

static void test_should_age_when_old_pages_run_out(void **state)
{
	make(1000);
	reclaim_set_limit(r, 400); /* gap 100 */
	reclaim_note_resident(r, 0, 110, RECLAIM_NEW);
	age(2);
	assert_false(reclaim_should_age(r, 400, 100 * SEC));
	assert_pick(10, false, 0, 10);
	assert_false(reclaim_should_age(r, 400, 100 * SEC)); /* 100 are left */
	assert_pick(1, false, 10, 1);
	assert_true(reclaim_should_age(r, 400, 100 * SEC));
	reclaim_note_kept(r, 10, RECLAIM_KEPT_BUSY); /* is no help now */
	assert_true(reclaim_should_age(r, 400, 100 * SEC));
}

static void test_should_age_after_evictions(void **state)
{
	make(1000);
	reclaim_set_limit(r, 400);
	reclaim_note_resident(r, 0, 300, RECLAIM_NEW);
	age(2);
	assert_pick(1, false, 0, 1);
	assert_false(reclaim_should_age(r, 400, 100 * SEC));
	reclaim_note_evicted(r, 0);
	assert_true(reclaim_should_age(r, 400, 100 * SEC));
	age(1);
	assert_false(reclaim_should_age(r, 400, 100 * SEC));
	assert_int_equal(stats().agings, 3);
}

static void test_readahead_is_wired(void **state)
{
	make(1000);
	assert_int_equal(reclaim_readahead(r, 10), 0);
	assert_int_equal(reclaim_readahead(r, 11), 1);
	assert_int_equal(reclaim_readahead(r, 13), 3);
}

static void make_random(uint64_t seed)
{
	struct reclaim_conf conf = {
		.nr_pages = 1000,
		.order = RECLAIM_ORDER_RANDOM,
		.seed = seed,
		.readahead_max = 1,
	};

	make_with(&conf);
	reclaim_note_resident(r, 0, 1000, RECLAIM_NEW);
}

static void test_random_order_hits_everything(void **state)
{
	uint32_t total = 0, batches = 0, nr;
	bool seen[1000] = {false};

	make_random(1);
	while ((nr = pick(50, false))) {
		for (uint32_t i = 0; i < nr; i++) {
			assert_true(!i || runs[i].first > runs[i - 1].first + runs[i - 1].nr);
			for (uint32_t p = 0; p < runs[i].nr; p++) {
				assert_false(seen[runs[i].first + p]);
				seen[runs[i].first + p] = true;
				total++;
			}
		}
		assert_true(total <= ++batches * 50);
	}
	assert_int_equal(total, 1000);
	assert_int_equal(stats().picked, 1000);
	assert_true(batches >= 20);
}

static void test_random_order_follows_the_seed(void **state)
{
	struct page_run first[ROOM];
	uint32_t nr;

	make_random(7);
	nr = pick(100, false);
	memcpy(first, runs, sizeof(first));
	make_random(7);
	assert_int_equal(pick(100, false), nr);
	assert_memory_equal(first, runs, nr * sizeof(runs[0]));
	make_random(8);
	assert_true(pick(100, false) != nr || memcmp(first, runs, nr * sizeof(runs[0])));
	assert_true(nr > 1); /* scattered */
}

static void test_random_order_defers_nothing(void **state)
{
	make_random(3);
	reclaim_note_gone(r, 1, 999);
	assert_pick(10, false, 0, 1);
	reclaim_note_kept(r, 0, RECLAIM_KEPT_BUSY);
	assert_pick(10, false, 0, 1);
}

static void test_a_tebibyte(void **state)
{
	uint32_t nr_pages = (1u << 28) - 5;
	uint64_t young[2] = {1, 1ULL << 58};

	make(1);
	free(mem);
	mem = NULL;
	if (posix_memalign(&mem, 64, reclaim_size(nr_pages))) {
		print_message("no memory for the bitmaps of 1 TiB\n");
		skip();
	}
	memset(mem, 0, reclaim_size(nr_pages));
	r = reclaim_init(mem, reclaim_size(nr_pages),
			 &(struct reclaim_conf) {.nr_pages = nr_pages, .readahead_max = 16}, 0);
	assert_non_null(r);
	reclaim_note_resident(r, 0, nr_pages, RECLAIM_FOUND);
	reclaim_note_young(r, nr_pages - 123, young, 2);
	age(2);
	assert_int_equal(stats().gens[0].pages, nr_pages - 2);
	assert_int_equal(stats().gens[1].pages, 2);
	age(1); /* the window is full: the two become one */
	assert_int_equal(stats().gens[0].pages, nr_pages);
	reclaim_note_gone(r, 0, nr_pages - 123);
	assert_pick(1000, false, nr_pages - 123, 123);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init_refuses_nonsense),
		cmocka_unit_test(test_size_is_within_promise),
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_found_is_looked_at_before_it_goes),
		cmocka_unit_test(test_two_youngest_only_when_urgent),
		cmocka_unit_test(test_oldest_first),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_busy_pages_do_not_dam_the_next_generation),
		cmocka_unit_test(test_late_reports_change_nothing),
		cmocka_unit_test(test_isolated_pages_are_not_young),
		cmocka_unit_test(test_should_age_needs_a_limit_in_sight),
		cmocka_unit_test(test_should_age_waits_for_min_age),
		cmocka_unit_test(test_should_age_when_old_pages_run_out),
		cmocka_unit_test(test_should_age_after_evictions),
		cmocka_unit_test(test_readahead_is_wired),
		cmocka_unit_test(test_random_order_hits_everything),
		cmocka_unit_test(test_random_order_follows_the_seed),
		cmocka_unit_test(test_random_order_defers_nothing),
		cmocka_unit_test(test_a_tebibyte),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
