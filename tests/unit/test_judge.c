// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_judge.c - the order that loses less is used, a draw is frequency's, and who is lost is counted page by page.
 */
#include "lru_fixture.h"
#include <reclaim/judge.h>

#define NR 6400u

static struct judge judge;
static struct census census;

static void set_bounds(uint32_t capacity)
{
	census_take(&census, &lru, 0);
	judge_set_bounds(&judge, &census, capacity, rand64());
}

static void touch(uint32_t idx)
{
	uint64_t bit = word_bit(idx);
	struct lru_word word = lru_gen_peek_word(&lru, idx / WORD_PAGES);

	judge_note_touch(&judge, &word, idx / WORD_PAGES, bit, word.resident & bit);
}

/* The young and rare: pages 0..1599; the old and frequent: 1600..3199; the rest is neither. */
static void make(uint32_t capacity)
{
	make_lru(NR);
	memset(&judge, 0, sizeof(judge));
	for (uint32_t i = 0; i < NR; i++)
		enter_as(i, i < 1600 ? 3 : 0, i < 1600 ? 1 : i < 3200 ? 20 : 0);
	judge_end_pass(&judge, capacity, 1);
	set_bounds(capacity);
}

static void interval(uint32_t first, uint32_t nr, uint32_t times, double units)
{
	while (times--) {
		for (uint32_t i = first; i < first + nr; i++)
			touch(i);
		judge_end_pass(&judge, 100, units);
	}
}

static void test_begins_with_frequency(void **state)
{
	memset(&judge, 0, sizeof(judge));
	assert_int_equal(judge_order(&judge), LRU_BY_FREQUENCY);
}

static void test_the_first_interval_does_not_count(void **state)
{
	make_lru(NR);
	memset(&judge, 0, sizeof(judge));
	judge.bounds[LRU_BY_FREQUENCY].key = LRU_NR_KEYS - 1;
	interval(0, 1000, 1, 1);
	assert_true(judge.slow[LRU_BY_FREQUENCY] == 0 && judge.fast[LRU_BY_FREQUENCY] == 0);
}

static void test_moving_working_set_is_generations(void **state)
{
	make(1600);
	interval(0, 1600, 1, 1);
	assert_int_equal(judge_order(&judge), LRU_BY_GENERATION);
	assert_true(judge.slow[LRU_BY_GENERATION] == 0);
	assert_true(judge.slow[LRU_BY_FREQUENCY] == 1600);
}

static void test_steady_working_set_is_frequency(void **state)
{
	make(1600);
	interval(1600, 1600, 1, 1);
	assert_int_equal(judge_order(&judge), LRU_BY_FREQUENCY);
	assert_true(judge.slow[LRU_BY_GENERATION] == 1600);
	assert_true(judge.slow[LRU_BY_FREQUENCY] == 0);
}

static void test_a_draw_is_frequency(void **state)
{
	make(1600);
	interval(3200, 3200, 5, 1); /* a scan: both lose it all */
	assert_true(judge.fast[0] > 0 && judge.fast[0] == judge.fast[1]);
	assert_int_equal(judge_order(&judge), LRU_BY_FREQUENCY);
	make(1600);
	for (uint32_t i = 0; i < 1600; i++) /* as many of the one as of the other */
		touch(2 * i);
	judge_end_pass(&judge, 100, 1);
	assert_int_equal(judge_order(&judge), LRU_BY_FREQUENCY);
}

static void test_less_is_not_yet_clearly_less(void **state)
{
	static const struct {
		uint32_t gen_loses, freq_loses;
		enum lru_key_order want;
	} rows[] = {
		{960, 1000, LRU_BY_FREQUENCY},
		{940, 1000, LRU_BY_GENERATION},
		{1000, 940, LRU_BY_FREQUENCY},
		{0, 1, LRU_BY_GENERATION},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make(1600);
		for (uint32_t p = 0; p < rows[i].freq_loses; p++)
			touch(p);
		for (uint32_t p = 0; p < rows[i].gen_loses; p++)
			touch(1600 + p);
		judge_end_pass(&judge, 100, 1);
		assert_int_equal(judge_order(&judge), rows[i].want);
	}
}

/* A change of phase is noticed by the fast average, and forgotten by it while the slow one remembers. */
static void test_two_averages(void **state)
{
	make(1600);
	interval(1600, 1600, 20, 1);
	assert_int_equal(judge_order(&judge), LRU_BY_FREQUENCY);
	interval(0, 1600, 5, 1);
	assert_true(judge.slow[LRU_BY_GENERATION] > judge.slow[LRU_BY_FREQUENCY]);
	assert_int_equal(judge_order(&judge), LRU_BY_GENERATION);
	make(1600);
	interval(0, 1600, 40, 1);
	interval(1600, 1600, 10, 1);
	assert_true(judge.fast[LRU_BY_GENERATION] > judge.fast[LRU_BY_FREQUENCY]);
	assert_int_equal(judge_order(&judge), LRU_BY_GENERATION); /* on a long average */
	interval(1600, 1600, 100, 1);
	assert_int_equal(judge_order(&judge), LRU_BY_FREQUENCY);
}

