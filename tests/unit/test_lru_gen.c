// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_lru_gen.c - planes of pages: epochs and how words catch up, counts, and a recount that sees what is wrong.
 */
#include "lru_fixture.h"

static bool verify(void)
{
	return lru_gen_verify(&lru);
}

static uint32_t youth_of(uint32_t idx)
{
	struct lru_word word = lru_gen_peek_word(&lru, idx / WORD_PAGES);

	return word_youth_of(&word, idx);
}

static uint32_t freq_of(uint32_t idx)
{
	struct lru_word word = lru_gen_peek_word(&lru, idx / WORD_PAGES);

	return word_freq_of(&word, idx);
}

static void test_word_arithmetic(void **state)
{
	assert_int_equal(word_count(0), 0);
	assert_int_equal(word_count(~0ULL), 64);
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t x = rand64() & rand64();
		uint32_t nr = 0;

		for (uint64_t rest = x; rest; rest &= rest - 1)
			nr++;
		assert_int_equal(word_count(x), nr);
	}
	assert_int_equal(words_for(1), 1);
	assert_int_equal(words_for(64), 1);
	assert_int_equal(words_for(65), 2);
	assert_true(word_range(1, 0, 1000) == ~0ULL);
	assert_true(word_range(1, 64, 128) == ~0ULL);
	assert_true(word_range(1, 70, 1000) == ~0ULL << 6);
	assert_true(word_range(1, 0, 65) == 1);
	assert_true(word_range(1, 127, 128) == 1ULL << 63);
	assert_true(word_range(0, 3, 5) == 0x18);
}

/* Planes against numbers: each page's key, below the bound, equal to it, or above. */
static void test_compare(void **state)
{
	for (uint32_t round = 0; round < 300; round++) {
		struct lru_word word = {0};
		uint64_t equal, below;
		uint32_t bound = rand_below(LRU_NR_KEYS);

		for (uint32_t i = 0; i < 2; i++)
			word.youth[i] = rand64();
		for (uint32_t i = 0; i < LRU_FREQ_BITS; i++)
			word.freq[i] = rand64() & (round % 2 ? rand64() & rand64() : ~0ULL);
		for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++) {
			below = word_compare(&word, (enum lru_key_order)order, bound, &equal);
			for (uint32_t n = 0; n < WORD_PAGES; n++) {
				uint32_t youth = word_youth_of(&word, n), freq = word_freq_of(&word, n);
				uint32_t key = order == LRU_BY_GENERATION ? youth * 64 + freq :
									    freq * 4 + youth;

				assert_int_equal(below >> n & 1, key < bound);
				assert_int_equal(equal >> n & 1, key == bound);
				assert_int_equal(word_has_youth(&word, youth) >> n & 1, 1);
			}
		}
	}
}

static void test_starts_empty(void **state)
{
	make_lru(1000);
	assert_int_equal(lru.resident + lru.isolated + lru.deferred + lru.probation + lru.counted, 0);
	assert_int_equal(lru.max_seq, RECLAIM_MAX_NR_GENS - 1);
	assert_int_equal(lru_gen_min_seq(&lru), lru.max_seq - 1); /* never fewer than two */
	assert_true(verify());
	for (uint32_t w = 0; w < lru.nr_words; w++)
		assert_false(lru_gen_has_resident(&lru, w));
	assert_true(lru_gen_size(1u << 20) <= (129ull << 20) / 64 + 1);
}

static void test_counts_follow(void **state)
{
	make_lru(200);
	lru_gen_set_probation(&lru, 0, 0xff, true); /* before they are there: counts for nobody */
	assert_int_equal(lru.probation, 0);
	lru_gen_count_touch(&lru, 0, 0xf00f);
	assert_int_equal(lru.counted, 0);
	lru_gen_enter(&lru, 0, 0xffff, 2);
	lru_gen_enter(&lru, 3, 0xff, 0);
	lru_gen_enter(&lru, 1, 0, 3);
	assert_int_equal(lru.resident, 24);
	assert_int_equal(lru.by_youth[2], 16);
	assert_int_equal(lru.by_youth[0], 8);
	assert_int_equal(lru.probation, 8);
	assert_int_equal(lru.counted, 8);
	assert_true(lru_gen_has_resident(&lru, 3) && !lru_gen_has_resident(&lru, 1));
	assert_int_equal(lru_gen_promote(&lru, 0, 0xf), 4);
	assert_int_equal(lru_gen_promote(&lru, 0, 0x1f), 1); /* the others are there */
	assert_int_equal(lru.by_youth[3], 5);
	assert_true(verify());
	lru_gen_set_probation(&lru, 0, 0xf0, false);
	lru_gen_leave(&lru, 0, 0x00ff);
	assert_int_equal(lru.resident, 16);
	assert_int_equal(lru.probation, 0);
	assert_int_equal(lru.counted, 4);
	lru_gen_leave(&lru, 3, 0xff);
	assert_false(lru_gen_has_resident(&lru, 3));
	assert_true(verify());
}

