// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * probation.c - a short first-in-first-out queue for pages that have yet to prove themselves.
 *
 * DOC: probation
 *
 * Most pages that fault for the first time in a long while are not touched again soon: a backup, a
 * virus scan, a `find` over all of memory. If each took the place of a page of the working set, one
 * pass of them would push all of it out. So a page that nothing speaks for enters here, and the
 * queue is 1 % of memory: unless the page is used again while it passes through, it leaves first.
 * (A small queue in front is an old idea: 2Q, Johnson and Shasha 1994; S3-FIFO, Yang et al. 2023.)
 *
 * What speaks for a page is decided in reclaim.c. The queue is an array of page indexes and nothing
 * else; a page on probation has its bit in the planes, and an entry whose page has none any more is
 * skipped when its turn comes. A page that left, came back and left its old entry behind may be
 * taken at the older one's turn, somewhat early; that needs two moves within the passage of 1 %.
 *
 * When pages that left unproven come back faster than usual, the queue is too short for the present
 * load: it grows by a few pages for each, up to 3 %, and falls back within some units of reuse.
 */
#include <assert.h>
#include <ebb/types.h>
#include "decay.h"
#include "probation.h"

#define RING_SHARE   32u /* of the guest's pages */
#define RING_MIN     64u
#define FLOOR_SHARE  100u /* 1/100 of what may be resident ... */
#define FLOOR_PAGES  128u /* ... two windows of read-ahead at least, ... */
#define FLOOR_MOST   32u  /* ... unless that is more than 1/32 */
#define FLOOR_LEAST  4u
#define CEILING      0.03
#define GROWTH	     4.0
#define RELAX_UNITS  2.0 /* half-life of what the queue has grown by */

size_t probation_size(uint32_t nr_pages)
{
	return (nr_pages / RING_SHARE + RING_MIN) * sizeof(uint32_t);
}

void probation_init(struct probation *pr, void *mem, uint32_t nr_pages)
{
	*pr = (struct probation) {.ring = mem, .room = nr_pages / RING_SHARE + RING_MIN};
}

void probation_push(struct probation *pr, uint32_t idx)
{
	assert(!probation_is_full(pr));
	pr->ring[pr->tail++ % pr->room] = idx;
}

uint32_t probation_pop(struct probation *pr)
{
	assert(!probation_is_empty(pr));
	return pr->ring[pr->head++ % pr->room];
}

uint32_t probation_floor(uint32_t capacity)
{
	uint32_t least = MIN(FLOOR_PAGES, capacity / FLOOR_MOST);

	least = MAX(least, FLOOR_LEAST);
	return MAX(capacity / FLOOR_SHARE, least);
}

uint32_t probation_room(const struct probation *pr, uint32_t capacity)
{
	return MAX(MIN((uint32_t)pr->target, (uint32_t)(CEILING * capacity)), probation_floor(capacity));
}

void probation_missed(struct probation *pr, uint32_t capacity)
{
	double ceiling = MAX(CEILING * capacity, (double)probation_floor(capacity));

	pr->target = MIN(MAX(pr->target, (double)probation_floor(capacity)) + GROWTH, ceiling);
}

void probation_relax(struct probation *pr, uint32_t capacity, double units)
{
	double floor = probation_floor(capacity);

	if (pr->target > floor)
		pr->target = floor + (pr->target - floor) * decay_exp2(units / RELAX_UNITS);
}
