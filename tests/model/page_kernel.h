/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_kernel.h - steps of all but the daemon: vCPUs, a device, discards, zaps, late writes.
 *
 * DOC: the fault path
 *
 * A fault is decided on (page cache and PTE are looked at) before the thread is in the queue.
 * Once in it the kernel looks at the PTE again and lets the thread go if the reason is gone, with
 * two exceptions that matter: an empty PTE is a reason to wait for any fault, although the page
 * may be in the memfd by now; and a PTE that is not writable is a reason to wait for a WP fault,
 * although the protection may have been lifted. So a message can come after the wake-up that
 * would have answered it.
 *
 * A read of the uffd gives faults and events in any order here; the kernel prefers faults.
 */
#ifndef TESTS_MODEL_PAGE_KERNEL_H
#define TESTS_MODEL_PAGE_KERNEL_H

#include "page_world.h"

static bool discarding(const struct world *w, unsigned int p)
{
	return w->disc_pc != DISC_IDLE && w->disc_page == p;
}

static void thread_done(struct mthread *t)
{
	memset(t, 0, sizeof(*t));
}

static void guest_read(struct world_ctx *c, const struct world *w, unsigned int p)
{
	const struct mpage *pg = &w->page[p];

	if (pg->content != pg->last &&
	    !(pg->zero_ok && (pg->content == TOKEN_ZERO || pg->content == pg->older)))
		world_violate(c, "the guest reads %u from page %u, last written was %u%s",
			      pg->content, p, pg->last, pg->zero_ok ? " (or zeros)" : "");
}

static void guest_write(struct world_ctx *c, struct world *w, unsigned int p)
{
	struct mpage *pg = &w->page[p];

	if (pg->version == c->cfg->versions)
		return; /* the bound; the access itself was made */
	pg->version++;
	pg->content = pg->last = (uint8_t)(p * 8 + pg->version);
	if (discarding(w, p))
		return;
	pg->zero_ok = pg->older = 0;
}

/* arg: op, page, thread */
static bool step_thread_start(struct world_ctx *c, struct world *w, unsigned int arg)
{
	unsigned int t = arg / 6, p = arg / 3 % 2, op = arg % 3;
	struct mthread *thr = &w->thr[t];

	if (p >= c->cfg->pages || !(c->cfg->ops[t] & OP_BIT(op)) || thr->pc != THR_IDLE)
		return false;
	if (op != OP_READ && w->page[p].version == c->cfg->versions)
		return false;
	*thr = (struct mthread) {.pc = THR_RUN, .page = (uint8_t)p, .op = (uint8_t)op};
	return true;
}

static bool step_thread_access(struct world_ctx *c, struct world *w, unsigned int t)
{
	struct mthread *thr = &w->thr[t];
	struct mpage *pg = &w->page[thr->page];

	if (thr->pc != THR_RUN)
		return false;
	if (!pg->present) {
		thr->pc = THR_DECIDED;
		thr->kind = PAGE_MSG_MISSING;
		return true;
	}
	pg->pte = 1; /* in the page cache: mapped without a message, protected by a marker */
	if (pg->wp && thr->op != OP_READ) {
		thr->pc = THR_DECIDED;
		thr->kind = PAGE_MSG_WP;
		return true;
	}
	if (thr->op == OP_DMA) {
		thr->pc = THR_PINNED;
		return true;
	}
	if (thr->op == OP_READ)
		guest_read(c, w, thr->page);
	else
		guest_write(c, w, thr->page);
	thread_done(thr);
	return true;
}

/* arg: thread, and whether a PTE without protection happens not to be writable */
static bool step_thread_queue(struct world_ctx *c, struct world *w, unsigned int arg)
{
	struct mthread *thr = &w->thr[arg / 2];
	const struct mpage *pg = &w->page[thr->page];
	bool read_only = arg % 2;

	if (thr->pc != THR_DECIDED)
		return false;
	if (read_only && (thr->kind != PAGE_MSG_WP || !pg->pte || pg->wp))
		return false;
	if (!pg->pte || (thr->kind == PAGE_MSG_WP && (pg->wp || read_only))) {
		thr->pc = THR_QUEUED;
	} else {
		thr->pc = THR_RUN;
		thr->kind = 0;
	}
	return true;
}