/* A word that missed @n agings, of which the counts knew at once. */
static void check_missed_agings(uint32_t n)
{
	uint32_t want[RECLAIM_MAX_NR_GENS] = {0};

	make_lru(128);
	for (uint32_t i = 0; i < 128; i++) {
		enter_as(i, i % 4, 0);
		want[i % 4 > n ? i % 4 - n : 0]++;
	}
	for (uint32_t i = 0; i < n; i++)
		lru_gen_age(&lru, 5 + i);
	assert_memory_equal(lru.by_youth, want, sizeof(want));
	assert_int_equal(lru.max_seq, 3 + n);
	assert_true(verify());
	lru_gen_word(&lru, 0); /* one has caught up, the other has not */
	for (uint32_t i = 0; i < 128; i++)
		assert_int_equal(youth_of(i), i % 4 > n ? i % 4 - n : 0);
	assert_true(verify());
}

static void test_missed_agings(void **state)
{
	static const uint32_t many[] = {0, 1, 2, 3, 4, 5, 1000, 65535};

	for (uint32_t i = 0; i < ARRAY_SIZE(many); i++)
		check_missed_agings(many[i]);
}

static void test_missed_halvings(void **state)
{
	static const uint32_t many[] = {0, 1, 2, 5, 6, 7, 64, 65535};

	for (uint32_t i = 0; i < ARRAY_SIZE(many); i++) {
		make_lru(64);
		for (uint32_t f = 0; f < 64; f++)
			enter_as(f, 1, f);
		for (uint32_t n = 0; n < many[i]; n++)
			lru_gen_end_round(&lru, true);
		for (uint32_t f = 0; f < 64; f++)
			assert_int_equal(freq_of(f), many[i] < 6 ? f >> many[i] : 0);
		assert_true(verify());
	}
}

static void test_passes_and_rounds_clear(void **state)
{
	make_lru(64);
	lru_gen_enter(&lru, 0, 0xff, 0);
	lru_gen_word(&lru, 0)->touched = 0x3;
	lru_gen_count_touch(&lru, 0, 0x3);
	lru_gen_defer(&lru, 0, 0x30);
	lru_gen_end_pass(&lru);
	assert_int_equal(lru.deferred, 0);
	assert_true(verify());
	assert_int_equal(lru_gen_peek_word(&lru, 0).touched, 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).deferred, 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).counted, 0x3); /* a round is longer than a pass */
	lru_gen_word(&lru, 0)->touched = 0x3;
	lru_gen_end_round(&lru, false);
	assert_int_equal(lru.counted, 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).counted, 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).touched, 0x3);
	assert_int_equal(freq_of(0), 1);
	assert_true(verify());
}

/* Epochs are 16 bits: a word that is looked at once in 65535 steps never misses one. */
static void test_epochs_wrap(void **state)
{
	make_lru(64);
	lru_gen_enter(&lru, 0, ~0ULL, 3);
	for (uint32_t i = 0; i < 5 * 65536 / 3; i++) {
		lru_gen_word(&lru, 0)->touched = 0xf0;
		lru_gen_count_touch(&lru, 0, 0xf0);
		lru_gen_promote(&lru, 0, 0xf);
		for (uint32_t n = 0; n < 3; n++) {
			lru_gen_age(&lru, 0);
			lru_gen_end_pass(&lru);
			lru_gen_end_round(&lru, true);
		}
		assert_int_equal(youth_of(0), 0);
		assert_int_equal(freq_of(5), 0);
		assert_int_equal(lru_gen_peek_word(&lru, 0).touched | lru_gen_peek_word(&lru, 0).counted, 0);
	}
	lru_gen_promote(&lru, 0, 0xf);
	lru_gen_word(&lru, 0)->touched = 1;
	for (uint32_t n = 0; n < 65535; n++) {
		lru_gen_age(&lru, 0);
		lru_gen_end_pass(&lru);
	}
	assert_int_equal(youth_of(0), 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).touched, 0);
	assert_int_equal(lru.by_youth[0], 64);
	assert_true(verify());
}

static void test_frequency_counts_rounds(void **state)
{
	make_lru(64);
	for (uint32_t round = 0; round < 80; round++) {
		for (uint32_t i = 0; i < 3; i++)
			lru_gen_count_touch(&lru, 0, round % 2 ? 0x3 : 0x1); /* resident or not */
		assert_int_equal(freq_of(0), MIN(round + 1, LRU_FREQ_MAX)); /* once a round */
		assert_int_equal(freq_of(1), MIN((round + 1) / 2, LRU_FREQ_MAX));
		assert_int_equal(freq_of(2), 0);
		lru_gen_end_round(&lru, false);
	}
	lru_gen_end_round(&lru, true);
	assert_int_equal(freq_of(0), LRU_FREQ_MAX / 2);
	assert_int_equal(freq_of(1), 20);
}

