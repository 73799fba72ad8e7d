/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_word.h - what is known of 64 pages, as planes of bits, and the arithmetic on them.
 *
 * DOC: planes
 *
 * A list per generation would cost 8 bytes a page and a cache miss per move, and its neighbours in
 * age are strangers in memory. Here every property of 64 neighbouring pages is one 64-bit word, and
 * a number per page (its age, its frequency) is as many words as the number has bits: bit n of word
 * i is bit i of the number of page n. 64 pages are then aged, counted, compared with a bound or
 * promoted in a handful of ANDs, ORs and XORs, and neighbours that leave together are found as runs
 * with find-first-set. All planes of 64 pages fill two cache lines.
 *
 * Youth is the complement of age: 3 is the youngest generation, 0 the oldest, so that zeroed memory
 * means old, never touched, not there. Youth and frequency stay with a page while it is out.
 *
 * Epochs make wholesale changes free: "everybody is one generation older", "all frequencies are
 * halved", "nobody was touched yet in this pass" only count up a number in struct lru_gen; a word
 * catches up when it is next needed (lru_gen.c), and the census walks over all of them in time.
 */
#ifndef RECLAIM_LRU_WORD_H
#define RECLAIM_LRU_WORD_H

#include <stdbool.h>
#include <stdint.h>
#include <ebb/types.h>

#define WORD_PAGES    64u
#define LRU_FREQ_BITS 6u
#define LRU_FREQ_MAX  ((1u << LRU_FREQ_BITS) - 1)
#define LRU_YOUTH_MAX 3u
#define LRU_NR_KEYS   (1u << (LRU_FREQ_BITS + 2)) /* of (youth, frequency) in either order */

/** struct lru_epochs - how far a word has come; one 64-bit compare tells whether it is up to date */
union lru_epochs {
	struct {
		uint16_t pass;	  /* ended passes: since then nobody is touched or deferred */
		uint16_t round;	  /* ended rounds: since then nobody is counted */
		uint16_t halving; /* of the frequencies */
		uint16_t age;	  /* agings */
	};
	uint64_t all;
};

/**
 * struct lru_word - 64 pages; bit n is page 64 * index + n
 * @resident: in the memfd. Only such pages are isolated, deferred, or ahead
 * @youth: the generation, max_seq - 3 + youth
 * @freq: in how many rounds the page was touched, halved now and then
 * @touched: since the last pass ended: it faulted, or was seen young
 * @counted: in @freq already, in this round
 * @probation: has yet to prove itself; of a page that is out: it left from there
 * @isolated: handed out
 * @deferred: came back: not to be picked before this pass is over. Never together with @isolated
 * @ahead: read ahead and not used yet
 */
struct lru_word {
	uint64_t resident;
	uint64_t youth[2];
	uint64_t freq[LRU_FREQ_BITS];
	uint64_t touched;
	uint64_t counted;
	uint64_t probation;
	uint64_t isolated;
	uint64_t deferred;
	uint64_t ahead;
	union lru_epochs epochs;
};

_Static_assert(sizeof(struct lru_word) == 128, "two cache lines");

/* Written out: the compiler's builtin is a library call on baseline x86-64. */
static inline uint32_t word_count(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return (uint32_t)(x * 0x0101010101010101 >> 56);
}

static inline uint32_t word_lowest(uint64_t x)
{
	return (uint32_t)__builtin_ctzll(x);
}

static inline uint64_t word_bit(uint32_t idx)
{
	return 1ULL << idx % WORD_PAGES;
}

static inline uint32_t words_for(uint64_t bits)
{
	return (uint32_t)((bits + WORD_PAGES - 1) / WORD_PAGES);
}

/** word_range() - the bits of word @w that lie in pages @first..@end - 1; at least one does */
static inline uint64_t word_range(uint32_t w, uint64_t first, uint64_t end)
{
	uint64_t base = (uint64_t)w * WORD_PAGES;
	uint64_t mask = ~0ULL;

	if (first > base)
		mask <<= first - base;
	if (end < base + WORD_PAGES)
		mask &= ~0ULL >> (base + WORD_PAGES - end);
	return mask;
}

/** word_has_youth() - pages of youth @y */
static inline uint64_t word_has_youth(const struct lru_word *word, uint32_t y)
{
	return (y & 1 ? word->youth[0] : ~word->youth[0]) &
	       (y & 2 ? word->youth[1] : ~word->youth[1]);
}

static inline void word_set_youth(struct lru_word *word, uint64_t mask, uint32_t y)
{
	word->youth[0] = (word->youth[0] & ~mask) | (y & 1 ? mask : 0);
	word->youth[1] = (word->youth[1] & ~mask) | (y & 2 ? mask : 0);
}

/** word_count_touch() - one more for the frequency of the pages in @mask, which stops at its maximum */
static inline void word_count_touch(struct lru_word *word, uint64_t mask)
{
	uint64_t full = ~0ULL;
	uint64_t carry;

	for (uint32_t i = 0; i < LRU_FREQ_BITS; i++)
		full &= word->freq[i];
	mask &= ~full;
	for (uint32_t i = 0; i < LRU_FREQ_BITS && mask; i++) {
		carry = word->freq[i] & mask;
		word->freq[i] ^= mask;
		mask = carry;
	}
}

static inline uint32_t word_freq_of(const struct lru_word *word, uint32_t idx)
{
	uint32_t f = 0;

	for (uint32_t i = 0; i < LRU_FREQ_BITS; i++)
		f |= (uint32_t)(word->freq[i] >> idx % WORD_PAGES & 1) << i;
	return f;
}

static inline uint32_t word_youth_of(const struct lru_word *word, uint32_t idx)
{
	return (uint32_t)(word->youth[0] >> idx % WORD_PAGES & 1) |
	       (uint32_t)(word->youth[1] >> idx % WORD_PAGES & 1) << 1;
}

/**
 * enum lru_key_order - the two orders of eviction; a page's key is a number, the lowest goes first
 * @LRU_BY_GENERATION: youth first, frequency within: youth << LRU_FREQ_BITS | freq
 * @LRU_BY_FREQUENCY: frequency first, youth within: freq << 2 | youth
 */
enum lru_key_order {
	LRU_BY_GENERATION,
	LRU_BY_FREQUENCY,
	LRU_NR_KEY_ORDERS,
};

/** word_compare() - which pages' keys are below @key (returned) and which equal it (*@ret_equal) */
static inline uint64_t word_compare(const struct lru_word *word, enum lru_key_order order,
				    uint32_t key, uint64_t *ret_equal)
{
	const uint64_t *high = order == LRU_BY_GENERATION ? word->youth : word->freq;
	const uint64_t *low = order == LRU_BY_GENERATION ? word->freq : word->youth;
	uint32_t nr_low = order == LRU_BY_GENERATION ? LRU_FREQ_BITS : 2;
	uint64_t equal = ~0ULL, below = 0;

	for (uint32_t i = LRU_FREQ_BITS + 2; i-- && equal;) {
		uint64_t plane = i >= nr_low ? high[i - nr_low] : low[i];

		if (key >> i & 1) {
			below |= equal & ~plane;
			equal &= plane;
		} else {
			equal &= ~plane;
		}
	}
	*ret_equal = equal;
	return below;
}

#endif
