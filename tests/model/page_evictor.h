/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_evictor.h - steps of the evictor's batches, of a crash and of the take-over after it.
 *
 * DOC: the gate
 *
 * Reading a REMOVE lets the discarding thread go on, and the guest may use the page at once,
 * before the fault thread has applied the REMOVE. Usually the page is a hole then and the guest's
 * next access waits behind the REMOVE; but a fill that was under way (read-ahead, a chunk of
 * zeros) can have put it back. If the page is written and evicted before the REMOVE is applied,
 * FORGET throws away new bytes. So between its copy of a page and the commit each batch passes a
 * moment in which no REMOVE is read and not applied: what is committed was copied before the
 * read, or the REMOVE has had its effect.
 */
#ifndef TESTS_MODEL_PAGE_EVICTOR_H
#define TESTS_MODEL_PAGE_EVICTOR_H

#include "page_daemon.h"

static uint32_t batch_tag(unsigned int b)
{
	return b + 1;
}

static void batch_done(struct mbatch *bat)
{
	*bat = (struct mbatch) {.kept = MSLOT_NONE, .slot = MSLOT_NONE};
}

static void batch_drop_slots(struct world_ctx *c, struct world *w, struct mbatch *bat)
{
	slot_free(c, w, bat->kept);
	slot_free(c, w, bat->slot);
	batch_done(bat);
}

/* arg: batch, page */
static bool step_evict_start(struct world_ctx *c, struct world *w, unsigned int arg)
{
	unsigned int b = arg / WORLD_PAGES, p = arg % WORLD_PAGES;
	struct page_table pt = world_table(c, w);
	struct mbatch *bat = &w->bat[b];
	uint32_t kept;

	if (w->mode != D_RUN || b >= c->cfg->batches || p >= c->cfg->pages || bat->pc != BAT_IDLE ||
	    !page_try_evict(&pt, p, batch_tag(b), &kept))
		return false;
	*bat = (struct mbatch) {
		.pc = c->mut == MUT_PIN_BEFORE_WP ? BAT_PIN : BAT_WP,
		.page = (uint8_t)p,
		.kept = slot_from_arg(kept),
		.slot = MSLOT_NONE,
	};
	return true;
}

static bool step_evict_wp(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct mbatch *bat = &w->bat[b];

	if (bat->pc != BAT_WP || uffd_busy(w))
		return false;
	w->page[bat->page].wp = 1;
	bat->pc = BAT_PIN;
	if (c->mut == MUT_NO_PIN_GUARD || c->mut == MUT_PIN_BEFORE_WP)
		bat->pc = BAT_READ;
	return true;
}

static bool step_evict_pin(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct mbatch *bat = &w->bat[b];

	if (bat->pc != BAT_PIN)
		return false;
	bat->pc = c->mut == MUT_PIN_BEFORE_WP ? BAT_WP : BAT_READ;
	bat->absent = !w->page[bat->page].present;
	if (bat->absent || page_is_pinned(w, bat->page))
		bat->pc = BAT_CANCEL;
	return true;
}

/* Copy the page, and say what becomes of the copy. */
static bool step_evict_read(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct mbatch *bat = &w->bat[b];
	bool same;

	if (bat->pc != BAT_READ)
		return false;
	bat->buf = w->page[bat->page].present ? w->page[bat->page].content : TOKEN_ZERO;
	same = bat->kept < WORLD_SLOTS &&
	       (w->sum[bat->kept] == bat->buf || c->mut == MUT_KEPT_UNCHECKED);
	if (bat->buf == TOKEN_ZERO) {
		bat->slot = MSLOT_ZERO;
		bat->pc = BAT_GATE;
	} else if (same) {
		bat->slot = bat->kept;
		bat->kept = MSLOT_NONE;
		bat->pc = BAT_GATE;
	} else {
		bat->slot = slot_alloc(c, w);
		bat->pc = bat->slot == MSLOT_NONE ? BAT_CANCEL : BAT_IO;
		if (bat->slot != MSLOT_NONE)
			w->store[bat->slot] = TOKEN_TORN;
	}
	if (bat->pc != BAT_IO)
		bat->buf = 0;
	return true;
}

/* The completion: its meaning depends on whether the page is still the batch's. arg: batch, bad */
static bool step_evict_io(struct world_ctx *c, struct world *w, unsigned int arg)
{
	struct mbatch *bat = &w->bat[arg / 2];

	if (bat->pc != BAT_IO)
		return false;
	if (arg % 2) {
		if (!w->errors)
			return false;
		w->errors--;
		cover(c, PAGE_MSG_IO_ERROR, world_state(w, bat->page));
		slot_free(c, w, bat->slot);
		bat->slot = MSLOT_NONE;
		bat->pc = BAT_CANCEL;
	} else {
		cover(c, PAGE_MSG_IO_DONE, world_state(w, bat->page));
		w->store[bat->slot] = bat->buf;
		w->sum[bat->slot] = bat->buf;
		bat->pc = BAT_GATE;
	}
	bat->buf = 0;
	return true;
}

