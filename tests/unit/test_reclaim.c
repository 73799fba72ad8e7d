// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_reclaim.c - the door of the reclaim core: where facts lead, what is refused, what can be switched.
 *
 * That all marks and counts are right after any sequence of facts is the model test's matter; here, in
 * test_reclaim_pick.c and in test_reclaim_pass.c is what is decided on.
 */
#include "reclaim_fixture.h"

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

/* A guest of 8192 pages that may keep @limit, full of pages that @passes found untouched. */
static void make_full(enum reclaim_order order, uint32_t limit, uint32_t passes)
{
	make(8192, order, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, limit);
	reclaim_note_resident(r, 0, limit, RECLAIM_FOUND);
	while (passes--)
		pass(0, 0);
}

static void assert_page(uint32_t idx, bool probation, uint32_t youth, uint32_t frequency)
{
	struct reclaim_page p = page(idx);

	assert_true(p.resident && !p.isolated);
	assert_int_equal(p.probation, probation);
	assert_int_equal(p.seq, stats().max_seq - 3 + youth);
	assert_int_equal(p.frequency, frequency);
}

static void test_where_pages_enter(void **state)
{
	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	assert_page(5, false, 0, 0);
	reclaim_note_resident(r, 5000, 1, RECLAIM_NEW);
	assert_page(5000, true, 3, 1);
	reclaim_note_resident(r, 5001, 3, RECLAIM_PREFETCH);
	assert_page(5003, true, 2, 0);
	reclaim_note_resident(r, 5004, 1, RECLAIM_REFAULT); /* nobody knows when it went */
	assert_page(5004, true, 3, 1);
	reclaim_note_resident(r, 5005, 1, RECLAIM_FOUND);
	assert_page(5005, false, 0, 0);
	/* Those already known stay what they are. */
	reclaim_note_resident(r, 5000, 6, RECLAIM_NEW);
	assert_page(5003, true, 2, 0);
	assert_page(5005, false, 0, 0);
	assert_int_equal(stats().resident, 4006);
	reclaim_note_resident(r, 5000, 0, RECLAIM_NEW);
	assert_int_equal(stats().resident, 4006);
}

/* No need to be choosy while half of memory is free, and no use where age is all that counts. */
static void test_who_enters_main_at_once(void **state)
{
	make_full(RECLAIM_ORDER_GENERATIONS, 4000, 3);
	reclaim_note_resident(r, 5000, 1, RECLAIM_NEW);
	assert_page(5000, false, 3, 1);
	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	reclaim_note_gone(r, 1999, 2001);
	reclaim_note_resident(r, 5000, 2, RECLAIM_NEW);
	assert_page(5000, false, 3, 1);
	assert_page(5001, true, 3, 1); /* one more, and it is half */
}

/* Touched in one more round before it went: enough where pages never touched are evicted. */
static void test_frequency_is_proof(void **state)
{
	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	pass(0, 3000); /* a round */
	for (int i = 0; i < 3; i++)
		pass(0, 0);
	evict_all(4000, true, 0, 0);
	reclaim_note_resident(r, 5000, 2500, RECLAIM_FOUND);
	pass(0, 0);
	reclaim_note_resident(r, 7, 1, RECLAIM_REFAULT);
	assert_page(7, false, 3, 2);
	reclaim_note_resident(r, 3999, 1, RECLAIM_NEW);
	assert_page(3999, true, 3, 1);
	reclaim_note_hint(r, 7, 1, RECLAIM_HINT_FILE);
	reclaim_note_gone(r, 7, 1); /* discarded: as if never seen */
	assert_int_equal(page(7).tier + page(7).frequency, 0);
	reclaim_note_resident(r, 7, 1, RECLAIM_NEW);
	assert_page(7, true, 3, 1);
}

/* Out and back within one interval. */
static void test_repeat_is_proof(void **state)
{
	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	reclaim_note_resident(r, 5000, 1, RECLAIM_NEW);
	assert_page(5000, true, 3, 1);
	while (page(5000).resident)
		evict_all(100, true, 0, 0);
	reclaim_note_resident(r, 0, 4000, RECLAIM_FOUND);
	assert_true(page(5000).probation);
	reclaim_note_resident(r, 5000, 1, RECLAIM_REFAULT);
	assert_page(5000, false, 3, 1); /* the round is the same */
}

static uint32_t pick_one(bool urgent)
{
	assert_int_equal(reclaim_pick(r, runs, 1, 1, urgent), 1);
	assert_int_equal(runs[0].nr, 1);
	return runs[0].first;
}

