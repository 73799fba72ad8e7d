// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * census.c - how many pages there are of each youth and frequency, from a bounded sample.
 *
 * DOC: the census
 *
 * Bounds ("the coldest 1/64 of the pages", "the best pages that would fit") come from counts per
 * youth and frequency: 4 x 64 of them. Kept up to date they would cost on every touch of a page, so
 * they are taken anew at the end of each pass, from 4096 words at most, spread evenly over the guest
 * and others at each turn: exact up to 1 GiB, and for larger guests with an error of 2 % for a class
 * of one page in a hundred, which no decision here would notice. As all words have their turn, the
 * census is also what keeps epochs from wrapping (lru_gen.c). A word of which nothing is known has
 * nothing to catch up with: it is not written to, so that memory nobody used costs none of ours.
 *
 * A word is split by planes, first by youth, then bit by bit by frequency: neighbours are often
 * alike, and a branch ends where nobody is left.
 */
#include <string.h>
#include "census.h"

struct census_split {
	const struct lru_word *word;
	struct census *c;
	uint32_t youth;
	double scale;
};

static void split_by_freq(const struct census_split *s, uint64_t mask, uint32_t bits, uint32_t freq)
{
	uint64_t ones;

	while (bits) {
		ones = mask & s->word->freq[--bits];
		if (ones && ones != mask)
			split_by_freq(s, ones, bits, freq | 1u << bits);
		if (ones == mask)
			freq |= 1u << bits;
		else
			mask &= ~ones;
	}
	s->c->all[s->youth][freq] += s->scale * word_count(mask);
	mask &= s->word->resident;
	s->c->resident[s->youth][freq] += s->scale * word_count(mask);
	s->c->main[s->youth][freq] += s->scale * word_count(mask & ~s->word->probation);
}

static bool is_unknown(const struct lru_word *word)
{
	static const struct lru_word never_seen;

	return !memcmp(word, &never_seen, offsetof(struct lru_word, epochs));
}

void census_take(struct census *c, struct lru_gen *lru, uint64_t turn)
{
	uint32_t stride = (lru->nr_words + CENSUS_WORDS - 1) / CENSUS_WORDS;
	struct census_split s = {.c = c, .scale = stride};
	uint64_t mask;

	memset(c, 0, sizeof(*c));
	for (uint32_t w = (uint32_t)(turn % stride); w < lru->nr_words; w += stride) {
		if (is_unknown(&lru->words[w])) {
			c->all[0][0] += s.scale * WORD_PAGES;
			continue;
		}
		s.word = lru_gen_word(lru, w);
		c->words += s.word->resident & ~s.word->probation ? s.scale : 0;
		for (s.youth = 0; s.youth < RECLAIM_MAX_NR_GENS; s.youth++) {
			mask = word_has_youth(s.word, s.youth);
			if (mask)
				split_by_freq(&s, mask, LRU_FREQ_BITS, 0);
		}
	}
}

static const double *class_of(const double table[][LRU_FREQ_MAX + 1], enum lru_key_order order,
			      uint32_t key)
{
	if (order == LRU_BY_GENERATION)
		return &table[key >> LRU_FREQ_BITS][key & LRU_FREQ_MAX];
	return &table[key & LRU_YOUTH_MAX][key >> 2];
}

double census_main(const struct census *c, enum lru_key_order order, uint32_t key)
{
	return *class_of(c->main, order, key);
}

struct census_bound census_best(const struct census *c, enum lru_key_order order, uint32_t nr)
{
	struct census_bound bound = {.ties = 1};
	double left = nr, ties;

	for (uint32_t key = LRU_NR_KEYS; key--;) {
		double here = *class_of(c->all, order, key);

		if (here <= left) {
			left -= here;
			continue;
		}
		ties = *class_of(c->resident, order, key);
		bound.key = key;
		bound.ties = left < ties ? left / ties : 1;
		break;
	}
	return bound;
}

uint32_t census_key(const struct census *c, enum lru_key_order order, int above, double nr)
{
	uint32_t key = (uint32_t)(above + 1);

	for (; key < LRU_NR_KEYS - 1; key++) {
		nr -= census_main(c, order, key);
		if (nr <= 0)
			break;
	}
	return MIN(key, LRU_NR_KEYS - 1);
}
