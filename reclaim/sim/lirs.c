// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lirs.c - low inter-reference recency set.
 *
 * Pages are ranked by how many others were touched between their last two accesses. Those ranked low
 * (LIR) hold 99 % of the room; the rest (HIR) pass through a queue of 1 %. The stack S knows the
 * recency of all, pages that are out included: a HIR page touched while still on it is ranked lower
 * than the LIR page at its bottom, and they change places (S. Jiang, X. Zhang, "LIRS: an efficient
 * low inter-reference recency set replacement policy to improve buffer cache performance",
 * SIGMETRICS 2002). The stack is not bounded here.
 */
#include <stdlib.h>
#include "list.h"

#define HIR_SHARE 100u
#define HIR_MIN	  2u

enum {
	LIRS_RESIDENT = 1 << 0,
	LIRS_LIR = 1 << 1,
	LIRS_IN_STACK = 1 << 2,
	LIRS_IN_QUEUE = 1 << 3,
};

struct lirs {
	struct lists stack, queue;
	uint32_t head; /* of both */
	uint32_t limit, lir_max;
	uint32_t nr_lir, nr_queue;
	uint8_t *pages; /* LIRS_* */
};

static void *lirs_create(const struct sim_setup *setup)
{
	uint32_t nr_pages = setup->workload->nr_pages;
	struct lirs *lirs = sim_alloc(1, sizeof(*lirs));

	lists_init(&lirs->stack, nr_pages, 1);
	lists_init(&lirs->queue, nr_pages, 1);
	lirs->head = nr_pages;
	lirs->limit = setup->limit;
	lirs->lir_max = setup->limit - MIN(setup->limit, MAX(setup->limit / HIR_SHARE, HIR_MIN));
	lirs->pages = sim_alloc(nr_pages, 1);
	return lirs;
}

/* The bottom of the stack is always a LIR page. */
static void lirs_prune(struct lirs *lirs)
{
	for (;;) {
		uint32_t page = lists_last(&lirs->stack, lirs->head);

		if (page == lirs->head || lirs->pages[page] & LIRS_LIR)
			return;
		lists_remove(&lirs->stack, page);
		lirs->pages[page] &= ~LIRS_IN_STACK;
	}
}

static void lirs_queue(struct lirs *lirs, uint32_t page)
{
	if (lirs->pages[page] & LIRS_IN_QUEUE) {
		lists_move_first(&lirs->queue, lirs->head, page);
		return;
	}
	lists_add_first(&lirs->queue, lirs->head, page);
	lirs->pages[page] |= LIRS_IN_QUEUE;
	lirs->nr_queue++;
}

static void lirs_unqueue(struct lirs *lirs, uint32_t page)
{
	if (!(lirs->pages[page] & LIRS_IN_QUEUE))
		return;
	lists_remove(&lirs->queue, page);
	lirs->pages[page] &= ~LIRS_IN_QUEUE;
	lirs->nr_queue--;
}

static void lirs_stack_top(struct lirs *lirs, uint32_t page)
{
	if (lirs->pages[page] & LIRS_IN_STACK)
		lists_remove(&lirs->stack, page);
	lists_add_first(&lirs->stack, lirs->head, page);
	lirs->pages[page] |= LIRS_IN_STACK;
}

/* The LIR page at the bottom of the stack has the longest recency: it becomes HIR. */
static void lirs_demote(struct lirs *lirs)
{
	uint32_t page = lists_last(&lirs->stack, lirs->head);

	lists_remove(&lirs->stack, page);
	lirs->pages[page] = LIRS_RESIDENT;
	lirs->nr_lir--;
	lirs_queue(lirs, page);
	lirs_prune(lirs);
}

static void lirs_promote(struct lirs *lirs, uint32_t page)
{
	lirs_unqueue(lirs, page);
	lirs_stack_top(lirs, page);
	lirs->pages[page] |= LIRS_RESIDENT | LIRS_LIR;
	lirs->nr_lir++;
}

static void lirs_evict(struct lirs *lirs)
{
	uint32_t page;

	if (!lirs->nr_queue)
		lirs_demote(lirs);
	page = lists_last(&lirs->queue, lirs->head);
	lirs_unqueue(lirs, page);
	lirs->pages[page] &= ~LIRS_RESIDENT;
}

static bool lirs_access(void *state, uint32_t at, uint32_t page)
{
	struct lirs *lirs = state;
	bool hit = lirs->pages[page] & LIRS_RESIDENT;

	if (lirs->pages[page] & LIRS_LIR) {
		lirs_stack_top(lirs, page);
		lirs_prune(lirs);
		return true;
	}
	if (!hit && lirs->nr_lir + lirs->nr_queue >= lirs->limit)
		lirs_evict(lirs);
	if (lirs->pages[page] & LIRS_IN_STACK) {
		lirs_promote(lirs, page);
		if (lirs->nr_lir > lirs->lir_max)
			lirs_demote(lirs);
	} else if (!hit && lirs->nr_lir < lirs->lir_max) { /* at the beginning */
		lirs_promote(lirs, page);
	} else {
		lirs_stack_top(lirs, page);
		lirs_queue(lirs, page);
		lirs->pages[page] |= LIRS_RESIDENT;
		if (!lirs->nr_lir) /* a tiny limit: nothing to be ranked below */
			lirs_prune(lirs);
	}
	return hit;
}

static void lirs_forget(void *state, uint32_t page)
{
	struct lirs *lirs = state;

	lirs_unqueue(lirs, page);
	if (lirs->pages[page] & LIRS_IN_STACK)
		lists_remove(&lirs->stack, page);
	lirs->nr_lir -= !!(lirs->pages[page] & LIRS_LIR);
	lirs->pages[page] = 0;
	lirs_prune(lirs);
}

static void lirs_destroy(void *state)
{
	struct lirs *lirs = state;

	lists_free(&lirs->stack);
	lists_free(&lirs->queue);
	free(lirs->pages);
	free(lirs);
}

const struct sim_policy sim_lirs = {
	.name = "lirs",
	.about = "low inter-reference recency set",
	.create = lirs_create,
	.access = lirs_access,
	.forget = lirs_forget,
	.destroy = lirs_destroy,
};
