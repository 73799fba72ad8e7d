// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * shadow.c - when each page was evicted, on a clock that ticks with evictions.
 *
 * DOC: refault distance
 *
 * From workingset detection (Johannes Weiner, Linux 3.15): leave the reading of an eviction clock
 * behind with each evicted page. When the page comes back, the evictions since then tell how many
 * more pages memory would have needed to keep it. If the resident pages that were not used since are
 * as many, an exact LRU would have evicted one of those instead, and the page belongs to the working
 * set.
 *
 * An entry is 16 bits: the clock in units of 1/2048 of the guest. It wraps after 32 evictions per
 * page; a page away for longer can be mistaken for a recent one, with a chance of one in sixteen at
 * most, and the harm is one page on the wrong side of a rule of thumb. What time it was at an
 * eviction is kept for the clock's last two rounds over the guest, in a small ring.
 */
#include "shadow.h"
#include <ebb/types.h>

#define RESOLUTION     2048u
#define WRAP	       65535u /* values 1..65535; 0 is none */
#define FAR_TICKS      (2 * RESOLUTION)
#define TIMES_PER_PAGE (SHADOW_NR_TIMES / 2)

size_t shadow_size(uint32_t nr_pages)
{
	return nr_pages * sizeof(uint16_t);
}

void shadow_init(struct shadow *sh, void *mem, uint32_t nr_pages, uint64_t now_ns)
{
	*sh = (struct shadow) {
		.entries = mem,
		.quantum = MAX(nr_pages / RESOLUTION, 1u),
		.time_quantum = MAX(nr_pages / TIMES_PER_PAGE, 1u),
	};
	for (uint32_t i = 0; i < SHADOW_NR_TIMES; i++)
		sh->times[i] = now_ns;
}

static uint16_t stamp(const struct shadow *sh)
{
	return (uint16_t)(1 + sh->evictions / sh->quantum % WRAP);
}

/* Ticks since entry @e was written, modulo the wrap. */
static uint32_t ticks_since(const struct shadow *sh, uint16_t e)
{
	return (WRAP + stamp(sh) - e) % WRAP;
}

void shadow_note(struct shadow *sh, uint32_t idx, uint64_t now_ns)
{
	if (sh->evictions % sh->time_quantum == 0)
		sh->times[sh->evictions / sh->time_quantum % SHADOW_NR_TIMES] = now_ns;
	sh->entries[idx] = stamp(sh);
	sh->evictions++;
}

/* What time it was when the clock stood at @evictions, which is not further back than the ring. */
static uint64_t time_at(const struct shadow *sh, uint64_t evictions, uint64_t now_ns)
{
	uint64_t slot = evictions / sh->time_quantum;
	uint64_t from = sh->times[slot % SHADOW_NR_TIMES];
	uint64_t last = (sh->evictions - 1) / sh->time_quantum;
	uint64_t to = slot < last ? sh->times[(slot + 1) % SHADOW_NR_TIMES] : now_ns;
	uint64_t span = slot < last ? sh->time_quantum :
				      sh->evictions - last * sh->time_quantum;

	return from + (uint64_t)((double)(to - from) *
				 (double)(evictions % sh->time_quantum) / (double)span);
}

bool shadow_distance(const struct shadow *sh, uint32_t idx, uint64_t now_ns, uint32_t *ret_distance,
		     uint64_t *ret_ago_ns)
{
	uint32_t ticks;
	uint64_t distance;

	if (!sh->entries[idx])
		return false;
	ticks = ticks_since(sh, sh->entries[idx]);
	distance = MIN((uint64_t)ticks * sh->quantum + sh->quantum / 2, sh->evictions);
	if (ticks >= FAR_TICKS || !distance ||
	    distance > (uint64_t)(SHADOW_NR_TIMES - 2) * sh->time_quantum)
		return false;
	*ret_distance = (uint32_t)distance;
	*ret_ago_ns = now_ns - MIN(time_at(sh, sh->evictions - distance, now_ns), now_ns);
	return true;
}

bool shadow_is_since(const struct shadow *sh, uint32_t idx, uint64_t evictions)
{
	return sh->entries[idx] && ticks_since(sh, sh->entries[idx]) <=
					   sh->evictions / sh->quantum - evictions / sh->quantum;
}
