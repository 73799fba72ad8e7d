// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_host.c - shares of one budget, and who is let in: the rules one by one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ebb/reclaim_host.h>

#define NONE RECLAIM_NO_LIMIT

static struct host_policy with_budget(uint64_t budget)
{
	struct host_policy policy = host_policy_default();

	policy.budget = budget;
	return policy;
}

static struct host_share guest(uint32_t resident)
{
	return (struct host_share) {
		.size = 1 << 20,
		.limit = NONE,
		.high = NONE,
		.weight = HOST_WEIGHT_DEFAULT,
		.resident = resident,
		.target = NONE,
	};
}

/* --- shares, by hand ------------------------------------------------------------------------ */

static void test_no_budget(void **state)
{
	struct host_share g[2] = {guest(1000), guest(500)};
	struct host_policy policy = host_policy_default();
	struct host_sums sums;

	g[1].limit = 400;
	host_set_targets(g, 2, &policy, &sums);
	assert_int_equal(g[0].target, NONE);
	assert_int_equal(g[0].cut, 0);
	assert_int_equal(g[1].target, 400);
	assert_int_equal(g[1].cut, 100);
	assert_int_equal(sums.cut, 100);
	assert_int_equal(sums.over, 0);
	host_set_targets(NULL, 0, &policy, NULL);
}

static void test_excess_by_weight(void **state)
{
	struct host_share g[2] = {guest(1000), guest(1000)};
	struct host_policy policy = with_budget(1700);
	struct host_sums sums;

	g[1].weight = 200;
	host_set_targets(g, 2, &policy, &sums);
	assert_int_equal(g[0].target, 800);
	assert_int_equal(g[1].target, 900);
	assert_int_equal(sums.over, 300);
	assert_int_equal(sums.cut, 300);
	assert_int_equal(sums.cut_rest, 300);
	assert_int_equal(sums.targets, 1700);
	assert_int_equal(sums.unused, 0);
	assert_int_equal(sums.changed, 2);
}

/* In proportion to what is over the protection, not to size. */
static void test_excess_over_protection(void **state)
{
	struct host_share g[3] = {guest(1000), guest(1000), guest(300)};
	struct host_policy policy = with_budget(2000);

	g[0].low = 800;
	g[2].low = 400; /* 100 of it unused, and held */
	host_set_targets(g, 3, &policy, NULL);
	/* Held are 2400: 400 to take from 200 + 1000. */
	assert_int_equal(g[0].target, 933);
	assert_int_equal(g[1].target, 667);
	assert_int_equal(g[2].target, 400);
	assert_int_equal(g[2].cut, 0);
}

static void test_order_of_stages(void **state)
{
	struct host_share g[3];
	struct host_sums sums;
	static const struct {
		uint32_t budget, target[3];
		uint32_t high, idle, rest, low;
	} rows[] = {
		{2900, {900, 1000, 1000}, 100, 0, 0, 0},
		{2800, {800, 1000, 1000}, 200, 0, 0, 0},
		{2700, {800, 900, 1000}, 200, 100, 0, 0}, /* only the second has idle pages */
		{2500, {800, 700, 1000}, 200, 300, 0, 0},
		{2400, {733, 667, 1000}, 200, 300, 100, 0}, /* 600 and 300 are left above */
		{1600, {200, 400, 1000}, 200, 300, 900, 0},
		{800, {100, 200, 500}, 200, 300, 900, 800},
		{0, {0, 0, 0}, 200, 300, 900, 1600},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct host_policy policy = with_budget(rows[i].budget);

		g[0] = g[1] = g[2] = guest(1000);
		g[0].high = 800;
		g[0].idle = 200; /* gone with what is above high */
		g[0].low = 200;
		g[1].idle = 300;
		g[1].low = 400;
		g[2].idle = 1000; /* all protected */
		g[2].low = 1000;
		host_set_targets(g, 3, &policy, &sums);
		for (uint32_t j = 0; j < 3; j++)
			assert_int_equal(g[j].target, rows[i].target[j]);
		assert_int_equal(sums.cut_high, rows[i].high);
		assert_int_equal(sums.cut_idle, rows[i].idle);
		assert_int_equal(sums.cut_rest, rows[i].rest);
		assert_int_equal(sums.cut_low, rows[i].low);
		assert_int_equal(sums.is_scaled, rows[i].low > 0);
		assert_int_equal(sums.missing, rows[i].low);
	}
}

static void test_limit_is_hard(void **state)
{
	struct host_share g[2] = {guest(1000), guest(1000)};
	struct host_policy policy = with_budget(5000);
	struct host_sums sums;

	g[0].limit = 600;
	g[0].low = 900; /* more than it may have */
	g[1].size = 1200;
	host_set_targets(g, 2, &policy, &sums);
	assert_int_equal(g[0].target, 600);
	assert_int_equal(g[0].cut, 400);
	assert_int_equal(g[1].target, 1200);
	assert_int_equal(sums.over, 0);
	assert_int_equal(sums.unused, 3200);
	assert_int_equal(sums.low, 600);
}

