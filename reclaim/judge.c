// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * judge.c - which of two eviction orders would have kept more of what was touched.
 *
 * DOC: two orders, one judge
 *
 * Evicting the least recently used is right when the working set moves: what was not touched lately
 * will not be. Evicting the least frequently used is right when it does not: a page touched rarely
 * stays rare even if it was touched a moment ago. A policy that knows one of them fails in the other
 * world, by a factor of fifty at a change of phase, by half on a skewed load. So both orders are
 * kept, and judged by what they would have done.
 *
 * Accessed bits make that cheap. At the end of a pass each order names the pages it would keep: a
 * bound on its keys (census.c), and by chance a share of the resident pages that equal it. In the
 * interval after, every page touched is known, by its accessed bit if it is resident, by its fault
 * if not, and each order has lost those it would not have kept. No lists of ghosts are needed, and
 * the order that is not in use is judged as exactly as the one that is.
 *
 * The order of generations is used when it lost clearly less, lately or on a long average; a draw is
 * decided for frequency, because a scan makes both lose the same and only frequency withstands it.
 * If not even as many pages were touched as fit, an accessed bit per interval no longer tells often
 * from once, and pages that came back twice within one interval are held against frequency.
 */
#include "decay.h"
#include "judge.h"

#define FAST_HALF_LIFE 2.0  /* units of reuse */
#define FAST_LEAST     0.3  /* kept of the fast average in one step, however long */
#define SLOW_HALF_LIFE 40.0 /* units of reuse */
#define CLEARLY	       0.95
#define REPEAT_WEIGHT  0.5

/* splitmix64 */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* A mask in which each bit is set with probability @share, to 1/64; the same for the same word and salt. */
static uint64_t chance(const struct judge *j, uint32_t w, double share)
{
	uint32_t bits = (uint32_t)(share * 64);
	uint64_t seed = j->salt + (uint64_t)w * 0x9e3779b97f4a7c15;
	uint64_t mask = 0;

	if (bits >= 64)
		return ~0ULL;
	for (uint32_t i = 0; bits && i < 6; i++) {
		uint64_t random = mix(seed + i);

		mask = bits >> i & 1 ? mask | random : mask & random;
	}
	return mask;
}

void judge_note_touch(struct judge *j, const struct lru_word *word, uint32_t w, uint64_t mask,
		      uint64_t resident)
{
	uint64_t equal, lost;

	j->touched += word_count(mask);
	for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++) {
		lost = word_compare(word, order, j->bounds[order].key, &equal);
		equal &= mask;
		if (equal)
			lost |= equal & ~(resident & chance(j, w, j->bounds[order].ties));
		j->lost[order] += word_count(lost & mask);
	}
}

void judge_end_pass(struct judge *j, uint32_t capacity, double units)
{
	double fast = MAX(decay_exp2(units / FAST_HALF_LIFE), FAST_LEAST);
	double slow = decay_exp2(units / SLOW_HALF_LIFE);

	if (j->touched < capacity)
		j->lost[LRU_BY_FREQUENCY] += REPEAT_WEIGHT * j->repeats;
	for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++) {
		if (j->begun) {
			j->fast[order] = j->fast[order] * fast + j->lost[order];
			j->slow[order] = j->slow[order] * slow + j->lost[order];
		}
		j->lost[order] = 0;
	}
	j->begun = true;
	j->touched = 0;
	j->repeats = 0;
}

void judge_set_bounds(struct judge *j, const struct census *c, uint32_t capacity, uint64_t salt)
{
	j->salt = salt;
	for (uint32_t order = 0; order < LRU_NR_KEY_ORDERS; order++)
		j->bounds[order] = census_best(c, order, capacity);
}

enum lru_key_order judge_order(const struct judge *j)
{
	const uint32_t gen = LRU_BY_GENERATION, freq = LRU_BY_FREQUENCY;

	if (j->fast[gen] < CLEARLY * j->fast[freq] || j->slow[gen] < CLEARLY * j->slow[freq])
		return LRU_BY_GENERATION;
	return LRU_BY_FREQUENCY;
}
