/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_gen.h - generations of pages as bitmaps: who is how old, who is handed out.
 *
 * Page ranges must lie inside the guest (asserted); sequence numbers inside min_seq..max_seq.
 * Memory is handed in. lru_gen.c explains how it works.
 */
#ifndef RECLAIM_LRU_GEN_H
#define RECLAIM_LRU_GEN_H

#include <ebb/reclaim.h>

/**
 * struct lru_word - 64 pages; bit n is page 64 * index + n
 * @gen: one bitmap per slot, see lru_gen_slot_of(); a page is in one at most
 * @isolated: handed out; the page's bit in @gen stays and remembers where it came from
 * @deferred: came back busy: not to be picked before the next aging. Never together with @isolated
 */
struct lru_word {
	uint64_t gen[RECLAIM_MAX_NR_GENS];
	uint64_t isolated;
	uint64_t deferred;
};

/* Summary bitmaps, one bit a word: one for each generation, and one for @deferred. */
#define LRU_SUMMARY_DEFERRED RECLAIM_MAX_NR_GENS
#define LRU_NR_SUMMARIES     (RECLAIM_MAX_NR_GENS + 1)

/**
 * struct lru_gen_slot - one generation
 * @birth_ns: when it began
 * @hand: where the sweep of this generation goes on, a page index
 * @pages: all its pages, those isolated or deferred included
 * @isolated: of @pages
 * @deferred: of @pages
 */
struct lru_gen_slot {
	uint64_t birth_ns;
	uint32_t hand;
	uint32_t pages;
	uint32_t isolated;
	uint32_t deferred;
};

/** struct lru_gen - all generations of a guest; read freely, change by the functions below only */
struct lru_gen {
	struct lru_word *words;
	uint64_t *summary[LRU_NR_SUMMARIES];
	uint32_t nr_pages;
	uint32_t nr_words;
	uint64_t min_seq;
	uint64_t max_seq;
	struct lru_gen_slot slots[RECLAIM_MAX_NR_GENS];
	uint32_t slot_of[RECLAIM_MAX_NR_GENS]; /* by seq modulo RECLAIM_MAX_NR_GENS */
};

/** lru_gen_slot_of() - where generation @seq is kept: an index of slots[], summary[] and gen[] */
static inline uint32_t lru_gen_slot_of(const struct lru_gen *lru, uint64_t seq)
{
	return lru->slot_of[seq % RECLAIM_MAX_NR_GENS];
}

static inline uint32_t lru_gen_nr_gens(const struct lru_gen *lru)
{
	return (uint32_t)(lru->max_seq - lru->min_seq + 1);
}

/** lru_gen_size() - bytes lru_gen_init() needs for @nr_pages: 49/64 of a byte a page, rounded up */
size_t lru_gen_size(uint32_t nr_pages);

/**
 * lru_gen_init() - no page known, RECLAIM_MIN_NR_GENS empty generations
 * @mem: zeroed, 64-byte aligned, of lru_gen_size() bytes; it is not written to before it is needed
 * @nr_pages: 1 or more
 */
void lru_gen_init(struct lru_gen *lru, void *mem, uint32_t nr_pages, uint64_t now_ns);

/** lru_gen_add() - put pages into generation @seq; those already known, isolated or not, stay */
void lru_gen_add(struct lru_gen *lru, uint32_t first, uint32_t nr, uint64_t seq);

/** lru_gen_remove() - forget pages, isolated or not; unknown ones are ignored */
void lru_gen_remove(struct lru_gen *lru, uint32_t first, uint32_t nr);

/** lru_gen_is_isolated() - is the page handed out? */
bool lru_gen_is_isolated(const struct lru_gen *lru, uint32_t idx);

/**
 * lru_gen_put_back() - an isolated page returns to its generation
 * @defer: do not pick it again before the next aging (or lru_gen_undefer())
 */
void lru_gen_put_back(struct lru_gen *lru, uint32_t idx, bool defer);

/** lru_gen_put_back_young() - an isolated page goes to the youngest generation; true if it moved */
bool lru_gen_put_back_young(struct lru_gen *lru, uint32_t idx);

/**
 * lru_gen_promote() - move the pages of a young bitmap to the youngest generation
 * @first: a multiple of 64; bits past the last page are ignored, as are unknown and isolated pages
 *
 * Returns how many moved: those already there are not counted.
 */
uint32_t lru_gen_promote(struct lru_gen *lru, uint32_t first, const uint64_t *young,
			 uint32_t nr_words);

/**
 * lru_gen_age() - begin a new youngest generation
 *
 * When the window is full the two oldest become one. Deferred pages may be picked again.
 */
void lru_gen_age(struct lru_gen *lru, uint64_t now_ns);

/** lru_gen_undefer() - allow deferred pages to be picked again; returns how many there were */
uint32_t lru_gen_undefer(struct lru_gen *lru);

/** lru_gen_pickable() - pages of @seq that are neither isolated nor deferred */
uint32_t lru_gen_pickable(const struct lru_gen *lru, uint64_t seq);

/**
 * lru_gen_isolate() - hand out pages of one generation, going on where its last sweep stopped
 * @runs: filled, ascending; neighbours make one run
 * @nr_runs: room in @runs
 * @max: pages
 *
 * Returns the number of runs. It never wraps in the middle of a batch: fewer than @max pages are
 * returned at the guest's end although the next call will find more. 0 only if none is pickable
 * (or there is no room).
 */
uint32_t lru_gen_isolate(struct lru_gen *lru, uint64_t seq, struct page_run *runs, uint32_t nr_runs,
			 uint32_t max);

/**
 * lru_gen_isolate_any() - hand out the first pickable pages at or after @from, of any generation
 * @max: pages, 1 or more
 * @ret_run: filled if something was found: a run within one word
 *
 * The search goes round the guest once; returns false if nothing is pickable.
 */
bool lru_gen_isolate_any(struct lru_gen *lru, uint32_t from, uint32_t max,
			 struct page_run *ret_run);

/** lru_gen_verify() - recount; false if a bitmap, summary, count or the window is wrong */
bool lru_gen_verify(const struct lru_gen *lru);

#endif
