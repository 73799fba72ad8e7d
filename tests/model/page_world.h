/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_world.h - one state of the modelled world.
 *
 * DOC: what is real and what is modelled
 *
 * Real: the page words and every function that changes one (reclaim/page_table.c), and
 * page_action(), which the modelled fault thread obeys. Modelled: everything around them, as
 * small machines whose steps are atomic. The search (page_search.h) tries every order of the
 * steps.
 *
 * Contents are tokens, not bytes: 0 is a page of zeros, each write makes a new token that names
 * page and version, and a checksum is the token itself. A slot that is being written holds
 * TOKEN_TORN.
 *
 * What a guest may read: the last token written; after a discard also zeros, until it writes
 * again (a discarded page is uninitialised memory: which of the two it reads may change). Never
 * anything older: a guest that zeroes pages when it frees them (init_on_free) relies on a
 * discarded page being either what it wrote last or zeros.
 *
 * One exception, a limit of the protocol: COPY is done, the daemon dies before the word says
 * RESIDENT, and before the next daemon settles the word the guest writes to the page and discards
 * it. FILLING and a hole is then all there is to see, as if COPY had not been done, and the slot
 * must be kept: what it holds is one version too old. MUT_STRICT_TAKE_OVER shows that the model
 * sees this.
 *
 * Tags: a batch machine that starts again has finished with its last page, so a tag only has to
 * differ between live batches: the machine's number serves, and evictions need no bound.
 */
#ifndef TESTS_MODEL_PAGE_WORLD_H
#define TESTS_MODEL_PAGE_WORLD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "reclaim/page_table.h"

#define WORLD_PAGES   2
#define WORLD_SLOTS   3
#define WORLD_THREADS 2
#define WORLD_BATCHES 2

#define TOKEN_ZERO 0
#define TOKEN_TORN 255

/* slots as bytes, so that a state stays small */
#define MSLOT_NONE 255
#define MSLOT_ZERO 254

enum thread_pc {
	THR_IDLE,
	THR_RUN,     /* about to (re)try its access */
	THR_DECIDED, /* in the fault handler: knows the kind of fault, not yet in the queue */
	THR_QUEUED,  /* blocked; its message is unread */
	THR_BLOCKED, /* blocked; its message was read */
	THR_PINNED,  /* a device holds the page and will write to it */
};

enum thread_op { OP_READ, OP_WRITE, OP_DMA };

enum discard_pc { DISC_IDLE, DISC_MADVISE, DISC_EVENT, DISC_ZAP };
enum zap_pc { ZAP_IDLE, ZAP_SUBMITTED, ZAP_EVENT, ZAP_ZAP, ZAP_DONE };

/* what the fault thread still has to do for a page it owns */
enum work {
	WORK_NONE,
	WORK_READ,	/* the store is reading */
	WORK_READ_BAD,	/* the read failed */
	WORK_COPY,	/* bytes are here */
	WORK_ZERO,	/* zeros over ABSENT, RESIDENT, EVICTING: EEXIST is possible */
	WORK_ZERO_FILL, /* zeros over EVICTED(ZERO): EEXIST is a hazard */
	WORK_UNWP_FILL, /* EEXIST was seen: lift the protection, then RESIDENT */
	WORK_UNWP,	/* owns UNPROTECTING */
	WORK_END_FILL,	/* a drain did the COPY; the word still says FILLING */
};

enum fault_pc { FT_IDLE, FT_CAS, FT_SETTLE, FT_END_FILL, FT_END_UNWP, FT_RETURNED, FT_SPIN };

enum batch_pc {
	BAT_IDLE,
	BAT_WP,
	BAT_PIN,
	BAT_READ,
	BAT_IO,
	BAT_GATE, /* see page_evictor.h */
	BAT_COMMIT,
	BAT_PUNCH,
	BAT_END,
	BAT_CANCEL,
	BAT_UNWP,
	BAT_END_UNWP,
};

enum daemon_mode { D_RUN, D_DEAD, D_DRAIN, D_SETTLE, D_UNWP, D_WAKE };

#define MSG_BIT(msg) (1u << (msg)) /* in mpage.msgs; REMOVE stands for OWN_ZAP too */

struct mpage {
	uint8_t present; /* in the memfd */
	uint8_t content;
	uint8_t pte;	 /* mapped in the VMM */
	uint8_t wp;	 /* bit of the PTE, or marker where there is none */
	uint8_t last;	 /* token written last */
	uint8_t zero_ok; /* discarded: zeros are legal as well */
	uint8_t version;
	uint8_t msgs; /* read by the fault thread, not answered */
	uint8_t work;
	uint8_t buf;   /* WORK_COPY */
	uint8_t older; /* a token older than last that is legal too; see above */
};

