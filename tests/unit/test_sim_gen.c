// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_gen.c - the simulator's workloads are what they say.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <reclaim/sim/gen.h>
#include <reclaim/sim/rng.h>

#define PAGES	 2000u
#define ACCESSES 400000u

static struct sim_workload w;
static uint32_t *count;

static void make(const char *name)
{
	const struct gen *gen = gen_find(name);

	assert_non_null(gen);
	sim_workload_free(&w);
	gen_make(gen, PAGES, ACCESSES, 1, &w);
	free(count);
	count = sim_alloc(PAGES, sizeof(*count));
	for (uint32_t at = 0; at < ACCESSES; at++) {
		assert_true(w.accesses[at] < PAGES);
		count[w.accesses[at]]++;
	}
}

static int teardown(void **state)
{
	sim_workload_free(&w);
	free(count);
	count = NULL;
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? 1 : *x > *y ? -1 : 0;
}

static void test_names(void **state)
{
	uint32_t suite = 0, held_out = 0;

	for (const struct gen *gen = gens; gen->name; gen++) {
		suite += !gen->held_out;
		held_out += gen->held_out;
		assert_ptr_equal(gen_find(gen->name), gen);
		for (const struct gen *other = gen + 1; other->name; other++)
			assert_int_not_equal(gen->id, other->id);
	}
	assert_int_equal(suite, 20);
	assert_int_equal(held_out, 14);
	assert_null(gen_find("zipf"));
	assert_null(gen_find(""));
}

static void test_every_generator(void **state)
{
	for (const struct gen *gen = gens; gen->name; gen++) {
		uint32_t touched = 0;

		make(gen->name);
		for (uint32_t page = 0; page < PAGES; page++)
			touched += !!count[page];
		assert_int_equal(w.footprint, touched);
		assert_true(touched > PAGES / 2);
		assert_int_equal(w.warm_up, ACCESSES / 3);
		assert_string_equal(w.name, gen->name);
	}
}

static void test_same_seed_same_accesses(void **state)
{
	struct sim_workload again;

	make("mixed");
	gen_make(gen_find("mixed"), PAGES, ACCESSES, 1, &again);
	assert_memory_equal(w.accesses, again.accesses, ACCESSES * sizeof(*w.accesses));
	sim_workload_free(&again);
	gen_make(gen_find("mixed"), PAGES, ACCESSES, 2, &again);
	assert_memory_not_equal(w.accesses, again.accesses, ACCESSES * sizeof(*w.accesses));
	sim_workload_free(&again);
}

/* The measured frequencies are the weights: chi-squared over all pages that can be expected to be seen. */
static void assert_frequencies(void)
{
	double sum = 0, chi = 0;
	uint32_t classes = 0;

	assert_non_null(w.weights);
	for (uint32_t page = 0; page < PAGES; page++)
		sum += w.weights[page];
	for (uint32_t page = 0; page < PAGES; page++) {
		double expected = w.weights[page] / sum * ACCESSES;
		double off = count[page] - expected;

		if (expected < 5)
			continue;
		chi += off * off / expected;
		classes++;
	}
	assert_true(classes > PAGES / 2);
	/* Mean: classes, deviation: sqrt(2 classes). */
	assert_true(fabs(chi - classes) < 5 * sqrt(2.0 * classes));
}

static void test_stationary_frequencies(void **state)
{
	for (const struct gen *gen = gens; gen->name; gen++) {
		if (!gen->stationary && strcmp(gen->name, "uniform") != 0)
			continue;
		make(gen->name);
		assert_frequencies();
	}
}

static void test_zipf_slope(void **state)
{
	make("zipf0.9");
	qsort(count, PAGES, sizeof(*count), by_size);
	/* rank 10 : rank 100 as 10^0.9 : 1 */
	assert_in_range(100 * count[9] / count[99], 680, 910);
}

