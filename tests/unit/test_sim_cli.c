// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_cli.c - ebb-sim's command line: what it takes, and what it refuses with which words.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <reclaim/sim/columns.h>
#include <reclaim/sim/options.h>

#define ARGS_MAX 12

static struct sim_options o;
static struct ebb_err err;

/* Words separated by blanks. */
static int parse(const char *line)
{
	static char copy[512];
	static char program[] = "ebb-sim";
	char *argv[ARGS_MAX + 2] = {program}, *save = NULL;
	int argc = 1;

	grid_free(&o.grid);
	memset(&err, 0, sizeof(err));
	assert_true(strlen(line) < sizeof(copy));
	strcpy(copy, line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		assert_true(argc <= ARGS_MAX);
		argv[argc++] = word;
	}
	return options_parse(argc, argv, &o, &err);
}

static int teardown(void **state)
{
	grid_free(&o.grid);
	return 0;
}

static void assert_column(uint32_t i, const char *name, double period)
{
	assert_string_equal(o.grid.columns[i].name, name);
	assert_true(o.grid.columns[i].period == period);
}

static void test_suite(void **state)
{
	assert_int_equal(parse("--suite"), 0);
	assert_int_equal(o.mode, SIM_SUITE);
	assert_int_equal(o.grid.nr_sources, 20);
	assert_int_equal(o.grid.nr_limits, 3);
	assert_int_equal(o.grid.nr_columns, 14);
	assert_int_equal(o.grid.nr_pages, 30000);
	assert_int_equal(o.grid.nr_accesses, 3000000);
	assert_true(o.grid.jobs >= 1);
	assert_int_equal(parse("--held-out"), 0);
	assert_int_equal(o.grid.nr_sources, 14);
	for (uint32_t s = 0; s < o.grid.nr_sources; s++)
		assert_true(o.grid.sources[s].gen->held_out);
}

static void test_policies(void **state)
{
	assert_int_equal(parse("--suite --policy ebb,lru,mglru4 --period 0.25,2"), 0);
	assert_int_equal(o.grid.nr_columns, 4);
	assert_column(0, "ebb.25", .25);
	assert_column(1, "ebb2", 2);
	assert_column(2, "lru", 1);
	assert_column(3, "mglru4", 4);
	assert_int_equal(parse("--suite --period 3 --policy ebb"), 0);
	assert_column(0, "ebb3", 3);
	assert_int_equal(parse("--suite --policy ebb0.5"), 0);
	assert_column(0, "ebb.5", .5);
}

static void test_limits(void **state)
{
	assert_int_equal(parse("--generator drift,mixed --limit 12.5,80%,9000p"), 0);
	assert_int_equal(o.mode, SIM_GRID);
	assert_int_equal(o.grid.nr_sources, 2);
	assert_int_equal(o.grid.nr_limits, 3);
	assert_string_equal(o.grid.limits[0].name, "12.5");
	assert_string_equal(o.grid.limits[1].name, "80");
	assert_string_equal(o.grid.limits[2].name, "9000p");
	assert_int_equal(sim_limit_pages(&o.grid.limits[0], 1000), 125);
	assert_int_equal(sim_limit_pages(&o.grid.limits[1], 10), 8);
	assert_int_equal(sim_limit_pages(&o.grid.limits[2], 10), 9000);
	assert_int_equal(sim_limit_pages(&o.grid.limits[0], 1), 1);
	/* No rounding error takes a page away. */
	for (uint32_t pages = 1000; pages <= 100000; pages += 1000) {
		struct sim_limit limit = {.value = 33.3};

		assert_int_equal(sim_limit_pages(&limit, pages), pages / 1000 * 333);
	}
}

static void test_knobs(void **state)
{
	assert_int_equal(parse("--suite --set order=frequency --set features=aging,eviction "
			       "--set min-period=.5"),
			 0);
	assert_int_equal(o.grid.knobs.order, RECLAIM_ORDER_FREQUENCY);
	assert_int_equal(o.grid.knobs.features, RECLAIM_AGING | RECLAIM_EVICTION);
	assert_true(o.grid.knobs.min_period == .5);
	assert_int_equal(parse("--suite"), 0);
	assert_int_equal(o.grid.knobs.order, sim_knobs_default().order);
}

