// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * arc.c - the adaptive replacement cache.
 *
 * Pages touched once (T1) and more often (T2), each with a ghost list of those that left (B1, B2);
 * the share of T1 grows with hits in B1 and shrinks with hits in B2 (N. Megiddo, D. S. Modha, "ARC: a
 * self-tuning, low overhead replacement cache", FAST 2003; the cases are those of its figure 4).
 */
#include <stdlib.h>
#include "list.h"

enum arc_list {
	ARC_NONE,
	ARC_T1,
	ARC_T2,
	ARC_B1,
	ARC_B2,
	ARC_NR_LISTS,
};

struct arc {
	struct lists lists;
	uint32_t nr_pages, limit;
	uint32_t count[ARC_NR_LISTS];
	double target; /* pages of T1 */
	uint8_t *where;
};

static void *arc_create(const struct sim_setup *setup)
{
	struct arc *arc = sim_alloc(1, sizeof(*arc));

	arc->nr_pages = setup->workload->nr_pages;
	arc->limit = setup->limit;
	lists_init(&arc->lists, arc->nr_pages, ARC_NR_LISTS);
	arc->where = sim_alloc(arc->nr_pages, 1);
	return arc;
}

static void arc_move(struct arc *arc, uint32_t page, enum arc_list to)
{
	enum arc_list from = arc->where[page];

	if (from != ARC_NONE) {
		lists_remove(&arc->lists, page);
		arc->count[from]--;
	}
	if (to != ARC_NONE) {
		lists_add_first(&arc->lists, arc->nr_pages + to, page);
		arc->count[to]++;
	}
	arc->where[page] = to;
}

static void arc_move_last(struct arc *arc, enum arc_list from, enum arc_list to)
{
	arc_move(arc, lists_last(&arc->lists, arc->nr_pages + from), to);
}

static bool arc_is_full(const struct arc *arc)
{
	return arc->count[ARC_T1] + arc->count[ARC_T2] >= arc->limit;
}

/* REPLACE of the paper */
static void arc_replace(struct arc *arc, bool in_b2)
{
	uint32_t t1 = arc->count[ARC_T1];

	if (t1 && (t1 > arc->target || (in_b2 && t1 == (uint32_t)arc->target)))
		arc_move_last(arc, ARC_T1, ARC_B1);
	else if (arc->count[ARC_T2])
		arc_move_last(arc, ARC_T2, ARC_B2);
	else
		arc_move_last(arc, ARC_T1, ARC_B1);
}

/* Cases II and III: a ghost came back. */
static void arc_ghost(struct arc *arc, uint32_t page, enum arc_list ghosts)
{
	double b1 = arc->count[ARC_B1], b2 = arc->count[ARC_B2];

	if (ghosts == ARC_B1)
		arc->target = MIN(arc->limit, arc->target + MAX(b2 / b1, 1));
	else
		arc->target = MAX(0, arc->target - MAX(b1 / b2, 1));
	if (arc_is_full(arc))
		arc_replace(arc, ghosts == ARC_B2);
	arc_move(arc, page, ARC_T2);
}

/* Case IV: never heard of. */
static void arc_new(struct arc *arc, uint32_t page)
{
	uint32_t l1 = arc->count[ARC_T1] + arc->count[ARC_B1];
	uint32_t l2 = arc->count[ARC_T2] + arc->count[ARC_B2];

	if (l1 == arc->limit) {
		if (arc->count[ARC_T1] < arc->limit) {
			arc_move_last(arc, ARC_B1, ARC_NONE);
			if (arc_is_full(arc))
				arc_replace(arc, false);
		} else {
			arc_move_last(arc, ARC_T1, ARC_NONE);
		}
	} else if (l1 + l2 >= arc->limit) {
		if (l1 + l2 >= 2 * arc->limit && arc->count[ARC_B2])
			arc_move_last(arc, ARC_B2, ARC_NONE);
		if (arc_is_full(arc))
			arc_replace(arc, false);
	}
	arc_move(arc, page, ARC_T1);
}

static bool arc_access(void *state, uint32_t at, uint32_t page)
{
	struct arc *arc = state;
	enum arc_list where = arc->where[page];

	switch (where) {
	case ARC_T1:
	case ARC_T2:
		arc_move(arc, page, ARC_T2);
		return true;
	case ARC_B1:
	case ARC_B2:
		arc_ghost(arc, page, where);
		return false;
	default:
		arc_new(arc, page);
		return false;
	}
}

static void arc_forget(void *state, uint32_t page)
{
	arc_move(state, page, ARC_NONE);
}

static void arc_destroy(void *state)
{
	struct arc *arc = state;

	lists_free(&arc->lists);
	free(arc->where);
	free(arc);
}

const struct sim_policy sim_arc = {
	.name = "arc",
	.about = "adaptive replacement cache",
	.create = arc_create,
	.access = arc_access,
	.forget = arc_forget,
	.destroy = arc_destroy,
};