static void test_kept_touched(void **state)
{
	uint32_t idx;

	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	idx = pick_one(false);
	assert_true(page(idx).isolated);
	reclaim_note_kept(r, idx, RECLAIM_KEPT_TOUCHED);
	assert_page(idx, false, 3, 1);
	/* On probation, a write is proof as well. */
	reclaim_note_resident(r, 5000, 200, RECLAIM_NEW);
	do {
		idx = pick_one(false);
	} while (idx < 5000);
	assert_true(page(idx).probation);
	reclaim_note_kept(r, idx, RECLAIM_KEPT_TOUCHED);
	assert_page(idx, false, 3, 1);
}

static void test_kept_busy_waits_for_the_next_pass(void **state)
{
	uint32_t idx;

	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	idx = pick_one(false);
	reclaim_note_kept(r, idx, RECLAIM_KEPT_BUSY);
	assert_page(idx, false, 0, 0);
	assert_int_equal(evict_all(5000, false, idx, 1), 0);
	assert_int_equal(stats().resident, 1);
	pass(0, 0);
	assert_int_equal(evict_all(1, false, idx, 1), 1);
}

/* If all are busy, a waiting fault may try them again. */
static void test_kept_busy_and_nothing_else(void **state)
{
	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	for (uint32_t i = 0; i < 4000; i++)
		reclaim_note_kept(r, pick_one(false), RECLAIM_KEPT_BUSY);
	assert_int_equal(reclaim_pick(r, runs, ROOM, 1, false), 0);
	assert_true(reclaim_pick(r, runs, 1, 1, true));
	reclaim_note_kept(r, runs[0].first, RECLAIM_KEPT_BUSY);
	assert_false(reclaim_wants_peek(r)); /* accessed bits do not tell them apart any more */
	pass(0, 0);
	assert_true(reclaim_wants_peek(r));
	for (uint32_t i = 0; i < 4000; i++)
		reclaim_note_kept(r, pick_one(false), RECLAIM_KEPT_BUSY);
	assert_int_equal(evict_all(5000, true, 0, 4000), 4000);
}

static void test_kept_error(void **state)
{
	uint32_t idx;

	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	idx = pick_one(false);
	reclaim_note_kept(r, idx, RECLAIM_KEPT_ERROR);
	assert_page(idx, false, 0, 0);
	assert_int_equal(evict_all(5000, false, idx, 1), 1); /* still in this pass */
	reclaim_note_kept(r, idx, RECLAIM_KEPT_ERROR); /* gone already */
	reclaim_note_evicted(r, idx);
	assert_int_equal(stats().resident, 0);
	assert_int_equal(stats().evicted, 4000);
}

