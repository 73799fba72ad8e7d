/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memcg.h - the memory cgroups a process is in (v1 and v2): the tightest limit, and the least room.
 */
#ifndef VMM_MEMCG_H
#define VMM_MEMCG_H

#include <sys/types.h>
#include <ebb/types.h>

/** struct memcg - bytes; over all groups from the process's own up to the root */
struct memcg {
	uint64_t max;  /* smallest limit, UINT64_MAX: none */
	uint64_t room; /* least that can still be charged, UINT64_MAX: no limit */
	char path[256]; /* of the group with the least room, below /sys/fs/cgroup; "" when none */
};

/** memcg_find() - no limit where nothing can be read: a group that does not exist limits nothing */
void memcg_find(pid_t pid, struct memcg *ret);

/** memcg_add_group() - one group: @used bytes of @max, of which @cache can go at once; for memcg_find() and tests */
void memcg_add_group(struct memcg *m, uint64_t max, uint64_t used, uint64_t cache, const char *path);

#endif
