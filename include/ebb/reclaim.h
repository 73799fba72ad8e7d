/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reclaim.h - the door of the reclaim core: facts in, decisions out.
 *
 * The core keeps a multi-generational LRU over the pages of one guest and decides what to evict, when
 * to look at accessed bits and where, and what to read ahead. It makes no system calls, has no
 * threads, no clock and allocates nothing: memory and time are handed in. One caller at a time (the
 * daemon holds the guest's LRU lock around each call); calls are short: a note costs a few words
 * per 64 pages, a pick and the end of a pass look at a bounded number of pages (BENCHMARKING.md).
 *
 * Terms are those of the multi-gen LRU: generations are numbered by a sequence that only grows, the
 * window is min_seq..max_seq. *Aging* makes a new youngest generation, *eviction* consumes the
 * coldest pages; in generation order the two youngest are not evicted, so that a page is looked at
 * twice before it is old. A *pass* is one round of the sampler over the guest; its end is where
 * everything is counted and aging is decided.
 *
 * A page the core knows as resident is in exactly one generation, and may be *isolated*: handed out
 * by reclaim_pick() and not yet reported back by reclaim_note_evicted() or reclaim_note_kept().
 */
#ifndef EBB_RECLAIM_H
#define EBB_RECLAIM_H

#include <ebb/types.h>

#define RECLAIM_MAX_NR_GENS 4
#define RECLAIM_MIN_NR_GENS 2
#define RECLAIM_NO_LIMIT    UINT32_MAX
#define RECLAIM_STRETCH	    512u /* pages: 2 MiB, the unit in which passes skip memory */
#define RECLAIM_PICK_MAX    512u /* pages in one pick at most */
#define RECLAIM_TIME_MAX    (24ull * 3600 * 1000000000) /* of a knob; ns */

struct reclaim;

enum reclaim_order {
	RECLAIM_ORDER_AUTO,	   /* by frequency or by generation, whichever would have been right */
	RECLAIM_ORDER_GENERATIONS, /* oldest generation first, always */
	RECLAIM_ORDER_FREQUENCY,   /* least often touched first, always */
	RECLAIM_ORDER_RANDOM, /* debugging: picks any resident page, so that pages in use are hit */
	RECLAIM_NR_ORDERS,
};

/** What can be switched off at run time; what is known stays and is kept up to date. */
enum reclaim_feature {
	RECLAIM_AGING = 1 << 0,	   /* passes of the sampler and new generations */
	RECLAIM_EVICTION = 1 << 1, /* picking pages */
	RECLAIM_TIERS = 1 << 2,	   /* protection of tiers that refault more than others */
	RECLAIM_AHEAD = 1 << 3,	   /* read-ahead */
	RECLAIM_ALL_FEATURES = (1 << 4) - 1,
};

/** What a look at a page costs the host or the guest, so that passes leave out the dearest. */
enum reclaim_scan_cost {
	RECLAIM_SCAN_PER_PAGE,	     /* each page looked at (page_idle, page tables): skip cold memory */
	RECLAIM_SCAN_PER_YOUNG_PAGE, /* each page found young (zap: it faults again): skip hot memory */
};

/** struct reclaim_policy - the knobs that may change at run time */
struct reclaim_policy {
	enum reclaim_order order;
	uint32_t features;	/* of enum reclaim_feature */
	uint64_t period_ns;	/* between passes, while near the limit; at most RECLAIM_TIME_MAX */
	uint64_t min_period_ns; /* shortest time between passes, whatever happens; at most period_ns */
	uint32_t scan_permille; /* of one CPU that passes may cost on average; 0 = any */
	uint64_t min_ttl_ns;	/* main pages touched less than this ago go only when a fault needs room */
	uint32_t ahead_max;	/* pages of a read-ahead window, 1..64 */
};

struct reclaim_conf {
	uint32_t nr_pages; /* of the guest, hot-plug included: 1..2^29 */
	uint64_t seed;	   /* of everything that is left to chance; any value */
	enum reclaim_scan_cost scan_cost;
	struct reclaim_policy policy;
};

/** reclaim_size() - bytes reclaim_init() needs for @nr_pages: at most 5 a page, touched when needed */
size_t reclaim_size(uint32_t nr_pages);

/**
 * reclaim_init() - make a core in @mem (zeroed, @size bytes, 64-byte aligned); it knows no page yet
 *
 * Returns NULL when @size is too small or @conf makes no sense.
 */
struct reclaim *reclaim_init(void *mem, size_t size, const struct reclaim_conf *conf,
			     uint64_t now_ns);

/** reclaim_policy_default() - the values ebbd starts with */
struct reclaim_policy reclaim_policy_default(void);

/** reclaim_set_policy() - new knobs; -EINVAL and no change when they make no sense */
int reclaim_set_policy(struct reclaim *r, const struct reclaim_policy *policy);

/* --- facts ---------------------------------------------------------------------------------- */

/** reclaim_tick() - the time; call it before facts and decisions that happen now. Never goes back. */
void reclaim_tick(struct reclaim *r, uint64_t now_ns);

enum reclaim_origin {
	RECLAIM_FOUND,	  /* was there at attach or take-over: age unknown */
	RECLAIM_NEW,	  /* first touch: given zeros */
	RECLAIM_REFAULT,  /* came back from the store because the guest touched it */
	RECLAIM_PREFETCH, /* came back beside a refault, or zeros beside a first touch */
};

/** reclaim_note_resident() - @nr pages from @first entered the memfd; those already known stay */
void reclaim_note_resident(struct reclaim *r, uint32_t first, uint32_t nr,
			   enum reclaim_origin origin);

/** reclaim_note_gone() - the VMM discarded these pages: isolated, resident or evicted, all forgotten */
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
 * @young: one bit a page, lowest first; pages that are not resident are ignored
 * @nr_words: words of @young; bits beyond the guest's last page are ignored
 */
void reclaim_note_young(struct reclaim *r, uint32_t first, const uint64_t *young,
			uint32_t nr_words);

/** enum reclaim_hint - what the guest says a page is for; a class, never an order */
enum reclaim_hint {
	RECLAIM_HINT_NONE,
	RECLAIM_HINT_FILE,   /* page cache */
	RECLAIM_HINT_ANON,   /* memory of processes */
	RECLAIM_HINT_KERNEL, /* the guest's kernel, or locked */
	RECLAIM_NR_HINTS,
};

/** reclaim_note_hint() - the class of pages, resident or not, from now on */
void reclaim_note_hint(struct reclaim *r, uint32_t first, uint32_t nr, enum reclaim_hint hint);

/** reclaim_set_limit() - resident pages allowed, or RECLAIM_NO_LIMIT */
void reclaim_set_limit(struct reclaim *r, uint32_t pages);

/* --- decisions: eviction -------------------------------------------------------------------- */

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
 * @max: pages; more than RECLAIM_PICK_MAX counts as RECLAIM_PICK_MAX
 * @urgent: faults are waiting: take what is protected (young generations, min_ttl) too when nothing
 *          else is left
 *
 * Returns the number of runs. It looks at 2^18 pages at most, so that the lock is not held for long, and may
 * find less than there is, or nothing: if reclaim_is_searching(), call again. If not, and 0 was returned,
 * there is nothing: look again after a pass, or try @urgent.
 */
uint32_t reclaim_pick(struct reclaim *r, struct page_run *runs, uint32_t nr_runs, uint32_t max,
		      bool urgent);

/** reclaim_is_searching() - did the last pick give up before it had looked everywhere? */
bool reclaim_is_searching(const struct reclaim *r);

/**
 * reclaim_wants_peek() - is a look at the accessed bits of what was just picked worth its cost?
 *
 * If so, tell reclaim_spare_young() what was found, without clearing any bit.
 */
bool reclaim_wants_peek(const struct reclaim *r);

/**
 * reclaim_spare_young() - an isolated page turns out to be accessed
 *
 * Returns true if it stays: it is put back and not picked again before the next pass, which will report
 * it young. False: it goes nonetheless (its own fault set the bit, or too many are young to choose).
 */
bool reclaim_spare_young(struct reclaim *r, uint32_t idx);

/** reclaim_is_thrashing() - was room made, before the last pass, by evicting what min_ttl protects? */
bool reclaim_is_thrashing(const struct reclaim *r);

/* --- decisions: passes ---------------------------------------------------------------------- */

/** reclaim_should_scan() - would a sampling pass be worth its cost now? */
bool reclaim_should_scan(const struct reclaim *r, uint32_t resident);

/**
 * reclaim_begin_pass() - a pass begins: reclaim_next_scan() starts at the first page
 * @full: look at every stretch, whatever it costs
 */
void reclaim_begin_pass(struct reclaim *r, bool full);

/**
 * reclaim_next_scan() - where the pass looks next
 * @ret_run: filled: first is a multiple of RECLAIM_STRETCH; only the guest's end is ragged
 * @max: pages, at least RECLAIM_STRETCH
 *
 * Stretches that hold no resident page are never named, those whose answer is known seldom: memory
 * that was cold (or, where hot memory is the dear one, hot) the last times is looked at every 2nd,
 * 4th, ... pass, and is taken for what it was meanwhile. Returns false at the end of the pass.
 */
bool reclaim_next_scan(struct reclaim *r, uint32_t max, struct page_run *ret_run);

/**
 * reclaim_end_pass() - the caller has looked at all that reclaim_next_scan() named
 * @cost_ns: CPU time the pass took, of the host and of the guest, as far as known
 *
 * Counts, judges the two orders, and ages if the youngest generation is full.
 */
void reclaim_end_pass(struct reclaim *r, uint64_t cost_ns);

/** reclaim_age() - begin a new youngest generation now (the administrator's word); 16 times between passes */
void reclaim_age(struct reclaim *r);

/* --- decisions: read-ahead ------------------------------------------------------------------ */

/**
 * reclaim_readahead() - pages worth reading after @idx, which faulted; 0 = only that page
 *
 * A window that doubles while faults are sequential, and whose bound moves with what became of the
 * pages read ahead before: up while the guest uses them, down while they are evicted unused.
 */
uint32_t reclaim_readahead(struct reclaim *r, uint32_t idx);

/* --- looking in ----------------------------------------------------------------------------- */

#define RECLAIM_NR_TIERS (2 * RECLAIM_NR_HINTS) /* hint class x refaulted near or not; 0 = baseline */

struct reclaim_gen_stats {
	uint64_t seq;
	uint64_t birth_ns;
	uint32_t pages; /* resident, not isolated */
};

struct reclaim_tier_stats {
	double evicted, refaulted; /* weighted averages, half-life one unit of reuse */
	bool is_protected;
};

enum reclaim_reason { /* of a pass */
	RECLAIM_PASS_PERIOD,	/* its time had come */
	RECLAIM_PASS_SURGE,	/* more faults than expected since the last one */
	RECLAIM_PASS_EMERGENCY, /* pages come back that exact LRU would have kept */
	RECLAIM_PASS_ASKED,
	RECLAIM_NR_REASONS,
};

struct reclaim_stats {
	uint64_t min_seq, max_seq;
	uint32_t limit; /* RECLAIM_NO_LIMIT: none */
	uint32_t resident;
	uint32_t isolated;
	uint32_t probation;	   /* resident pages that have yet to prove themselves */
	uint32_t probation_target; /* at most that many when full */
	uint32_t nr_gens;	   /* entries of @gens that hold something: oldest first */
	struct reclaim_gen_stats gens[RECLAIM_MAX_NR_GENS];
	struct reclaim_tier_stats tiers[RECLAIM_NR_TIERS];
	enum reclaim_order order; /* in use now: GENERATIONS, FREQUENCY or RANDOM */
	bool emergency;
	bool thrashing;
	uint64_t unit_ns;		    /* what the core takes for one round of reuse */
	double loss_generations;	    /* slow averages of the judge: touched pages each order */
	double loss_frequency;		    /* would not have kept */
	uint64_t passes[RECLAIM_NR_REASONS];
	uint64_t agings, promoted, picked, evicted;
	uint64_t refaults, refaults_near;   /* near: exact LRU would have kept the page */
	uint64_t emergencies, graduated;    /* graduated: left probation for having been used again */
	uint64_t tier_protected;	    /* picked, but moved on because of their tier */
	uint64_t young_skipped;		    /* picked, but seen young by a peek */
	uint64_t ahead_used, ahead_wasted;  /* read-ahead pages that were used, evicted unused */
	uint64_t stretches_scanned, stretches_skipped;
};

void reclaim_get_stats(const struct reclaim *r, struct reclaim_stats *ret_stats);

/** struct reclaim_page - what is known of one page */
struct reclaim_page {
	bool resident, isolated, probation;
	uint64_t seq;	    /* generation */
	uint32_t frequency; /* touched in how many rounds, halved now and then; 0..63 */
	uint32_t tier;
};

/** reclaim_get_page() - look at page @idx */
void reclaim_get_page(const struct reclaim *r, uint32_t idx, struct reclaim_page *ret_page);

/** reclaim_verify() - recount everything; false (never expected) when a count or bitmap disagrees */
bool reclaim_verify(const struct reclaim *r);

#endif