/* What is handed out is not told young: the daemon is about to look itself. */
static void test_isolated_is_not_promoted(void **state)
{
	uint64_t all = ~0ULL;
	uint32_t idx;

	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	idx = pick_one(false);
	reclaim_note_young(r, idx / 64 * 64, &all, 1);
	assert_int_equal(stats().promoted, 63);
	assert_true(page(idx).isolated);
	reclaim_note_kept(r, idx, RECLAIM_KEPT_BUSY);
	assert_page(idx, false, 0, 0);
	assert_page(idx ^ 1, false, 3, 1);
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

/* Streams that are read without use get smaller windows, by the door alone. */
static void test_read_ahead_learns(void **state)
{
	uint32_t nr = 0, at = 0;

	make_full(RECLAIM_ORDER_FREQUENCY, 4000, 3);
	for (int i = 0; i < 8; i++, at += nr + 1)
		nr = reclaim_readahead(r, at);
	assert_int_equal(nr, 15);
	reclaim_note_resident(r, 5000, 64, RECLAIM_PREFETCH);
	while (stats().ahead_wasted < 64)
		evict_all(64, true, 0, 0);
	at = 1000;
	for (int i = 0; i < 8; i++, at += nr + 1)
		nr = reclaim_readahead(r, at);
	assert_int_equal(nr, 3);
	assert_int_equal(reclaim_readahead(r, 8191), 0); /* never past the end */
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

static void test_limits(void **state)
{
	make(8192, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	assert_int_equal(stats().limit, RECLAIM_NO_LIMIT);
	assert_int_equal(reclaim_excess(r, UINT32_MAX), 0);
	assert_int_equal(reclaim_high_watermark(r), UINT32_MAX);
	assert_false(reclaim_should_scan(r, 8192));
	reclaim_set_limit(r, 4096);
	assert_int_equal(stats().limit, 4096);
	assert_int_equal(reclaim_high_watermark(r), 4096 - 256);
	assert_int_equal(reclaim_excess(r, 4096 - 256), 0);
	assert_int_equal(reclaim_excess(r, 4096), 512);
	reclaim_set_limit(r, 0);
	assert_int_equal(reclaim_excess(r, 100), 100);
	assert_int_equal(stats().probation_target, 4);
	reclaim_set_limit(r, 1u << 31); /* more than there is */
	assert_int_equal(reclaim_excess(r, 8192), 0);
	reclaim_note_resident(r, 0, 8192, RECLAIM_NEW);
	pass(0, 8192);
	pass(0, 4096);
	assert_int_equal(stats().resident, 8192);
}

static void test_time_never_goes_back(void **state)
{
	make_full(RECLAIM_ORDER_AUTO, 4000, 3);
	reclaim_tick(r, 1);
	reclaim_age(r);
	assert_int_equal(stats().gens[stats().nr_gens - 1].birth_ns, now);
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

static bool is_same(struct reclaim_page a, struct reclaim_page b)
{
	return a.resident == b.resident && a.isolated == b.isolated && a.probation == b.probation &&
	       a.seq == b.seq && a.frequency == b.frequency && a.tier == b.tier;
}

/* Whatever is switched off meanwhile, facts are kept up to date and nothing else changes. */
static void test_state_survives_off_and_on(void **state)
{
	static struct reclaim_page before[4096];
	struct reclaim_policy p;

	make(4096, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 3900, RECLAIM_FOUND);
	reclaim_note_hint(r, 100, 1000, RECLAIM_HINT_FILE);
	for (uint32_t i = 0; i < 8; i++)
		pass(i * 100, 3000 - i * 100);
	for (uint32_t i = 0; i < 4096; i++)
		before[i] = page(i);
	p = conf.policy;
	p.features = 0;
	p.order = RECLAIM_ORDER_RANDOM;
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	reclaim_note_gone(r, 0, 10);
	reclaim_note_resident(r, 4000, 5, RECLAIM_FOUND);
	assert_int_equal(reclaim_pick(r, runs, ROOM, 64, true), 0);
	assert_int_equal(reclaim_excess(r, 5000), 0);
	assert_false(reclaim_should_scan(r, 4096));
	assert_int_equal(reclaim_readahead(r, 50) + reclaim_readahead(r, 51), 0);
	assert_int_equal(reclaim_set_policy(r, &conf.policy), 0);
	for (uint32_t i = 10; i < 4000; i++)
		assert_true(is_same(page(i), before[i]));
	assert_false(page(9).resident);
	assert_true(page(4004).resident);
	assert_int_equal(evict_all(500, false, 1000, 2000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_init_refuses, teardown),
		cmocka_unit_test_teardown(test_metadata_is_small, teardown),
		cmocka_unit_test_teardown(test_set_policy_is_checked, teardown),
		cmocka_unit_test_teardown(test_where_pages_enter, teardown),
		cmocka_unit_test_teardown(test_who_enters_main_at_once, teardown),
		cmocka_unit_test_teardown(test_frequency_is_proof, teardown),
		cmocka_unit_test_teardown(test_repeat_is_proof, teardown),
		cmocka_unit_test_teardown(test_kept_touched, teardown),
		cmocka_unit_test_teardown(test_kept_busy_waits_for_the_next_pass, teardown),
		cmocka_unit_test_teardown(test_kept_busy_and_nothing_else, teardown),
		cmocka_unit_test_teardown(test_kept_error, teardown),
		cmocka_unit_test_teardown(test_isolated_is_not_promoted, teardown),
		cmocka_unit_test_teardown(test_isolated_and_discarded, teardown),
		cmocka_unit_test_teardown(test_used_again_graduates, teardown),
		cmocka_unit_test_teardown(test_read_ahead_is_counted, teardown),
		cmocka_unit_test_teardown(test_read_ahead_learns, teardown),
		cmocka_unit_test_teardown(test_refault_distance, teardown),
		cmocka_unit_test_teardown(test_limits, teardown),
		cmocka_unit_test_teardown(test_time_never_goes_back, teardown),
		cmocka_unit_test_teardown(test_switches, teardown),
		cmocka_unit_test_teardown(test_state_survives_off_and_on, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