static void test_what_outlives_eviction(void **state)
{
	make_lru(64);
	lru_gen_set_probation(&lru, 0, 1, true);
	enter_as(0, 3, 9);
	lru_gen_word(&lru, 0)->ahead = 1;
	lru_gen_isolate(&lru, 0, 1);
	lru_gen_leave(&lru, 0, 1);
	assert_int_equal(lru.isolated + lru.probation, 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).isolated | lru_gen_peek_word(&lru, 0).ahead, 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).probation, 1);
	lru_gen_age(&lru, 0);
	lru_gen_end_round(&lru, true);
	assert_int_equal(youth_of(0), 2);
	assert_int_equal(freq_of(0), 4);
	lru_gen_forget(&lru, 0, 1);
	assert_int_equal(youth_of(0) + freq_of(0), 0);
	assert_int_equal(lru_gen_peek_word(&lru, 0).probation, 0);
	assert_true(verify());
}

/* Discards of memory that nobody used cost no memory of ours. */
static void test_forget_leaves_untouched_alone(void **state)
{
	const size_t size = lru_gen_size(10000);

	make_lru(10000);
	lru_gen_age(&lru, 0);
	lru_gen_end_pass(&lru);
	for (uint32_t w = 0; w < lru.nr_words; w++)
		lru_gen_forget(&lru, w, ~0ULL);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(((uint8_t *)lru_mem)[i], 0);
}

static void test_isolated_and_deferred(void **state)
{
	make_lru(128);
	lru_gen_enter(&lru, 1, 0xff, 0);
	lru_gen_isolate(&lru, 1, 0x0f);
	lru_gen_defer(&lru, 1, 0x10);
	assert_int_equal(lru_gen_nr_pickable(&lru), 3);
	assert_true(lru_gen_pickable(&lru, lru_gen_word(&lru, 1)) == 0xe0);
	assert_true(lru_gen_is_isolated(&lru, 64) && !lru_gen_is_isolated(&lru, 68));
	lru_gen_put_back(&lru, 64, false);
	lru_gen_put_back(&lru, 65, true);
	assert_int_equal(lru.isolated, 2);
	assert_int_equal(lru.deferred, 2);
	assert_true(lru_gen_pickable(&lru, lru_gen_word(&lru, 1)) == 0xe1);
	lru_gen_end_pass(&lru);
	assert_int_equal(lru.isolated, 2); /* handed out is handed out */
	assert_true(lru_gen_pickable(&lru, lru_gen_word(&lru, 1)) == 0xf3);
	lru_gen_defer(&lru, 1, 0x3);
	lru_gen_word(&lru, 1)->touched = 0x80;
	lru_gen_undefer(&lru);
	assert_int_equal(lru_gen_nr_pickable(&lru), 6);
	assert_int_equal(lru_gen_word(&lru, 1)->touched, 0x80);
	assert_true(lru_gen_pickable(&lru, lru_gen_word(&lru, 1)) == 0xf3);
	lru_gen_isolate(&lru, 1, 0x1); /* one of those put off: from now on it is not */
	assert_int_equal(lru.deferred, 1);
	assert_true(verify());
	lru_gen_put_back(&lru, 64, true);
	assert_int_equal(lru.deferred, 2);
	assert_true(lru_gen_pickable(&lru, lru_gen_word(&lru, 1)) == 0xf3);
	lru_gen_end_pass(&lru);
	lru_gen_defer(&lru, 1, 0x3);
	assert_true(lru_gen_pickable(&lru, lru_gen_word(&lru, 1)) == 0xf0);
	lru_gen_leave(&lru, 1, 0xff);
	assert_int_equal(lru.deferred + lru.isolated + lru.resident, 0);
	assert_true(verify());
}

static void test_window_and_births(void **state)
{
	make_lru(64);
	lru_gen_enter(&lru, 0, 0x1, 3);
	for (uint64_t i = 1; i <= 5; i++) {
		lru_gen_age(&lru, 100 * i);
		assert_int_equal(lru.birth_ns[LRU_YOUTH_MAX], 100 * i);
		assert_int_equal(lru_gen_min_seq(&lru), lru.max_seq - MIN(i, LRU_YOUTH_MAX));
	}
	/* The oldest generation is as old as the page in it; without one, it is the next that joins it. */
	assert_int_equal(lru.birth_ns[0], 0);
	lru_gen_leave(&lru, 0, 0x1);
	lru_gen_age(&lru, 600);
	assert_int_equal(lru.birth_ns[0], 300);
	assert_int_equal(lru.birth_ns[1], 400);
}

