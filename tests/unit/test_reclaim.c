// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_reclaim.c - the door of the reclaim core: where facts lead, what is picked, where and when to look.
 *
 * That all marks and counts are right after any sequence of facts is the model test's matter; here is what is
 * decided on.
 */
#include <errno.h>
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
static struct reclaim_conf conf;
static uint64_t now;

static void make(uint32_t nr_pages, enum reclaim_order order, enum reclaim_scan_cost cost)
{
	size_t size = (reclaim_size(nr_pages) + 63) / 64 * 64;

	free(mem);
	mem = aligned_alloc(64, size);
	assert_non_null(mem);
	memset(mem, 0, size);
	conf = (struct reclaim_conf) {
		.nr_pages = nr_pages,
		.seed = 1,
		.scan_cost = cost,
		.policy = reclaim_policy_default(),
	};
	conf.policy.order = order;
	conf.policy.scan_permille = 0;
	now = SEC;
	r = reclaim_init(mem, size, &conf, now);
	assert_non_null(r);
}

static int teardown(void **state)
{
	free(mem);
	mem = NULL;
	return 0;
}

static void after(uint64_t ns)
{
	now += ns;
	reclaim_tick(r, now);
}

static struct reclaim_stats stats(void)
{
	struct reclaim_stats s;

	assert_true(reclaim_verify(r));
	reclaim_get_stats(r, &s);
	return s;
}

static struct reclaim_page page(uint32_t idx)
{
	struct reclaim_page p;

	reclaim_get_page(r, idx, &p);
	return p;
}

/* A full pass a period later that finds pages @first..@first + @nr - 1 young. */
static void pass(uint32_t first, uint32_t nr)
{
	uint64_t word;

	after(conf.policy.period_ns);
	reclaim_begin_pass(r, true);
	for (uint32_t w = 0; w < (conf.nr_pages + 63) / 64; w++) {
		word = 0;
		for (uint32_t b = 0; b < 64; b++)
			if (w * 64 + b >= first && w * 64 + b < first + nr)
				word |= 1ull << b;
		reclaim_note_young(r, w * 64, &word, 1);
	}
	reclaim_end_pass(r, 0);
}

static void evict_run(uint32_t first, uint32_t nr)
{
	for (uint32_t p = first; p < first + nr; p++)
		reclaim_note_evicted(r, p);
}

/* Pick and evict until nothing is left that may go; returns how many pages of @first.. went. */
static uint32_t evict_all(uint32_t max, bool urgent, uint32_t first, uint32_t nr)
{
	uint32_t found = 0, n;

	while (max && (n = reclaim_pick(r, runs, ROOM, max, urgent)))
		for (uint32_t i = 0; i < n; i++) {
			for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++)
				found += p >= first && p < first + nr;
			evict_run(runs[i].first, runs[i].nr);
			max -= runs[i].nr;
		}
	return found;
}

