// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lru.c - exact least recently used, and its cheap likeness CLOCK.
 *
 * LRU: the page whose last access is longest ago goes (P. J. Denning, "The working set model for
 * program behavior", CACM 11(5), 1968, calls it so; optimal stack property: R. L. Mattson et al.,
 * "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970).
 *
 * CLOCK: pages in a circle with a reference bit; a hand clears set bits and takes the first page whose
 * bit is clear (F. J. Corbató, "A paging experiment with the Multics system", MIT Project MAC report
 * MAC-M-384, 1968). The access that brought a page in does not count as a reference.
 */
#include <stdlib.h>
#include "list.h"

/* --- LRU ------------------------------------------------------------------------------------ */

struct lru {
	struct lists lists;
	uint32_t head; /* most recent first */
	uint32_t limit, resident;
	uint8_t *in;
};

static void *lru_create(const struct sim_setup *setup)
{
	uint32_t nr_pages = setup->workload->nr_pages;
	struct lru *lru = sim_alloc(1, sizeof(*lru));

	lists_init(&lru->lists, nr_pages, 1);
	lru->head = nr_pages;
	lru->limit = setup->limit;
	lru->in = sim_alloc(nr_pages, 1);
	return lru;
}

static void lru_forget(void *state, uint32_t page)
{
	struct lru *lru = state;

	if (!lru->in[page])
		return;
	lists_remove(&lru->lists, page);
	lru->in[page] = 0;
	lru->resident--;
}

static bool lru_access(void *state, uint32_t at, uint32_t page)
{
	struct lru *lru = state;

	if (lru->in[page]) {
		lists_move_first(&lru->lists, lru->head, page);
		return true;
	}
	if (lru->resident == lru->limit)
		lru_forget(lru, lists_last(&lru->lists, lru->head));
	lists_add_first(&lru->lists, lru->head, page);
	lru->in[page] = 1;
	lru->resident++;
	return false;
}

static void lru_destroy(void *state)
{
	struct lru *lru = state;

	lists_free(&lru->lists);
	free(lru->in);
	free(lru);
}

const struct sim_policy sim_lru = {
	.name = "lru",
	.about = "least recently used, exact",
	.create = lru_create,
	.access = lru_access,
	.forget = lru_forget,
	.destroy = lru_destroy,
};

/* --- CLOCK ---------------------------------------------------------------------------------- */

enum {
	CLOCK_OUT,
	CLOCK_IN,
	CLOCK_REFERENCED,
};

struct clock {
	uint32_t *frames; /* the circle: pages, in the order of their frames */
	uint32_t limit, resident, hand;
	uint8_t *pages; /* CLOCK_* */
};

static void *clock_create(const struct sim_setup *setup)
{
	struct clock *clock = sim_alloc(1, sizeof(*clock));

	clock->limit = setup->limit;
	clock->frames = sim_alloc(setup->limit, sizeof(*clock->frames));
	clock->pages = sim_alloc(setup->workload->nr_pages, 1);
	return clock;
}

static void clock_advance(struct clock *clock)
{
	if (++clock->hand == clock->limit)
		clock->hand = 0;
}

static bool clock_access(void *state, uint32_t at, uint32_t page)
{
	struct clock *clock = state;

	if (clock->pages[page] != CLOCK_OUT) {
		clock->pages[page] = CLOCK_REFERENCED;
		return true;
	}
	clock->pages[page] = CLOCK_IN;
	if (clock->resident < clock->limit) {
		clock->frames[clock->resident++] = page;
		return false;
	}
	while (clock->pages[clock->frames[clock->hand]] == CLOCK_REFERENCED) {
		clock->pages[clock->frames[clock->hand]] = CLOCK_IN;
		clock_advance(clock);
	}
	clock->pages[clock->frames[clock->hand]] = CLOCK_OUT;
	clock->frames[clock->hand] = page;
	clock_advance(clock);
	return false;
}

/* Seldom: the last frame moves into the hole. The hand stays: with room left nobody looks at it. */
static void clock_forget(void *state, uint32_t page)
{
	struct clock *clock = state;
	uint32_t i = 0;

	if (clock->pages[page] == CLOCK_OUT)
		return;
	while (clock->frames[i] != page)
		i++;
	clock->frames[i] = clock->frames[--clock->resident];
	clock->pages[page] = CLOCK_OUT;
}

static void clock_destroy(void *state)
{
	struct clock *clock = state;

	free(clock->frames);
	free(clock->pages);
	free(clock);
}

const struct sim_policy sim_clock = {
	.name = "clock",
	.about = "second chance",
	.create = clock_create,
	.access = clock_access,
	.forget = clock_forget,
	.destroy = clock_destroy,
};
