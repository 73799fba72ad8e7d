/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reclaim.h - the door of the reclaim core: facts in, decisions out.
 *
 * The core keeps a multi-generational LRU over the pages of one guest and decides what to evict, when
 * to age and what to read ahead. It makes no system calls, has no threads, no clock and allocates
 * nothing: memory and time are handed in. One caller at a time (the daemon holds the guest's LRU lock
 * around each call); every call is short: a note costs a few words per 64 pages, a pick stops after
 * a bounded search.
 *
 * Terms are those of the multi-gen LRU: generations are numbered by a sequence that only grows, the
 * window is min_seq..max_seq, a page's generation is stored modulo RECLAIM_MAX_NR_GENS. *Aging* makes
 * a new youngest generation; *eviction* consumes the oldest; the two youngest are not evicted in
 * generation order, so that a page is looked at twice before it is old.
 *
 * A page the core knows is in exactly one generation, or *isolated*: handed out by reclaim_pick() and
 * not yet reported back by reclaim_note_evicted() or reclaim_note_kept().
 */
#ifndef EBB_RECLAIM_H
#define EBB_RECLAIM_H

#include <ebb/types.h>

#define RECLAIM_MAX_NR_GENS 4
#define RECLAIM_MIN_NR_GENS 2
#define RECLAIM_NO_LIMIT    UINT32_MAX

struct reclaim;

enum reclaim_order {
	RECLAIM_ORDER_GENERATIONS,
	RECLAIM_ORDER_RANDOM, /* debugging: picks any resident page, so that pages in use are hit */
};

struct reclaim_conf {
	uint32_t nr_pages; /* of the guest */
	enum reclaim_order order;
	uint64_t seed;		  /* of RECLAIM_ORDER_RANDOM */
	uint64_t min_age_ns;	  /* shortest time between two agings */
	uint32_t readahead_max;	  /* pages, 1 = off; at most 64 */
};

/** reclaim_size() - bytes reclaim_init() needs for @nr_pages, at most 1 byte a page and a fixed part */
size_t reclaim_size(uint32_t nr_pages);

/**
 * reclaim_init() - make a core in @mem (zeroed, @size bytes, 64-byte aligned); it knows no page yet
 *
 * Returns NULL when @size is too small or @conf makes no sense.
 */
struct reclaim *reclaim_init(void *mem, size_t size, const struct reclaim_conf *conf,
			     uint64_t now_ns);

/* --- facts ---------------------------------------------------------------------------------- */

enum reclaim_origin {
	RECLAIM_FOUND,	  /* was there at attach or take-over: age unknown */
	RECLAIM_NEW,	  /* first touch: given zeros */
	RECLAIM_REFAULT,  /* came back from the store because the guest touched it */
	RECLAIM_PREFETCH, /* came back beside a refault, or zeros beside a first touch */
};

/** reclaim_note_resident() - @nr pages from @first entered the memfd; those already known stay */
void reclaim_note_resident(struct reclaim *r, uint32_t first, uint32_t nr,
			   enum reclaim_origin origin);

/** reclaim_note_gone() - the VMM discarded these pages, isolated or not; unknown ones are ignored */
void reclaim_note_gone(struct reclaim *r, uint32_t first, uint32_t nr);

/** reclaim_note_evicted() - an isolated page is out */
void reclaim_note_evicted(struct reclaim *r, uint32_t idx);

enum reclaim_kept {
	RECLAIM_KEPT_TOUCHED, /* the guest wanted to write to it: young */
	RECLAIM_KEPT_BUSY,    /* pinned or unverifiable: back where it was, others first */
	RECLAIM_KEPT_ERROR,   /* the store refused: back where it was */
};

/** reclaim_note_kept() - an isolated page stays resident; ignored if it is not isolated */
void reclaim_note_kept(struct reclaim *r, uint32_t idx, enum reclaim_kept why);

/**
 * reclaim_note_young() - pages seen accessed since the last look
 * @first: page index, a multiple of 64
 * @young: one bit a page, lowest first; pages not in a generation are ignored
 * @nr_words: words of @young; bits beyond the guest's last page are ignored
 *
 * Young pages move to the youngest generation.
 */
void reclaim_note_young(struct reclaim *r, uint32_t first, const uint64_t *young, uint32_t nr_words);

/** reclaim_set_limit() - resident pages allowed, or RECLAIM_NO_LIMIT */
void reclaim_set_limit(struct reclaim *r, uint32_t pages);

/* --- decisions ------------------------------------------------------------------------------ */

/**
 * reclaim_excess() - how many pages to evict now
 * @resident: pages resident, those being brought in included
 *
 * Two watermarks below the limit: nothing is due while @resident is under the high one; once it is
 * above, everything down to the low one is. So faults find room without waiting, and evictions come in
 * batches. The gap is 1/64 of the limit, 1 MiB at least and 16 MiB at most (a quarter of a tiny limit).
 */
uint32_t reclaim_excess(const struct reclaim *r, uint32_t resident);

/** reclaim_high_watermark() - pages above which reclaim_excess() is not 0; UINT32_MAX without a limit */
uint32_t reclaim_high_watermark(const struct reclaim *r);

/**
 * reclaim_pick() - choose and isolate up to @max pages, coldest first
 * @runs: filled with ascending, non-overlapping runs; pages next to each other make one run
 * @nr_runs: room in @runs
 * @urgent: faults are waiting: take from the two youngest generations too when nothing older is left
 *
 * Returns the number of runs; 0 when nothing may be picked (age first, or try @urgent).
 */
uint32_t reclaim_pick(struct reclaim *r, struct page_run *runs, uint32_t nr_runs, uint32_t max,
		      bool urgent);

/** reclaim_should_age() - would a sampling pass be worth its cost now? */
bool reclaim_should_age(const struct reclaim *r, uint32_t resident, uint64_t now_ns);

/** reclaim_age() - begin a new youngest generation; the caller has reported a full sampling pass */
void reclaim_age(struct reclaim *r, uint64_t now_ns);

/**
 * reclaim_readahead() - pages worth reading after @idx, which faulted; 0 = only that page
 *
 * A window that doubles while faults are sequential and closes when they are not.
 */
uint32_t reclaim_readahead(struct reclaim *r, uint32_t idx);

/* --- looking in ----------------------------------------------------------------------------- */

struct reclaim_gen_stats {
	uint64_t seq;
	uint64_t birth_ns;
	uint32_t pages;
};

struct reclaim_stats {
	uint64_t min_seq, max_seq;
	uint32_t limit; /* RECLAIM_NO_LIMIT: none */
	uint32_t isolated;
	uint32_t nr_gens; /* entries of @gens that hold something: oldest first */
	struct reclaim_gen_stats gens[RECLAIM_MAX_NR_GENS];
	uint64_t agings, promoted, picked;
};

void reclaim_get_stats(const struct reclaim *r, struct reclaim_stats *ret_stats);

/** reclaim_verify() - recount everything; false (never expected) when a count or bitmap disagrees */
bool reclaim_verify(const struct reclaim *r);

#endif
