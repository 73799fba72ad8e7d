/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_table.h - the array of page words, and the only functions that change one.
 *
 * No system calls, no locks, no allocation: the words are handed in (the daemon maps them from the
 * guest's state file so that they outlive it). All functions may be called from any thread. A `try`
 * function returns false and changes nothing when the page is not in the state it starts from; an
 * `end` function is called by the owner, to whom the page cannot be lost, and asserts that.
 */
#ifndef RECLAIM_PAGE_TABLE_H
#define RECLAIM_PAGE_TABLE_H

#include <stdatomic.h>
#include <ebb/page.h>
#include <ebb/types.h>

struct page_table {
	_Atomic uint32_t *words;
	uint32_t nr;
};

/** page_table_load() - the word of @idx as it is at this moment */
uint32_t page_table_load(const struct page_table *pt, uint32_t idx);

/* --- eviction ------------------------------------------------------------------------------- */

/** page_try_evict() - RESIDENT(slot) -> EVICTING(@tag); *@ret_kept gets the kept slot or NONE */
bool page_try_evict(struct page_table *pt, uint32_t idx, uint32_t tag, uint32_t *ret_kept);

/** page_try_commit() - EVICTING(@tag) -> PUNCHING(@slot); false: cancelled meanwhile, or another tag */
bool page_try_commit(struct page_table *pt, uint32_t idx, uint32_t tag, uint32_t slot);

/** page_try_cancel_batch() - EVICTING(@tag) -> UNPROTECTING(@keep), by the batch itself */
bool page_try_cancel_batch(struct page_table *pt, uint32_t idx, uint32_t tag, uint32_t keep);

/** page_end_punch() - PUNCHING(slot) -> EVICTED(slot) */
void page_end_punch(struct page_table *pt, uint32_t idx);

/* --- cancelling ----------------------------------------------------------------------------- */

/**
 * page_try_unprotect() - RESIDENT(slot) -> UNPROTECTING(slot), EVICTING(any) -> UNPROTECTING(NONE)
 *
 * The fault thread's answer to a WP message. Taken from EVICTING, the kept slot stays with the batch,
 * which frees it when it learns that the page is gone from it.
 */
bool page_try_unprotect(struct page_table *pt, uint32_t idx, uint32_t word);

/** page_end_unprotect() - UNPROTECTING(slot) -> RESIDENT(slot) */
void page_end_unprotect(struct page_table *pt, uint32_t idx);

/** page_end_unprotect_absent() - UNPROTECTING -> ABSENT: the memfd holds nothing there */
void page_end_unprotect_absent(struct page_table *pt, uint32_t idx);

/* --- filling -------------------------------------------------------------------------------- */

/** page_try_fill() - EVICTED(slot or ZERO) -> FILLING(same) */
bool page_try_fill(struct page_table *pt, uint32_t idx, uint32_t *ret_slot);

/**
 * page_try_zero() - ABSENT, RESIDENT or EVICTING -> FILLING(ZERO)
 * @word: the word as loaded; the move happens only if it is still this
 *
 * The answer to MISSING where the store has no say: the kernel states that the memfd holds no page.
 */
bool page_try_zero(struct page_table *pt, uint32_t idx, uint32_t word);

/** page_end_fill() - FILLING -> RESIDENT(@keep) */
void page_end_fill(struct page_table *pt, uint32_t idx, uint32_t keep);

/** page_end_fill_failed() - FILLING(slot) -> EVICTED(slot): nothing was installed */
void page_end_fill_failed(struct page_table *pt, uint32_t idx);

/** page_end_zero_failed() - FILLING(ZERO) -> ABSENT: nothing was installed */
void page_end_zero_failed(struct page_table *pt, uint32_t idx);

/* --- facts from outside --------------------------------------------------------------------- */

/** page_try_found() - ABSENT -> RESIDENT(NONE): the scan at attach found it in the memfd */
bool page_try_found(struct page_table *pt, uint32_t idx);

/** page_try_discard() - EVICTED(slot) or RESIDENT(slot) -> ABSENT, if the word is still @word */
bool page_try_discard(struct page_table *pt, uint32_t idx, uint32_t word);

/** page_try_drop_kept() - RESIDENT(slot) -> RESIDENT(NONE), to win back room in the store */
bool page_try_drop_kept(struct page_table *pt, uint32_t idx, uint32_t word);

/**
 * page_take_over() - what a new daemon makes of a word it found
 * @word: as found
 * @present: does the memfd hold the page? Asked after PUNCHING was punched again.
 *
 * Returns the word to store: always a stable state.
 */
uint32_t page_take_over(uint32_t word, bool present);

/** page_table_store_take_over() - store it; only while no other thread knows the table */
void page_table_store_take_over(struct page_table *pt, uint32_t idx, uint32_t word);

/* --- the protocol table --------------------------------------------------------------------- */

/** page_action() - what to do when @msg meets @state; the table of ARCHITECTURE.md */
enum page_action page_action(enum page_msg msg, enum page_state state);

/** page_owner() - who may leave @state */
enum page_owner page_owner(enum page_state state);

const char *page_state_name(enum page_state state);
const char *page_msg_name(enum page_msg msg);
const char *page_action_name(enum page_action act);
const char *page_owner_name(enum page_owner owner);

#endif