static void test_other_modes(void **state)
{
	assert_int_equal(parse(""), 0);
	assert_int_equal(o.mode, SIM_NOTHING);
	assert_int_equal(parse("--list"), 0);
	assert_int_equal(o.mode, SIM_LIST);
	assert_int_equal(parse("--dump f"), 0);
	assert_int_equal(o.mode, SIM_DUMP);
	assert_string_equal(o.trace, "f");
	assert_int_equal(parse("--generator drift --write-trace f --period .1"), 0);
	assert_int_equal(o.mode, SIM_WRITE);
	assert_true(o.period == .1);
	assert_int_equal(parse("--trace f --seed 7 --jobs 3 --csv -"), 0);
	assert_int_equal(o.grid.nr_sources, 1);
	assert_null(o.grid.sources[0].gen);
	assert_int_equal(o.grid.seed, 7);
	assert_int_equal(o.grid.jobs, 3);
	assert_int_equal(parse("--generator drift --plot a.svg"), 0);
	assert_int_equal(o.grid.nr_limits, 18);
	assert_int_equal(parse("--generator drift --plot a.svg --limit 5"), 0);
	assert_int_equal(o.grid.nr_limits, 1);
}

static void test_refused(void **state)
{
	static const struct {
		const char *line;
		const char *word; /* in the message */
	} rows[] = {
		{"--suite extra", "extra"},
		{"--frobnicate", "--frobnicate"},
		{"--generator", "--generator needs a value"},
		{"--generator nosuch", "nosuch"},
		{"--generator drift,,mixed", "list"},
		{"--generator drift,", "list"},
		{"--suite --trace f", "one of them"},
		{"--suite --held-out", "one of them"},
		{"--policy lru", "nothing to run"},
		{"--csv f", "nothing to run"},
		{"--suite --policy nosuch", "nosuch"},
		{"--suite --policy lru4", "lru4"},
		{"--suite --policy lru,lru", "twice"},
		{"--suite --policy ebb0", "period"},
		{"--suite --policy ebb1e9", "period"},
		{"--suite --policy ebb1x", "period"},
		{"--suite --period 0", "period"},
		{"--suite --period -1", "period"},
		{"--suite --period nan", "period"},
		{"--suite --period 1,,2", "list"},
		{"--suite --limit 0", "--limit"},
		{"--suite --limit 101", "--limit"},
		{"--suite --limit 0p", "--limit"},
		{"--suite --limit x", "--limit"},
		{"--suite --limit p", "--limit"},
		{"--suite --limit %", "--limit"},
		{"--suite --limit 50,", "list"},
		{"--suite --limit 12345678901234567", "too long"},
		{"--suite --pages 10", "--pages"},
		{"--suite --pages 1e12", "--pages"},
		{"--suite --pages 1000.5", "--pages"},
		{"--suite --accesses 0", "--accesses"},
		{"--suite --accesses 12z", "--accesses"},
		{"--suite --seed -1", "--seed"},
		{"--suite --jobs 0", "--jobs"},
		{"--suite --plot a.png", "one workload"},
		{"--generator drift --plot a.jpg", ".png"},
		{"--generator drift --plot a", ".png"},
		{"--suite --set order", "order="},
		{"--suite --set order=best", "best"},
		{"--suite --set features=aging", "eviction"},
		{"--suite --set features=all,x", "\"x\""},
		{"--suite --set min-period=2", "min-period"},
		{"--suite --set speed=2", "speed=2"},
		{"--suite --write-trace f", "--generator"},
		{"--trace g --write-trace f", "--generator"},
		{"--generator drift --write-trace f --period 1,2", "one number"},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int rc = parse(rows[i].line);

		if (rc != -EINVAL || !strstr(err.msg, rows[i].word))
			fail_msg("%s: %d, \"%s\"", rows[i].line, rc, err.msg);
	}
}

/* The same numbers for any number of threads, and the very same twice. */
static void test_jobs_do_not_matter(void **state)
{
	struct sim_result *first;
	uint32_t nr;

	assert_int_equal(parse("--generator mixed,oneshot --pages 1000 --accesses 30000 --quiet "
			       "--jobs 1"),
			 0);
	grid_run(&o.grid);
	nr = o.grid.nr_sources * o.grid.nr_limits * o.grid.nr_columns;
	assert_int_equal(nr, 2 * 3 * 14);
	first = o.grid.results;
	o.grid.results = NULL;
	o.grid.jobs = 5;
	grid_run(&o.grid);
	assert_memory_equal(first, o.grid.results, nr * sizeof(*first));
	assert_true(grid_result(&o.grid, 1, 0, 0)->refaults > 0);
	free(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suite),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_knobs),
		cmocka_unit_test(test_other_modes),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_jobs_do_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
