// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sweep.c - the coldest first, in both orders; round the guest in scattered circles; runs that make one.
 */
#include "lru_fixture.h"
#include <reclaim/sweep.h>

#define ROOM 64u
#define MANY (1u << 20)

static struct sweep sweep;
static struct census census;
static struct page_run runs[ROOM];
static uint64_t protected;
static const struct sweep_rules anything = {
	.key_end = LRU_NR_KEYS, .youth_end = LRU_YOUTH_MAX + 1, .protected = &protected};

static uint32_t key_of(enum lru_key_order order, uint32_t idx)
{
	struct lru_word word = lru_gen_peek_word(&lru, idx / WORD_PAGES);
	uint32_t youth = word_youth_of(&word, idx), freq = word_freq_of(&word, idx);

	return order == LRU_BY_GENERATION ? youth << LRU_FREQ_BITS | freq : freq << 2 | youth;
}

static void restart(enum lru_key_order order)
{
	census_take(&census, &lru, 0);
	sweep_restart(&sweep, &lru, &census, order, rand64());
}

static struct sweep_batch take(const struct sweep_rules *rules, uint32_t room, uint32_t max)
{
	struct sweep_batch b = {.runs = runs, .room = room, .left = max, .looks = UINT32_MAX};

	sweep_take(&sweep, &lru, &census, rules, &b);
	return b;
}

/* One page, or UINT32_MAX. It is handed out and stays so. */
static uint32_t take_one(const struct sweep_rules *rules)
{
	struct sweep_batch b = take(rules, 1, 1);

	if (!b.nr)
		return UINT32_MAX;
	assert_int_equal(b.nr, 1);
	assert_int_equal(runs[0].nr, 1);
	assert_int_equal(b.left, 0);
	assert_true(lru_gen_is_isolated(&lru, runs[0].first));
	return runs[0].first;
}

/* All the pages @rules allow; how many were they? */
static uint32_t drain(const struct sweep_rules *rules)
{
	uint32_t nr = 0;

	for (;;) {
		struct sweep_batch b = take(rules, ROOM, 300);

		if (!b.nr)
			return nr;
		nr += 300 - b.left;
	}
}

static void make(uint32_t nr_pages)
{
	make_lru(nr_pages);
	sweep_init(&sweep, nr_pages);
	protected = 0;
}

static void make_mixed(uint32_t nr_pages)
{
	make(nr_pages);
	for (uint32_t i = 0; i < nr_pages; i++)
		if (rand_below(4))
			enter_as(i, rand_below(4), rand_below(2) ? rand_below(3) : rand_below(64));
}

static void test_steps_reach_every_stretch(void **state)
{
	for (uint32_t nr = 1; nr < 1000; nr++) {
		uint8_t seen[1000] = {0};

		sweep_init(&sweep, nr * RECLAIM_STRETCH - rand_below(RECLAIM_STRETCH));
		assert_int_equal(sweep.nr_stretches, nr);
		for (uint32_t n = 0, at = 0; n < nr; n++, at = (at + sweep.step) % nr)
			assert_int_equal(seen[at]++, 0);
	}
}

/* No page goes while one of an earlier circle is left; a circle is what holds 1/256 of the pages. */
static void coldest_first(enum lru_key_order order, uint32_t nr_pages)
{
	uint32_t last = 0, taken = 0, idx, key;

	make_mixed(nr_pages);
	restart(order);
	while ((idx = take_one(&anything)) != UINT32_MAX) {
		key = key_of(order, idx);
		assert_true(key <= sweep.key);
		/* The bound moves up by as many pages as a circle takes, so what comes now is above the last. */
		if (sweep.key != last) {
			uint32_t colder = 0;

			for (uint32_t i = 0; last && i < nr_pages; i++) {
				struct lru_word word = lru_gen_peek_word(&lru, i / WORD_PAGES);

				colder += lru_gen_pickable(&lru, &word) & word_bit(i) &&
					  key_of(order, i) <= last;
			}
			assert_int_equal(colder, 0);
			last = sweep.key;
		}
		taken++;
	}
	assert_int_equal(taken, lru.resident);
	assert_int_equal(lru.isolated, lru.resident);
}

