/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page.h - the page word: states of a guest page, who may leave them, what each message means there.
 *
 * DOC: the page word
 *
 * Each guest page has one 32-bit word. Its low 3 bits are the state, the other 29 the argument of
 * that state: a slot of the store, or the tag of the batch that owns the page. The word is changed
 * by compare-and-swap only, and only in reclaim/page_table.c. Three states are *transient*: whoever
 * moved the page into one owns it, and only the owner may issue a call that changes the page's PTE
 * or its place in the memfd. That is what makes the ioctls of two threads unable to cross.
 *
 *   ABSENT        no content: never touched, or discarded by the VMM. Reads as zeros.
 *   RESIDENT      in the memfd. arg: a *kept* slot (the bytes it had when last evicted) or NONE. A
 *                 kept slot is a guess that saves a write, never a fact: it is used again only when
 *                 the page's checksum equals the slot's.
 *   EVICTING      owned by a batch of the evictor. arg: the batch's tag. Write-protected, or about to
 *                 be. The only transient state another thread may take the page from: the fault
 *                 thread does, to cancel.
 *   UNPROTECTING  owned by whoever cancels an eviction, until the write protection is gone. arg: slot
 *                 to keep, or NONE.
 *   PUNCHING      owned by the evictor: bytes and checksum are in the store, the hole is being made.
 *                 arg: slot or ZERO. No way back.
 *   EVICTED       a hole in the memfd; the bytes are in the store. arg: slot or ZERO (all zeros).
 *   FILLING       owned by the fault thread (or a drain): bytes are on their way back. arg: the slot
 *                 they come from, or ZERO for a page being given zeros.
 *
 *                          +----------------- cancel, error --------- UNPROTECTING <--+
 *                          v                                                          |
 *   ABSENT -> FILLING -> RESIDENT -> EVICTING -> PUNCHING -> EVICTED -> FILLING      (EVICTING)
 *                          ^                                              |
 *                          +----------------------------------------------+
 *
 * Why the tag: a batch's write can complete after the page was touched, cancelled and picked again
 * by a later batch. Without the tag the old completion would commit the new batch's page with the old
 * bytes. Tags count batches modulo 2^29; a batch lives for at most a few seconds.
 */
#ifndef EBB_PAGE_H
#define EBB_PAGE_H

#include <stdbool.h>
#include <stdint.h>

enum page_state {
	PAGE_ABSENT,
	PAGE_RESIDENT,
	PAGE_EVICTING,
	PAGE_UNPROTECTING,
	PAGE_PUNCHING,
	PAGE_EVICTED,
	PAGE_FILLING,
	PAGE_NR_STATES,
};

#define PAGE_STATE_BITS 3
#define PAGE_ARG_BITS   29
#define PAGE_ARG_MASK   ((1u << PAGE_ARG_BITS) - 1)
#define PAGE_SLOT_NONE  PAGE_ARG_MASK	      /* no copy in the store */
#define PAGE_SLOT_ZERO  (PAGE_ARG_MASK - 1)   /* the copy is all zeros and takes no slot */
#define PAGE_SLOT_MAX   (PAGE_ARG_MASK - 2)   /* largest real slot: a store holds 2 TiB */

_Static_assert(PAGE_NR_STATES <= 1 << PAGE_STATE_BITS, "states must fit the word");
_Static_assert(PAGE_STATE_BITS + PAGE_ARG_BITS == 32, "the word is 32 bits");

static inline uint32_t page_word(enum page_state state, uint32_t arg)
{
	return (uint32_t)state | arg << PAGE_STATE_BITS;
}

static inline enum page_state page_word_state(uint32_t word)
{
	return (enum page_state)(word & ((1u << PAGE_STATE_BITS) - 1));
}

static inline uint32_t page_word_arg(uint32_t word)
{
	return word >> PAGE_STATE_BITS;
}

static inline bool page_slot_is_real(uint32_t slot)
{
	return slot <= PAGE_SLOT_MAX;
}

/** page_word_slot() - the slot a word holds, PAGE_SLOT_NONE where its argument is something else */
static inline uint32_t page_word_slot(uint32_t word)
{
	return page_word_state(word) == PAGE_EVICTING ? PAGE_SLOT_NONE : page_word_arg(word);
}

/** page_word_is_counted() - does the page count as resident (is it, or will it be, in the memfd)? */
static inline bool page_word_is_counted(uint32_t word)
{
	enum page_state s = page_word_state(word);

	return s != PAGE_ABSENT && s != PAGE_EVICTED;
}

/** enum page_msg - all that can happen to a page; the rows of the protocol table */
enum page_msg {
	PAGE_MSG_MISSING,   /* uffd: a thread waits on a page that is not in the memfd */
	PAGE_MSG_WP,	    /* uffd: a thread waits to write to a protected page */
	PAGE_MSG_REMOVE,    /* uffd: the VMM discarded the page (no own zap overlaps) */
	PAGE_MSG_OWN_ZAP,   /* uffd: REMOVE raised, or possibly raised, by our own sampling */
	PAGE_MSG_IO_DONE,   /* the owner's I/O is complete and good */
	PAGE_MSG_IO_ERROR,  /* the owner's I/O failed, or its check said no */
	PAGE_MSG_TAKE_OVER, /* a new daemon found the word like this */
	PAGE_NR_MSGS,
};

/** enum page_action - what the thread that got the message does */
enum page_action {
	PAGE_ACT_NONE,	    /* nothing: the owner's COPY or un-WP wakes the waiter, or nobody waits */
	PAGE_ACT_FILL,	    /* own FILLING; bring the bytes from the slot, COPY */
	PAGE_ACT_ZERO,	    /* own FILLING(ZERO); ZEROPAGE; EEXIST: the page was there, un-WP and WAKE */
	PAGE_ACT_UNPROTECT, /* own UNPROTECTING; un-WP (it wakes); RESIDENT */
	PAGE_ACT_DEFER,	    /* look again soon: the owner is about to leave the state */
	PAGE_ACT_WAKE,	    /* WAKE: the waiter looks again and, if it must, faults anew */
	PAGE_ACT_FORGET,    /* free the slot, ABSENT */
	PAGE_ACT_SETTLE,    /* hole in the memfd: ABSENT; else leave the page as it is */
	PAGE_ACT_PUNCH,	    /* own PUNCHING; punch the hole; EVICTED */
	PAGE_ACT_COPY,	    /* COPY; RESIDENT, keeping the slot */
	PAGE_ACT_RETURN,    /* back to EVICTED, slot kept; retry or stop the guest */
	PAGE_NR_ACTS,
};

/** enum page_owner - who may leave a state */
enum page_owner {
	PAGE_OWNER_NOBODY,  /* stable: whoever wins the compare-and-swap */
	PAGE_OWNER_BATCH,   /* the evictor's batch with this tag; the fault thread may take it */
	PAGE_OWNER_EVICTOR,
	PAGE_OWNER_CANCELLER,
	PAGE_OWNER_FILLER,
	PAGE_NR_OWNERS,
};

#endif
