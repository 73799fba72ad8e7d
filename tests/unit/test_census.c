// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_census.c - counts by youth and frequency: exact for a small guest, near enough for a large one.
 */
#include "lru_fixture.h"
#include <reclaim/census.h>

static struct census census;

static uint32_t key_of(enum lru_key_order order, uint32_t youth, uint32_t freq)
{
	return order == LRU_BY_GENERATION ? youth << LRU_FREQ_BITS | freq : freq << 2 | youth;
}

/* Some resident, some out, some on probation, of all ages; low frequencies are the most. */
static void make_mixed(uint32_t nr_pages)
{
	make_lru(nr_pages);
	for (uint32_t i = 0; i < nr_pages; i++) {
		uint64_t bit = word_bit(i);

		lru_gen_set_probation(&lru, i / WORD_PAGES, bit, !rand_below(10));
		enter_as(i, rand_below(4), rand_below(2) ? rand_below(4) : rand_below(64));
		if (!rand_below(3))
			lru_gen_leave(&lru, i / WORD_PAGES, bit);
	}
}

/* The numbers of pages by walking: pages that do not exist are old and were never touched. */
static void count_plainly(struct census *c)
{
	memset(c, 0, sizeof(*c));
	for (uint32_t i = 0; i < lru.nr_words * WORD_PAGES; i++) {
		struct lru_word word = lru_gen_peek_word(&lru, i / WORD_PAGES);
		uint32_t youth = word_youth_of(&word, i), freq = word_freq_of(&word, i);

		c->all[youth][freq]++;
		c->resident[youth][freq] += !!(word.resident & word_bit(i));
		c->main[youth][freq] += !!(word.resident & ~word.probation & word_bit(i));
		c->words += i % WORD_PAGES == 0 && word.resident & ~word.probation;
	}
}

static void test_exact_when_small(void **state)
{
	static const uint32_t sizes[] = {1, 64, 100, 5000, 70000};
	struct census want;

	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make_mixed(sizes[i]);
		for (uint32_t n = 0; n < 3; n++) {
			lru_gen_age(&lru, 0);
			lru_gen_end_round(&lru, n == 1);
			count_plainly(&want);
			census_take(&census, &lru, n);
			assert_memory_equal(&census, &want, sizeof(want));
		}
	}
}

/* 16 GiB of which 1 % is used, in clumps; each class of 1 % of those in use within its error. */
static void test_sampled_when_large(void **state)
{
	const uint32_t nr_words = 1u << 16, stride = nr_words / CENSUS_WORDS;
	double sum = 0, exact = 0;

	make_lru(nr_words * WORD_PAGES);
	for (uint32_t w = 0; w < nr_words; w++) {
		if (rand_below(100))
			continue;
		lru_gen_enter(&lru, w, ~0ULL, 3);
		lru_gen_count_touch(&lru, w, rand64());
	}
	exact = lru.resident;
	for (uint32_t turn = 0; turn < stride; turn++) {
		double resident;

		census_take(&census, &lru, turn + 1000 * stride);
		resident = census.resident[3][0] + census.resident[3][1];
		/* About 41 words of 4096: six deviations. */
		assert_true(resident > 0 && resident < 2 * exact);
		sum += resident;
	}
	/* All words had their turn once. */
	assert_true(sum / stride == exact);
}

static void test_every_word_has_its_turn(void **state)
{
	static const uint32_t sizes[] = {CENSUS_WORDS, CENSUS_WORDS + 1, 3 * CENSUS_WORDS - 1};

	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make_lru(sizes[i] * WORD_PAGES);
		for (uint32_t w = 0; w < sizes[i]; w++)
			lru_gen_count_touch(&lru, w, 1); /* resident or not */
		lru_gen_end_pass(&lru);
		for (uint32_t turn = 0; turn < (sizes[i] - 1) / CENSUS_WORDS + 1; turn++)
			census_take(&census, &lru, turn);
		for (uint32_t w = 0; w < sizes[i]; w++)
			assert_int_equal(lru.words[w].epochs.pass, 1);
	}
}