struct mthread {
	uint8_t pc;
	uint8_t page;
	uint8_t op;
	uint8_t kind;	/* PAGE_MSG_MISSING or PAGE_MSG_WP */
	uint8_t orphan; /* THR_PINNED: the page left the memfd; 1: by a discard, 2: by the daemon */
};

struct mbatch {
	uint8_t pc;
	uint8_t page;
	uint8_t kept;
	uint8_t slot;
	uint8_t buf;
	uint8_t absent; /* the pin check found a hole */
};

struct mfault {
	uint8_t pc;
	uint8_t page;
	uint8_t msg;
	uint8_t act;
};

/* No padding: states are compared and hashed as bytes. */
struct world {
	_Atomic uint32_t words[WORLD_PAGES]; /* in the state file: outlives the daemon */
	uint32_t fault_word;
	struct mpage page[WORLD_PAGES];
	struct mthread thr[WORLD_THREADS];
	struct mbatch bat[WORLD_BATCHES];
	struct mfault fault;
	uint8_t disc_pc, disc_page;
	uint8_t zap_pc;
	uint8_t own_zap;	     /* daemon: a REMOVE may be our own */
	uint8_t store[WORLD_SLOTS];  /* contents */
	uint8_t sum[WORLD_SLOTS];    /* checksums, in the state file */
	uint8_t zombie[WORLD_SLOTS]; /* 1 + token: a dead daemon's write still in flight */
	uint8_t used;		     /* daemon: slots given out, a bit each */
	uint8_t mode, to_page, to_punched;
	uint8_t discards, zaps, crashes, errors; /* how many more of each may happen */
	uint8_t pad[7];
};

_Static_assert(sizeof(struct world) == 88, "no padding");

/* Each breaks one rule of the protocol, in the model, never in the product. */
enum mutation {
	MUT_NONE,
	MUT_IGNORE_TAG,	   /* a batch commits whatever batch owns the page */
	MUT_NO_STORE_LOCK, /* take-over does not wait for the dead daemon's writes */
	MUT_NO_DRAIN,	   /* take-over does not drain the uffd before un-WP */
	MUT_NO_RING_IDLE,  /* take-over drains, but does not wait for the dead daemon's zap */
	MUT_NO_PIN_GUARD,  /* eviction does not look for pins */
	MUT_PIN_BEFORE_WP, /* it looks, but before the write protection */
	MUT_TRUST_OWN_ZAP, /* REMOVE is a discard even while an own zap is under way */
	MUT_ZAP_ENDS_EARLY, /* the own zap is forgotten when it completes, not after the next drain */
	MUT_WP_EVICTED_NONE, /* a WP message on EVICTED is dropped */
	MUT_WP_UNPROT_NONE,  /* a WP message on UNPROTECTING is dropped */
	MUT_KEPT_UNCHECKED,  /* a kept slot is used again without comparing */
	MUT_UNWP_FIRST,	     /* take-over lifts the protection before it finishes PUNCHING */
	MUT_NO_PUNCH_AGAIN,  /* take-over believes that PUNCHING was punched */
	MUT_FREE_IN_FLIGHT,  /* a cancelled batch frees its slot before its write is done */
	MUT_UNWP_UNOWNED,    /* the fault thread cancels an eviction without owning UNPROTECTING */
	MUT_DEFER_SPINS,     /* the fault thread waits for a deferred page and reads nothing else */
	MUT_RETURN_SILENT,   /* after a failed read nobody is woken and nothing is tried again */
	MUT_DISCARD_GUESSED, /* MISSING on EVICTED is taken for a discard: zeros */
	MUT_NO_GATE,	     /* a batch commits although a REMOVE was read and is not applied yet */
	MUT_DRAIN_SILENT,    /* a drain does not wake after the end of FILLING */
	MUT_STRICT_TAKE_OVER, /* not a broken rule: the limit above, not excused */
	MUT_NR,
};

/* What a world contains; the bounds keep the search finite. */
struct world_cfg {
	const char *name;
	uint8_t pages, slots, batches;
	uint8_t ops[WORLD_THREADS]; /* bits of enum thread_op each thread does */
	uint8_t versions;	    /* writes to each page */
	uint8_t discards, zaps, crashes, errors;
	bool drain; /* pages are filled by another thread than the one that reads messages */
};

#define OP_BIT(op) (1u << (op))

