// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_tiers.c - kinds of pages: what sorts them, and when a kind is protected.
 */
#include "lru_fixture.h"
#include <reclaim/tiers.h>

#define NR 1000u

static struct tiers tiers;
static struct tier_word words[16];

static void make(void)
{
	memset(words, 0, sizeof(words));
	assert_true(tiers_size(NR) <= sizeof(words));
	tiers_init(&tiers, words, NR);
}

static void test_starts_as_baseline(void **state)
{
	make();
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(tiers_of(&tiers, i), 0);
	tiers_set_hint(&tiers, 0, NR, RECLAIM_HINT_NONE);
	tiers_note_refault(&tiers, 5, false);
	tiers_forget(&tiers, 0, ~0ULL);
	for (size_t i = 0; i < sizeof(words); i++) /* costs no memory while nothing is known */
		assert_int_equal(((uint8_t *)words)[i], 0);
}

static void test_hints_and_refaults_sort(void **state)
{
	static uint8_t hints[NR], near[NR];

	make();
	memset(hints, 0, sizeof(hints));
	memset(near, 0, sizeof(near));
	for (uint32_t round = 0; round < 500; round++) {
		uint32_t first = rand_below(NR), nr = rand_below(MIN(NR - first, 200) + 1);
		uint32_t idx = rand_below(NR), hint = rand_below(RECLAIM_NR_HINTS);

		tiers_set_hint(&tiers, first, nr, (enum reclaim_hint)hint);
		memset(hints + first, (int)hint, nr);
		near[idx] = rand_below(3) > 0;
		tiers_note_refault(&tiers, idx, near[idx]);
		if (round % 20 == 0) {
			tiers_forget(&tiers, 2, word_range(2, 130, 150));
			memset(hints + 130, 0, 20);
			memset(near + 130, 0, 20);
		}
		for (uint32_t i = 0; i < NR; i++)
			assert_int_equal(tiers_of(&tiers, i), hints[i] + RECLAIM_NR_HINTS * near[i]);
	}
}

/* Whatever is protected, by page and by word it is the same pages. */
static void test_protected_by_word(void **state)
{
	make();
	for (uint32_t i = 0; i < NR; i++) {
		tiers_set_hint(&tiers, i, 1, (enum reclaim_hint)rand_below(RECLAIM_NR_HINTS));
		tiers_note_refault(&tiers, i, rand_below(2));
	}
	for (uint32_t set = 0; set < 256; set += 2) {
		tiers.protected = set;
		for (uint32_t i = 0; i < NR; i++)
			assert_int_equal(tiers_protected(&tiers, i / 64) >> i % 64 & 1,
					 set >> tiers_of(&tiers, i) & 1);
	}
}

/* Of @nr pages from @first that go, @back come back too soon. */
static void evict(uint32_t first, uint32_t nr, uint32_t back)
{
	for (uint32_t i = 0; i < nr; i++)
		tiers_note_evicted(&tiers, first + i % 64);
	for (uint32_t i = 0; i < back; i++) {
		tiers_note_refault(&tiers, first + i % 64, true);
		tiers_note_refault(&tiers, first + i % 64, false); /* the tier stays what it was */
	}
}

static void test_protects_what_comes_back_more(void **state)
{
	static const struct {
		uint32_t evicted, back, base_evicted, base_back;
		bool want;
	} rows[] = {
		{1000, 500, 1000, 100, true},
		{1000, 100, 1000, 100, false}, /* as much as any */
		{1000, 140, 1000, 100, false}, /* more, but not clearly */
		{1000, 180, 1000, 100, true},
		{1000, 100, 1000, 500, false},
		{60, 60, 1000, 0, false}, /* a handful: chance */
		{70, 70, 1000, 0, true},
		{100000, 70, 1000, 0, false}, /* hardly any come back */
		{1000, 500, 0, 0, false}, /* there is nothing to compare it with */
		{1000, 500, 63, 0, false},
		{1000, 500, 64, 0, true},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make();
		tiers_set_hint(&tiers, 64, 64, RECLAIM_HINT_KERNEL);
		evict(64, rows[i].evicted, rows[i].back);
		evict(0, rows[i].base_evicted, rows[i].base_back);
		tiers_update(&tiers, 0);
		assert_int_equal(tiers.protected >> RECLAIM_HINT_KERNEL & 1, rows[i].want);
		assert_int_equal(tiers.protected & ~(1u << RECLAIM_HINT_KERNEL), 0);
	}
}

/* The agent gave every page a class: they are held against each other. */
static void test_without_a_baseline(void **state)
{
	make();
	tiers_set_hint(&tiers, 0, 64, RECLAIM_HINT_FILE);
	tiers_set_hint(&tiers, 64, 64, RECLAIM_HINT_ANON);
	evict(0, 1000, 100);
	evict(64, 1000, 500);
	tiers_update(&tiers, 0);
	assert_int_equal(tiers.protected, 1u << RECLAIM_HINT_ANON);
	tiers_set_hint(&tiers, 128, 64, RECLAIM_HINT_KERNEL);
	evict(128, 3000, 1500);
	tiers_update(&tiers, 0); /* now most come back as often as those of that class */
	assert_int_equal(tiers.protected & 1u << RECLAIM_HINT_ANON, 0);
	assert_int_equal(tiers.protected & 1u << RECLAIM_HINT_FILE, 0);
}

static void test_averages_decay(void **state)
{
	make();
	tiers_set_hint(&tiers, 64, 64, RECLAIM_HINT_FILE);
	evict(64, 1000, 800);
	evict(0, 1000, 10);
	tiers_update(&tiers, 4);
	assert_true(tiers.avg[RECLAIM_HINT_FILE].evicted == 1000);
	assert_true(tiers.avg[RECLAIM_HINT_FILE].refaulted == 800);
	assert_true(tiers.protected);
	tiers_update(&tiers, 4); /* a half-life with nothing new */
	assert_true(tiers.avg[RECLAIM_HINT_FILE].evicted > 495);
	assert_true(tiers.avg[RECLAIM_HINT_FILE].evicted < 505);
	assert_true(tiers.protected);
	for (uint32_t i = 0; i < 4; i++)
		tiers_update(&tiers, 4);
	assert_int_equal(tiers.protected, 0); /* too few to tell */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts_as_baseline),
		cmocka_unit_test(test_hints_and_refaults_sort),
		cmocka_unit_test(test_protected_by_word),
		cmocka_unit_test(test_protects_what_comes_back_more),
		cmocka_unit_test(test_without_a_baseline),
		cmocka_unit_test(test_averages_decay),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
