/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_daemon.h - steps of the daemon's two threads: the fault thread and the evictor.
 *
 * DOC: the fault thread
 *
 * Reading a message, choosing an action, the compare-and-swap, the ioctl and the end of the
 * transient state are steps of their own. A page the thread owns and cannot finish (the store is
 * reading, an ioctl said EAGAIN) is left as *work*, and the thread reads on; only between an
 * ioctl that succeeded and the end of the state it started from does it do nothing else. REMOVEs
 * are applied before faults. Two messages of a kind for one page are one here: the second would
 * find what the first left.
 */
#ifndef TESTS_MODEL_PAGE_DAEMON_H
#define TESTS_MODEL_PAGE_DAEMON_H

#include "page_kernel.h"

static void cover(struct world_ctx *c, enum page_msg msg, enum page_state state)
{
	c->cover[msg][state]++;
}

static bool fault_idle(const struct world *w)
{
	return w->mode == D_RUN && w->fault.pc == FT_IDLE;
}

static void fault_done(struct world *w)
{
	memset(&w->fault, 0, sizeof(w->fault));
	w->fault_word = 0;
}

static void fault_goto(struct world *w, enum fault_pc pc, unsigned int p)
{
	fault_done(w);
	w->fault.pc = (uint8_t)pc;
	w->fault.page = (uint8_t)p;
}

static bool step_fault_read(struct world_ctx *c, struct world *w, unsigned int which)
{
	enum page_msg msg;
	unsigned int pages;

	if (!fault_idle(w))
		return false;
	pages = uffd_read(c, w, which, &msg);
	for (unsigned int p = 0; p < c->cfg->pages; p++)
		if (pages & 1u << p)
			w->page[p].msgs |= (uint8_t)MSG_BIT(msg);
	return pages != 0;
}

/* Is there a REMOVE that was read and has not had its effect yet? */
static bool remove_unapplied(const struct world *w)
{
	for (int p = 0; p < WORLD_PAGES; p++)
		if (w->page[p].msgs & MSG_BIT(PAGE_MSG_REMOVE))
			return true;
	return w->fault.pc != FT_IDLE && w->fault.msg == PAGE_MSG_REMOVE;
}

static enum page_action fault_choose(const struct world_ctx *c, enum page_msg msg,
				     enum page_state state)
{
	if (c->mut == MUT_WP_EVICTED_NONE && msg == PAGE_MSG_WP && state == PAGE_EVICTED)
		return PAGE_ACT_NONE;
	if (c->mut == MUT_WP_UNPROT_NONE && msg == PAGE_MSG_WP && state == PAGE_UNPROTECTING)
		return PAGE_ACT_NONE;
	return page_action(msg, state);
}

/* arg: message, page */
static bool step_fault_take(struct world_ctx *c, struct world *w, unsigned int arg)
{
	static const enum page_msg msgs[] = {PAGE_MSG_REMOVE, PAGE_MSG_MISSING, PAGE_MSG_WP};
	enum page_msg msg = msgs[arg / WORLD_PAGES];
	unsigned int p = arg % WORLD_PAGES;
	struct page_table pt = world_table(c, w);
	enum page_action act;
	enum page_state state;
	bool spin;

	if (p >= c->cfg->pages || !(w->page[p].msgs & MSG_BIT(msg)))
		return false;
	spin = w->mode == D_RUN && w->fault.pc == FT_SPIN && w->fault.page == p &&
	       w->fault.msg == msg;
	if (!fault_idle(w) && !spin)
		return false;
	if (msg != PAGE_MSG_REMOVE && !spin && remove_unapplied(w))
		return false;
	w->fault_word = page_table_load(&pt, p);
	state = page_word_state(w->fault_word);
	if (msg == PAGE_MSG_REMOVE && w->own_zap && c->mut != MUT_TRUST_OWN_ZAP)
		msg = PAGE_MSG_OWN_ZAP;
	cover(c, msg, state);
	act = fault_choose(c, msg, state);
	w->fault.page = (uint8_t)p;
	w->fault.msg = (uint8_t)msgs[arg / WORLD_PAGES];
	w->fault.act = (uint8_t)act;
	if (act == PAGE_ACT_DEFER) {
		if (c->mut != MUT_DEFER_SPINS || spin)
			return false; /* stays where it is; looked at again later */
		w->fault.pc = FT_SPIN;
		w->fault_word = 0;
		return true;
	}
	w->page[p].msgs &= (uint8_t)~MSG_BIT(w->fault.msg);
	w->fault.pc = FT_CAS;
	if (act == PAGE_ACT_WAKE)
		uffd_wake(w, p);
	if (act == PAGE_ACT_WAKE || act == PAGE_ACT_NONE)
		fault_done(w);
	return true;
}

