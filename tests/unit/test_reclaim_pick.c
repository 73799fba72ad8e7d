// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_reclaim_pick.c - the door of the reclaim core: what is picked, in which order, and what is spared.
 */
#include "reclaim_fixture.h"

/* Runs ascend, do not touch and hold no more than asked for, all of it handed out; returns the pages. */
static uint32_t check_runs(uint32_t nr_runs, uint32_t max)
{
	uint32_t sum = 0;

	assert_true(nr_runs <= ROOM);
	for (uint32_t i = 0; i < nr_runs; i++) {
		assert_true(runs[i].nr);
		assert_true(!i || runs[i].first > runs[i - 1].first + runs[i - 1].nr);
		for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++)
			assert_true(page(p).isolated);
		sum += runs[i].nr;
	}
	assert_true(sum <= MIN(max, RECLAIM_PICK_MAX));
	return sum;
}

static void test_picks_are_runs(void **state)
{
	uint32_t sum, nr;

	for (uint32_t order = 0; order < RECLAIM_NR_ORDERS; order++) {
		make(20000, (enum reclaim_order)order, RECLAIM_SCAN_PER_PAGE);
		reclaim_set_limit(r, 20000);
		for (uint32_t i = 0; i < 19980; i += 1 + i % 37)
			reclaim_note_resident(r, i, i % 5 ? 1 : 20, RECLAIM_FOUND);
		pass(0, 0);
		pass(0, 0);
		assert_int_equal(reclaim_pick(r, runs, 0, 64, true), 0);
		assert_int_equal(reclaim_pick(r, runs, ROOM, 0, true), 0);
		sum = 0;
		for (uint32_t max = 1; (nr = reclaim_pick(r, runs, 1 + max % ROOM, max, true));
		     max = max % 900 + 7)
			sum += check_runs(nr, max);
		assert_int_equal(sum, stats().resident); /* each page once */
		assert_int_equal(stats().isolated, sum);
		assert_int_equal(stats().picked, sum);
	}
}

/* Pages 0..699 were touched often and are old; 800..1023 were touched once, just now. */
static void make_old_and_new(enum reclaim_order order)
{
	make(1024, order, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 1024);
	reclaim_note_resident(r, 0, 1024, RECLAIM_FOUND);
	for (int i = 0; i < 7; i++)
		pass(0, 700);
	for (int i = 0; i < 3; i++)
		reclaim_age(r);
	pass(800, 224);
	assert_true(page(0).frequency > page(800).frequency && page(0).seq < page(800).seq);
}

static void test_orders_differ(void **state)
{
	make_old_and_new(RECLAIM_ORDER_GENERATIONS);
	assert_int_equal(stats().order, RECLAIM_ORDER_GENERATIONS);
	assert_int_equal(evict_all(100, false, 700, 100), 100); /* neither of them */
	assert_int_equal(evict_all(1024, false, 0, 700), 700);
	assert_int_equal(stats().resident, 224);
	make_old_and_new(RECLAIM_ORDER_FREQUENCY);
	assert_int_equal(stats().order, RECLAIM_ORDER_FREQUENCY);
	assert_int_equal(evict_all(100, false, 700, 100), 100);
	assert_int_equal(evict_all(224, false, 800, 224), 224);
	assert_int_equal(evict_all(1024, false, 0, 700), 700);
}

/* The order may change between two picks, in the middle of everything; a pass puts it to use. */
static void test_order_at_run_time(void **state)
{
	struct reclaim_policy p;

	make_old_and_new(RECLAIM_ORDER_GENERATIONS);
	evict_all(100, false, 0, 0);
	p = conf.policy;
	p.order = RECLAIM_ORDER_FREQUENCY;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	pass(0, 0);
	assert_int_equal(stats().order, RECLAIM_ORDER_FREQUENCY);
	assert_int_equal(evict_all(224, false, 800, 224), 224);
	p.order = RECLAIM_ORDER_RANDOM;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	assert_int_equal(stats().order, RECLAIM_ORDER_RANDOM);
	assert_int_equal(evict_all(700, false, 0, 700), 700);
	assert_int_equal(stats().resident, 0);
}