/* However long an interval was, the fast average keeps a share of what was before. */
static void test_fast_average_outlives_a_long_interval(void **state)
{
	make(1600);
	interval(0, 1600, 1, 1);
	judge_end_pass(&judge, 100, 1000);
	assert_true(judge.fast[LRU_BY_FREQUENCY] > 0.29 * 1600);
	assert_true(judge.fast[LRU_BY_FREQUENCY] < 0.31 * 1600);
	assert_true(judge.slow[LRU_BY_FREQUENCY] < 1);
}

/* Among equals those kept are as many as fit, in any word, and the same however often one asks. */
static void test_ties_are_shared_by_chance(void **state)
{
	for (uint32_t fit = 0; fit <= NR; fit += NR / 8) {
		uint32_t lost;

		make_lru(NR);
		memset(&judge, 0, sizeof(judge));
		for (uint32_t i = 0; i < NR; i++)
			enter_as(i, 1, 3);
		set_bounds(fit);
		for (uint32_t i = 0; i < NR; i++)
			touch(i);
		lost = (uint32_t)judge.lost[LRU_BY_FREQUENCY];
		assert_true(judge.lost[LRU_BY_GENERATION] == lost);
		assert_in_range(lost + 300, NR - fit, NR - fit + 600); /* seven deviations */
		for (uint32_t i = 0; i < NR; i++)
			touch(i);
		assert_true(judge.lost[LRU_BY_FREQUENCY] == 2 * lost);
	}
}

/* A page that is out was not kept if it only equals the bound; if it is above, it was. */
static void test_pages_that_are_out(void **state)
{
	make_lru(NR);
	memset(&judge, 0, sizeof(judge));
	for (uint32_t i = 0; i < 1000; i++)
		enter_as(i, 1, 3);
	enter_as(2000, 1, 5);
	lru_gen_leave(&lru, 0, 1);
	lru_gen_leave(&lru, 2000 / 64, word_bit(2000));
	set_bounds(1000);
	assert_int_equal(judge.bounds[LRU_BY_FREQUENCY].key, 3 << 2 | 1);
	touch(0);
	assert_true(judge.lost[LRU_BY_FREQUENCY] == 1);
	touch(2000);
	assert_true(judge.lost[LRU_BY_FREQUENCY] == 1);
	assert_true(judge.touched == 2);
}

/* Of a word, planes against one page at a time. */
static void test_words_and_pages_agree(void **state)
{
	struct judge one;

	for (uint32_t round = 0; round < 200; round++) {
		struct lru_word word = {.resident = rand64(), .youth = {rand64(), rand64()}};
		uint64_t mask = rand64();

		for (uint32_t i = 0; i < LRU_FREQ_BITS; i++)
			word.freq[i] = rand64() & rand64() & rand64();
		memset(&judge, 0, sizeof(judge));
		judge.salt = rand64();
		for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++)
			judge.bounds[order] = (struct census_bound) {
				.key = rand_below(LRU_NR_KEYS / (1 + 3 * rand_below(2))),
				.ties = rand_below(65) / 64.0};
		one = judge;
		judge_note_touch(&judge, &word, 7, mask, word.resident);
		for (uint64_t rest = mask; rest; rest &= rest - 1)
			judge_note_touch(&one, &word, 7, rest & -rest, word.resident);
		assert_true(judge.lost[0] == one.lost[0] && judge.lost[1] == one.lost[1]);
		assert_true(judge.touched == one.touched && judge.touched == word_count(mask));
	}
}

/* Where all that is touched fits, repeats are held against frequency; where it does not, they are not. */
static void test_repeats(void **state)
{
	make(1600);
	judge.repeats = 100;
	judge_end_pass(&judge, 1600, 1);
	assert_int_equal(judge_order(&judge), LRU_BY_GENERATION);
	make(1600);
	judge.repeats = 1000;
	for (uint32_t i = 3200; i < 3200 + 1600; i++)
		touch(i);
	judge_end_pass(&judge, 1600, 1);
	assert_int_equal(judge_order(&judge), LRU_BY_FREQUENCY);
	assert_true(judge.repeats == 0 && judge.touched == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begins_with_frequency),
		cmocka_unit_test_teardown(test_the_first_interval_does_not_count, drop_lru),
		cmocka_unit_test_teardown(test_moving_working_set_is_generations, drop_lru),
		cmocka_unit_test_teardown(test_steady_working_set_is_frequency, drop_lru),
		cmocka_unit_test_teardown(test_a_draw_is_frequency, drop_lru),
		cmocka_unit_test_teardown(test_less_is_not_yet_clearly_less, drop_lru),
		cmocka_unit_test_teardown(test_two_averages, drop_lru),
		cmocka_unit_test_teardown(test_fast_average_outlives_a_long_interval, drop_lru),
		cmocka_unit_test_teardown(test_ties_are_shared_by_chance, drop_lru),
		cmocka_unit_test_teardown(test_pages_that_are_out, drop_lru),
		cmocka_unit_test(test_words_and_pages_agree),
		cmocka_unit_test_teardown(test_repeats, drop_lru),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