static bool step_device_write(struct world_ctx *c, struct world *w, unsigned int t)
{
	struct mthread *thr = &w->thr[t];

	if (thr->pc != THR_PINNED)
		return false;
	if (thr->orphan == 2)
		world_violate(c, "a device writes into page %u after the daemon punched it away",
			      thr->page);
	if (!thr->orphan)
		guest_write(c, w, thr->page);
	thread_done(thr);
	return true;
}

static bool step_discard_punch(struct world_ctx *c, struct world *w, unsigned int p)
{
	if (p >= c->cfg->pages || w->disc_pc != DISC_IDLE || !w->discards)
		return false;
	w->discards--;
	w->disc_pc = DISC_MADVISE;
	w->disc_page = (uint8_t)p;
	w->page[p].zero_ok = 1;
	memfd_punch(w, p, 1);
	return true;
}

static bool step_discard_event(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->disc_pc != DISC_MADVISE)
		return false;
	w->disc_pc = DISC_EVENT;
	return true;
}

static bool step_discard_zap(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->disc_pc != DISC_ZAP)
		return false;
	w->page[w->disc_page].pte = 0;
	w->disc_pc = DISC_IDLE;
	w->disc_page = 0;
	return true;
}

/* The own zap covers all pages; its ring lives in the VMM and works on when the daemon is dead. */
static bool step_zap_submit(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->mode != D_RUN || w->zap_pc != ZAP_IDLE || !w->zaps)
		return false;
	w->zaps--;
	w->own_zap = 1;
	w->zap_pc = ZAP_SUBMITTED;
	return true;
}

static bool step_zap_event(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->zap_pc != ZAP_SUBMITTED)
		return false;
	w->zap_pc = ZAP_EVENT;
	return true;
}

static bool step_zap_zap(struct world_ctx *c, struct world *w, unsigned int arg)
{
	if (w->zap_pc != ZAP_ZAP)
		return false;
	for (unsigned int p = 0; p < c->cfg->pages; p++)
		w->page[p].pte = 0;
	w->zap_pc = ZAP_DONE;
	if (c->mut == MUT_ZAP_ENDS_EARLY) {
		w->own_zap = 0;
		w->zap_pc = ZAP_IDLE;
	}
	return true;
}

static bool step_zombie_write(struct world_ctx *c, struct world *w, unsigned int s)
{
	if (!w->zombie[s])
		return false;
	w->store[s] = (uint8_t)(w->zombie[s] - 1);
	w->zombie[s] = 0;
	return true;
}

/* Reads one message: of a thread, 2: a discard, 3: a zap. Returns the pages it names, as bits. */
static unsigned int uffd_read(struct world_ctx *c, struct world *w, unsigned int which,
			      enum page_msg *ret_msg)
{
	*ret_msg = PAGE_MSG_REMOVE;
	if (which == 2 && w->disc_pc == DISC_EVENT) {
		w->disc_pc = DISC_ZAP;
		return 1u << w->disc_page;
	}
	if (which == 3 && w->zap_pc == ZAP_EVENT) {
		w->zap_pc = ZAP_ZAP;
		return (1u << c->cfg->pages) - 1;
	}
	if (which < WORLD_THREADS && w->thr[which].pc == THR_QUEUED) {
		w->thr[which].pc = THR_BLOCKED;
		*ret_msg = (enum page_msg)w->thr[which].kind;
		return 1u << w->thr[which].page;
	}
	return 0;
}

static bool uffd_empty(const struct world *w)
{
	for (int t = 0; t < WORLD_THREADS; t++)
		if (w->thr[t].pc == THR_QUEUED)
			return false;
	return !uffd_busy(w);
}

#endif