static void test_coldest_first(void **state)
{
	for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++) {
		coldest_first((enum lru_key_order)order, 100);
		coldest_first((enum lru_key_order)order, 1500);
		coldest_first((enum lru_key_order)order, 9999);
	}
}

/* Of pages that are alike, each stretch gives all it has before the next is visited, and is visited once. */
static void test_circle_is_scattered(void **state)
{
	const uint32_t nr = 100;
	uint32_t order[100], nr_seen = 0, steps = 0, idx;
	bool seen[100] = {false};

	make(nr * RECLAIM_STRETCH);
	for (uint32_t w = 0; w < lru.nr_words; w++)
		if (w / 8 % 10)
			lru_gen_enter(&lru, w, ~0ULL, 0);
	restart(LRU_BY_FREQUENCY);
	while ((idx = take_one(&anything)) != UINT32_MAX) {
		uint32_t s = idx / RECLAIM_STRETCH;

		if (nr_seen && order[nr_seen - 1] == s) {
			steps++;
			continue;
		}
		assert_false(seen[s]);
		seen[s] = true;
		order[nr_seen++] = s;
	}
	assert_int_equal(nr_seen, 90);
	assert_int_equal(nr_seen + steps, 90 * RECLAIM_STRETCH);
	for (uint32_t i = 1; i < nr_seen; i++)
		assert_true(order[i] > order[i - 1] + 5 || order[i] + 5 < order[i - 1]);
}

/* Where it begins is left to chance. */
static void test_start_is_random(void **state)
{
	uint32_t first = UINT32_MAX, others = 0;

	for (uint32_t i = 0; i < 20; i++) {
		make(100 * RECLAIM_STRETCH);
		for (uint32_t w = 0; w < lru.nr_words; w++)
			lru_gen_enter(&lru, w, ~0ULL, 0);
		restart(LRU_BY_GENERATION);
		others += first != UINT32_MAX && take_one(&anything) / RECLAIM_STRETCH != first;
		first = sweep.hand.start;
		assert_true(first < 100);
	}
	assert_true(others > 10);
}

static void test_neighbours_leave_as_one(void **state)
{
	struct sweep_batch b;

	make(RECLAIM_STRETCH);
	for (uint32_t w = 0; w < lru.nr_words; w++)
		lru_gen_enter(&lru, w, ~0ULL, 0);
	lru_gen_leave(&lru, 3, 1);
	restart(LRU_BY_GENERATION);
	b = take(&anything, ROOM, 500);
	assert_int_equal(b.nr, 2);
	assert_int_equal(b.left, 0);
	assert_int_equal(runs[0].first, 0);
	assert_int_equal(runs[0].nr, 192);
	assert_int_equal(runs[1].first, 193);
	assert_int_equal(runs[1].nr, 308); /* cut in the middle of a word ... */
	b = take(&anything, ROOM, 500);
	assert_int_equal(b.nr, 1);
	assert_int_equal(runs[0].first, 501); /* ... and gone on with there */
	assert_int_equal(runs[0].nr, 11);
}

static void test_room_for_runs_ends_a_batch(void **state)
{
	struct sweep_batch b;
	uint32_t nr = 0;

	make(RECLAIM_STRETCH);
	lru_gen_enter(&lru, 0, 0x5555555555555555, 0);
	lru_gen_enter(&lru, 1, ~0ULL, 0);
	restart(LRU_BY_GENERATION);
	while ((b = take(&anything, 3, MANY)).nr) {
		assert_true(b.nr <= 3);
		nr += MANY - b.left;
		assert_int_equal(lru.isolated, nr); /* what has no room is not handed out */
	}
	assert_int_equal(nr, 32 + 64);
}

static void test_add_merges(void **state)
{
	struct sweep_batch b = {.runs = runs, .room = 2, .left = 100};

	assert_true(sweep_add(&b, 10, 5));
	assert_true(sweep_add(&b, 15, 1));
	assert_true(sweep_add(&b, 5, 5)); /* below: not now, but when sorted */
	assert_int_equal(b.nr, 2);
	assert_false(sweep_add(&b, 50, 1));
	assert_true(sweep_add(&b, 10, 0)); /* goes on with the last run */
	assert_int_equal(b.left, 89);
	sweep_sort(&b);
	assert_int_equal(b.nr, 1);
	assert_int_equal(runs[0].first, 5);
	assert_int_equal(runs[0].nr, 11);
}

