// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_lru_gen_random.c - planes of pages, all that can be done with them at random, beside a plain struct a page.
 *
 * EBB_SEED=n repeats a run; the seed is printed first.
 */
#include "lru_fixture.h"

#define NR 1000u

/** struct plain - what is known of a page, without planes and epochs */
struct plain {
	bool resident, counted, probation, isolated, deferred;
	uint8_t youth, freq;
};

static struct plain pages[NR];

static void check_page(uint32_t i)
{
	const struct lru_word word = lru_gen_peek_word(&lru, i / WORD_PAGES);
	const struct plain *p = &pages[i];
	const uint64_t bit = word_bit(i);

	assert_int_equal(!!(word.resident & bit), p->resident);
	assert_int_equal(!!(word.counted & bit), p->counted);
	assert_int_equal(!!(word.probation & bit), p->probation);
	assert_int_equal(!!(word.isolated & bit), p->isolated);
	assert_int_equal(!!(word.deferred & bit), p->deferred);
	assert_int_equal(word_youth_of(&word, i), p->youth);
	assert_int_equal(word_freq_of(&word, i), p->freq);
}

static void end_something(uint32_t what)
{
	for (uint32_t times = rand_below(20) ? 1 : 1 + rand_below(9); times; times--) {
		bool halve = rand_below(2);

		if (what == 0)
			lru_gen_end_pass(&lru);
		else if (what == 1)
			lru_gen_end_round(&lru, halve);
		else
			lru_gen_age(&lru, 0);
		for (uint32_t i = 0; i < NR; i++) {
			struct plain *p = &pages[i];

			p->deferred &= what != 0;
			p->counted &= what != 1;
			p->freq >>= what == 1 && halve;
			p->youth -= what == 2 && p->youth;
		}
	}
}

static void do_something(uint32_t what, uint32_t w, uint64_t wanted)
{
	const struct lru_word was = lru_gen_peek_word(&lru, w);
	const uint64_t choice[] = {~was.resident, was.resident, ~was.resident, was.resident,
				   ~0ULL, ~0ULL, ~0ULL, lru_gen_pickable(&lru, &was),
				   lru_gen_pickable(&lru, &was)};
	uint64_t mask = wanted & choice[what] & word_range(w, 0, NR);
	uint32_t youth = rand_below(4);

	if (what == 0)
		lru_gen_enter(&lru, w, mask, youth);
	else if (what == 1)
		lru_gen_leave(&lru, w, mask);
	else if (what == 2)
		lru_gen_forget(&lru, w, mask);
	else if (what == 3)
		lru_gen_promote(&lru, w, mask);
	else if (what == 4)
		lru_gen_count_touch(&lru, w, mask);
	else if (what <= 6)
		lru_gen_set_probation(&lru, w, mask, what == 5);
	else if (what == 7)
		lru_gen_isolate(&lru, w, mask);
	else
		lru_gen_defer(&lru, w, mask);
	for (; mask; mask &= mask - 1) {
		struct plain *p = &pages[w * WORD_PAGES + word_lowest(mask)];

		if (what == 0 || what == 3)
			p->youth = (uint8_t)(what ? LRU_YOUTH_MAX : youth);
		if (what <= 1)
			p->resident = !what;
		if (what == 1)
			p->isolated = p->deferred = false;
		if (what == 2)
			*p = (struct plain) {0};
		if (what == 4 && !p->counted)
			p->freq += p->freq < LRU_FREQ_MAX;
		p->counted |= what == 4;
		p->probation = what == 5 || (what != 6 && p->probation);
		p->isolated |= what == 7;
		p->deferred |= what == 8;
	}
}

static void put_something_back(uint32_t i)
{
	bool defer = rand_below(2);

	if (!pages[i].isolated)
		return;
	lru_gen_put_back(&lru, i, defer);
	pages[i].isolated = false;
	pages[i].deferred = defer;
}

static void test_random(void **state)
{
	make_lru(NR);
	memset(pages, 0, sizeof(pages));
	for (uint32_t i = 0; i < 40000; i++) {
		if (!rand_below(30))
			end_something(rand_below(3));
		else if (rand_below(3))
			do_something(rand_below(9), rand_below(words_for(NR)),
				     rand64() & (rand_below(2) ? rand64() : ~0ULL));
		else
			put_something_back(rand_below(NR));
		if (i % 64)
			continue;
		assert_true(lru_gen_verify(&lru));
		for (uint32_t p = 0; p < NR; p++)
			check_page(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_random, drop_lru),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