static void test_headroom(void **state)
{
	struct host_share g[3] = {guest(1000), guest(1000), guest(1000)};
	struct host_policy policy = with_budget(3600);

	g[0].wanted = 300;
	g[1].weight = 200;
	g[1].high = 1100;
	g[2].weight = 100;
	host_set_targets(g, 3, &policy, NULL);
	assert_int_equal(g[0].target, 1300);
	assert_int_equal(g[1].target, 1100);
	assert_int_equal(g[2].target, 1200);
	g[0].target = g[1].target = g[2].target = NONE;
	policy.budget = 3200; /* only who wants gets */
	host_set_targets(g, 3, &policy, NULL);
	assert_int_equal(g[0].target, 1200);
	assert_int_equal(g[1].target, 1000);
}

/* A guest that was cut while others were big gets it back when they are not. */
static void test_grows_back(void **state)
{
	struct host_share g[2] = {guest(100000), guest(100000)};
	struct host_policy policy = with_budget(120000);

	host_set_targets(g, 2, &policy, NULL);
	assert_int_equal(g[0].target, 60000);
	g[0].resident = 59500;
	g[1].resident = 5000;
	host_set_targets(g, 2, &policy, NULL);
	assert_true(g[0].target > 80000);
	assert_true(g[1].target >= 5000);
}

/* What a guest wants is more than it had: it counts from the last target, not from its size. */
static void test_wanted_counts_from_last_target(void **state)
{
	struct host_share g[2] = {guest(100000), guest(100000)};
	struct host_policy policy = with_budget(200000);

	host_set_targets(g, 2, &policy, NULL);
	g[0].resident = 99000; /* where the reclaimer keeps it */
	g[0].wanted = 5000;
	policy.budget = 210000;
	host_set_targets(g, 2, &policy, NULL);
	assert_int_equal(g[0].target, 105000);
	assert_int_equal(g[1].target, 105000);
}

/* Both fill what they have; one holds idle pages, the other wants more: they go over bit by bit. */
static void test_idle_goes_to_who_wants(void **state)
{
	struct host_share g[2] = {guest(100000), guest(100000)};
	struct host_policy policy = with_budget(200000);
	uint32_t idle = 30000;

	host_set_targets(g, 2, &policy, NULL);
	for (uint32_t round = 0; round < 100; round++) {
		uint32_t before = g[0].target;

		for (uint32_t i = 0; i < 2; i++)
			g[i].resident = g[i].target - 1000;
		g[0].idle = idle;
		g[1].wanted = 5000;
		host_set_targets(g, 2, &policy, NULL);
		assert_true(g[0].target <= before && before - g[0].target <= 2000);
		assert_int_equal(g[0].target + g[1].target, 200000);
		assert_int_equal(g[0].cut, 0);
		idle -= MIN(idle, before - g[0].target);
	}
	/* Then both are equals again, and nothing moves. */
	assert_in_range(g[0].target, 69000, 71500);
}

static void test_lending(void **state)
{
	struct host_share g[2] = {guest(1000), guest(9000)};
	struct host_policy policy = with_budget(10000);
	struct host_sums sums;

	g[0].low = 5000;
	host_set_targets(g, 2, &policy, &sums);
	assert_int_equal(g[0].target, 5000);
	assert_int_equal(g[1].target, 5000);
	assert_int_equal(sums.low, 5000);
	policy.lend_beyond = 500;
	g[0].target = g[1].target = NONE;
	host_set_targets(g, 2, &policy, &sums);
	assert_int_equal(g[0].target, 1500);
	assert_int_equal(g[1].target, 8500);
	assert_int_equal(sums.low, 1500);
	g[0].resident = 1500; /* it grows: the next 500 are there */
	g[1].resident = 8400;
	host_set_targets(g, 2, &policy, NULL);
	assert_int_equal(g[0].target, 2000);
	assert_int_equal(g[1].target, 8000);
}

static void test_remainders(void **state)
{
	struct host_share g[4] = {guest(1), guest(10), guest(10), guest(10)};
	struct host_policy policy = with_budget(27);

	/* 4 of 31: 0.13, and 1.29 each; one page is left, for the first of those with more claim. */
	host_set_targets(g, 4, &policy, NULL);
	assert_int_equal(g[0].cut, 0);
	assert_int_equal(g[1].cut, 2);
	assert_int_equal(g[2].cut, 1);
	assert_int_equal(g[3].cut, 1);
}

