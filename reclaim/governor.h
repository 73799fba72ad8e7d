/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * governor.h - the limit of a guest, and how far from it the guest should be kept.
 */
#ifndef RECLAIM_GOVERNOR_H
#define RECLAIM_GOVERNOR_H

#include <ebb/reclaim.h>

/** struct governor - @limit: resident pages allowed, or RECLAIM_NO_LIMIT */
struct governor {
	uint32_t limit;
};

/** governor_gap() - pages from the limit to the high watermark, and from there to the low one */
uint32_t governor_gap(const struct governor *gov);

/** governor_high() - see reclaim_high_watermark() */
uint32_t governor_high(const struct governor *gov);

/** governor_excess() - see reclaim_excess() */
uint32_t governor_excess(const struct governor *gov, uint32_t resident);

/** governor_is_idle() - nothing to reclaim now or soon: no limit, or well below it */
bool governor_is_idle(const struct governor *gov, uint32_t resident);

#endif