static void test_init_refuses(void **state)
{
	_Alignas(64) static uint8_t room[1 << 16];
	size_t size = reclaim_size(64);

	make(64, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	assert_true(size <= sizeof(room));
	assert_null(reclaim_init(NULL, size, &conf, 0));
	assert_null(reclaim_init(room, size - 1, &conf, 0));
	assert_null(reclaim_init(room + 8, size, &conf, 0));
	conf.nr_pages = 0;
	assert_null(reclaim_init(room, size, &conf, 0));
	conf.nr_pages = 64;
	conf.policy.ahead_max = 65;
	assert_null(reclaim_init(room, size, &conf, 0));
	conf.policy.ahead_max = 0;
	assert_null(reclaim_init(room, size, &conf, 0));
}

static void test_metadata_is_small(void **state)
{
	/* At most 5 bytes a page, in all. */
	assert_true(reclaim_size(1u << 28) <= 5ull << 28);
	assert_true(reclaim_size(1) < 1 << 16);
}

static void test_set_policy_is_checked(void **state)
{
	struct reclaim_policy p;

	make(64, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		p = conf.policy;                                                                   \
		change;                                                                            \
		assert_int_equal(reclaim_set_policy(r, &p), -EINVAL);                              \
	} while (0)
	REFUSED(p.order = RECLAIM_NR_ORDERS);
	REFUSED(p.features = RECLAIM_ALL_FEATURES + 1);
	REFUSED(p.period_ns = 0);
	REFUSED(p.min_period_ns = p.period_ns + 1);
	REFUSED(p.scan_permille = 1001);
	REFUSED(p.ahead_max = 0);
	p = conf.policy;
	p.min_ttl_ns = SEC;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
}

static void test_found_is_looked_at_first(void **state)
{
	make(4096, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 2048);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	/* Even when it is urgent, for a moment; the first passes are wanted at once. */
	assert_int_equal(reclaim_pick(r, runs, ROOM, 64, true), 0);
	after(conf.policy.min_period_ns);
	assert_true(reclaim_should_scan(r, 4096));
	/* If nobody looks, the limit is not kept waiting. */
	after(3 * conf.policy.min_period_ns);
	assert_true(reclaim_pick(r, runs, ROOM, 64, true) > 0);
}

static void test_what_is_young_stays(void **state)
{
	for (uint32_t order = RECLAIM_ORDER_AUTO; order <= RECLAIM_ORDER_FREQUENCY; order++) {
		make(8192, (enum reclaim_order)order, RECLAIM_SCAN_PER_PAGE);
		reclaim_set_limit(r, 8192);
		reclaim_note_resident(r, 0, 8192, RECLAIM_FOUND);
		for (int i = 0; i < 4; i++)
			pass(1000, 2000);
		assert_int_equal(evict_all(6192, false, 1000, 2000), 0);
		assert_int_equal(stats().resident, 2000);
	}
}

static void test_two_youngest_only_when_urgent(void **state)
{
	make(1024, RECLAIM_ORDER_GENERATIONS, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 1024);
	reclaim_note_resident(r, 0, 1024, RECLAIM_FOUND);
	pass(0, 1024);
	pass(0, 1024);
	assert_int_equal(reclaim_pick(r, runs, ROOM, 64, false), 0);
	assert_true(reclaim_pick(r, runs, ROOM, 64, true) > 0);
}

static void test_scan_goes_through_probation(void **state)
{
	const uint32_t hot = 1000, limit = 2000;

	make(20000, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, limit);
	reclaim_note_resident(r, 0, limit, RECLAIM_FOUND);
	for (int i = 0; i < 6; i++)
		pass(0, hot);
	/* One page after the other comes, for each one has to go. */
	for (uint32_t p = limit; p < 20000; p++) {
		assert_int_equal(evict_all(1, true, 0, hot), 0);
		reclaim_note_resident(r, p, 1, RECLAIM_NEW);
		after(1000);
	}
	assert_int_equal(stats().resident, limit);
	assert_true(stats().probation <= limit * 4 / 100 + 4);
}

static void test_used_again_graduates(void **state)
{
	make(8192, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4000, RECLAIM_FOUND);
	for (int i = 0; i < 3; i++)
		pass(0, 4000);
	reclaim_note_resident(r, 5000, 2, RECLAIM_NEW);
	assert_true(page(5000).probation && page(5001).probation);
	pass(5000, 1); /* the accessed bit its own fault set */
	assert_true(page(5000).probation);
	pass(5000, 1);
	assert_false(page(5000).probation);
	assert_true(page(5001).probation);
	assert_int_equal(stats().graduated, 1);
}

static void test_read_ahead_is_counted(void **state)
{
	make(8192, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 8192);
	reclaim_note_resident(r, 100, 10, RECLAIM_PREFETCH);
	pass(100, 4);
	assert_int_equal(stats().ahead_used, 4);
	pass(0, 0);
	assert_int_equal(evict_all(10, true, 104, 6), 6);
	assert_int_equal(stats().ahead_wasted, 6);
}

static void test_refault_distance(void **state)
{
	make(8192, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	for (int i = 0; i < 6; i++)
		pass(0, 200);
	evict_all(1, false, 0, 0);
	reclaim_note_resident(r, runs[0].first, 1, RECLAIM_REFAULT);
	assert_int_equal(stats().refaults, 1);
	assert_int_equal(stats().refaults_near, 1); /* at once: LRU would have it still */
	evict_all(3800, false, 0, 0);
	for (uint32_t i = 0; i < 3800; i++)
		reclaim_note_resident(r, 4200 + i, 1, RECLAIM_NEW);
	evict_all(3800, true, 0, 0);
	for (uint32_t i = 4000; i < 4096; i++)
		reclaim_note_resident(r, i, 1, RECLAIM_REFAULT);
	assert_true(stats().refaults > 1);
	assert_int_equal(stats().refaults_near, 1); /* after all of memory was replaced */
}

static void test_isolated_and_discarded(void **state)
{
	make(1024, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_note_resident(r, 0, 64, RECLAIM_FOUND);
	after(10 * SEC);
	assert_int_equal(reclaim_pick(r, runs, ROOM, 64, true), 1);
	reclaim_note_gone(r, 0, 8);
	reclaim_note_resident(r, 0, 4, RECLAIM_NEW); /* somebody else */
	evict_run(0, 64);
	assert_true(page(0).resident);
	assert_false(page(5).resident);
	assert_int_equal(stats().resident, 4);
	reclaim_note_kept(r, 1, RECLAIM_KEPT_TOUCHED); /* was never handed out */
	assert_int_equal(stats().resident, 4);
}

static void test_spare_young(void **state)
{
	make(4096, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	pass(0, 0);
	pass(0, 0);
	assert_false(reclaim_spare_young(r, 7)); /* is not handed out */
	assert_int_equal(reclaim_pick(r, runs, 1, 1, false), 1);
	assert_true(reclaim_wants_peek(r));
	assert_true(reclaim_spare_young(r, runs[0].first));
	assert_int_equal(stats().young_skipped, 1);
	assert_int_equal(stats().isolated, 0);
	assert_int_equal(evict_all(5000, false, runs[0].first, 1), 0); /* not again in this pass */
	assert_int_equal(stats().resident, 1);
}

static void test_switches(void **state)
{
	struct reclaim_policy p;

	make(4096, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 2048);
	reclaim_note_resident(r, 0, 3000, RECLAIM_FOUND);
	for (int i = 0; i < 3; i++)
		pass(0, 100);
	p = conf.policy;
	p.features &= ~(uint32_t)RECLAIM_EVICTION;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	assert_int_equal(reclaim_excess(r, 3000), 0);
	assert_int_equal(reclaim_pick(r, runs, ROOM, 64, true), 0);
	after(20 * conf.policy.period_ns);
	assert_true(reclaim_should_scan(r, 3000));
	p.features = RECLAIM_ALL_FEATURES & ~RECLAIM_AGING & ~RECLAIM_AHEAD;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	assert_false(reclaim_should_scan(r, 3000));
	assert_int_equal(reclaim_readahead(r, 10) + reclaim_readahead(r, 11), 0);
	assert_true(reclaim_excess(r, 3000) > 0);
	/* What was known is still known. */
	assert_int_equal(reclaim_set_policy(r, &conf.policy), 0);
	assert_int_equal(evict_all(2900, false, 0, 100), 0);
	assert_int_equal(page(50).frequency, 1); /* too few are touched for a round to end */
	assert_int_equal(page(200).frequency, 0);
}

static void test_min_ttl_and_thrashing(void **state)
{
	struct reclaim_policy p;

	make(4096, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	p = conf.policy;
	p.min_ttl_ns = 60 * SEC;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	pass(0, 4096);
	pass(0, 4096);
	assert_int_equal(reclaim_pick(r, runs, ROOM, 8, false), 0);
	assert_false(reclaim_is_thrashing(r));
	assert_true(reclaim_pick(r, runs, ROOM, 8, true) > 0);
	pass(0, 4096);
	assert_true(reclaim_is_thrashing(r));
	pass(0, 4096);
	assert_false(reclaim_is_thrashing(r));
	after(61 * SEC);
	assert_true(reclaim_pick(r, runs, ROOM, 8, false) > 0);
}

/* A hint alone protects nothing; a class whose pages come back more than others' does. */
static void test_tiers(void **state)
{
	make(40960, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 40960);
	reclaim_note_resident(r, 0, 40960, RECLAIM_FOUND);
	reclaim_note_hint(r, 0, 2048, RECLAIM_HINT_ANON);
	for (int i = 0; i < 6; i++)
		pass(0, 0);
	assert_int_equal(evict_all(40960, false, 0, 2048), 2048);
	for (uint32_t p = 0; p < 2048; p++)
		reclaim_note_resident(r, p, 1, RECLAIM_REFAULT);
	reclaim_note_resident(r, 2048, 38000, RECLAIM_FOUND);
	pass(0, 0);
	assert_true(stats().refaults_near >= 64);
	/* All of them have refaulted near by now: that is the tier that is protected. */
	assert_true(stats().tiers[page(0).tier].is_protected || stats().tiers[RECLAIM_HINT_ANON].is_protected);
	assert_false(stats().tiers[0].is_protected);
}

static uint32_t scanned(bool full, uint32_t *ret_stretches)
{
	struct page_run run;
	uint32_t pages = 0;

	*ret_stretches = 0;
	reclaim_begin_pass(r, full);
	while (reclaim_next_scan(r, 2048, &run)) {
		pages += run.nr;
		*ret_stretches += (run.nr + RECLAIM_STRETCH - 1) / RECLAIM_STRETCH;
		for (uint32_t at = run.first; at < run.first + run.nr; at += RECLAIM_STRETCH) {
			uint64_t young[8] = {0};

			if (at == 0)
				memset(young, 0xff, sizeof(young));
			reclaim_note_young(r, at, young, 8);
		}
	}
	return pages;
}

static void test_passes_skip_what_is_dear(void **state)
{
	uint32_t stretches, sum = 0, hot = 0;

	for (int cost = 0; cost < 2; cost++) {
		make(64 * RECLAIM_STRETCH, RECLAIM_ORDER_AUTO, (enum reclaim_scan_cost)cost);
		reclaim_note_resident(r, 0, 1, RECLAIM_NEW);
		reclaim_note_resident(r, 0, 33 * RECLAIM_STRETCH, RECLAIM_FOUND);
		assert_int_equal(scanned(false, &stretches), 33 * RECLAIM_STRETCH); /* the empty ones: never */
		sum = hot = 0;
		for (int i = 0; i < 16; i++) {
			uint64_t before = stats().stretches_skipped;

			scanned(false, &stretches);
			sum += stretches;
			hot += (uint32_t)(stats().stretches_skipped - before);
			after(SEC);
			reclaim_end_pass(r, 0);
		}
		assert_int_equal(sum + hot, 16 * 33);
		if (cost == RECLAIM_SCAN_PER_PAGE)
			assert_in_range(sum, 16 + 16 * 32 / 4, 16 + 16 * 32 / 2); /* the cold 32 */
		else
			assert_in_range(sum, 16 * 32 + 4, 16 * 32 + 8); /* the hot one */
		assert_int_equal(scanned(true, &stretches), 33 * RECLAIM_STRETCH);
		/* A page taken for young is young. */
		assert_int_equal(page(1).seq, stats().max_seq);
	}
}

static void test_passes_follow_period_budget_and_idleness(void **state)
{
	struct reclaim_policy p;

	make(4096, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	for (int i = 0; i < 2; i++)
		pass(0, 0);
	assert_false(reclaim_should_scan(r, 4096));
	after(conf.policy.period_ns);
	assert_false(reclaim_should_scan(r, 4096)); /* nothing happens: it waits longer */
	after(16 * conf.policy.period_ns);
	assert_true(reclaim_should_scan(r, 4096));
	assert_false(reclaim_should_scan(r, 2000)); /* far from the limit */
	reclaim_end_pass(r, 100000000);
	evict_all(3000, true, 0, 0);
	for (uint32_t i = 0; i < 4096; i++)
		reclaim_note_resident(r, i, 1, RECLAIM_REFAULT);
	after(conf.policy.period_ns);
	assert_true(reclaim_should_scan(r, 4096)); /* faults: back to the period */
	p = conf.policy;
	p.scan_permille = 1; /* but passes of some ms at a thousandth of a CPU */
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	assert_false(reclaim_should_scan(r, 4096));
	after(200 * SEC);
	assert_true(reclaim_should_scan(r, 4096));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_init_refuses, teardown),
		cmocka_unit_test_teardown(test_metadata_is_small, teardown),
		cmocka_unit_test_teardown(test_set_policy_is_checked, teardown),
		cmocka_unit_test_teardown(test_found_is_looked_at_first, teardown),
		cmocka_unit_test_teardown(test_what_is_young_stays, teardown),
		cmocka_unit_test_teardown(test_two_youngest_only_when_urgent, teardown),
		cmocka_unit_test_teardown(test_scan_goes_through_probation, teardown),
		cmocka_unit_test_teardown(test_used_again_graduates, teardown),
		cmocka_unit_test_teardown(test_read_ahead_is_counted, teardown),
		cmocka_unit_test_teardown(test_refault_distance, teardown),
		cmocka_unit_test_teardown(test_isolated_and_discarded, teardown),
		cmocka_unit_test_teardown(test_spare_young, teardown),
		cmocka_unit_test_teardown(test_switches, teardown),
		cmocka_unit_test_teardown(test_min_ttl_and_thrashing, teardown),
		cmocka_unit_test_teardown(test_tiers, teardown),
		cmocka_unit_test_teardown(test_passes_skip_what_is_dear, teardown),
		cmocka_unit_test_teardown(test_passes_follow_period_budget_and_idleness, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