struct world_ctx {
	const struct world_cfg *cfg;
	enum mutation mut;
	uint64_t cover[PAGE_NR_MSGS][PAGE_NR_STATES];
	char violation[200]; /* of the step or state being looked at; empty: none */
};

static void __attribute__((format(printf, 2, 3)))
world_violate(struct world_ctx *c, const char *fmt, ...)
{
	va_list ap;

	if (c->violation[0]) /* the first one is the cause */
		return;
	va_start(ap, fmt);
	vsnprintf(c->violation, sizeof(c->violation), fmt, ap);
	va_end(ap);
}

static struct page_table world_table(const struct world_ctx *c, struct world *w)
{
	return (struct page_table) {.words = w->words, .nr = c->cfg->pages};
}

static uint32_t slot_to_arg(uint8_t slot)
{
	return slot == MSLOT_NONE ? PAGE_SLOT_NONE : slot == MSLOT_ZERO ? PAGE_SLOT_ZERO : slot;
}

static uint8_t slot_from_arg(uint32_t arg)
{
	if (arg == PAGE_SLOT_NONE)
		return MSLOT_NONE;
	return arg == PAGE_SLOT_ZERO ? MSLOT_ZERO : (uint8_t)arg;
}

/* The state of a word as the model sees it; world_violate() instead of an assert in the product. */
static enum page_state world_state(const struct world *w, unsigned int p)
{
	return page_word_state(atomic_load_explicit(&w->words[p], memory_order_relaxed));
}

static bool world_owns(struct world_ctx *c, const struct world *w, unsigned int p,
		       enum page_state state, const char *who)
{
	if (world_state(w, p) == state)
		return true;
	world_violate(c, "%s owns %s of page %u, but the word says %s", who, page_state_name(state),
		      p, page_state_name(world_state(w, p)));
	return false;
}

static void slot_free(struct world_ctx *c, struct world *w, uint8_t slot)
{
	if (slot >= WORLD_SLOTS)
		return;
	if (!(w->used & 1u << slot))
		world_violate(c, "slot %u freed twice", slot);
	w->used &= (uint8_t) ~(1u << slot);
}

static uint8_t slot_alloc(struct world_ctx *c, struct world *w)
{
	for (uint8_t s = 0; s < c->cfg->slots; s++)
		if (!(w->used & 1u << s)) {
			w->used |= (uint8_t)(1u << s);
			return s;
		}
	return MSLOT_NONE;
}

/* An unread REMOVE: every ioctl but WAKE says EAGAIN. */
static bool uffd_busy(const struct world *w)
{
	return w->disc_pc == DISC_EVENT || w->zap_pc == ZAP_EVENT;
}

static void uffd_wake(struct world *w, unsigned int p)
{
	for (int t = 0; t < WORLD_THREADS; t++)
		if (w->thr[t].page == p &&
		    (w->thr[t].pc == THR_QUEUED || w->thr[t].pc == THR_BLOCKED)) {
			w->thr[t].pc = THR_RUN;
			w->thr[t].kind = 0;
		}
}

static void uffd_install(struct world *w, unsigned int p, uint8_t content)
{
	w->page[p].present = 1;
	w->page[p].content = content;
	w->page[p].pte = 1;
	w->page[p].wp = 0;
	uffd_wake(w, p);
}

static void uffd_unprotect(struct world *w, unsigned int p)
{
	w->page[p].wp = 0;
	uffd_wake(w, p);
}

/* The protection stays behind as a marker; pins keep the page alive, outside the memfd. */
static void memfd_punch(struct world *w, unsigned int p, uint8_t orphan)
{
	if (w->page[p].present)
		for (int t = 0; t < WORLD_THREADS; t++)
			if (w->thr[t].pc == THR_PINNED && w->thr[t].page == p && !w->thr[t].orphan)
				w->thr[t].orphan = orphan;
	w->page[p].present = 0;
	w->page[p].content = 0;
	w->page[p].pte = 0;
}

static bool page_is_pinned(const struct world *w, unsigned int p)
{
	for (int t = 0; t < WORLD_THREADS; t++)
		if (w->thr[t].pc == THR_PINNED && w->thr[t].page == p && !w->thr[t].orphan)
			return true;
	return false;
}

/** struct world_step - one kind of step; applied to a copy, false: not possible in this state */
struct world_step {
	const char *name;
	bool (*apply)(struct world_ctx *c, struct world *w, unsigned int arg);
	uint8_t nr_args;
	bool chance; /* may happen or not; nothing that waits may depend on it */
};

#endif