/* A small rise is undone, but not if the guest is there already, or was promised it. */
static void test_small_rises_that_count(void **state)
{
	struct host_share g[2] = {guest(100000), guest(100000)};
	struct host_policy policy = with_budget(250000);

	g[0].high = g[1].high = 125000;
	host_set_targets(g, 2, &policy, NULL);
	assert_int_equal(g[0].target, 125000);
	policy.budget += 2000;
	host_set_targets(g, 2, &policy, NULL);
	assert_int_equal(g[0].target, 125000);
	g[0].resident = 125800;
	g[1].low = 125900;
	host_set_targets(g, 2, &policy, NULL);
	assert_int_equal(g[0].cut, 0);
	assert_true(g[1].target >= 125900);
}

static void test_check_share(void **state)
{
	struct host_share g = guest(1);

	assert_int_equal(host_check_share(&g), 0);
	g.weight = 0;
	assert_int_equal(host_check_share(&g), -EINVAL);
	g.weight = HOST_WEIGHT_MAX + 1;
	assert_int_equal(host_check_share(&g), -EINVAL);
	g.weight = HOST_WEIGHT_MAX;
	g.size = HOST_PAGES_MAX + 1;
	assert_int_equal(host_check_share(&g), -ERANGE);
	g.size = HOST_PAGES_MAX;
	assert_int_equal(host_check_share(&g), 0);
}

/* --- admission ------------------------------------------------------------------------------ */

static void test_admission(void **state)
{
	struct host_share g[2] = {guest(1000), guest(500)}, new = guest(400);
	struct host_policy policy = with_budget(2000);
	struct host_admission a;

	g[0].low = 800;
	g[0].idle = 1000; /* of these, 200 are above the promise */
	g[1].low = 700;
	g[1].limit = 600; /* so it was promised 600 */
	new.low = 600;
	assert_int_equal(host_admit(g, 2, &policy, &new, &a), 0);
	assert_int_equal(a.verdict, HOST_FITS);
	assert_int_equal(a.protected, 1400);
	assert_int_equal(a.available, 600);
	assert_int_equal(a.missing, 0);
	assert_int_equal(a.over, 0);

	new.low = 601;
	new.resident = 900;
	assert_int_equal(host_admit(g, 2, &policy, &new, &a), -ENOSPC);
	assert_int_equal(a.verdict, HOST_LOW_UNAVAILABLE);
	assert_int_equal(a.low, 601);
	assert_int_equal(a.missing, 1);
	assert_int_equal(a.over, 400);
	assert_int_equal(a.over_idle, 200);
	new.low = 2001;
	assert_int_equal(host_admit(g, 2, &policy, &new, &a), -ENOSPC);
	assert_int_equal(a.verdict, HOST_LOW_ABOVE_BUDGET);
	assert_int_equal(a.missing, 1401);
	policy.budget = 1000; /* less than was promised already */
	new.low = 1;
	assert_int_equal(host_admit(g, 2, &policy, &new, &a), -ENOSPC);
	assert_int_equal(a.available, 0);
	assert_int_equal(a.missing, 1);
	new.low = 0;
	assert_int_equal(host_admit(g, 2, &policy, &new, NULL), 0);
}

static void test_admission_of_nonsense(void **state)
{
	struct host_policy policy = host_policy_default();
	struct host_share new = guest(400);
	struct host_admission a;

	new.low = 1 << 19;
	assert_int_equal(host_admit(NULL, 0, &policy, &new, &a), 0);
	assert_true(a.available == HOST_NO_BUDGET);
	new.limit = 1000;
	assert_int_equal(host_admit(NULL, 0, &policy, &new, &a), -EINVAL);
	assert_int_equal(a.verdict, HOST_LOW_ABOVE_LIMIT);
	assert_int_equal(a.ceiling, 1000);
	assert_int_equal(a.missing, (1 << 19) - 1000);
	new.size = 0;
	assert_int_equal(host_admit(NULL, 0, &policy, &new, &a), -EINVAL);
	assert_int_equal(a.verdict, HOST_BAD_SIZE);
	new.weight = 0;
	assert_int_equal(host_admit(NULL, 0, &policy, &new, &a), -EINVAL);
	assert_int_equal(a.verdict, HOST_BAD_WEIGHT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_budget),
		cmocka_unit_test(test_excess_by_weight),
		cmocka_unit_test(test_excess_over_protection),
		cmocka_unit_test(test_order_of_stages),
		cmocka_unit_test(test_limit_is_hard),
		cmocka_unit_test(test_headroom),
		cmocka_unit_test(test_grows_back),
		cmocka_unit_test(test_wanted_counts_from_last_target),
		cmocka_unit_test(test_idle_goes_to_who_wants),
		cmocka_unit_test(test_lending),
		cmocka_unit_test(test_remainders),
		cmocka_unit_test(test_small_rises_that_count),
		cmocka_unit_test(test_check_share),
		cmocka_unit_test(test_admission),
		cmocka_unit_test(test_admission_of_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
