// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * watch.c - look again for other mappers and for large pages; the theory is in watch.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/log.h>
#include "watch.h"

/* A fork in the VMM (a helper script) holds the memfd for a moment, until it execs. */
#define FOREIGN_NS 500000000ull

/* How often to look whether the memory is still registered: the kernel walks all page tables for it. */
#define REGISTERED_NS 60000000000ull

void watch_baseline(struct guest *g)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		uint8_t verdict;

		if (g->guard)
			(void)pinguard_check(g->guard, r->memfd, r->file_off >> EBB_PAGE_SHIFT, 1,
					     &verdict, &g->mappers[i]);
	}
}

bool watch_mappers(struct guest *g, const struct region *r, const struct pin_mappers *now)
{
	const struct pin_mappers *base = &g->mappers[r - g->regions.r];

	/* One file reference more: a thread of ours is in a system call on the descriptor. */
	if (now->mmap_writable <= base->mmap_writable && now->mmap_tree <= base->mmap_tree &&
	    now->dentry_count <= base->dentry_count && now->file_count <= base->file_count + 1)
		return false;
	atomic_store(&g->suspect, true);
	return true;
}

static bool check_mappers(struct guest *g, struct ebb_err *why)
{
	uint64_t now = guest_now_ns();

	if (!atomic_load(&g->suspect))
		return true;
	/* The baseline is read before the scan: who comes after it is noticed by the next batch. */
	watch_baseline(g);
	if (!proc_foreign_mapper(g->id.pid, &g->regions, why)) {
		g->foreign_since = 0;
		atomic_store(&g->suspect, false);
		guest_kick(g->evictor_kick);
		return true;
	}
	if (!g->foreign_since)
		g->foreign_since = now;
	return now - g->foreign_since < FOREIGN_NS;
}

/*
 * The kernel splits a large folio in small pages when asked to make 4 KiB of it cold, but only while that is
 * mapped by a page-table entry: so it is read once in the VMM first. Whether it worked shows when the page
 * is picked again.
 */
static void split_folio(struct guest *g)
{
	uint32_t idx = atomic_exchange(&g->split_idx, UINT32_MAX);
	const struct region *r;
	struct iovec iov;

	if (idx == UINT32_MAX)
		return;
	r = region_find_index(&g->regions, idx);
	iov = (struct iovec){.iov_base = (void *)(uintptr_t)region_hva(r, idx),
			     .iov_len = EBB_PAGE_SIZE};
	pthread_mutex_lock(&g->ring_lock);
	(void)remote_madvise(&g->rem, g->id.pid, region_hva(r, idx), EBB_PAGE_SIZE,
			     MADV_POPULATE_READ);
	pthread_mutex_unlock(&g->ring_lock);
	if (syscall(SYS_process_madvise, g->pidfd, &iov, 1, MADV_COLD, 0) < 0)
		log_limited(LOG_LVL_WARN, "%s: splitting a large page: %s", g->name, strerror(errno));
	guest_kick(g->evictor_kick);
}

/* A VMM that maps its RAM anew (mremap, MAP_FIXED after a memory error) takes it out of our sight. */
static void check_registered(struct guest *g)
{
	uint64_t now = guest_now_ns();
	struct ebb_err why;

	if (now < g->check_flags_at)
		return;
	if (g->check_flags_at && proc_check_vmflags(g->id.pid, &g->regions, &why) == -EINVAL)
		guest_fail(g, "%s", why.msg);
	g->check_flags_at = now + REGISTERED_NS;
}

bool watch_guest(struct guest *g, struct ebb_err *why)
{
	if (atomic_load(&g->phase) != GUEST_MANAGED)
		return true;
	split_folio(g);
	check_registered(g);
	return check_mappers(g, why);
}