static void test_sort(void **state)
{
	static struct page_run many[512];

	for (uint32_t round = 0; round < 200; round++) {
		static uint8_t in[4096];
		struct sweep_batch b = {.runs = many, .room = 512, .left = MANY};
		uint32_t sum = 0;

		memset(in, 0, sizeof(in));
		for (uint32_t i = 0; i < rand_below(513); i++) {
			uint32_t at = rand_below(4096);

			if (!in[at] && b.nr < b.room)
				assert_true(sweep_add(&b, at, 1));
			in[at] = 1;
		}
		memset(in, 0, sizeof(in));
		for (uint32_t i = 0; i < b.nr; i++)
			for (uint32_t n = 0; n < many[i].nr; n++)
				in[many[i].first + n] = 1;
		sweep_sort(&b);
		for (uint32_t i = 0; i < b.nr; i++) {
			assert_true(!i || many[i].first > many[i - 1].first + many[i - 1].nr);
			for (uint32_t n = 0; n < many[i].nr; n++)
				assert_int_equal(in[many[i].first + n], 1);
			sum += many[i].nr;
		}
		assert_int_equal(sum, MANY - b.left);
	}
}

static void test_lowest_run(void **state)
{
	uint32_t first, nr;

	assert_true(word_lowest_run(~0ULL, 64, &first, &nr) == ~0ULL);
	assert_int_equal(first, 0);
	assert_int_equal(nr, 64);
	assert_true(word_lowest_run(1ULL << 63, 64, &first, &nr) == 1ULL << 63);
	assert_int_equal(first, 63);
	assert_int_equal(nr, 1);
	assert_true(word_lowest_run(0xff0ff0, 5, &first, &nr) == 0x1f0);
	assert_true(word_lowest_run(0xff0ff0, 64, &first, &nr) == 0xff0);
	assert_int_equal(nr, 8);
	assert_true(word_lowest_run(~0ULL << 10, 100, &first, &nr) == ~0ULL << 10);
	assert_int_equal(nr, 54);
}

static void test_rules_are_kept(void **state)
{
	struct sweep_rules rules = anything;
	uint32_t may = 0;

	for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++)
		for (uint32_t round = 0; round < 30; round++) {
			make_mixed(3000);
			may = 0;
			rules.key_end = rand_below(LRU_NR_KEYS + 1);
			rules.youth_end = rand_below(LRU_YOUTH_MAX + 2);
			for (uint32_t i = 0; i < 3000; i++) {
				struct lru_word word = lru_gen_peek_word(&lru, i / WORD_PAGES);

				may += word.resident & word_bit(i) &&
				       word_youth_of(&word, i) < rules.youth_end &&
				       key_of((enum lru_key_order)order, i) < rules.key_end;
			}
			restart((enum lru_key_order)order);
			assert_int_equal(drain(&rules), may);
			/* Who may take more finds the rest, the coldest first. */
			assert_int_equal(drain(&anything), lru.resident - may);
		}
}

static void test_probation_is_left_alone(void **state)
{
	make(100);
	lru_gen_set_probation(&lru, 0, 0xff, true);
	lru_gen_enter(&lru, 0, 0xffff, 0);
	restart(LRU_BY_FREQUENCY);
	assert_int_equal(drain(&anything), 8);
	assert_int_equal(lru.isolated, 8);
}

/* Nothing is left: that is known, and asked for no more, until somebody says there may be. */
static void test_dry_and_wet(void **state)
{
	struct sweep_rules old = anything;

	old.key_end = 2 << LRU_FREQ_BITS;
	make(1000);
	lru_gen_set_probation(&lru, 0, 1, true);
	lru_gen_enter(&lru, 0, 1, 0); /* one that might be picked, but never by a sweep */
	lru_gen_enter(&lru, 1, 0xf, 0);
	restart(LRU_BY_GENERATION);
	assert_int_equal(drain(&anything), 4);
	assert_int_equal(sweep.dry_key, LRU_NR_KEYS);
	lru_gen_enter(&lru, 2, 0xf, 1);
	assert_int_equal(take(&anything, ROOM, 10).nr, 0);
	sweep_wet(&sweep, 1 << LRU_FREQ_BITS);
	assert_int_equal(drain(&anything), 4);
	/* Not below what may be taken: still dry for that. */
	lru_gen_enter(&lru, 3, 0xf, 2);
	sweep_wet(&sweep, 2 << LRU_FREQ_BITS);
	assert_int_equal(drain(&old), 0);
	assert_int_equal(drain(&anything), 4);
	/* What came back behind the sweep is found, even by one that may take less. */
	lru_gen_put_back(&lru, 64, false);
	sweep_wet(&sweep, 0);
	assert_int_equal(drain(&old), 1);
}

