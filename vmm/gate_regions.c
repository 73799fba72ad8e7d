// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gate_regions.c - the part of the safety gate that looks at the guest RAM found, and at its
 * cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "gate.h"
#include "memcg.h"

#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* --- regions -------------------------------------------------------------------------------- */

static int check_file(pid_t pid, const struct region *r, struct ebb_err *err)
{
	struct statfs fs;
	int seals = fcntl(r->memfd, F_GET_SEALS);

	if (fstatfs(r->memfd, &fs))
		return ebb_err_set(err, -errno, "cannot look at the memory of process %d: %s", pid,
				   strerror(errno));
	if (fs.f_type == HUGETLBFS_MAGIC)
		return ebb_err_set(
			err, -EOPNOTSUPP,
			"guest RAM of process %d (%s) is on huge pages "
			"(hugetlb), which cannot be evicted: restart it without hugetlb=on "
			"or <hugepages/>",
			pid, r->name);
	if (seals > 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return ebb_err_set(err, -EPERM,
				   "guest RAM of process %d (%s) is sealed against writing", pid,
				   r->name);
	return 0;
}

struct flags_check {
	pid_t pid;
	struct ebb_err *err;
};

/*
 * Flags of a VMA that are a reason to refuse: lo = locked, ht = hugetlb, um/uw/ui = someone's
 * uffd.
 */
static int check_vma(const struct proc_map *map, const char *flags, void *arg)
{
	const struct flags_check *c = arg;

	if (proc_vmflag(flags, "ht"))
		return ebb_err_set(c->err, -EOPNOTSUPP,
				   "guest RAM of process %d at %#" PRIx64 " is on "
				   "huge pages (hugetlb), which cannot be evicted",
				   c->pid, map->start);
	if (proc_vmflag(flags, "lo"))
		return ebb_err_set(c->err, -EBUSY,
				   "guest RAM of process %d at %#" PRIx64 " is locked "
				   "(mlock): restart it without -overcommit mem-lock=on",
				   c->pid, map->start);
	if (!proc_vmflag(flags, "dc"))
		return ebb_err_set(
			c->err, -EINVAL,
			"guest RAM of process %d at %#" PRIx64 " is inherited "
			"by fork (no MADV_DONTFORK, as QEMU does): a child would read zeros "
			"where pages are evicted",
			c->pid, map->start);
	return 0;
}

int gate_check_regions(pid_t pid, const struct region_table *t, struct ebb_err *err)
{
	struct flags_check check = {.pid = pid, .err = err};
	int rc = 0;

	for (unsigned int i = 0; !rc && i < t->nr; i++)
		rc = check_file(pid, &t->r[i], err);
	if (rc)
		return rc;
	rc = proc_for_each_region_flags(pid, t, check_vma, &check);
	if (rc == -ENOENT)
		return ebb_err_set(err, -EAGAIN,
				   "the guest RAM of process %d changed while it was looked "
				   "at: try again",
				   pid);
	if (rc == -EACCES || rc == -ESRCH)
		return ebb_err_set(err, rc, "cannot read /proc/%d/smaps: %s", pid, strerror(-rc));
	return rc ? rc : proc_foreign_mapper(pid, t, err);
}

/* --- the cgroup's limit --------------------------------------------------------------------- */

bool gate_warn_cgroup(pid_t pid, uint64_t limit_bytes, struct ebb_err *ret_warning)
{
	const uint64_t wanted = limit_bytes + limit_bytes / 4 + (64ull << 20);
	struct memcg group;

	if (limit_bytes > INT64_MAX / 2)
		return false;
	memcg_find(pid, &group);
	if (group.max >= wanted)
		return false;
	ebb_err_set(ret_warning, 0,
		    "the memory cgroup of process %d allows %" PRIu64 " MiB, which is too "
		    "near to the limit of %" PRIu64
		    " MiB: at its limit the kernel kills the VMM; raise it "
		    "to %" PRIu64 " MiB or more",
		    pid, group.max >> 20, limit_bytes >> 20, wanted >> 20);
	return true;
}
