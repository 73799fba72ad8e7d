// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * governor.c - the limit of a guest, and how far from it the guest should be kept.
 *
 * DOC: two watermarks
 *
 *	limit ------------------------------------------------------------
 *	   ^ gap: room in which faults are served without waiting
 *	high ------ above it, evict ... ----------------------------------
 *	   ^ gap: what one round of eviction makes room for
 *	low ------- ... down to here -------------------------------------
 *
 * Without the upper gap a fault at the limit waits for a write to the disk; without the lower one
 * each fault causes an eviction of one page, and the writes lose their batches. Both are bought
 * with memory the guest was promised, so they are small: 1/64 of the limit, at most 16 MiB each
 * (more than a disk takes in the time the evictor needs to wake up), at least 1 MiB (a batch), and
 * no more than a quarter of a limit so small that 1 MiB would be most of it.
 */
#include "governor.h"

#define GAP_SHARE  64u /* of the limit */
#define GAP_MIN	   ((1u << 20) >> EBB_PAGE_SHIFT)
#define GAP_MAX	   ((16u << 20) >> EBB_PAGE_SHIFT)
#define TINY_SHARE 4u

uint32_t governor_gap(const struct governor *gov)
{
	uint32_t gap = MIN(MAX(gov->limit / GAP_SHARE, GAP_MIN), GAP_MAX);

	return MIN(gap, gov->limit / TINY_SHARE);
}

uint32_t governor_high(const struct governor *gov)
{
	return gov->limit == RECLAIM_NO_LIMIT ? UINT32_MAX : gov->limit - governor_gap(gov);
}

uint32_t governor_excess(const struct governor *gov, uint32_t resident)
{
	if (resident <= governor_high(gov))
		return 0;
	return resident - (gov->limit - 2 * governor_gap(gov));
}

bool governor_is_idle(const struct governor *gov, uint32_t resident)
{
	return gov->limit == RECLAIM_NO_LIMIT || !resident ||
	       4 * (uint64_t)resident < 3 * (uint64_t)gov->limit;
}