/* A search that finds nothing it may take leaves the other one where it is. */
static void test_lesser_search_moves_nothing(void **state)
{
	struct sweep_rules old = anything;
	uint32_t key, nth;

	old.key_end = 2 << LRU_FREQ_BITS;
	make(64 * RECLAIM_STRETCH);
	for (uint32_t w = 0; w < lru.nr_words; w++)
		lru_gen_enter(&lru, w, ~0ULL, 2 + w % 2);
	restart(LRU_BY_GENERATION);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(take(&old, ROOM, 1).nr, 0);
		sweep_wet(&sweep, 0); /* as each fault does */
		key = sweep.key;
		nth = sweep.hand.nth;
		assert_int_equal(take(&old, ROOM, 1).nr, 0);
		assert_true(sweep.key == key && sweep.hand.nth == nth);
		assert_true(take_one(&anything) / 64 % 2 == 0); /* youth 2: all of it comes first */
	}
}

/* What was tried and came back is not tried again before the others. */
static void test_back_waits_for_its_circle(void **state)
{
	static uint8_t tried[4096];
	uint32_t idx;

	make(4096);
	for (uint32_t w = 0; w < lru.nr_words; w++)
		lru_gen_enter(&lru, w, ~0ULL, 0);
	restart(LRU_BY_FREQUENCY);
	memset(tried, 0, sizeof(tried));
	for (uint32_t i = 0; i < 3 * 4096; i++) {
		idx = take_one(&anything);
		assert_true(idx != UINT32_MAX);
		assert_int_equal(tried[idx]++, i / 4096);
		lru_gen_put_back(&lru, idx, false);
		sweep_wet(&sweep, 0);
	}
}

static void test_protected_tiers_are_put_off(void **state)
{
	static struct tier_word words[16];
	struct sweep_rules rules = anything;
	struct tiers tiers;

	make(1000);
	memset(words, 0, sizeof(words));
	tiers_init(&tiers, words, 1000);
	tiers_set_hint(&tiers, 100, 50, RECLAIM_HINT_ANON);
	tiers.protected = 1u << RECLAIM_HINT_ANON;
	for (uint32_t i = 0; i < 1000; i++)
		enter_as(i, 0, 0);
	restart(LRU_BY_GENERATION);
	rules.tiers = &tiers;
	assert_int_equal(drain(&rules), 950);
	assert_int_equal(protected, 50);
	assert_int_equal(lru.deferred, 50);
	assert_true(lru_gen_verify(&lru));
	lru_gen_end_pass(&lru);
	restart(LRU_BY_GENERATION);
	assert_int_equal(drain(&anything), 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_steps_reach_every_stretch, drop_lru),
		cmocka_unit_test_teardown(test_coldest_first, drop_lru),
		cmocka_unit_test_teardown(test_circle_is_scattered, drop_lru),
		cmocka_unit_test_teardown(test_start_is_random, drop_lru),
		cmocka_unit_test_teardown(test_neighbours_leave_as_one, drop_lru),
		cmocka_unit_test_teardown(test_room_for_runs_ends_a_batch, drop_lru),
		cmocka_unit_test(test_add_merges),
		cmocka_unit_test(test_sort),
		cmocka_unit_test(test_lowest_run),
		cmocka_unit_test_teardown(test_rules_are_kept, drop_lru),
		cmocka_unit_test_teardown(test_probation_is_left_alone, drop_lru),
		cmocka_unit_test_teardown(test_dry_and_wet, drop_lru),
		cmocka_unit_test_teardown(test_lesser_search_moves_nothing, drop_lru),
		cmocka_unit_test_teardown(test_back_waits_for_its_circle, drop_lru),
		cmocka_unit_test_teardown(test_protected_tiers_are_put_off, drop_lru),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
