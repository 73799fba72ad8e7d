// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lru_gen.c - the pages of a guest: which are resident, how old, how often touched, with exact counts.
 *
 * DOC: theory of operation
 *
 * The generations are those of the multi-gen LRU (Yu Zhao, Linux 6.1): the youngest is max_seq,
 * pages seen accessed move there, aging makes max_seq one more and thereby everybody one generation
 * older, and a page that nobody touches grows old by itself. Where Linux refuses to age while its
 * window of four generations is full, here the two oldest become one: what is lost is the difference
 * between old and very old, what matters is kept, the one between looked at twice and not.
 *
 * Beside its generation a page has a frequency: in how many rounds it was touched, a round being
 * the time in which most resident pages are touched once. Both outlive its eviction.
 *
 * Pages are kept in planes (lru_word.h). Changes to everybody only move an epoch here and shift four
 * counts; a word that is behind catches up before it is read or changed:
 *
 *	pass      clears touched and deferred
 *	round     clears counted
 *	halving   shifts the frequency planes down by one for each halving missed
 *	age       takes one from every youth that is not 0, for each aging missed
 *
 * The order in which it catches up does not matter: no two of these change the same plane. Epochs
 * are 16 bits wide and compared for difference only; the census visits every word at least once in
 * nr_words / CENSUS_WORDS passes, at most 2048, and no epoch moves by more than 17 in a pass.
 *
 * Counts change with the bits, by the population count of what moved, and never by recounting.
 */
#include <assert.h>
#include <string.h>
#include "lru_gen.h"

size_t lru_gen_size(uint32_t nr_pages)
{
	uint32_t nr_words = words_for(nr_pages);

	return nr_words * sizeof(struct lru_word) + words_for(nr_words) * sizeof(uint64_t);
}

void lru_gen_init(struct lru_gen *lru, void *mem, uint32_t nr_pages, uint64_t now_ns)
{
	assert(nr_pages && (uintptr_t)mem % sizeof(uint64_t) == 0);
	memset(lru, 0, sizeof(*lru));
	lru->nr_pages = nr_pages;
	lru->nr_words = words_for(nr_pages);
	lru->words = mem;
	lru->summary = (uint64_t *)(void *)(lru->words + lru->nr_words);
	lru->max_seq = LRU_YOUTH_MAX;
	for (uint32_t y = 0; y < RECLAIM_MAX_NR_GENS; y++)
		lru->birth_ns[y] = now_ns;
}

uint64_t lru_gen_min_seq(const struct lru_gen *lru)
{
	uint32_t y = 0;

	while (y < RECLAIM_MAX_NR_GENS - RECLAIM_MIN_NR_GENS && !lru->by_youth[y])
		y++;
	return lru->max_seq - LRU_YOUTH_MAX + y;
}

void lru_gen_catch_up(const struct lru_gen *lru, struct lru_word *word)
{
	const union lru_epochs now = lru->epochs;
	uint16_t halvings = (uint16_t)(now.halving - word->epochs.halving);
	uint16_t agings = (uint16_t)(now.age - word->epochs.age);

	if (word->epochs.pass != now.pass) {
		word->touched = 0;
		word->deferred = 0;
	}
	if (word->epochs.round != now.round)
		word->counted = 0;
	for (uint32_t i = 0; halvings && i < LRU_FREQ_BITS; i++)
		word->freq[i] = i + halvings < LRU_FREQ_BITS ? word->freq[i + halvings] : 0;
	for (; agings && (word->youth[0] | word->youth[1]); agings--) {
		/* 3 -> 2 -> 1 -> 0 */
		uint64_t high = word->youth[1];

		word->youth[1] = high & word->youth[0];
		word->youth[0] = high & ~word->youth[0];
	}
	word->epochs = now;
}

struct lru_word lru_gen_peek_word(const struct lru_gen *lru, uint32_t w)
{
	struct lru_word copy = lru->words[w];

	lru_gen_catch_up(lru, &copy);
	return copy;
}

