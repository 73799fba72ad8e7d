/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slotmap.h - which slots of a store are in use: an extent allocator over a bitmap.
 *
 * DOC: theory of operation
 *
 * Evictions come in batches of up to 64 pages sorted by address, and want neighbours in the guest to be
 * neighbours on disk: one write, and later one read for several pages. So slots are given out as
 * extents, next-fit from a cursor that only moves forward (like a log): first what is free right at the
 * cursor, then the next stretch of 64 that is wholly free, then the longest of a few fragments. Each
 * slot ever used costs a checksum's memory, so the cursor keeps below a *horizon* of 5/4 of the slots in
 * use (and a fixed slack): a fifth of the slots below it are free, which is where fragments come from.
 *
 * Two summary bitmaps, one bit for 64 slots each (wholly free / any free), let every search
 * skip 4096 slots a word; a 1 TiB store is searched in the worst case in 64 k words.
 *
 * Not thread-safe: struct store locks around it.
 */
#ifndef VMM_SLOTMAP_H
#define VMM_SLOTMAP_H

#include <ebb/types.h>

struct slotmap;

/** slotmap_new() - all free; NULL when out of memory. @nr: slots, at least 1 */
struct slotmap *slotmap_new(uint32_t nr);
void slotmap_free(struct slotmap *m);

/**
 * slotmap_alloc() - an extent of at most @want slots
 * @ret_len: at least 1; shorter than @want when no longer extent was at hand
 *
 * Returns the first slot, or UINT32_MAX when nothing is free.
 */
uint32_t slotmap_alloc(struct slotmap *m, uint32_t want, uint32_t *ret_len);

/** slotmap_take() - mark one slot used; false if it was (take-over: two pages would own it) */
bool slotmap_take(struct slotmap *m, uint32_t slot);

/** slotmap_release() - one slot is free again; asserts that it was used */
void slotmap_release(struct slotmap *m, uint32_t slot);

uint32_t slotmap_nr_used(const struct slotmap *m);
uint32_t slotmap_nr(const struct slotmap *m);

#endif
