/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sweep.h - finds the coldest pages, neighbours together.
 */
#ifndef RECLAIM_SWEEP_H
#define RECLAIM_SWEEP_H

#include "census.h"
#include "tiers.h"

/**
 * struct sweep_hand - where in a circle, and what is known of the way so far
 * @moves: the circle has begun
 * @start: first stretch of the circle
 * @nth: which stretch of the circle
 * @word: which word of the stretch
 * @bit: pages of that word below this one had their turn
 * @seen_key, @seen_youth: what all searches of this circle were allowed to take ends here
 * @wet_key: keys from this one on may have come back behind the hand
 */
struct sweep_hand {
	bool moves;
	uint32_t start;
	uint32_t nth;
	uint32_t word;
	uint32_t bit;
	uint32_t seen_key;
	uint32_t seen_youth;
	uint32_t wet_key;
};

/**
 * struct sweep - where it stands
 * @key: pages with keys up to this one are taken in this circle
 * @step: from one stretch to the next, modulo @nr_stretches, to which it has no common divisor
 * @stray: for what came back at keys that the sweep has left behind
 * @dry_key, @dry_youth: nothing is left with keys and youths below these: do not look again before
 *         something changes
 */
struct sweep {
	enum lru_key_order order;
	uint32_t key;
	uint32_t nr_stretches;
	uint32_t step;
	struct sweep_hand hand;
	struct sweep_hand stray;
	uint32_t dry_key;
	uint32_t dry_youth;
};

/** struct sweep_batch - what was found; runs in the order found */
struct sweep_batch {
	struct page_run *runs;
	uint32_t nr;
	uint32_t room; /* in @runs */
	uint32_t left; /* pages still wanted */
	uint32_t looks; /* words that may still be looked at */
};

/**
 * struct sweep_rules - what may be taken
 * @key_end: no key from this one on
 * @youth_end: no page of this youth or above, whatever its key
 * @tiers: pages of protected tiers are passed over and deferred; NULL: no such protection
 * @protected: counts them
 */
struct sweep_rules {
	uint32_t key_end;
	uint32_t youth_end;
	const struct tiers *tiers;
	uint64_t *protected;
};

void sweep_init(struct sweep *s, uint32_t nr_pages);

/** sweep_restart() - a new circle, from a stretch that @random chooses, beginning with the coldest */
void sweep_restart(struct sweep *s, const struct lru_gen *lru, const struct census *c,
		   enum lru_key_order order, uint64_t random);

/** sweep_wet() - there may be something to take with this key, or above */
void sweep_wet(struct sweep *s, uint32_t key);

/** sweep_take() - isolate pages until @b is full, its looks are used up, or nothing is left that @rules allow */
void sweep_take(struct sweep *s, struct lru_gen *lru, const struct census *c,
		const struct sweep_rules *rules, struct sweep_batch *b);

/** sweep_add() - put @nr pages from @first into the batch, whose room suffices */
bool sweep_add(struct sweep_batch *b, uint32_t first, uint32_t nr);

/** sweep_sort() - ascending order, and runs that touch made one */
void sweep_sort(struct sweep_batch *b);

/** word_lowest_run() - the lowest run of @mask (not 0), cut to @max */
uint64_t word_lowest_run(uint64_t mask, uint32_t max, uint32_t *ret_first, uint32_t *ret_nr);

#endif
