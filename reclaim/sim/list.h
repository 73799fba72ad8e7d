/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * list.h - doubly linked lists of page indices, several of them in two arrays.
 *
 * Pages are 0..nr_pages - 1; the head of list k is the index nr_pages + k. A page is on one list at
 * most. Taking a page off leaves its links stale, so whoever keeps a page knows where it is.
 */
#ifndef SIM_LIST_H
#define SIM_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "sim.h"

struct lists {
	uint32_t *next, *prev;
};

static inline void lists_init(struct lists *l, uint32_t nr_pages, uint32_t nr_lists)
{
	l->next = sim_alloc(nr_pages + nr_lists, sizeof(*l->next));
	l->prev = sim_alloc(nr_pages + nr_lists, sizeof(*l->prev));
	for (uint32_t head = nr_pages; head < nr_pages + nr_lists; head++)
		l->next[head] = l->prev[head] = head;
}

static inline void lists_free(struct lists *l)
{
	free(l->next);
	free(l->prev);
}

static inline void lists_remove(struct lists *l, uint32_t page)
{
	l->next[l->prev[page]] = l->next[page];
	l->prev[l->next[page]] = l->prev[page];
}

static inline void lists_add_first(struct lists *l, uint32_t head, uint32_t page)
{
	l->next[page] = l->next[head];
	l->prev[page] = head;
	l->prev[l->next[head]] = page;
	l->next[head] = page;
}

static inline void lists_move_first(struct lists *l, uint32_t head, uint32_t page)
{
	lists_remove(l, page);
	lists_add_first(l, head, page);
}

static inline uint32_t lists_last(const struct lists *l, uint32_t head)
{
	return l->prev[head];
}

#endif
