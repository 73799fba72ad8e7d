/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * census.h - how many pages there are of each youth and frequency, from a bounded sample.
 */
#ifndef RECLAIM_CENSUS_H
#define RECLAIM_CENSUS_H

#include "lru_gen.h"

#define CENSUS_WORDS 4096u /* looked at; guests of up to 1 GiB are counted in full */

/** struct census - pages by youth and frequency, scaled up to the whole guest */
struct census {
	double all[RECLAIM_MAX_NR_GENS][LRU_FREQ_MAX + 1];	/* resident or out */
	double resident[RECLAIM_MAX_NR_GENS][LRU_FREQ_MAX + 1];
	double main[RECLAIM_MAX_NR_GENS][LRU_FREQ_MAX + 1];	/* resident, not on probation */
	double words; /* that hold such a main page */
};

/**
 * struct census_bound - the best pages in one order: keys above @key, and of the resident pages
 * with that very key a share of @ties
 */
struct census_bound {
	uint32_t key;
	double ties;
};

/** census_take() - count; @turn: a number that grows by one from census to census */
void census_take(struct census *c, struct lru_gen *lru, uint64_t turn);

/** census_main() - pages with this @key in @order that are not on probation */
double census_main(const struct census *c, enum lru_key_order order, uint32_t key);

/** census_best() - the bound of the best @nr pages in @order, resident or not */
struct census_bound census_best(const struct census *c, enum lru_key_order order, uint32_t nr);

/** census_key() - the smallest key above @above (-1: any) such that keys up to it hold @nr pages
 * that are not on probation; the highest key if there are not so many */
uint32_t census_key(const struct census *c, enum lru_key_order order, int above, double nr);

#endif