static bool step_evict_gate(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct mbatch *bat = &w->bat[b];

	if (bat->pc != BAT_GATE || (remove_unapplied(w) && c->mut != MUT_NO_GATE))
		return false;
	bat->pc = BAT_COMMIT;
	return true;
}

static bool step_evict_commit(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct page_table pt = world_table(c, w);
	struct mbatch *bat = &w->bat[b];
	uint32_t tag = batch_tag(b), word;

	if (bat->pc != BAT_COMMIT)
		return false;
	word = page_table_load(&pt, bat->page);
	if (c->mut == MUT_IGNORE_TAG && page_word_state(word) == PAGE_EVICTING)
		tag = page_word_arg(word);
	if (!page_try_commit(&pt, bat->page, tag, slot_to_arg(bat->slot))) {
		batch_drop_slots(c, w, bat);
		return true;
	}
	slot_free(c, w, bat->kept);
	bat->kept = bat->slot = MSLOT_NONE;
	bat->pc = BAT_PUNCH;
	return true;
}

static bool step_evict_punch(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct mbatch *bat = &w->bat[b];

	if (bat->pc != BAT_PUNCH)
		return false;
	memfd_punch(w, bat->page, 2);
	bat->pc = BAT_END;
	return true;
}

static bool step_evict_end(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct page_table pt = world_table(c, w);
	struct mbatch *bat = &w->bat[b];

	if (bat->pc != BAT_END)
		return false;
	if (world_owns(c, w, bat->page, PAGE_PUNCHING, "the evictor"))
		page_end_punch(&pt, bat->page);
	batch_done(bat);
	return true;
}

static bool step_evict_cancel(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct page_table pt = world_table(c, w);
	struct mbatch *bat = &w->bat[b];

	if (bat->pc != BAT_CANCEL)
		return false;
	if (!page_try_cancel_batch(&pt, bat->page, batch_tag(b), slot_to_arg(bat->kept))) {
		batch_drop_slots(c, w, bat);
		return true;
	}
	bat->kept = MSLOT_NONE; /* the word has it */
	bat->pc = BAT_UNWP;
	return true;
}

static bool step_evict_unwp(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct mbatch *bat = &w->bat[b];

	if (bat->pc != BAT_UNWP || uffd_busy(w))
		return false;
	uffd_unprotect(w, bat->page);
	bat->pc = BAT_END_UNWP;
	return true;
}

static bool step_evict_end_unwp(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct page_table pt = world_table(c, w);
	struct mbatch *bat = &w->bat[b];
	uint8_t slot;

	if (bat->pc != BAT_END_UNWP)
		return false;
	if (world_owns(c, w, bat->page, PAGE_UNPROTECTING, "the evictor")) {
		slot = slot_from_arg(page_word_arg(page_table_load(&pt, bat->page)));
		if (bat->absent) {
			page_end_unprotect_absent(&pt, bat->page);
			slot_free(c, w, slot);
		} else {
			page_end_unprotect(&pt, bat->page);
		}
	}
	batch_done(bat);
	return true;
}

/* A batch that lost its page need not wait for its write to know it; it must, to free the slot. */
static bool step_evict_free_early(struct world_ctx *c, struct world *w, unsigned int b)
{
	struct mbatch *bat = &w->bat[b];

	if (c->mut != MUT_FREE_IN_FLIGHT || bat->pc != BAT_IO ||
	    world_state(w, bat->page) == PAGE_EVICTING)
		return false;
	w->zombie[bat->slot] = (uint8_t)(bat->buf + 1);
	batch_drop_slots(c, w, bat);
	return true;
}

/* The evictor, short of room, gives up a kept slot. */
static bool step_evict_drop_kept(struct world_ctx *c, struct world *w, unsigned int p)
{
	struct page_table pt = world_table(c, w);
	uint32_t word;

	if (w->mode != D_RUN || p >= c->cfg->pages)
		return false;
	word = page_table_load(&pt, p);
	if (page_word_state(word) != PAGE_RESIDENT || !page_slot_is_real(page_word_slot(word)) ||
	    !page_try_drop_kept(&pt, p, word))
		return false;
	slot_free(c, w, slot_from_arg(page_word_slot(word)));
	return true;
}

