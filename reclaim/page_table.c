// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * page_table.c - every transition of a page word, and the table of what each message means.
 *
 * DOC: who may do what
 *
 * Two threads work on a guest's pages: the fault thread (uffd messages, reads) and the evictor
 * (batches). They never lock each other out; they meet in the word. The argument, state by state:
 *
 * - Stable states (ABSENT, RESIDENT, EVICTED) belong to nobody; leaving one is a compare-and-swap, so
 *   exactly one thread gets the transient state and with it the right to change the PTE.
 * - EVICTING is shared in one direction only: the batch may commit or cancel, the fault thread may
 *   cancel. Both are compare-and-swaps from EVICTING(tag), so exactly one wins. Until the commit the
 *   batch has changed nothing but the write protection, which the canceller removes as owner of
 *   UNPROTECTING.
 * - From PUNCHING, UNPROTECTING and FILLING only the owner moves on, by plain store.
 *
 * Orders: slot and checksum are written before the word that names the slot (release), and read after
 * it (acquire).
 */
#include <assert.h>
#include "page_table.h"

static bool move(struct page_table *pt, uint32_t idx, uint32_t from, uint32_t to)
{
	assert(idx < pt->nr);
	return atomic_compare_exchange_strong_explicit(&pt->words[idx], &from, to,
						       memory_order_acq_rel, memory_order_acquire);
}

static void leave(struct page_table *pt, uint32_t idx, enum page_state from, uint32_t to)
{
	assert(idx < pt->nr);
	assert(page_word_state(page_table_load(pt, idx)) == from);
	(void)from;
	atomic_store_explicit(&pt->words[idx], to, memory_order_release);
}

uint32_t page_table_load(const struct page_table *pt, uint32_t idx)
{
	assert(idx < pt->nr);
	return atomic_load_explicit(&pt->words[idx], memory_order_acquire);
}

bool page_try_evict(struct page_table *pt, uint32_t idx, uint32_t tag, uint32_t *ret_kept)
{
	uint32_t word = page_table_load(pt, idx);

	if (page_word_state(word) != PAGE_RESIDENT ||
	    !move(pt, idx, word, page_word(PAGE_EVICTING, tag & PAGE_ARG_MASK)))
		return false;
	*ret_kept = page_word_arg(word);
	return true;
}

bool page_try_commit(struct page_table *pt, uint32_t idx, uint32_t tag, uint32_t slot)
{
	assert(slot != PAGE_SLOT_NONE);
	return move(pt, idx, page_word(PAGE_EVICTING, tag & PAGE_ARG_MASK),
		    page_word(PAGE_PUNCHING, slot));
}

bool page_try_cancel_batch(struct page_table *pt, uint32_t idx, uint32_t tag, uint32_t keep)
{
	return move(pt, idx, page_word(PAGE_EVICTING, tag & PAGE_ARG_MASK),
		    page_word(PAGE_UNPROTECTING, keep));
}

void page_end_punch(struct page_table *pt, uint32_t idx)
{
	uint32_t slot = page_word_arg(page_table_load(pt, idx));

	leave(pt, idx, PAGE_PUNCHING, page_word(PAGE_EVICTED, slot));
}

bool page_try_unprotect(struct page_table *pt, uint32_t idx, uint32_t word)
{
	enum page_state state = page_word_state(word);

	if (state != PAGE_RESIDENT && state != PAGE_EVICTING)
		return false;
	return move(pt, idx, word, page_word(PAGE_UNPROTECTING, page_word_slot(word)));
}

void page_end_unprotect(struct page_table *pt, uint32_t idx)
{
	uint32_t keep = page_word_arg(page_table_load(pt, idx));

	leave(pt, idx, PAGE_UNPROTECTING, page_word(PAGE_RESIDENT, keep));
}

void page_end_unprotect_absent(struct page_table *pt, uint32_t idx)
{
	leave(pt, idx, PAGE_UNPROTECTING, page_word(PAGE_ABSENT, PAGE_SLOT_NONE));
}

bool page_try_fill(struct page_table *pt, uint32_t idx, uint32_t *ret_slot)
{
	uint32_t word = page_table_load(pt, idx);

	if (page_word_state(word) != PAGE_EVICTED ||
	    !move(pt, idx, word, page_word(PAGE_FILLING, page_word_arg(word))))
		return false;
	*ret_slot = page_word_arg(word);
	return true;
}

bool page_try_zero(struct page_table *pt, uint32_t idx, uint32_t word)
{
	enum page_state state = page_word_state(word);

	if (state != PAGE_ABSENT && state != PAGE_RESIDENT && state != PAGE_EVICTING)
		return false;
	return move(pt, idx, word, page_word(PAGE_FILLING, PAGE_SLOT_ZERO));
}

void page_end_fill(struct page_table *pt, uint32_t idx, uint32_t keep)
{
	assert(keep != PAGE_SLOT_ZERO);
	leave(pt, idx, PAGE_FILLING, page_word(PAGE_RESIDENT, keep));
}

void page_end_fill_failed(struct page_table *pt, uint32_t idx)
{
	uint32_t slot = page_word_arg(page_table_load(pt, idx));

	leave(pt, idx, PAGE_FILLING, page_word(PAGE_EVICTED, slot));
}

void page_end_zero_failed(struct page_table *pt, uint32_t idx)
{
	leave(pt, idx, PAGE_FILLING, page_word(PAGE_ABSENT, PAGE_SLOT_NONE));
}

bool page_try_found(struct page_table *pt, uint32_t idx)
{
	return move(pt, idx, page_word(PAGE_ABSENT, PAGE_SLOT_NONE),
		    page_word(PAGE_RESIDENT, PAGE_SLOT_NONE));
}