/* Memory that nobody used costs none of ours: it is counted as old and never touched, and not written to. */
static void test_unknown_is_not_written_to(void **state)
{
	static const struct lru_word never_seen;
	struct census want;

	make_lru(1000 * WORD_PAGES);
	enter_as(70, 3, 5);
	lru_gen_age(&lru, 0);
	lru_gen_end_pass(&lru);
	lru_gen_end_round(&lru, true);
	count_plainly(&want);
	census_take(&census, &lru, 0);
	assert_memory_equal(&census, &want, sizeof(want));
	for (uint32_t w = 0; w < 1000; w++)
		assert_int_equal(!memcmp(&lru.words[w], &never_seen, sizeof(never_seen)), w != 1);
	/* And when it is used, what it missed meanwhile is no matter. */
	enter_as(500, 3, 5);
	assert_int_equal(lru_gen_peek_word(&lru, 500 / WORD_PAGES).epochs.all == lru.epochs.all, 1);
	assert_true(lru_gen_verify(&lru));
}

/* The best @nr pages by the bound, counted page by page: those above it fit, and with ties there are @nr. */
static void check_best(enum lru_key_order order, uint32_t nr)
{
	struct census_bound bound = census_best(&census, order, nr);
	double above = 0, all_at = 0, at = 0;

	for (uint32_t youth = 0; youth < 4; youth++)
		for (uint32_t freq = 0; freq < 64; freq++) {
			if (key_of(order, youth, freq) > bound.key)
				above += census.all[youth][freq];
			if (key_of(order, youth, freq) != bound.key)
				continue;
			all_at = census.all[youth][freq];
			at = census.resident[youth][freq];
		}
	assert_true(above <= nr);
	assert_true(bound.ties >= 0 && bound.ties <= 1);
	if (above + all_at <= nr) {
		assert_int_equal(bound.key, 0); /* everything fits */
		assert_true(bound.ties == 1);
	} else if (nr - above < at) {
		assert_true(bound.ties * at > nr - above - 1e-6);
		assert_true(bound.ties * at < nr - above + 1e-6);
	} else {
		assert_true(bound.ties == 1);
	}
}

static void test_best(void **state)
{
	make_mixed(20000);
	census_take(&census, &lru, 0);
	for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++) {
		check_best((enum lru_key_order)order, 0);
		check_best((enum lru_key_order)order, 1);
		check_best((enum lru_key_order)order, 20000);
		check_best((enum lru_key_order)order, 2 * 20000);
		for (uint32_t i = 0; i < 500; i++)
			check_best((enum lru_key_order)order, rand_below(20000));
	}
}

/* Keys up to the one named hold so many pages, and those below do not. */
static void check_key(enum lru_key_order order, int above, double nr)
{
	uint32_t key = census_key(&census, order, above, nr);
	double sum = 0;

	for (uint32_t k = (uint32_t)(above + 1); k < key; k++)
		sum += census_main(&census, order, k);
	assert_true(sum < nr);
	sum += census_main(&census, order, key);
	assert_true(sum >= nr || key == LRU_NR_KEYS - 1);
	assert_true((int)key > above || key == LRU_NR_KEYS - 1);
}

static void test_key(void **state)
{
	make_mixed(20000);
	census_take(&census, &lru, 0);
	for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++)
		for (int above = -1; above < (int)LRU_NR_KEYS; above++) {
			check_key((enum lru_key_order)order, above, 1);
			check_key((enum lru_key_order)order, above, 1 + rand_below(20000));
		}
}

static void test_main_is_by_key(void **state)
{
	make_lru(64);
	enter_as(5, 2, 17);
	enter_as(6, 2, 17);
	lru_gen_set_probation(&lru, 0, word_bit(7), true);
	enter_as(7, 2, 17);
	census_take(&census, &lru, 0);
	assert_true(census_main(&census, LRU_BY_GENERATION, 2 * 64 + 17) == 2);
	assert_true(census_main(&census, LRU_BY_FREQUENCY, 17 * 4 + 2) == 2);
	assert_true(census.resident[2][17] == 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_exact_when_small, drop_lru),
		cmocka_unit_test_teardown(test_sampled_when_large, drop_lru),
		cmocka_unit_test_teardown(test_every_word_has_its_turn, drop_lru),
		cmocka_unit_test_teardown(test_unknown_is_not_written_to, drop_lru),
		cmocka_unit_test_teardown(test_best, drop_lru),
		cmocka_unit_test_teardown(test_key, drop_lru),
		cmocka_unit_test_teardown(test_main_is_by_key, drop_lru),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