/* The weights are those of the formulas: at the middle, one sigma and one mean away, and by rank. */
static void test_weights(void **state)
{
	make("gauss");
	assert_true(fabs(w.weights[PAGES / 2 + PAGES / 6] / w.weights[PAGES / 2] - exp(-.5)) < .01);
	assert_true(fabs(w.weights[PAGES / 2 - PAGES / 3] / w.weights[PAGES / 2] - exp(-2)) < .01);
	make("expo");
	assert_true(fabs(w.weights[PAGES / 6] / w.weights[0] - exp(-1)) < .01);
	make("zclus1.1");
	for (uint32_t page = 0; page < PAGES; page++) {
		double rank = pow(w.weights[page], -1 / 1.1);

		assert_true(fabs(rank - round(rank)) < 1e-6);
		assert_int_equal(lround(rank) % 64, (page + 1) % 64);
	}
}

/*
 * The numbers of the research the policy comes from: by an implementation that shares no code with this
 * one. Another libm may move an access or two.
 */
static void test_numbers_of_the_research(void **state)
{
	static const struct {
		const char *name;
		uint32_t limit;
		uint32_t refaults[9]; /* in the order of policies */
	} rows[] = {
		{"gauss", 22460, {81239, 75463, 91562, 80185, 66414, 54843, 62507, 45647, 25247}},
		{"expo", 22115, {30304, 28214, 32902, 28313, 25389, 22246, 24115, 19358, 8953}},
		{"cyclic",
		 22500,
		 {2000000, 2000000, 2000000, 2000000, 800344, 2000000, 517575, 502567, 502500}},
	};
	static const struct sim_policy *const policies[] = {&sim_lru,  &sim_clock,  &sim_two_list,
							    &sim_arc,  &sim_s3fifo, &sim_sieve,
							    &sim_lirs, &sim_lfu,    &sim_min};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim_setup setup = {.workload = &w, .limit = rows[i].limit};

		sim_workload_free(&w);
		gen_make(gen_find(rows[i].name), 30000, 3000000, 1, &w);
		for (uint32_t p = 0; p < ARRAY_SIZE(policies); p++) {
			struct sim_column column = {.policy = policies[p]};
			uint32_t expected = rows[i].refaults[p];
			struct sim_result result;

			sim_run(&column, &setup, &result);
			assert_in_range(result.refaults, expected - expected / 500,
					expected + expected / 500);
		}
	}
}

static void test_zclus_is_clustered(void **state)
{
	uint32_t alike = 0;

	make("zclus0.9");
	for (uint32_t page = 0; page + 1 < PAGES; page++)
		alike += w.weights[page + 1] < w.weights[page] &&
			 w.weights[page + 1] > w.weights[page] * .4;
	assert_true(alike > PAGES * 9 / 10);
}

static void test_cyclic(void **state)
{
	make("cyclic");
	for (uint32_t at = 0; at < ACCESSES; at++)
		assert_int_equal(w.accesses[at], at % PAGES);
	make("cycperm");
	for (uint32_t page = 0; page < PAGES; page++)
		assert_int_equal(count[page], ACCESSES / PAGES);
	for (uint32_t at = PAGES; at < ACCESSES; at++)
		assert_int_equal(w.accesses[at], w.accesses[at - PAGES]);
	assert_int_not_equal(w.accesses[1], w.accesses[0] + 1);
}

