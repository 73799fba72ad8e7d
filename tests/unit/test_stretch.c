// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_stretch.c - which stretches a pass leaves out: those that were dear and gave the answer expected.
 */
#include "lru_fixture.h"
#include <reclaim/stretch.h>

#define NR 64u

static struct stretches st;
static uint8_t streaks[NR];

static void make(enum reclaim_scan_cost cost)
{
	memset(streaks, 0, sizeof(streaks));
	assert_int_equal(stretches_size(NR * RECLAIM_STRETCH), NR);
	assert_int_equal(stretches_size(NR * RECLAIM_STRETCH - 511), NR);
	assert_int_equal(stretches_size(1), 1);
	stretches_init(&st, streaks, NR * RECLAIM_STRETCH, cost);
}

/* A pass that finds @young of @resident pages young wherever it looks; how many looks? */
static uint32_t pass(uint32_t resident, uint32_t young)
{
	uint32_t looks = 0;

	stretches_begin_pass(&st, false);
	for (uint32_t s = 0; s < NR; s++)
		if (stretches_is_due(&st, s)) {
			stretches_note_look(&st, s, resident, young);
			looks++;
		}
	return looks;
}

static void test_backs_off_by_powers(void **state)
{
	make(RECLAIM_SCAN_PER_PAGE);
	assert_int_equal(pass(512, 0), NR);
	assert_int_equal(pass(512, 0), NR);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(pass(512, 0), NR / 2); /* evenly spread */
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(pass(512, 0), NR / 4); /* and no further */
}

static void test_nobody_waits_longer_than_three_passes(void **state)
{
	uint32_t last[NR] = {0};

	make(RECLAIM_SCAN_PER_PAGE);
	for (uint32_t i = 1; i <= 200; i++) {
		stretches_begin_pass(&st, false);
		for (uint32_t s = 0; s < NR; s++) {
			if (!stretches_is_due(&st, s))
				continue;
			assert_true(i - last[s] <= 4);
			last[s] = i;
			stretches_note_look(&st, s, 512, 0);
		}
	}
	for (uint32_t s = 0; s < NR; s++)
		assert_true(last[s] > 196);
}

static void test_another_answer_ends_it(void **state)
{
	make(RECLAIM_SCAN_PER_PAGE);
	for (uint32_t i = 0; i < 50; i++)
		pass(512, 0);
	stretches_note_look(&st, 5, 512, 1);
	stretches_note_change(&st, 6);
	for (uint32_t i = 0; i < 2; i++) {
		stretches_begin_pass(&st, false);
		assert_true(stretches_is_due(&st, 5) && stretches_is_due(&st, 6));
		stretches_note_look(&st, 5, 512, 0);
		stretches_note_look(&st, 6, 512, 0);
	}
}

static void test_full_pass_leaves_nothing_out(void **state)
{
	make(RECLAIM_SCAN_PER_PAGE);
	for (uint32_t i = 0; i < 50; i++)
		pass(512, 0);
	stretches_begin_pass(&st, true);
	for (uint32_t s = 0; s < NR; s++)
		assert_true(stretches_is_due(&st, s));
	assert_int_equal(pass(512, 0), NR / 4);
}

/* Where it is the young that cost, hot is what at most an eighth of the pages is missing from. */
static void test_dear_answers(void **state)
{
	static const struct {
		enum reclaim_scan_cost cost;
		uint32_t resident, young;
		bool dear;
	} rows[] = {
		{RECLAIM_SCAN_PER_PAGE, 512, 0, true},
		{RECLAIM_SCAN_PER_PAGE, 512, 1, false},
		{RECLAIM_SCAN_PER_PAGE, 512, 512, false},
		{RECLAIM_SCAN_PER_YOUNG_PAGE, 512, 0, false},
		{RECLAIM_SCAN_PER_YOUNG_PAGE, 512, 447, false},
		{RECLAIM_SCAN_PER_YOUNG_PAGE, 512, 448, true},
		{RECLAIM_SCAN_PER_YOUNG_PAGE, 512, 512, true},
		{RECLAIM_SCAN_PER_YOUNG_PAGE, 1, 1, true},
		{RECLAIM_SCAN_PER_YOUNG_PAGE, 1, 0, false},
		{RECLAIM_SCAN_PER_YOUNG_PAGE, 0, 0, false},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make(rows[i].cost);
		stretches_note_look(&st, 0, rows[i].resident, rows[i].young);
		assert_int_equal(streaks[0] > 0, rows[i].dear);
	}
}

static void test_streak_is_bounded(void **state)
{
	make(RECLAIM_SCAN_PER_PAGE);
	for (uint32_t i = 0; i < 1000; i++) {
		stretches_note_look(&st, 0, 512, 0);
		assert_true(streaks[0]);
	}
	stretches_note_look(&st, 0, 512, 3);
	assert_int_equal(streaks[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backs_off_by_powers),
		cmocka_unit_test(test_nobody_waits_longer_than_three_passes),
		cmocka_unit_test(test_another_answer_ends_it),
		cmocka_unit_test(test_full_pass_leaves_nothing_out),
		cmocka_unit_test(test_dear_answers),
		cmocka_unit_test(test_streak_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
