// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_goals.c - the policy on the whole suite, small: loose bounds, so that a change that ruins
 * it is noticed without the minutes the real suite takes.
 *
 * Same seed, same numbers: a failure is a change of the policy, never of the weather. EBB_SEED gives
 * others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <reclaim/sim/options.h>
#include <reclaim/sim/report.h>

static struct sim_options o;

static int run(void **state)
{
	static char line[] = "ebb-sim --suite --pages 4000 --quiet";
	const char *seed = getenv("EBB_SEED");
	char *argv[6], *save = NULL;
	struct ebb_err err;
	int argc = 0;

	for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
	if (options_parse(argc, argv, &o, &err))
		return -1;
	if (seed)
		o.grid.seed = strtoull(seed, NULL, 0);
	printf("EBB_SEED=%llu\n", (unsigned long long)o.grid.seed);
	grid_run(&o.grid);
	report_summary(&o.grid, stdout);
	return 0;
}

static int teardown(void **state)
{
	grid_free(&o.grid);
	return 0;
}

static struct report_ratio ratio(enum report_rows_of which, const char *policy, const char *base)
{
	struct report_ratio ret = report_ratio(&o.grid, which, grid_column(&o.grid, policy),
					       grid_column(&o.grid, base));

	assert_true(ret.rows > 0);
	return ret;
}

static const char *const own[] = {"ebb.25", "ebb1"};

static void assert_below(double value, double most, const char *what)
{
	if (value > most)
		fail_msg("%s: %.3f > %.3f", what, value, most);
}

static void test_mean(void **state)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++) {
		assert_below(ratio(REPORT_ALL, own[i], "lru").mean, .85, own[i]);
		assert_below(ratio(REPORT_ALL, own[i], "two-list").mean, .82, own[i]);
		assert_below(ratio(REPORT_ALL, own[i], "mglru1").mean, .9, own[i]);
	}
}

static void test_worst_row(void **state)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++)
		assert_below(ratio(REPORT_ALL, own[i], "lru").worst, 2, own[i]);
}

static void test_stationary(void **state)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++)
		assert_below(ratio(REPORT_STATIONARY, own[i], "lfu").worst, 1.25, own[i]);
}

static void test_scans(void **state)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++) {
		assert_below(ratio(REPORT_CYCLIC_90, own[i], "min").worst, 2, own[i]);
		assert_below(report_hot_share(&o.grid, grid_column(&o.grid, own[i])), .25, own[i]);
	}
}

/* The ruler itself: nobody beats MIN, A0 beats LFU where chances stand still, LRU loses to a loop. */
static void test_baselines(void **state)
{
	/* But A0 may: it begins with its pages in. */
	for (uint32_t c = 0; c < o.grid.nr_columns; c++)
		if (o.grid.columns[c].policy != &sim_a0)
			assert_true(ratio(REPORT_ALL, "min", o.grid.columns[c].name).worst <= 1);
	assert_true(ratio(REPORT_STATIONARY_NO13, "lfu", "a0").mean > 1);
	assert_true(ratio(REPORT_CYCLIC_90, "lru", "min").mean > 5);
	assert_true(report_hot_share(&o.grid, grid_column(&o.grid, "lru")) > .5);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	/* Minutes; and the threads are looked at by test_sim_cli already. */
	puts("arithmetic only: nothing in it for TSan");
	return 77;
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean),	   cmocka_unit_test(test_worst_row),
		cmocka_unit_test(test_stationary), cmocka_unit_test(test_scans),
		cmocka_unit_test(test_baselines),
	};

	return cmocka_run_group_tests(tests, run, teardown);
}
