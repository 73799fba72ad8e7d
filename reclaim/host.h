/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host.h - what shares and admission both hold a guest to.
 */
#ifndef RECLAIM_HOST_H
#define RECLAIM_HOST_H

#include <ebb/reclaim_host.h>

/** host_ceiling() - pages the guest can have at most */
static inline uint32_t host_ceiling(const struct host_share *s)
{
	return MIN(s->size, s->limit);
}

/** host_promise() - pages it was promised: as far as it can have them */
static inline uint32_t host_promise(const struct host_share *s)
{
	return MIN(s->low, host_ceiling(s));
}

#endif