/* At random also what is hot goes, at once, and again however often it comes back. */
static void test_random_picks_anything(void **state)
{
	uint32_t hot = 0;

	make(8192, RECLAIM_ORDER_RANDOM, RECLAIM_SCAN_PER_PAGE);
	reclaim_note_resident(r, 0, 8192, RECLAIM_FOUND);
	assert_false(reclaim_should_scan(r, 8192));
	assert_false(reclaim_wants_peek(r));
	for (int i = 0; i < 4; i++)
		pass(0, 4096);
	for (int i = 0; i < 100; i++) {
		uint32_t nr = reclaim_pick(r, runs, ROOM, 20, false);

		assert_int_equal(check_runs(nr, 20), 20);
		for (uint32_t k = 0; k < nr; k++)
			for (uint32_t n = 0; n < runs[k].nr; n++) {
				hot += runs[k].first + n < 4096;
				reclaim_note_kept(r, runs[k].first + n, RECLAIM_KEPT_BUSY);
			}
	}
	assert_in_range(hot, 700, 1300); /* of 2000, in runs */
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

/* More than their share are on probation: those longest there have stayed without anybody's asking. */
static void test_surplus_graduates(void **state)
{
	make(8192, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 3000, RECLAIM_FOUND);
	for (int i = 0; i < 3; i++)
		pass(0, 0);
	for (uint32_t i = 0; i < 300; i++)
		reclaim_note_resident(r, 5000 + 7 * i % 300, 1, RECLAIM_NEW);
	assert_int_equal(stats().probation, 300); /* fewer than the ring holds */
	assert_int_equal(stats().probation_target, 128);
	pass(0, 0);
	assert_int_equal(stats().probation, 128);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(page(5000 + 7 * i % 300).probation, i >= 300 - 128);
}

/* While there are more than fit, the one longest there goes first, and main memory is left alone. */
static void test_probation_is_first_in_first_out(void **state)
{
	make(8192, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 3900, RECLAIM_FOUND);
	for (int i = 0; i < 3; i++)
		pass(0, 3900);
	for (uint32_t i = 0; i < 200; i++)
		reclaim_note_resident(r, 5000 + 7 * i % 200, 1, RECLAIM_NEW);
	for (uint32_t i = 0; i < 200 - 128 + 1; i++) {
		assert_int_equal(reclaim_pick(r, runs, 1, 1, false), 1);
		assert_int_equal(runs[0].first, 5000 + 7 * i % 200);
		reclaim_note_evicted(r, runs[0].first);
	}
	assert_int_equal(reclaim_pick(r, runs, 1, 1, false), 1);
	assert_true(runs[0].first < 3900);
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

/* Nobody is called young who cannot be: on probation, or here since the pass began. */
static void test_spare_only_who_may_be(void **state)
{
	uint32_t idx;

	make(8192, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4000);
	reclaim_note_resident(r, 0, 4000, RECLAIM_FOUND);
	for (int i = 0; i < 3; i++)
		pass(0, 0);
	reclaim_note_resident(r, 5000, 200, RECLAIM_NEW);
	do {
		assert_int_equal(reclaim_pick(r, runs, 1, 1, false), 1);
		idx = runs[0].first;
	} while (idx < 5000);
	assert_false(reclaim_spare_young(r, idx));
	assert_true(page(idx).isolated); /* it goes nonetheless */
	assert_int_equal(stats().young_skipped, 0);
	/* Too many are young to choose: a tenth is put off, and then no more. */
	for (uint32_t i = 0, spared = 0; i < 4000; i++) {
		if (!reclaim_pick(r, runs, 1, 1, false))
			break;
		spared += reclaim_spare_young(r, runs[0].first);
		assert_true(spared <= 4200 / 10 + 1);
		assert_int_equal(stats().young_skipped, spared);
	}
	assert_true(stats().young_skipped > 300);
	assert_false(reclaim_wants_peek(r));
	pass(0, 0);
	assert_true(reclaim_wants_peek(r));
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

/* What is touched in every pass is younger than min_ttl, however old its generation; what is not goes. */
static void test_min_ttl_is_of_the_last_touch(void **state)
{
	static const enum reclaim_order orders[] = {RECLAIM_ORDER_FREQUENCY, RECLAIM_ORDER_GENERATIONS};

	for (uint32_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct reclaim_policy p;

		make(4096, orders[i], RECLAIM_SCAN_PER_PAGE);
		p = conf.policy;
		p.min_ttl_ns = 20 * SEC;
		assert_int_equal(reclaim_set_policy(r, &p), 0);
		reclaim_set_limit(r, 4096);
		reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
		for (int n = 0; n < 30; n++)
			pass(0, 2000);
		assert_int_equal(evict_all(4096, false, 0, 2000), 0);
		assert_int_equal(stats().resident, 2000);
		for (int n = 0; n < 20; n++) /* 2 s each: twice the 20 s */
			pass(0, 0);
		assert_true(evict_all(4096, false, 0, 2000) > 0);
	}
}

/* An order acts at once, passes or none. */
static void test_order_set_at_run_time(void **state)
{
	struct reclaim_policy p;

	make(4096, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	p = conf.policy;
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	for (int n = 0; n < 4; n++)
		pass(0, 100);
	reclaim_age(r);
	reclaim_age(r);
	pass(200, 100);
	p.order = RECLAIM_ORDER_GENERATIONS;
	p.features &= ~(uint32_t)RECLAIM_AGING;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	assert_int_equal(stats().order, RECLAIM_ORDER_GENERATIONS);
	assert_int_equal(evict_all(4096, false, 200, 100), 0); /* of low frequency, but young */
	assert_int_equal(stats().resident, 100);
}

/* 16 GiB: a search that finds nothing comes in pieces, and is not made again. */
static void test_long_searches_come_in_pieces(void **state)
{
	const uint32_t nr = 1u << 22;
	uint32_t pieces = 0;

	make(nr, RECLAIM_ORDER_GENERATIONS, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, nr);
	reclaim_note_resident(r, 0, nr, RECLAIM_FOUND);
	for (int n = 0; n < 3; n++)
		pass(0, nr);
	do
		assert_int_equal(reclaim_pick(r, runs, ROOM, 8, false), 0);
	while (reclaim_is_searching(r) && ++pieces < 100);
	assert_in_range(pieces, 15, 17); /* 65536 words, 4096 in each */
	assert_int_equal(reclaim_pick(r, runs, ROOM, 8, false), 0);
	assert_false(reclaim_is_searching(r));
	/* A page that turns cold behind the hand is found by the next search, if not by this one. */
	reclaim_age(r);
	reclaim_age(r);
	reclaim_note_young(r, 64, (const uint64_t[]) {~0ull}, 1);
	do
		pieces = reclaim_pick(r, runs, ROOM, 8, false);
	while (!pieces && reclaim_is_searching(r));
	assert_true(pieces);
}

/* 4096 pages of a class of which the first half came back near; nothing else did. */
static void make_tiers(void)
{
	make(40960, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 40960);
	reclaim_note_resident(r, 0, 40960, RECLAIM_FOUND);
	reclaim_note_hint(r, 0, 4096, RECLAIM_HINT_ANON);
	for (int i = 0; i < 6; i++)
		pass(0, 0);
	assert_int_equal(evict_all(40960, false, 0, 4096), 4096);
	for (uint32_t p = 0; p < 2048; p++)
		reclaim_note_resident(r, p, 1, RECLAIM_REFAULT);
	reclaim_note_resident(r, 2048, 38000, RECLAIM_FOUND);
	pass(0, 0);
	assert_true(stats().refaults_near >= 64);
}

static void test_tiers_protect_a_class(void **state)
{
	struct reclaim_policy p;

	make_tiers();
	assert_true(stats().tiers[RECLAIM_HINT_ANON].is_protected);
	assert_false(stats().tiers[0].is_protected);
	assert_int_equal(page(3000).tier, RECLAIM_HINT_ANON);
	assert_int_equal(evict_all(35000, false, 2048, 2048), 0);
	assert_true(stats().tier_protected >= 2048);
	/* They are passed over once, not for ever, and a waiting fault gets them in the end. */
	evict_all(40960, true, 0, 0);
	assert_int_equal(stats().resident, 0);
	make_tiers();
	p = conf.policy;
	p.features &= ~(uint32_t)RECLAIM_TIERS;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	assert_true(evict_all(35000, false, 2048, 2048) > 1000);
	assert_int_equal(stats().tier_protected, 0);
}

/* Two guests alike, but that one says of each page that it is precious: the same is picked, always. */
static void test_hints_alone_change_nothing(void **state)
{
	static struct page_run picked[200];
	uint32_t nr;

	for (int hinted = 0; hinted < 2; hinted++) {
		make(8192, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
		reclaim_set_limit(r, 6000);
		if (hinted)
			reclaim_note_hint(r, 0, 3000, RECLAIM_HINT_KERNEL);
		reclaim_note_resident(r, 0, 6000, RECLAIM_FOUND);
		for (uint32_t i = 0; i < 6; i++)
			pass(i * 500, 1000);
		for (uint32_t i = 0; i < 200; i++) {
			nr = reclaim_pick(r, runs, 1, 8, false);
			assert_int_equal(nr, 1);
			evict_run(runs[0].first, runs[0].nr);
			reclaim_note_resident(r, 6000 + i, 1, RECLAIM_NEW);
			if (hinted)
				assert_memory_equal(&picked[i], &runs[0], sizeof(runs[0]));
			picked[i] = runs[0];
		}
		assert_int_equal(page(2999).tier, hinted ? RECLAIM_HINT_KERNEL : 0);
	}
}

/* A guest that calls all its memory precious keeps none of it when faults wait. */
static void test_all_precious_is_still_evicted(void **state)
{
	make(8192, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 6000);
	reclaim_note_hint(r, 0, 8192, RECLAIM_HINT_KERNEL);
	reclaim_note_resident(r, 0, 6000, RECLAIM_FOUND);
	for (uint32_t i = 0; i < 8; i++) {
		pass(0, 0);
		evict_all(500, true, 0, 0);
		for (uint32_t p = 0; p < 6000; p++)
			reclaim_note_resident(r, p, 1, RECLAIM_REFAULT);
	}
	pass(0, 0);
	evict_all(6000, true, 0, 0);
	assert_int_equal(stats().resident, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_picks_are_runs, teardown),
		cmocka_unit_test_teardown(test_orders_differ, teardown),
		cmocka_unit_test_teardown(test_order_at_run_time, teardown),
		cmocka_unit_test_teardown(test_random_picks_anything, teardown),
		cmocka_unit_test_teardown(test_found_is_looked_at_first, teardown),
		cmocka_unit_test_teardown(test_what_is_young_stays, teardown),
		cmocka_unit_test_teardown(test_two_youngest_only_when_urgent, teardown),
		cmocka_unit_test_teardown(test_scan_goes_through_probation, teardown),
		cmocka_unit_test_teardown(test_surplus_graduates, teardown),
		cmocka_unit_test_teardown(test_probation_is_first_in_first_out, teardown),
		cmocka_unit_test_teardown(test_spare_young, teardown),
		cmocka_unit_test_teardown(test_spare_only_who_may_be, teardown),
		cmocka_unit_test_teardown(test_min_ttl_and_thrashing, teardown),
		cmocka_unit_test_teardown(test_min_ttl_is_of_the_last_touch, teardown),
		cmocka_unit_test_teardown(test_order_set_at_run_time, teardown),
		cmocka_unit_test_teardown(test_long_searches_come_in_pieces, teardown),
		cmocka_unit_test_teardown(test_tiers_protect_a_class, teardown),
		cmocka_unit_test_teardown(test_hints_alone_change_nothing, teardown),
		cmocka_unit_test_teardown(test_all_precious_is_still_evicted, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
