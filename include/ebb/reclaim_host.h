/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reclaim_host.h - many guests on one budget: who gets how much, who is let in, whose turn it is.
 *
 * Three things that know nothing of each other. *Shares* turn sizes, protections and weights into
 * one target a guest. *Admission* says beforehand whether one guest more can be promised what it
 * asks for. *Rotation* says which guest to visit next, at a cost that idle guests do not add to.
 *
 * Facts in, decisions out: no system calls, threads, clock or allocation. One caller at a time. All
 * sizes are pages of 4 KiB.
 */
#ifndef EBB_RECLAIM_HOST_H
#define EBB_RECLAIM_HOST_H

#include <ebb/reclaim.h>

/* --- shares --------------------------------------------------------------------------------- */

#define HOST_NO_BUDGET	    UINT64_MAX
#define HOST_WEIGHT_DEFAULT 100u
#define HOST_WEIGHT_MAX	    10000u /* as in cgroup v2 */
#define HOST_PAGES_MAX	    (1u << 29)
#define HOST_GUESTS_MAX	    (1u << 16)

/**
 * struct host_share - one guest's part in the division
 *
 * The caller keeps an array of these. It sets @target of a new guest to RECLAIM_NO_LIMIT, renews
 * the facts before each division and leaves @target as it was left to it: that is what hysteresis
 * knows of the last one. Inconsistent facts are forgiven, for they are read one after the other
 * while guests run: @low and @high count up to the smaller of @size and @limit, @idle up to
 * @resident.
 */
struct host_share {
	/* what was set */
	uint32_t size;	/* pages the guest has, plugged memory included: 0..HOST_PAGES_MAX */
	uint32_t limit; /* never more than this, or RECLAIM_NO_LIMIT */
	uint32_t high;	/* what is above goes first when there is too little, or RECLAIM_NO_LIMIT */
	uint32_t low;	/* protected: not taken while anybody has something that is not */
	uint32_t weight; /* 1..HOST_WEIGHT_MAX: of two guests, the heavier keeps more */

	/* what is */
	uint32_t resident; /* pages in memory, those being brought in included; any value */
	uint32_t idle;	   /* of them, cold: e.g. in generations older than the two youngest */
	uint32_t wanted;   /* more that it had use for: its refaults since the last division, say */

	/* what is decided */
	uint32_t target; /* for reclaim_set_limit(); at most @limit, whatever else */
	uint32_t cut;	 /* pages the guest has to give up to reach it */

	/* scratch, of no meaning outside a division */
	uint32_t start, now, before, floor, cap, part, fraction;
	double rate;
};

/** struct host_policy - what the division is to keep to */
struct host_policy {
	uint64_t budget; /* pages for all guests together, or HOST_NO_BUDGET */

	/*
	 * RECLAIM_NO_LIMIT: protections are held for their guests, whether used or not. Otherwise
	 * what a guest does not use of its protection is lent to others, but for so many pages,
	 * which it finds when it grows. It gets the rest back as fast as others can be made to
	 * give it up.
	 */
	uint32_t lend_beyond;
};

/** struct host_sums - what came out of a division, for counters and for people; pages */
struct host_sums {
	uint64_t resident;
	uint64_t low;	  /* protections held: what is lent does not count */
	uint64_t targets; /* at most the budget, always */
	uint64_t over;	  /* what is resident or held, beyond the budget; 0: there is headroom */
	uint64_t cut;	  /* pages to give up, all guests together */
	uint64_t cut_high, cut_idle, cut_rest, cut_low; /* parts of @over: why it was taken */
	uint64_t unused;  /* budget that nobody may have: all guests have what they can hold */
	uint64_t missing; /* protections beyond the budget; 0: all are kept */
	bool is_scaled;	  /* they are not: each guest gets the same part of its own */
	uint32_t changed; /* guests whose target is not what it was */
};

/** host_policy_default() - no budget, and protections are held */
struct host_policy host_policy_default(void);

/** host_check_share() - can @share be used? -EINVAL: weight, -ERANGE: size; 0 otherwise */
int host_check_share(const struct host_share *share);

/**
 * host_set_targets() - divide the budget among @nr guests
 * @shares: must pass host_check_share(); @target and @cut are written
 * @nr: 0..HOST_GUESTS_MAX
 * @ret_sums: filled; may be NULL
 *
 * The targets never add up to more than the budget. Where that must be taken from somebody, just
 * that much is taken: what is above high first, then idle pages, then others, each in proportion
 * to (pages over protection) / weight, and protections only when nothing else is left, all by the
 * same part. Otherwise the headroom is handed out: those that want pages first, then by weight,
 * up to high and then to the limit. Without a budget each guest's target is its limit.
 *
 * Takes time in proportion to @nr, some tens of walks. The same input gives the same output.
 */
void host_set_targets(struct host_share *shares, uint32_t nr, const struct host_policy *policy,
		      struct host_sums *ret_sums);