/* Pages of @mask come to (or leave) the generations their youth names. */
static void count_by_youth(struct lru_gen *lru, const struct lru_word *word, uint64_t mask, bool come)
{
	for (uint32_t y = 0; y < RECLAIM_MAX_NR_GENS; y++) {
		uint32_t nr = word_count(mask & word_has_youth(word, y));

		lru->by_youth[y] += come ? nr : -nr;
	}
}

void lru_gen_enter(struct lru_gen *lru, uint32_t w, uint64_t mask, uint32_t youth)
{
	struct lru_word *word = lru_gen_word(lru, w);
	uint32_t nr = word_count(mask);

	assert(!(word->resident & mask));
	if (!mask)
		return;
	word->resident |= mask;
	word_set_youth(word, mask, youth);
	lru->summary[w / WORD_PAGES] |= word_bit(w);
	lru->by_youth[youth] += nr;
	lru->resident += nr;
	lru->counted += word_count(mask & word->counted);
	lru->probation += word_count(mask & word->probation);
}

void lru_gen_leave(struct lru_gen *lru, uint32_t w, uint64_t mask)
{
	struct lru_word *word = lru_gen_word(lru, w);

	assert(!(mask & ~word->resident));
	if (!mask)
		return;
	count_by_youth(lru, word, mask, false);
	lru->resident -= word_count(mask);
	lru->counted -= word_count(mask & word->counted);
	lru->probation -= word_count(mask & word->probation);
	lru->isolated -= word_count(mask & word->isolated);
	lru->deferred -= word_count(mask & word->deferred);
	word->resident &= ~mask;
	word->isolated &= ~mask;
	word->deferred &= ~mask;
	word->ahead &= ~mask;
	if (!word->resident)
		lru->summary[w / WORD_PAGES] &= ~word_bit(w);
}

void lru_gen_forget(struct lru_gen *lru, uint32_t w, uint64_t mask)
{
	static const struct lru_word never_seen;
	struct lru_word *word = &lru->words[w];

	/* Large discards mostly hit memory nobody used: do not write to its words. */
	if (!memcmp(word, &never_seen, sizeof(*word)))
		return;
	lru_gen_catch_up(lru, word);
	assert(!(word->resident & mask));
	word_set_youth(word, mask, 0);
	for (uint32_t i = 0; i < LRU_FREQ_BITS; i++)
		word->freq[i] &= ~mask;
	word->touched &= ~mask;
	word->counted &= ~mask;
	word->probation &= ~mask;
}

uint32_t lru_gen_promote(struct lru_gen *lru, uint32_t w, uint64_t mask)
{
	struct lru_word *word = lru_gen_word(lru, w);
	uint32_t nr;

	assert(!(mask & ~word->resident));
	mask &= ~word_has_youth(word, LRU_YOUTH_MAX);
	if (!mask)
		return 0;
	nr = word_count(mask);
	count_by_youth(lru, word, mask, false);
	word_set_youth(word, mask, LRU_YOUTH_MAX);
	lru->by_youth[LRU_YOUTH_MAX] += nr;
	return nr;
}

void lru_gen_count_touch(struct lru_gen *lru, uint32_t w, uint64_t mask)
{
	struct lru_word *word = lru_gen_word(lru, w);

	mask &= ~word->counted;
	word_count_touch(word, mask);
	word->counted |= mask;
	lru->counted += word_count(mask & word->resident);
}

void lru_gen_set_probation(struct lru_gen *lru, uint32_t w, uint64_t mask, bool on)
{
	struct lru_word *word = lru_gen_word(lru, w);

	if (on) {
		lru->probation += word_count(mask & word->resident & ~word->probation);
		word->probation |= mask;
	} else {
		lru->probation -= word_count(mask & word->resident & word->probation);
		word->probation &= ~mask;
	}
}

void lru_gen_isolate(struct lru_gen *lru, uint32_t w, uint64_t mask)
{
	struct lru_word *word = lru_gen_word(lru, w);

	assert(!(mask & ~lru_gen_pickable(lru, word)));
	lru->deferred -= word_count(mask & word->deferred);
	word->deferred &= ~mask;
	word->isolated |= mask;
	lru->isolated += word_count(mask);
}

