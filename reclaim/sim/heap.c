// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * heap.c - an indexed binary heap (J. W. J. Williams, "Algorithm 232: Heapsort", CACM 7(6), 1964).
 */
#include <stdlib.h>
#include "heap.h"
#include "sim.h"

static bool goes_before(const struct heap *h, uint32_t a, uint32_t b)
{
	return h->largest_first ? h->keys[a] > h->keys[b] : h->keys[a] < h->keys[b];
}

static void put(struct heap *h, uint32_t slot, uint32_t page)
{
	h->slots[slot] = page;
	h->place[page] = slot;
}

static void sift_up(struct heap *h, uint32_t slot)
{
	uint32_t page = h->slots[slot];

	while (slot) {
		uint32_t parent = (slot - 1) / 2;

		if (!goes_before(h, page, h->slots[parent]))
			break;
		put(h, slot, h->slots[parent]);
		slot = parent;
	}
	put(h, slot, page);
}

static void sift_down(struct heap *h, uint32_t slot)
{
	uint32_t page = h->slots[slot];

	for (;;) {
		uint32_t child = 2 * slot + 1;

		if (child >= h->nr)
			break;
		if (child + 1 < h->nr && goes_before(h, h->slots[child + 1], h->slots[child]))
			child++;
		if (!goes_before(h, h->slots[child], page))
			break;
		put(h, slot, h->slots[child]);
		slot = child;
	}
	put(h, slot, page);
}

void heap_init(struct heap *h, uint32_t nr_pages, bool largest_first)
{
	h->largest_first = largest_first;
	h->nr = 0;
	h->slots = sim_alloc(nr_pages, sizeof(*h->slots));
	h->place = sim_alloc(nr_pages, sizeof(*h->place));
	h->keys = sim_alloc(nr_pages, sizeof(*h->keys));
}

void heap_free(struct heap *h)
{
	free(h->slots);
	free(h->place);
	free(h->keys);
}

void heap_add(struct heap *h, uint32_t page)
{
	h->slots[h->nr++] = page;
	sift_up(h, h->nr - 1);
}

void heap_rekey(struct heap *h, uint32_t page)
{
	sift_up(h, h->place[page]);
	sift_down(h, h->place[page]);
}

void heap_remove(struct heap *h, uint32_t page)
{
	uint32_t slot = h->place[page];
	uint32_t last = h->slots[--h->nr];

	if (last == page)
		return;
	put(h, slot, last);
	heap_rekey(h, last);
}

uint32_t heap_replace_top(struct heap *h, uint32_t page)
{
	uint32_t out = h->slots[0];

	put(h, 0, page);
	sift_down(h, 0);
	return out;
}