/* --- the recount ---------------------------------------------------------------------------- */

static void make_mixed(void)
{
	make_lru(100);
	lru_gen_set_probation(&lru, 0, 0xf0f, true);
	lru_gen_enter(&lru, 0, 0xffff, 2);
	lru_gen_enter(&lru, 1, 0xff, 1);
	lru_gen_count_touch(&lru, 0, 0xff);
	lru_gen_isolate(&lru, 0, 0x30);
	lru_gen_defer(&lru, 0, 0x40);
	lru_gen_word(&lru, 0)->ahead = 0x100;
	assert_true(verify());
}

#define WRONG(change)                                                                              \
	do {                                                                                       \
		make_mixed();                                                                      \
		change;                                                                            \
		assert_false(verify());                                                            \
	} while (0)

static void test_verify_sees_wrong_marks(void **state)
{
	struct lru_word *word;
	const uint64_t out = 1ULL << 50; /* page 114 of 100 */

	WRONG(lru.words[0].resident ^= 1ULL << 20);
	WRONG(lru.words[0].resident ^= 1);
	WRONG(lru.words[0].youth[0] ^= 1);
	WRONG(lru.words[0].youth[1] ^= 1);
	WRONG(lru.words[0].counted ^= 1ULL << 9);
	WRONG(lru.words[0].probation ^= 1ULL << 5);
	WRONG(lru.words[0].isolated ^= 1);
	WRONG(lru.words[0].deferred ^= 1);
	WRONG(lru.words[0].ahead ^= 1ULL << 30);
	WRONG(lru.words[0].isolated ^= 1ULL << 30; lru.isolated++);
	WRONG(lru.words[0].deferred ^= 1ULL << 30; lru.deferred++);
	WRONG(lru.words[0].deferred ^= 0x10; lru.deferred++); /* isolated as well */
	WRONG(lru.words[1].epochs.age--);
	WRONG(lru.words[0].epochs.round--);
	WRONG(lru.words[0].epochs.pass--);
	WRONG(lru.summary[0] &= ~1ULL);
	make_lru(1000);
	lru.summary[0] |= 1ULL << 7;
	assert_false(verify());
	/* Beyond the guest's end. */
	WRONG(lru.words[1].touched |= out);
	WRONG(lru.words[1].counted |= out);
	WRONG(lru.words[1].probation |= out);
	WRONG(lru.words[1].youth[0] |= out);
	WRONG(lru.words[1].youth[1] |= out);
	for (uint32_t i = 0; i < LRU_FREQ_BITS; i++)
		WRONG(lru.words[1].freq[i] |= out);
	WRONG(word = &lru.words[1]; word->resident |= out; lru.resident++; lru.by_youth[0]++);
}

static void test_verify_sees_wrong_counts(void **state)
{
	for (int by = -1; by <= 1; by += 2) {
		WRONG(lru.resident += (uint32_t)by);
		WRONG(lru.probation += (uint32_t)by);
		WRONG(lru.counted += (uint32_t)by);
		WRONG(lru.isolated += (uint32_t)by);
		WRONG(lru.deferred += (uint32_t)by);
		WRONG(lru.by_youth[3] += (uint32_t)by; lru.by_youth[2] -= (uint32_t)by);
		WRONG(lru.by_youth[1] += (uint32_t)by; lru.by_youth[0] -= (uint32_t)by);
		WRONG(lru.by_youth[2] += (uint32_t)by; lru.resident += (uint32_t)by);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_word_arithmetic),
		cmocka_unit_test(test_compare),
		cmocka_unit_test_teardown(test_starts_empty, drop_lru),
		cmocka_unit_test_teardown(test_counts_follow, drop_lru),
		cmocka_unit_test_teardown(test_missed_agings, drop_lru),
		cmocka_unit_test_teardown(test_missed_halvings, drop_lru),
		cmocka_unit_test_teardown(test_passes_and_rounds_clear, drop_lru),
		cmocka_unit_test_teardown(test_epochs_wrap, drop_lru),
		cmocka_unit_test_teardown(test_frequency_counts_rounds, drop_lru),
		cmocka_unit_test_teardown(test_what_outlives_eviction, drop_lru),
		cmocka_unit_test_teardown(test_forget_leaves_untouched_alone, drop_lru),
		cmocka_unit_test_teardown(test_isolated_and_deferred, drop_lru),
		cmocka_unit_test_teardown(test_window_and_births, drop_lru),
		cmocka_unit_test_teardown(test_verify_sees_wrong_marks, drop_lru),
		cmocka_unit_test_teardown(test_verify_sees_wrong_counts, drop_lru),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