bool lru_gen_is_isolated(const struct lru_gen *lru, uint32_t idx)
{
	assert(idx < lru->nr_pages);
	return lru->words[idx / WORD_PAGES].isolated & word_bit(idx);
}

void lru_gen_put_back(struct lru_gen *lru, uint32_t idx, bool defer)
{
	struct lru_word *word = lru_gen_word(lru, idx / WORD_PAGES);

	assert(word->isolated & word_bit(idx));
	word->isolated &= ~word_bit(idx);
	lru->isolated--;
	if (defer)
		lru_gen_defer(lru, idx / WORD_PAGES, word_bit(idx));
}

void lru_gen_defer(struct lru_gen *lru, uint32_t w, uint64_t mask)
{
	struct lru_word *word = lru_gen_word(lru, w);

	assert(!(mask & ~(word->resident & ~word->isolated & ~word->deferred)));
	word->deferred |= mask;
	lru->deferred += word_count(mask);
}

void lru_gen_end_pass(struct lru_gen *lru)
{
	lru->epochs.pass++;
	lru->deferred = 0;
	lru->undeferred = false;
}

void lru_gen_undefer(struct lru_gen *lru)
{
	lru->undeferred = true;
}

void lru_gen_end_round(struct lru_gen *lru, bool halve)
{
	lru->epochs.round++;
	lru->counted = 0;
	lru->epochs.halving += halve;
}

void lru_gen_age(struct lru_gen *lru, uint64_t now_ns)
{
	if (!lru->by_youth[0])
		lru->birth_ns[0] = lru->birth_ns[1];
	lru->by_youth[0] += lru->by_youth[1];
	for (uint32_t y = 1; y < LRU_YOUTH_MAX; y++) {
		lru->by_youth[y] = lru->by_youth[y + 1];
		lru->birth_ns[y] = lru->birth_ns[y + 1];
	}
	lru->by_youth[LRU_YOUTH_MAX] = 0;
	lru->birth_ns[LRU_YOUTH_MAX] = now_ns;
	lru->epochs.age++;
	lru->max_seq++;
}

/* Does word @w keep its promises? Adds its pages to @counts. */
static bool verify_word(const struct lru_gen *lru, uint32_t w, struct lru_gen *counts)
{
	struct lru_word word = lru_gen_peek_word(lru, w);
	uint64_t inside = word_range(w, 0, lru->nr_pages);
	uint64_t marked = word.isolated | word.deferred | word.ahead;
	uint64_t any = word.resident | word.touched | word.counted | word.probation |
		       word.youth[0] | word.youth[1];

	for (uint32_t i = 0; i < LRU_FREQ_BITS; i++)
		any |= word.freq[i];
	count_by_youth(counts, &word, word.resident, true);
	counts->resident += word_count(word.resident);
	counts->probation += word_count(word.resident & word.probation);
	counts->counted += word_count(word.resident & word.counted);
	counts->isolated += word_count(word.isolated);
	counts->deferred += word_count(word.deferred);
	return lru_gen_has_resident(lru, w) == !!word.resident && !(marked & ~word.resident) &&
	       !(word.isolated & word.deferred) && !(any & ~inside);
}

bool lru_gen_verify(const struct lru_gen *lru)
{
	struct lru_gen counts = {.nr_pages = lru->nr_pages};
	uint32_t sum = 0;

	for (uint32_t w = 0; w < lru->nr_words; w++)
		if (!verify_word(lru, w, &counts))
			return false;
	for (uint32_t y = 0; y < RECLAIM_MAX_NR_GENS; y++)
		sum += lru->by_youth[y];
	return sum == lru->resident && counts.resident == lru->resident &&
	       !memcmp(counts.by_youth, lru->by_youth, sizeof(counts.by_youth)) &&
	       counts.probation == lru->probation && counts.counted == lru->counted &&
	       counts.isolated == lru->isolated && counts.deferred == lru->deferred;
}
