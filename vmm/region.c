// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * region.c - find the RAM block of an address or a page index.
 *
 * A guest has a handful of regions, so a linear look beats anything clever; what matters is
 * that a fault's address outside every region is noticed (NULL) and never rounded into one.
 */
#include <unistd.h>
#include "region.h"

const struct region *region_find_hva(const struct region_table *t, uint64_t hva)
{
	for (unsigned int i = 0; i < t->nr; i++) {
		const struct region *r = &t->r[i];

		if (hva >= r->hva && hva - r->hva < pages_to_bytes(r->nr))
			return r;
	}
	return NULL;
}

const struct region *region_find_index(const struct region_table *t, uint32_t idx)
{
	for (unsigned int i = 0; i < t->nr; i++) {
		const struct region *r = &t->r[i];

		if (idx >= r->first && idx - r->first < r->nr)
			return r;
	}
	return NULL;
}

/*
 * The memfd's file offset moves, here and in the VMM, whose descriptor it is too: neither reads
 * by it.
 */
bool region_holds(const struct region *r, uint32_t idx)
{
	off_t off = (off_t)region_offset(r, idx);

	return lseek(r->memfd, off, SEEK_DATA) == off;
}
