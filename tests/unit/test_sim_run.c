// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_run.c - what the simulator's runner counts, and what holds of every policy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim_fixture.h"

/* What was just touched is there; what was given up is not; with room for all, nothing comes back. */
static void test_every_policy_keeps_what_fits(void **state)
{
	for (uint32_t i = 0; sim_policies[i]; i++) {
		const struct sim_policy *policy = sim_policies[i];
		struct sim_column column = {.policy = policy, .period = .5};
		struct sim_result result;
		struct sim_workload w;
		struct sim_setup setup;

		make_workload(&w, PAGES, LENGTH);
		setup = make_setup(&w, PAGES);
		sim_run(&column, &setup, &result);
		assert_int_equal(result.refaults, 0);
		assert_int_equal(result.counted, LENGTH - LENGTH / 3);
		sim_workload_free(&w);
	}
}

static void test_every_policy_forgets(void **state)
{
	for (uint32_t i = 0; sim_policies[i]; i++) {
		const struct sim_policy *policy = sim_policies[i];
		struct sim_workload w;
		struct sim_setup setup;
		void *s;

		make_workload(&w, PAGES, LENGTH);
		setup = make_setup(&w, 15);
		s = policy->create(&setup);
		for (uint32_t at = 0; at < w.nr_accesses; at++) {
			uint32_t page = w.accesses[at];

			policy->access(s, at, page);
			if (policy != &sim_min) /* it knows that this is not what comes next */
				assert_true(policy->access(s, at, page));
			if (!policy->forget || below(3))
				continue;
			policy->forget(s, page);
			policy->forget(s, below(PAGES));
			assert_false(policy->access(s, at, page));
		}
		policy->destroy(s);
		sim_workload_free(&w);
	}
}

/* The runner: what counts as a refault, and that a page given up is new when it comes back. */
static void test_what_is_counted(void **state)
{
	/* warm-up: the first 3 of 9; room for 1 */
	uint32_t accesses[] = {0, 1, 0, 1, 1, 2, 0, 1, 0};
	struct sim_forget forgets[] = {{.at = 7, .run = {.first = 1, .nr = 2}}};
	struct sim_workload w = {
		.nr_pages = 3, .nr_accesses = 9, .warm_up = 3, .accesses = accesses};
	struct sim_column column = {.policy = &sim_lru};
	struct sim_setup setup = make_setup(&w, 1);
	struct sim_result result;

	sim_run(&column, &setup, &result);
	assert_int_equal(result.refaults,
			 4); /* 1, 0, 1, 0: not the hit, nor the first touch of 2 */
	assert_int_equal(result.counted, 6);
	w.forgets = forgets;
	w.nr_forgets = 1;
	sim_run(&column, &setup, &result);
	/* Page 1 is new at 7, and page 0 not forgotten. */
	assert_int_equal(result.refaults, 3);
}

static void test_hot_share(void **state)
{
	/* Pages 0 and 1 are hot; a scan of 2..5 pushes them out: both come back, 0 twice. */
	uint32_t accesses[] = {0, 1, 0, 2, 3, 4, 5, 0, 5, 0, 1, 1};
	uint8_t is_hot[] = {1, 1, 0, 0, 0, 0};
	struct sim_workload w = {.nr_pages = 6,
				 .nr_accesses = 12,
				 .warm_up = 2,
				 .accesses = accesses,
				 .is_hot = is_hot,
				 .nr_hot = 2,
				 .nr_scans = 1,
				 .scan_begin = {3},
				 .scan_end = {6}};
	struct sim_column column = {.policy = &sim_lru};
	struct sim_setup setup = make_setup(&w, 1);
	struct sim_result result;

	sim_run(&column, &setup, &result);
	assert_true(result.hot_share == 1.0);
	setup.limit = 6;
	sim_run(&column, &setup, &result);
	assert_true(result.hot_share == 0.0);
	setup.limit = 1;
	w.nr_accesses = 10; /* page 1 was not missed yet */
	sim_run(&column, &setup, &result);
	assert_true(result.hot_share == 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_policy_keeps_what_fits),
		cmocka_unit_test(test_every_policy_forgets),
		cmocka_unit_test(test_what_is_counted),
		cmocka_unit_test(test_hot_share),
	};

	seed_fixture();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