/* --- admission ------------------------------------------------------------------------------ */

enum host_verdict {
	HOST_FITS,
	HOST_BAD_WEIGHT,       /* not 1..HOST_WEIGHT_MAX */
	HOST_BAD_SIZE,	       /* 0, or above HOST_PAGES_MAX */
	HOST_LOW_ABOVE_LIMIT,  /* contradicts itself: @low is more than its size or limit allows */
	HOST_LOW_ABOVE_BUDGET, /* could not be kept on an empty host either */
	HOST_LOW_UNAVAILABLE,  /* others were promised too much */
	HOST_NR_VERDICTS,
};

/** struct host_admission - the numbers of the answer, in pages; filled as far as they make sense */
struct host_admission {
	enum host_verdict verdict;
	uint64_t budget;    /* or HOST_NO_BUDGET */
	uint64_t protected; /* promised to the guests that are there */
	uint64_t available; /* may still be promised: never less than 0 */
	uint64_t low;	    /* asked for */
	uint64_t ceiling;   /* what @low is held against: the smaller of size and limit */
	uint64_t missing;   /* of @low */
	uint64_t over;	    /* pages that would have to go, should it bring @resident pages along */
	uint64_t over_idle; /* of those, as many as are idle somewhere above a protection */
};

/**
 * host_admit() - can one guest more be promised its protection?
 * @guest: as it would be added; @resident and @idle as it would bring them along
 * @ret: filled; may be NULL
 *
 * All promises are counted in full, lent or not: what was promised must be there on the day when
 * all want it. Returns 0, -EINVAL for a guest that makes no sense anywhere, -ENOSPC for one that
 * does not fit here.
 */
int host_admit(const struct host_share *shares, uint32_t nr, const struct host_policy *policy,
	       const struct host_share *guest, struct host_admission *ret);

/* --- rotation ------------------------------------------------------------------------------- */

#define HOST_NR_GENS   8u /* a power of two */
#define HOST_DELAY_MAX 4u /* rounds a fruitless guest waits at most; below HOST_NR_GENS */

/** Bins of a generation are emptied in this order. */
enum host_bin {
	HOST_BIN_HEAD, /* above its soft limit */
	HOST_BIN_BODY,
	HOST_BIN_TAIL, /* was fruitless the last time */
	HOST_NR_BINS,
};

/** struct host_node - a guest's place; embedded in what the caller keeps of a guest */
struct host_node {
	struct host_node *prev, *next; /* NULL: in no list */
	uint64_t seq;	      /* generation it is in; while parked: the last one it was in */
	uint64_t visited_seq; /* round of its last visit, plus one; 0: never */
	uint8_t bin;
	uint8_t delay; /* rounds it waited the last time for being fruitless */
	bool is_parked;
};

/** struct host_rotation - all guests, by the round in which their turn comes */
struct host_rotation {
	uint64_t seq; /* the round */
	uint32_t nr_guests, nr_parked;
	uint64_t visits, rounds;			    /* since the start */
	uint32_t nr[HOST_NR_GENS];			    /* guests in each generation */
	struct host_node lists[HOST_NR_GENS][HOST_NR_BINS]; /* heads of circular lists */
};

/** enum host_outcome - what a visit came to, or what was learnt of a guest meanwhile */
enum host_outcome {
	HOST_WORKED,	/* something was reclaimed or learnt: next round again */
	HOST_FRUITLESS, /* looked, and nothing came of it: again in 1, 2, then 4 rounds, last */
	HOST_IDLE, /* nothing to do until something happens: left out until host_rotation_wake() */
	HOST_EXCESS, /* above its soft limit: first, in this round if it had no turn yet */
};

/** host_rotation_init() - no guest yet. @rot must not move afterwards, nor a node while it is in */
void host_rotation_init(struct host_rotation *rot);

/** host_rotation_enter() - a guest came: its turn is in the next round */
void host_rotation_enter(struct host_rotation *rot, struct host_node *node);

/** host_rotation_leave() - a guest goes, from wherever it is; nothing if it is not in */
void host_rotation_leave(struct host_rotation *rot, struct host_node *node);

/**
 * host_rotation_next() - whose turn is it?
 *
 * Returns NULL at the end of a round, once; the call after it begins the next one. A guest has one
 * turn a round at most. The one returned is in line for the next round already: say otherwise with
 * host_rotation_note().
 */
struct host_node *host_rotation_next(struct host_rotation *rot);

/** host_rotation_note() - what became of a guest; may be called for any that is in, at any time */
void host_rotation_note(struct host_rotation *rot, struct host_node *node,
			enum host_outcome outcome);

/** host_rotation_wake() - there is news of a guest: if parked, its turn is in the next round */
void host_rotation_wake(struct host_rotation *rot, struct host_node *node);

/** host_rotation_verify() - walk all lists; false (never expected) when a link or count is wrong */
bool host_rotation_verify(const struct host_rotation *rot);

#endif
