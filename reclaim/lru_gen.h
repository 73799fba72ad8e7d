/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_gen.h - the pages of a guest: which are resident, how old, how often touched, with exact counts.
 *
 * Page ranges must lie inside the guest (asserted). Memory is handed in. Masks name pages of one
 * word; a function says which of them it takes. lru_gen.c explains how it works.
 */
#ifndef RECLAIM_LRU_GEN_H
#define RECLAIM_LRU_GEN_H

#include <ebb/reclaim.h>
#include "lru_word.h"

/**
 * struct lru_gen - all pages of a guest; read freely, change by the functions below only
 * @words: each is true only as of its epochs: read it through lru_gen_word()
 * @summary: one bit a word: does it hold a resident page?
 * @epochs: what an up-to-date word has seen
 * @birth_ns: of the generations, by youth
 * @by_youth: resident pages; they add up to @resident
 * @counted: of the resident pages
 * @undeferred: deferred pages may be picked too, until the pass ends
 */
struct lru_gen {
	struct lru_word *words;
	uint64_t *summary;
	uint32_t nr_pages;
	uint32_t nr_words;
	union lru_epochs epochs;
	uint64_t max_seq;
	uint64_t birth_ns[RECLAIM_MAX_NR_GENS];
	uint32_t by_youth[RECLAIM_MAX_NR_GENS];
	uint32_t resident;
	uint32_t probation;
	uint32_t counted;
	uint32_t isolated;
	uint32_t deferred;
	bool undeferred;
};

/** lru_gen_size() - bytes lru_gen_init() needs: 129/64 of a byte a page, rounded up */
size_t lru_gen_size(uint32_t nr_pages);

/**
 * lru_gen_init() - no page known
 * @mem: zeroed, 64-byte aligned, of lru_gen_size() bytes; not written to before it is needed
 * @nr_pages: 1 or more
 */
void lru_gen_init(struct lru_gen *lru, void *mem, uint32_t nr_pages, uint64_t now_ns);

/** lru_gen_min_seq() - the oldest generation that holds a page, or the second youngest */
uint64_t lru_gen_min_seq(const struct lru_gen *lru);

/** lru_gen_peek_word() - word @w as it would be if it were up to date */
struct lru_word lru_gen_peek_word(const struct lru_gen *lru, uint32_t w);

/** lru_gen_catch_up() - bring @word up to date */
void lru_gen_catch_up(const struct lru_gen *lru, struct lru_word *word);

/** lru_gen_word() - word @w, up to date */
static inline struct lru_word *lru_gen_word(struct lru_gen *lru, uint32_t w)
{
	struct lru_word *word = &lru->words[w];

	if (word->epochs.all != lru->epochs.all)
		lru_gen_catch_up(lru, word);
	return word;
}

/** lru_gen_has_resident() - is a page of word @w resident? */
static inline bool lru_gen_has_resident(const struct lru_gen *lru, uint32_t w)
{
	return lru->summary[w / WORD_PAGES] & word_bit(w);
}

/** lru_gen_nr_pickable() - pages that may be handed out */
static inline uint32_t lru_gen_nr_pickable(const struct lru_gen *lru)
{
	return lru->resident - lru->isolated - (lru->undeferred ? 0 : lru->deferred);
}

/** lru_gen_pickable() - pages of @word, which is up to date, that may be handed out */
static inline uint64_t lru_gen_pickable(const struct lru_gen *lru, const struct lru_word *word)
{
	return word->resident & ~word->isolated & ~(lru->undeferred ? 0 : word->deferred);
}

/** lru_gen_enter() - pages of @mask, none resident, become so, with this youth */
void lru_gen_enter(struct lru_gen *lru, uint32_t w, uint64_t mask, uint32_t youth);

/** lru_gen_leave() - pages of @mask, all resident, are no longer; what is known of them stays */
void lru_gen_leave(struct lru_gen *lru, uint32_t w, uint64_t mask);

/** lru_gen_forget() - pages of @mask, none resident, were discarded: as if never seen */
void lru_gen_forget(struct lru_gen *lru, uint32_t w, uint64_t mask);

/** lru_gen_promote() - pages of @mask, all resident, become the youngest; returns how many moved */
uint32_t lru_gen_promote(struct lru_gen *lru, uint32_t w, uint64_t mask);

/** lru_gen_count_touch() - the frequency of those in @mask not counted in this round goes up */
void lru_gen_count_touch(struct lru_gen *lru, uint32_t w, uint64_t mask);

/** lru_gen_set_probation() - pages of @mask, resident or not, are on probation, or no longer */
void lru_gen_set_probation(struct lru_gen *lru, uint32_t w, uint64_t mask, bool on);

/** lru_gen_isolate() - hand out the pages of @mask, all pickable */
void lru_gen_isolate(struct lru_gen *lru, uint32_t w, uint64_t mask);

/** lru_gen_is_isolated() - is the page handed out? */
bool lru_gen_is_isolated(const struct lru_gen *lru, uint32_t idx);

/** lru_gen_put_back() - an isolated page returns; @defer: not to be picked in this pass again */
void lru_gen_put_back(struct lru_gen *lru, uint32_t idx, bool defer);

/** lru_gen_defer() - pages of @mask, all pickable, are not to be picked in this pass */
void lru_gen_defer(struct lru_gen *lru, uint32_t w, uint64_t mask);

/** lru_gen_end_pass() - nobody was touched yet, and those deferred may be picked again */
void lru_gen_end_pass(struct lru_gen *lru);

/** lru_gen_undefer() - those deferred may be picked nonetheless, and those who will be, in this pass */
void lru_gen_undefer(struct lru_gen *lru);

/** lru_gen_end_round() - nobody is counted yet; @halve: and all frequencies are halved */
void lru_gen_end_round(struct lru_gen *lru, bool halve);

/** lru_gen_age() - begin a new youngest generation; what would be a fifth one joins the oldest */
void lru_gen_age(struct lru_gen *lru, uint64_t now_ns);

/** lru_gen_verify() - recount; false if a plane, the summary or a count is wrong */
bool lru_gen_verify(const struct lru_gen *lru);

#endif
