// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * headroom.c - memory that is left for pages to be brought back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "headroom.h"
#include "units.h"

/*
 * MemAvailable is an estimate, a few percent of which may turn out not to be there; and what is left must last the
 * other guests, whose memory grows, until the next look.
 */
#define RESERVE_SHARE 32u

/* What a VMM allocates for itself between two looks (a connection of its display, a burst of I/O). */
#define GROUP_RESERVE (16ull << 20)

static int read_meminfo(uint64_t *ret_total, uint64_t *ret_available)
{
	unsigned long long kib;
	bool total = false, available = false;
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemTotal: %llu kB", &kib) == 1) {
			*ret_total = kib << 10;
			total = true;
		} else if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
			*ret_available = kib << 10;
			available = true;
		}
	}
	fclose(f);
	return total && available ? 0 : -ENODATA;
}

int headroom_read(pid_t pid, uint64_t reserve, struct headroom *ret)
{
	struct headroom h;
	uint64_t total = 0;
	int rc = read_meminfo(&total, &h.available);

	if (rc)
		return rc;
	h.reserve = reserve == HEADROOM_RESERVE_DEFAULT ? total / RESERVE_SHARE : reserve;
	memcg_find(pid, &h.group);
	*ret = h;
	return 0;
}

int headroom_check(const struct headroom *h, uint64_t bytes, struct ebb_err *err)
{
	uint64_t host = h->available > h->reserve ? h->available - h->reserve : 0;
	uint64_t group = h->group.room > GROUP_RESERVE ? h->group.room - GROUP_RESERVE : 0;
	char want[32], have[32], all[32], kept[32];

	units_format_bytes(bytes, want, sizeof(want));
	if (host < bytes)
		return ebb_err_set(err, -ENOSPC,
				   "no room in the host: %s are to be brought back, and it has %s for that "
				   "(%s available, of which %s stay in reserve: --drain-reserve)", want,
				   units_format_bytes(host, have, sizeof(have)),
				   units_format_bytes(h->available, all, sizeof(all)),
				   units_format_bytes(h->reserve, kept, sizeof(kept)));
	if (h->group.room != UINT64_MAX && group < bytes)
		return ebb_err_set(err, -ENOSPC,
				   "no room in the VMM's memory cgroup: %s are to be brought back, and "
				   "%.200s has %s for that, at whose limit of %s the kernel kills the VMM: "
				   "raise it", want, h->group.path,
				   units_format_bytes(group, have, sizeof(have)),
				   units_format_bytes(h->group.max, all, sizeof(all)));
	return 0;
}
