/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * remote_ring.h - the io_uring planted in a VMM, seen from here; for remote.c only.
 */
#ifndef VMM_REMOTE_RING_H
#define VMM_REMOTE_RING_H

#include "remote.h"

#define REMOTE_RING_ENTRIES 64
#define REMOTE_RING_IDLE_MS 5	       /* the kernel thread polls this long before it sleeps */
/* An entry's length has 32 bits; and a piece ends in bounded time. */
#define REMOTE_MADVISE_MAX (1ULL << 30)

/** remote_ring_map() - map rem->ring_fd as rem->ring_params say; nothing to do without a ring */
int remote_ring_map(struct remote *rem);
void remote_ring_unmap(struct remote *rem);

/** remote_ring_madvise() - one operation, its result awaited for at most 5 s */
int remote_ring_madvise(struct remote *rem, uint64_t addr, uint64_t len, int advice);

#endif