bool page_try_discard(struct page_table *pt, uint32_t idx, uint32_t word)
{
	enum page_state state = page_word_state(word);

	if (state != PAGE_EVICTED && state != PAGE_RESIDENT)
		return false;
	return move(pt, idx, word, page_word(PAGE_ABSENT, PAGE_SLOT_NONE));
}

bool page_try_drop_kept(struct page_table *pt, uint32_t idx, uint32_t word)
{
	if (page_word_state(word) != PAGE_RESIDENT)
		return false;
	return move(pt, idx, word, page_word(PAGE_RESIDENT, PAGE_SLOT_NONE));
}

uint32_t page_take_over(uint32_t word, bool present)
{
	uint32_t slot = page_word_arg(word);

	switch (page_word_state(word)) {
	case PAGE_EVICTING: /* nothing was committed, the page is still the truth */
		return page_word(PAGE_RESIDENT, PAGE_SLOT_NONE);
	case PAGE_UNPROTECTING:
		return page_word(PAGE_RESIDENT, slot);
	case PAGE_PUNCHING: /* committed; the caller has punched again */
		return page_word(PAGE_EVICTED, slot);
	case PAGE_FILLING:
		if (!present) /* nothing was installed: the slot is still the truth */
			return page_word(PAGE_EVICTED, slot);
		return page_word(PAGE_RESIDENT, slot == PAGE_SLOT_ZERO ? PAGE_SLOT_NONE : slot);
	default:
		return word;
	}
}

void page_table_store_take_over(struct page_table *pt, uint32_t idx, uint32_t word)
{
	assert(idx < pt->nr);
	atomic_store_explicit(&pt->words[idx], word, memory_order_release);
}

/*
 * The complete protocol: message x state. ARCHITECTURE.md prints it with the reasons; a test compares
 * the two. I/O rows speak of the owner's I/O: a late completion of a cancelled batch fails its
 * compare-and-swap by the tag and changes nothing, whatever the state.
 */
#define ACT(a) PAGE_ACT_##a
static const uint8_t actions[PAGE_NR_MSGS][PAGE_NR_STATES] = {
	/*                         ABSENT     RESIDENT        EVICTING        UNPROTECTING
	 *                         PUNCHING   EVICTED         FILLING                     */
	[PAGE_MSG_MISSING]   = { ACT(ZERO),  ACT(ZERO),      ACT(ZERO),      ACT(DEFER),
				 ACT(DEFER), ACT(FILL),      ACT(NONE) },
	[PAGE_MSG_WP]	     = { ACT(WAKE),  ACT(UNPROTECT), ACT(UNPROTECT), ACT(DEFER),
				 ACT(DEFER), ACT(FILL),      ACT(NONE) },
	[PAGE_MSG_REMOVE]    = { ACT(NONE),  ACT(SETTLE),    ACT(NONE),      ACT(NONE),
				 ACT(NONE),  ACT(FORGET),    ACT(NONE) },
	[PAGE_MSG_OWN_ZAP]   = { ACT(NONE),  ACT(NONE),      ACT(NONE),      ACT(NONE),
				 ACT(NONE),  ACT(NONE),      ACT(NONE) },
	[PAGE_MSG_IO_DONE]   = { ACT(NONE),  ACT(NONE),      ACT(PUNCH),     ACT(NONE),
				 ACT(NONE),  ACT(NONE),      ACT(COPY) },
	[PAGE_MSG_IO_ERROR]  = { ACT(NONE),  ACT(NONE),      ACT(UNPROTECT), ACT(NONE),
				 ACT(NONE),  ACT(NONE),      ACT(RETURN) },
	[PAGE_MSG_TAKE_OVER] = { ACT(NONE),  ACT(UNPROTECT), ACT(UNPROTECT), ACT(UNPROTECT),
				 ACT(PUNCH), ACT(NONE),      ACT(SETTLE) },
};
#undef ACT

enum page_action page_action(enum page_msg msg, enum page_state state)
{
	assert(msg < PAGE_NR_MSGS && state < PAGE_NR_STATES);
	return (enum page_action)actions[msg][state];
}

enum page_owner page_owner(enum page_state state)
{
	static const uint8_t owners[PAGE_NR_STATES] = {
		[PAGE_EVICTING] = PAGE_OWNER_BATCH,
		[PAGE_UNPROTECTING] = PAGE_OWNER_CANCELLER,
		[PAGE_PUNCHING] = PAGE_OWNER_EVICTOR,
		[PAGE_FILLING] = PAGE_OWNER_FILLER,
	};

	assert(state < PAGE_NR_STATES);
	return (enum page_owner)owners[state];
}

const char *page_state_name(enum page_state state)
{
	static const char *const names[PAGE_NR_STATES] = {
		"ABSENT", "RESIDENT", "EVICTING", "UNPROTECTING", "PUNCHING", "EVICTED", "FILLING",
	};

	return state < PAGE_NR_STATES ? names[state] : "?";
}

const char *page_msg_name(enum page_msg msg)
{
	static const char *const names[PAGE_NR_MSGS] = {
		"MISSING", "WP", "REMOVE", "own zap", "I/O done", "I/O error", "take-over",
	};

	return msg < PAGE_NR_MSGS ? names[msg] : "?";
}

const char *page_action_name(enum page_action act)
{
	static const char *const names[PAGE_NR_ACTS] = {
		"none", "fill", "zero", "unprotect", "defer", "wake",
		"forget", "settle", "punch", "copy", "return",
	};

	return act < PAGE_NR_ACTS ? names[act] : "?";
}

const char *page_owner_name(enum page_owner owner)
{
	static const char *const names[PAGE_NR_OWNERS] = {
		"nobody", "batch", "evictor", "canceller", "filler",
	};

	return owner < PAGE_NR_OWNERS ? names[owner] : "?";
}