/* kill -9: the daemon's memory is gone; words, checksums, what kernel and disk work on are not. */
static bool step_crash(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (!w->crashes || w->mode == D_DEAD)
		return false;
	w->crashes--;
	for (int b = 0; b < WORLD_BATCHES; b++) {
		if (w->bat[b].pc == BAT_IO)
			w->zombie[w->bat[b].slot] = (uint8_t)(w->bat[b].buf + 1);
		batch_done(&w->bat[b]);
	}
	for (int p = 0; p < WORLD_PAGES; p++)
		w->page[p].msgs = w->page[p].work = w->page[p].buf = 0;
	fault_done(w);
	w->own_zap = 0;
	w->used = 0;
	w->mode = D_DEAD;
	w->to_page = w->to_punched = 0;
	return true;
}

/* --- take-over, in its order ---------------------------------------------------------------- */

static void take_over_unprotect(const struct world_ctx *c, struct world *w)
{
	for (unsigned int p = 0; p < c->cfg->pages; p++)
		uffd_unprotect(w, p);
}

static bool step_to_lock_store(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->mode != D_DEAD)
		return false;
	for (int s = 0; s < WORLD_SLOTS; s++)
		if (w->zombie[s] && c->mut != MUT_NO_STORE_LOCK)
			return false;
	w->mode = D_DRAIN;
	return true;
}

/* What is read is dropped: a REMOVE may stem from the dead daemon's zap, waiters are woken later. */
static bool step_to_drain(struct world_ctx *c, struct world *w, unsigned int which)
{
	enum page_msg msg;

	if ((w->mode != D_DRAIN && w->mode != D_UNWP) || c->mut == MUT_NO_DRAIN)
		return false;
	return uffd_read(c, w, which, &msg) != 0;
}

static bool step_to_drained(struct world_ctx *c, struct world *w, unsigned int arg)
{
	bool ring_idle = w->zap_pc == ZAP_IDLE || w->zap_pc == ZAP_DONE;

	if (w->mode != D_DRAIN)
		return false;
	if (c->mut != MUT_NO_DRAIN &&
	    (!uffd_empty(w) || (!ring_idle && c->mut != MUT_NO_RING_IDLE)))
		return false;
	if (ring_idle)
		w->zap_pc = ZAP_IDLE;
	w->mode = D_SETTLE;
	if (c->mut == MUT_UNWP_FIRST)
		take_over_unprotect(c, w);
	return true;
}

static bool step_to_punch(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->mode != D_SETTLE || w->to_punched || world_state(w, w->to_page) != PAGE_PUNCHING)
		return false;
	if (c->mut != MUT_NO_PUNCH_AGAIN)
		memfd_punch(w, w->to_page, 2);
	w->to_punched = 1;
	return true;
}

static bool step_to_settle(struct world_ctx *c, struct world *w, unsigned int arg)
{
	struct page_table pt = world_table(c, w);
	uint32_t word;

	if (w->mode != D_SETTLE)
		return false;
	word = page_table_load(&pt, w->to_page);
	if (page_word_state(word) == PAGE_PUNCHING && !w->to_punched)
		return false;
	cover(c, PAGE_MSG_TAKE_OVER, page_word_state(word));
	if (page_word_state(word) == PAGE_FILLING && page_slot_is_real(page_word_arg(word)) &&
	    !w->page[w->to_page].present && w->page[w->to_page].zero_ok &&
	    c->mut != MUT_STRICT_TAKE_OVER)
		w->page[w->to_page].older = w->sum[page_word_arg(word)];
	page_table_store_take_over(&pt, w->to_page,
				   page_take_over(word, w->page[w->to_page].present));
	w->to_punched = 0;
	if (++w->to_page == c->cfg->pages) {
		w->to_page = 0;
		w->mode = D_UNWP;
	}
	return true;
}

static bool step_to_unwp(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->mode != D_UNWP || (uffd_busy(w) && c->mut != MUT_NO_DRAIN))
		return false;
	if (!uffd_busy(w))
		take_over_unprotect(c, w);
	w->mode = D_WAKE;
	return true;
}

static bool step_to_wake(struct world_ctx *c, struct world *w, unsigned int arg)
{
	struct page_table pt = world_table(c, w);

	if (w->mode != D_WAKE)
		return false;
	for (unsigned int p = 0; p < c->cfg->pages; p++) {
		uint8_t slot = slot_from_arg(page_word_slot(page_table_load(&pt, p)));

		uffd_wake(w, p);
		if (slot >= WORLD_SLOTS)
			continue;
		if (w->used & 1u << slot)
			world_violate(c, "take-over finds slot %u owned twice", slot);
		w->used |= (uint8_t)(1u << slot);
	}
	w->mode = D_RUN;
	return true;
}

#endif
