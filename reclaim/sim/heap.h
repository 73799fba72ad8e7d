/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * heap.h - a binary heap of pages that knows where each page is, so that its key may change.
 */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/** struct heap - the page with the smallest key (or the largest, if @largest_first) is slots[0] */
struct heap {
	bool largest_first;
	uint32_t nr;
	uint32_t *slots; /* pages */
	uint32_t *place; /* slot of each page that is in */
	uint32_t *keys;	 /* of each page, in or not */
};

void heap_init(struct heap *h, uint32_t nr_pages, bool largest_first);
void heap_free(struct heap *h);

/** heap_add() - @page is not in; its key is set */
void heap_add(struct heap *h, uint32_t page);

/** heap_remove() - @page is in */
void heap_remove(struct heap *h, uint32_t page);

/** heap_rekey() - the key of @page, which is in, has changed */
void heap_rekey(struct heap *h, uint32_t page);

/** heap_replace_top() - the first page goes, @page, whose key is set, comes in; returns who went */
uint32_t heap_replace_top(struct heap *h, uint32_t page);

#endif
