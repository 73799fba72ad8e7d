/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * judge.h - which of two eviction orders would have kept more of what was touched.
 */
#ifndef RECLAIM_JUDGE_H
#define RECLAIM_JUDGE_H

#include "census.h"

/**
 * struct judge - the case
 * @bounds: the pages each order would keep, as of the last pass
 * @salt: decides who is kept among equals; another one for each pass
 * @lost: pages touched since then that an order would not have kept
 * @touched: pages touched since then
 * @repeats: pages that came back too soon although they had been touched since then
 * @fast, @slow: averages of @lost
 */
struct judge {
	struct census_bound bounds[LRU_NR_KEY_ORDERS];
	uint64_t salt;
	double lost[LRU_NR_KEY_ORDERS];
	double touched;
	double repeats;
	double fast[LRU_NR_KEY_ORDERS];
	double slow[LRU_NR_KEY_ORDERS];
	bool begun;
};

/**
 * judge_note_touch() - pages of @mask are touched for the first time since the last pass
 * @word: word @w as it was until then
 * @resident: which of them were resident when the last pass ended
 */
void judge_note_touch(struct judge *j, const struct lru_word *word, uint32_t w, uint64_t mask,
		      uint64_t resident);

/** judge_end_pass() - add up what was lost in an interval of @units of reuse */
void judge_end_pass(struct judge *j, uint32_t capacity, double units);

/** judge_set_bounds() - what each order would keep of @capacity pages from now on */
void judge_set_bounds(struct judge *j, const struct census *c, uint32_t capacity, uint64_t salt);

/** judge_order() - the order to evict in */
enum lru_key_order judge_order(const struct judge *j);

#endif