static bool fault_act_fill(struct world_ctx *c, struct world *w, struct page_table *pt,
			   unsigned int p)
{
	uint32_t slot;

	if (!page_try_fill(pt, p, &slot))
		return false;
	w->page[p].work = slot == PAGE_SLOT_ZERO ? WORK_ZERO_FILL : WORK_READ;
	if (c->mut == MUT_DISCARD_GUESSED)
		w->page[p].work = WORK_ZERO_FILL;
	return true;
}

static bool fault_act_zero(struct world_ctx *c, struct world *w, struct page_table *pt,
			   unsigned int p)
{
	if (!page_try_zero(pt, p, w->fault_word))
		return false;
	slot_free(c, w, slot_from_arg(page_word_slot(w->fault_word)));
	w->page[p].work = WORK_ZERO;
	return true;
}

static bool fault_act_unprotect(struct world_ctx *c, struct world *w, struct page_table *pt,
				unsigned int p)
{
	if (c->mut == MUT_UNWP_UNOWNED && page_word_state(w->fault_word) == PAGE_EVICTING) {
		/* the word first, then the ioctl: by then the next batch may own the page */
		if (!page_try_unprotect(pt, p, w->fault_word))
			return false;
		page_end_unprotect(pt, p);
		w->page[p].work = WORK_UNWP;
		return true;
	}
	if (!page_try_unprotect(pt, p, w->fault_word))
		return false;
	w->page[p].work = WORK_UNWP;
	return true;
}

static bool fault_act_forget(struct world_ctx *c, struct world *w, struct page_table *pt,
			     unsigned int p)
{
	if (!page_try_discard(pt, p, w->fault_word))
		return false;
	slot_free(c, w, slot_from_arg(page_word_slot(w->fault_word)));
	return true;
}

/* A swap that fails means that somebody else moved the page: the message is looked at again. */
static bool step_fault_cas(struct world_ctx *c, struct world *w, unsigned int arg)
{
	struct page_table pt = world_table(c, w);
	unsigned int p = w->fault.page;
	bool done = true;

	if (w->fault.pc != FT_CAS)
		return false;
	switch ((enum page_action)w->fault.act) {
	case PAGE_ACT_FILL:
		done = fault_act_fill(c, w, &pt, p);
		break;
	case PAGE_ACT_ZERO:
		done = fault_act_zero(c, w, &pt, p);
		break;
	case PAGE_ACT_UNPROTECT:
		done = fault_act_unprotect(c, w, &pt, p);
		break;
	case PAGE_ACT_FORGET:
		done = fault_act_forget(c, w, &pt, p);
		break;
	case PAGE_ACT_SETTLE:
		if (w->page[p].present)
			break;
		w->fault.pc = FT_SETTLE;
		return true;
	default:
		world_violate(c, "the model knows no action '%s' for a message",
			      page_action_name((enum page_action)w->fault.act));
	}
	if (!done)
		w->page[p].msgs |= (uint8_t)MSG_BIT(w->fault.msg);
	fault_done(w);
	return true;
}

static bool step_fault_settle(struct world_ctx *c, struct world *w, unsigned int arg)
{
	struct page_table pt = world_table(c, w);

	if (w->fault.pc != FT_SETTLE)
		return false;
	if (!fault_act_forget(c, w, &pt, w->fault.page))
		w->page[w->fault.page].msgs |= (uint8_t)MSG_BIT(w->fault.msg);
	fault_done(w);
	return true;
}

/* arg: page, and whether the read fails */
static bool step_fault_io(struct world_ctx *c, struct world *w, unsigned int arg)
{
	unsigned int p = arg / 2;
	struct mpage *pg = &w->page[p];
	struct page_table pt = world_table(c, w);
	uint32_t slot;

	if (w->mode != D_RUN || pg->work != WORK_READ)
		return false;
	if (!world_owns(c, w, p, PAGE_FILLING, "the fault thread"))
		return true;
	if (arg % 2) {
		if (!w->errors)
			return false;
		w->errors--;
		pg->work = WORK_READ_BAD;
		cover(c, PAGE_MSG_IO_ERROR, PAGE_FILLING);
		return true;
	}
	slot = page_word_arg(page_table_load(&pt, p));
	if (w->store[slot] != w->sum[slot]) {
		world_violate(c, "slot %u of page %u no longer holds what was written to it", slot,
			      p);
		return true;
	}
	cover(c, PAGE_MSG_IO_DONE, PAGE_FILLING);
	pg->buf = w->store[slot];
	pg->work = WORK_COPY;
	return true;
}