/* Of each phase, what the hottest 30 % get; and two phases have little in common. */
static void test_phases(void **state)
{
	uint32_t phase = ACCESSES / 7, in_first = 0, hot = 0;
	uint8_t *is_hot = sim_alloc(PAGES, 1);
	uint32_t *sorted = sim_alloc(PAGES, sizeof(*sorted));

	make("phases");
	memset(count, 0, PAGES * sizeof(*count));
	for (uint32_t at = 0; at < phase; at++)
		count[w.accesses[at]]++;
	memcpy(sorted, count, PAGES * sizeof(*sorted));
	qsort(sorted, PAGES, sizeof(*sorted), by_size);
	for (uint32_t i = 0; i < PAGES * 3 / 10; i++)
		hot += sorted[i];
	/* 95 %, and 30 % of the rest that goes anywhere */
	assert_in_range(1000 * (uint64_t)hot / phase, 955, 975);
	for (uint32_t page = 0; page < PAGES; page++)
		is_hot[page] = count[page] >= sorted[PAGES * 3 / 10];
	for (uint32_t at = phase; at < 2 * phase; at++)
		in_first += is_hot[w.accesses[at]];
	assert_in_range(1000 * (uint64_t)in_first / phase, 200, 400);
	free(is_hot);
	free(sorted);
}

static void test_oneshot_scans_everything(void **state)
{
	make("oneshot");
	assert_int_equal(w.nr_scans, 4);
	assert_int_equal(w.nr_hot, PAGES * 4 / 10);
	for (uint32_t k = 0; k < w.nr_scans; k++) {
		uint32_t next = 0;

		assert_in_range(w.scan_end[k] - w.scan_begin[k], 2 * PAGES - 2, 2 * PAGES);
		for (uint32_t at = w.scan_begin[k]; at <= w.scan_end[k]; at++)
			if (at % 2)
				assert_int_equal(w.accesses[at], next++);
		assert_int_equal(next, PAGES);
	}
	for (uint32_t at = 0; at < w.scan_begin[0]; at++)
		assert_true(w.is_hot[w.accesses[at]]);
}

static void test_mixed_scans_a_fifth(void **state)
{
	uint32_t next = 0, scanned = 0;

	make("mixed");
	for (uint32_t at = 0; at < ACCESSES; at++) {
		if (w.accesses[at] != next)
			continue;
		scanned++;
		next = (next + 1) % PAGES;
	}
	/* The zipf part meets the next page of the scan now and then too. */
	assert_in_range(1000 * (uint64_t)scanned / ACCESSES, 195, 205);
}

/* The middle of the spot, a quarter into a round, is a quarter into memory. */
static void test_drift_moves(void **state)
{
	static const char *const names[] = {"drift", "driftfast"};

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint32_t round = ACCESSES / (uint32_t)gen_find(names[i])->a, near = 0;

		make(names[i]);
		for (uint32_t at = round / 4 - 2000; at < round / 4 + 2000; at++)
			near += w.accesses[at] > PAGES / 4 - PAGES / 8 &&
				w.accesses[at] < PAGES / 4 + PAGES / 8;
		/* drift: 1.5 sigma, 86 % of 97 %; driftfast: all but the 3 % */
		assert_in_range(near, i ? 3800 : 3200, i ? 4000 : 3600);
	}
}

static void test_alias_of_odd_weights(void **state)
{
	static const double weights[] = {0, 1, 0, 3, 1e-12, 6};
	uint32_t seen[6] = {0};
	uint64_t rng = 7;
	struct alias alias;

	alias_init(&alias, weights, 6);
	for (uint32_t i = 0; i < 100000; i++)
		seen[alias_draw(&alias, &rng)]++;
	alias_free(&alias);
	assert_int_equal(seen[0] + seen[2] + seen[4], 0);
	assert_in_range(seen[1], 9600, 10400);
	assert_in_range(seen[3], 29400, 30600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_every_generator),
		cmocka_unit_test(test_same_seed_same_accesses),
		cmocka_unit_test(test_stationary_frequencies),
		cmocka_unit_test(test_zipf_slope),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_numbers_of_the_research),
		cmocka_unit_test(test_zclus_is_clustered),
		cmocka_unit_test(test_cyclic),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_oneshot_scans_everything),
		cmocka_unit_test(test_mixed_scans_a_fifth),
		cmocka_unit_test(test_drift_moves),
		cmocka_unit_test(test_alias_of_odd_weights),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
