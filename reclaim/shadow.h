/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shadow.h - when each page was evicted, on a clock that ticks with evictions.
 */
#ifndef RECLAIM_SHADOW_H
#define RECLAIM_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHADOW_NR_TIMES 128u

/**
 * struct shadow - shadow entries of all pages
 * @entries: 0: never evicted. That of a page discarded since says nothing, and is not asked for
 * @quantum: evictions per tick of the entries
 * @time_quantum: evictions between two entries of @times
 * @evictions: the clock
 */
struct shadow {
	uint16_t *entries;
	uint32_t quantum;
	uint32_t time_quantum;
	uint64_t evictions;
	uint64_t times[SHADOW_NR_TIMES];
};

/** shadow_size() - bytes shadow_init() needs */
size_t shadow_size(uint32_t nr_pages);

/** shadow_init() - @mem: zeroed, aligned for uint16_t */
void shadow_init(struct shadow *sh, void *mem, uint32_t nr_pages, uint64_t now_ns);

/** shadow_note() - page @idx was evicted */
void shadow_note(struct shadow *sh, uint32_t idx, uint64_t now_ns);

/**
 * shadow_distance() - evictions since page @idx was evicted, and how long ago that is
 * @ret_ago_ns: interpolated; good to about 1/64 of the guest's pages in evictions
 *
 * Returns false if it never was, or so long ago that nobody may care: more than two evictions per
 * page of the guest.
 */
bool shadow_distance(const struct shadow *sh, uint32_t idx, uint64_t now_ns, uint32_t *ret_distance,
		     uint64_t *ret_ago_ns);

/** shadow_is_since() - was page @idx evicted when the clock had passed @evictions? */
bool shadow_is_since(const struct shadow *sh, uint32_t idx, uint64_t evictions);

#endif
