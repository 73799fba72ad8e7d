/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tiers.h - kinds of pages, and a controller that protects the kinds that come back most.
 */
#ifndef RECLAIM_TIERS_H
#define RECLAIM_TIERS_H

#include <ebb/reclaim.h>

/** struct tier_word - planes of 64 pages */
struct tier_word {
	uint64_t refaulted; /* came back too soon after the last eviction */
	uint64_t hint[2];   /* enum reclaim_hint */
};

/** struct tier - what became of the pages of one tier: weighted counts */
struct tier {
	double evicted;
	double refaulted;
};

struct tiers {
	struct tier_word *words;
	uint32_t nr_words;
	struct tier now[RECLAIM_NR_TIERS]; /* since the last update */
	struct tier avg[RECLAIM_NR_TIERS];
	uint32_t protected;		   /* bit per tier */
	bool any;			   /* is there, or was there, a page outside tier 0? */
};

size_t tiers_size(uint32_t nr_pages);
void tiers_init(struct tiers *t, void *mem, uint32_t nr_pages);

/** tiers_of() - the tier of page @idx */
uint32_t tiers_of(const struct tiers *t, uint32_t idx);

/** tiers_set_hint() - the class of pages @first..@first + @nr - 1 */
void tiers_set_hint(struct tiers *t, uint32_t first, uint32_t nr, enum reclaim_hint hint);

void tiers_note_evicted(struct tiers *t, uint32_t idx);

/** tiers_note_refault() - page @idx came back; @near: exact LRU would have kept it */
void tiers_note_refault(struct tiers *t, uint32_t idx, bool near);

/** tiers_forget() - pages of @mask in word @w were discarded */
void tiers_forget(struct tiers *t, uint32_t w, uint64_t mask);

/** tiers_update() - @units of reuse have passed: decide anew what is protected */
void tiers_update(struct tiers *t, double units);

/** tiers_protected() - pages of word @w whose tier is protected */
uint64_t tiers_protected(const struct tiers *t, uint32_t w);

#endif
