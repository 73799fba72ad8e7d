// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * two_list.c - active and inactive list with refault distance, as Linux has had them since 3.15.
 *
 * Two CLOCKs: a new page enters the inactive list and must be found referenced twice at its tail to
 * become active; active pages fall back, whatever their bit, when the inactive list is the shorter one
 * (ratio 1:1, the stronger of the kernel's settings here). A page that refaults after fewer evictions and
 * activations than there are active pages would have stayed if it had been active: it enters there
 * (J. Weiner, "mm: thrash detection-based file cache sizing", Linux 3.15, 2014, and for anonymous
 * memory J. Kim, "workingset protection/detection on the anonymous LRU list", Linux 5.9, 2020).
 */
#include <stdlib.h>
#include "list.h"

enum two_where {
	TWO_OUT,
	TWO_INACTIVE,
	TWO_ACTIVE,
};

struct two_page {
	uint8_t where;
	bool accessed;	 /* the bit in the page table */
	bool referenced; /* found accessed once, while inactive */
	bool was_evicted;
	uint32_t evicted_at; /* on the clock of evictions and activations */
};

struct two {
	struct lists lists;
	uint32_t nr_pages, limit;
	uint32_t count[3]; /* of enum two_where */
	uint32_t clock;
	struct two_page *pages;
};

static void *two_create(const struct sim_setup *setup)
{
	struct two *two = sim_alloc(1, sizeof(*two));

	two->nr_pages = setup->workload->nr_pages;
	two->limit = setup->limit;
	lists_init(&two->lists, two->nr_pages, 3);
	two->pages = sim_alloc(two->nr_pages, sizeof(*two->pages));
	return two;
}

static void two_move(struct two *two, uint32_t page, enum two_where to)
{
	uint8_t *where = &two->pages[page].where;

	if (*where != TWO_OUT) {
		lists_remove(&two->lists, page);
		two->count[*where]--;
	}
	if (to != TWO_OUT) {
		lists_add_first(&two->lists, two->nr_pages + to, page);
		two->count[to]++;
	}
	*where = to;
}

static uint32_t two_tail(const struct two *two, enum two_where list)
{
	return lists_last(&two->lists, two->nr_pages + list);
}

/* The tail of the inactive list had its bit set: the first time it stays, the second it is active. */
static void two_keep(struct two *two, uint32_t page)
{
	struct two_page *p = &two->pages[page];

	p->accessed = false;
	two_move(two, page, p->referenced ? TWO_ACTIVE : TWO_INACTIVE);
	two->clock += p->referenced;
	p->referenced = !p->referenced;
}

static void two_evict(struct two *two)
{
	for (;;) {
		uint32_t page;

		if (two->count[TWO_INACTIVE] < two->count[TWO_ACTIVE] ||
		    !two->count[TWO_INACTIVE]) {
			page = two_tail(two, TWO_ACTIVE);
			two->pages[page].accessed = two->pages[page].referenced = false;
			two_move(two, page, TWO_INACTIVE);
			continue;
		}
		page = two_tail(two, TWO_INACTIVE);
		if (two->pages[page].accessed) {
			two_keep(two, page);
			continue;
		}
		two_move(two, page, TWO_OUT);
		two->pages[page].evicted_at = two->clock++;
		two->pages[page].was_evicted = true;
		return;
	}
}

static bool two_access(void *state, uint32_t at, uint32_t page)
{
	struct two *two = state;
	struct two_page *p = &two->pages[page];

	if (p->where != TWO_OUT) {
		p->accessed = true;
		return true;
	}
	while (two->count[TWO_ACTIVE] + two->count[TWO_INACTIVE] >= two->limit)
		two_evict(two);
	p->accessed = true;
	p->referenced = false;
	if (p->was_evicted && two->clock - p->evicted_at <= two->count[TWO_ACTIVE]) {
		two_move(two, page, TWO_ACTIVE);
		two->clock++;
	} else {
		two_move(two, page, TWO_INACTIVE);
	}
	return false;
}

static void two_forget(void *state, uint32_t page)
{
	struct two *two = state;

	two_move(two, page, TWO_OUT);
	two->pages[page].was_evicted = false;
}

static void two_destroy(void *state)
{
	struct two *two = state;

	lists_free(&two->lists);
	free(two->pages);
	free(two);
}

const struct sim_policy sim_two_list = {
	.name = "two-list",
	.about = "active and inactive list with refault distance",
	.create = two_create,
	.access = two_access,
	.forget = two_forget,
	.destroy = two_destroy,
};
