/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * headroom.h - is there memory for pages that are to be brought back, in the host and in the VMM's cgroup?
 *
 * DOC: why it is asked
 *
 * A page brought back is charged to the VMM: to its memory cgroup too, at whose limit the kernel kills it. On a host
 * without room somebody is killed, most likely the VMM as well. So nobody brings back more than fits, and who does
 * looks again on the way, since others take memory meanwhile.
 */
#ifndef VMM_HEADROOM_H
#define VMM_HEADROOM_H

#include "memcg.h"

#define HEADROOM_RESERVE_DEFAULT UINT64_MAX /* a share of the host's memory */

/** struct headroom - bytes */
struct headroom {
	uint64_t available; /* MemAvailable */
	uint64_t reserve;   /* of that, not for us */
	struct memcg group; /* of the VMM */
};

/**
 * headroom_read() - of the host and of the VMM @pid
 * @reserve: bytes, or HEADROOM_RESERVE_DEFAULT
 *
 * -errno when /proc/meminfo can't be read.
 */
int headroom_read(pid_t pid, uint64_t reserve, struct headroom *ret);

/** headroom_check() - do @bytes fit? -ENOSPC with a sentence that has the numbers */
int headroom_check(const struct headroom *h, uint64_t bytes, struct ebb_err *err);

#endif