/* RETURN, then WAKE: the waiter faults again, and that is the retry. */
static bool step_fault_io_failed(struct world_ctx *c, struct world *w, unsigned int p)
{
	struct page_table pt = world_table(c, w);

	if (!fault_idle(w) || w->page[p].work != WORK_READ_BAD)
		return false;
	w->page[p].work = WORK_NONE;
	page_end_fill_failed(&pt, p);
	if (c->mut != MUT_RETURN_SILENT)
		fault_goto(w, FT_RETURNED, p);
	return true;
}

static bool step_fault_wake_returned(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->fault.pc != FT_RETURNED)
		return false;
	uffd_wake(w, w->fault.page);
	fault_done(w);
	return true;
}

static void fault_installed(struct world_ctx *c, struct world *w, unsigned int p)
{
	w->page[p].work = WORK_NONE;
	w->page[p].buf = 0;
	if (c->cfg->drain)
		w->page[p].work = WORK_END_FILL;
	else
		fault_goto(w, FT_END_FILL, p);
}

static bool step_fault_install(struct world_ctx *c, struct world *w, unsigned int p)
{
	struct mpage *pg = &w->page[p];

	if (!(c->cfg->drain ? w->mode == D_RUN : fault_idle(w)) || uffd_busy(w) ||
	    (pg->work != WORK_COPY && pg->work != WORK_ZERO && pg->work != WORK_ZERO_FILL))
		return false;
	if (!world_owns(c, w, p, PAGE_FILLING, "the fault thread"))
		return true;
	if (pg->present) {
		if (pg->work != WORK_ZERO)
			world_violate(c, "EEXIST over a page that was EVICTED: page %u", p);
		pg->work = WORK_UNWP_FILL;
		return true;
	}
	uffd_install(w, p, pg->work == WORK_COPY ? pg->buf : TOKEN_ZERO);
	fault_installed(c, w, p);
	return true;
}

static bool step_fault_unwp(struct world_ctx *c, struct world *w, unsigned int p)
{
	struct mpage *pg = &w->page[p];
	bool fill = pg->work == WORK_UNWP_FILL;

	if (!fault_idle(w) || uffd_busy(w) || (pg->work != WORK_UNWP && !fill))
		return false;
	pg->work = WORK_NONE;
	uffd_unprotect(w, p);
	if (fill)
		fault_installed(c, w, p);
	else if (c->mut != MUT_UNWP_UNOWNED || world_state(w, p) == PAGE_UNPROTECTING)
		fault_goto(w, FT_END_UNWP, p);
	return true;
}

static void fault_end_fill(struct world_ctx *c, struct world *w, unsigned int p, bool keep)
{
	struct page_table pt = world_table(c, w);
	uint8_t slot;

	if (!world_owns(c, w, p, PAGE_FILLING, "the fault thread"))
		return;
	slot = slot_from_arg(page_word_arg(page_table_load(&pt, p)));
	if (slot == MSLOT_ZERO)
		slot = MSLOT_NONE;
	page_end_fill(&pt, p, slot_to_arg(keep ? slot : MSLOT_NONE));
	if (!keep)
		slot_free(c, w, slot);
}

/*
 * arg: page, and whether a slot is kept. A drain wakes once more: whoever came to wait since its COPY
 * was answered with nothing (FILLING) and sends no second message.
 */
static bool step_fault_end_fill(struct world_ctx *c, struct world *w, unsigned int arg)
{
	unsigned int p = arg / 2;

	if (w->fault.pc == FT_END_FILL && w->fault.page == p)
		fault_done(w);
	else if (w->mode == D_RUN && w->page[p].work == WORK_END_FILL)
		w->page[p].work = WORK_NONE;
	else
		return false;
	fault_end_fill(c, w, p, arg % 2);
	if (c->cfg->drain && c->mut != MUT_DRAIN_SILENT)
		uffd_wake(w, p);
	return true;
}

static bool step_fault_end_unwp(struct world_ctx *c, struct world *w, unsigned int arg)
{
	struct page_table pt = world_table(c, w);
	unsigned int p = w->fault.page;

	if (w->fault.pc != FT_END_UNWP)
		return false;
	if (world_owns(c, w, p, PAGE_UNPROTECTING, "the fault thread"))
		page_end_unprotect(&pt, p);
	fault_done(w);
	return true;
}

/* The fault thread has read all there was since the zap completed, and applied it. */
static bool step_fault_zap_over(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (!fault_idle(w) || w->zap_pc != ZAP_DONE || !uffd_empty(w) || remove_unapplied(w))
		return false;
	w->own_zap = 0;
	w->zap_pc = ZAP_IDLE;
	return true;
}

#endif
