// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_slotmap.c - the extent allocator: nothing given twice, nothing lost, extents where they are to be had.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "slotmap.h"

static void test_extent_of_64(void **state)
{
	struct slotmap *m = slotmap_new(100000);
	uint32_t len, slot = slotmap_alloc(m, 64, &len);

	(void)state;
	assert_int_equal(slot, 0);
	assert_int_equal(len, 64);
	slot = slotmap_alloc(m, 5, &len);
	assert_int_equal(slot, 64); /* a log: right behind */
	assert_int_equal(len, 5);
	assert_int_equal(slotmap_nr_used(m), 69);
	slotmap_free(m);
}

static void test_full_and_last_partial_word(void **state)
{
	struct slotmap *m = slotmap_new(70);
	uint32_t len, total = 0;

	(void)state;
	while (total < 70) {
		uint32_t slot = slotmap_alloc(m, 64, &len);

		assert_true(slot < 70 && len >= 1 && slot + len <= 70);
		total += len;
	}
	assert_int_equal(total, 70);
	assert_int_equal(slotmap_alloc(m, 1, &len), UINT32_MAX);
	slotmap_release(m, 69);
	assert_int_equal(slotmap_alloc(m, 9, &len), 69);
	assert_int_equal(len, 1);
	slotmap_free(m);
}

static void test_take(void **state)
{
	struct slotmap *m = slotmap_new(10);

	(void)state;
	assert_true(slotmap_take(m, 3));
	assert_false(slotmap_take(m, 3));
	assert_false(slotmap_take(m, 10));
	assert_int_equal(slotmap_nr_used(m), 1);
	slotmap_free(m);
}

/* A store mostly unused must not be written all over: each slot ever used costs memory. */
static void test_horizon(void **state)
{
	struct slotmap *m = slotmap_new(4u << 20);
	uint32_t held[1000], len[1000], max = 0;

	(void)state;
	memset(len, 0, sizeof(len));
	for (unsigned int i = 0; i < 100000; i++) {
		unsigned int k = i % 1000;

		for (uint32_t j = 0; j < len[k]; j++)
			slotmap_release(m, held[k] + j);
		held[k] = slotmap_alloc(m, 16, &len[k]);
		max = held[k] + len[k] > max ? held[k] + len[k] : max;
	}
	assert_true(max < 40000); /* 16000 in use: 5/4 of it, and the slack of 16384 */
	slotmap_free(m);
}

static void test_random_against_array(void **state)
{
	const char *env = getenv("EBB_SEED");
	unsigned int seed = env ? (unsigned int)strtoul(env, NULL, 0) : 12345;
	enum { NR = 3000 };
	struct slotmap *m = slotmap_new(NR);
	uint8_t used[NR] = {0};
	uint32_t nr_used = 0;

	(void)state;
	print_message("seed %u\n", seed);
	for (unsigned int step = 0; step < 200000; step++) {
		if (rand_r(&seed) % 100 < 40) {
			uint32_t want = 1 + (uint32_t)rand_r(&seed) % 80, len = 0;
			uint32_t slot = slotmap_alloc(m, want, &len);

			if (slot == UINT32_MAX) {
				assert_int_equal(nr_used, NR);
				continue;
			}
			assert_true(len >= 1 && len <= want && slot + len <= NR);
			for (uint32_t i = 0; i < len; i++) {
				assert_int_equal(used[slot + i], 0);
				used[slot + i] = 1;
			}
			nr_used += len;
		} else {
			for (unsigned int i = 0; i < 20; i++) {
				uint32_t slot = (uint32_t)rand_r(&seed) % NR;

				if (!used[slot])
					continue;
				used[slot] = 0;
				nr_used--;
				slotmap_release(m, slot);
			}
		}
		assert_int_equal(slotmap_nr_used(m), nr_used);
	}
	slotmap_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_extent_of_64),
		cmocka_unit_test(test_full_and_last_partial_word),
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_horizon),
		cmocka_unit_test(test_random_against_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
