// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * watch.c - look again for other mappers and for large pages; the theory is in watch.h.
 */
#include <errno.h>
#include <fcntl.h>
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

/* How often /proc is scanned for other mappers where the kernel's counts can't be read. */
#define SCAN_NS 1000000000ull

/* How often to look whether the memory is still registered: the kernel walks all page tables for it. */
#define REGISTERED_NS 60000000000ull

static bool count_mappers(struct guest *g, const struct region *r, struct pin_mappers *ret)
{
	uint8_t verdict;

	return g->guard && !pinguard_check(g->guard, r->memfd, r->file_off >> EBB_PAGE_SHIFT, 1,
					   &verdict, ret);
}

void watch_baseline(struct guest *g)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		struct pin_mappers now;

		if (atomic_load(&g->region_gone[i]) || !count_mappers(g, &g->regions.r[i], &now))
			continue;
		pthread_mutex_lock(&g->mappers_lock);
		g->mappers[i] = now;
		pthread_mutex_unlock(&g->mappers_lock);
	}
}

bool watch_mappers(struct guest *g, const struct region *r, const struct pin_mappers *now)
{
	struct pin_mappers base;

	pthread_mutex_lock(&g->mappers_lock);
	base = g->mappers[r - g->regions.r];
	pthread_mutex_unlock(&g->mappers_lock);
	/* One file reference more: a thread of ours is in a system call on the descriptor. */
	if (now->mmap_writable <= base.mmap_writable && now->mmap_tree <= base.mmap_tree &&
	    now->dentry_count <= base.dentry_count && now->file_count <= base.file_count + 1)
		return false;
	atomic_store(&g->suspect, true);
	return true;
}

/* No batch may come by for hours: look at the counts here too. Without a guard, at /proc once a second. */
static void look_at_counts(struct guest *g, uint64_t now)
{
	struct pin_mappers counts;

	for (unsigned int i = 0; g->guard && i < g->regions.nr; i++)
		if (!atomic_load(&g->region_gone[i]) && count_mappers(g, &g->regions.r[i], &counts))
			(void)watch_mappers(g, &g->regions.r[i], &counts);
	if (!g->guard && now >= g->scan_at) {
		g->scan_at = now + SCAN_NS;
		atomic_store(&g->suspect, true);
	}
}

static bool check_mappers(struct guest *g, struct ebb_err *why)
{
	uint64_t now = guest_now_ns();
	int rc;

	if (!atomic_load(&g->suspect))
		look_at_counts(g, now);
	if (!atomic_load(&g->suspect))
		return true;
	/* The baseline is read before the scan: who comes after it is noticed by the next batch. */
	watch_baseline(g);
	rc = proc_foreign_mapper(g->id.pid, &g->regions, why);
	if (rc && rc != -EBUSY)
		return true; /* could not look: eviction stays paused */
	if (!rc) {
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
	if (atomic_load(&g->region_gone[r - g->regions.r]))
		return;
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

/* The regions that are still there. */
static struct region_table regions_left(struct guest *g)
{
	struct region_table t = {.nr = 0};

	for (unsigned int i = 0; i < g->regions.nr; i++) {
		if (atomic_load(&g->region_gone[i]))
			continue;
		t.r[t.nr++] = g->regions.r[i];
		t.nr_pages += g->regions.r[i].nr;
	}
	return t;
}

/* A VMM that maps its RAM anew (MAP_FIXED after a memory error) takes it out of our sight. */
static void check_registered(struct guest *g)
{
	struct region_table t;
	uint64_t now = guest_now_ns();
	struct ebb_err why;

	if (now < g->check_flags_at)
		return;
	t = regions_left(g);
	/* Twice: an exiting VMM's smaps can be read half. */
	if (g->check_flags_at && proc_check_vmflags(g->id.pid, &t, &why) == -EINVAL) {
		usleep(100000);
		t = regions_left(g);
		if (proc_check_vmflags(g->id.pid, &t, &why) == -EINVAL)
			guest_fail(g, "%s", why.msg);
	}
	g->check_flags_at = now + REGISTERED_NS;
}

static int is_mapped(const struct proc_map *map, void *arg)
{
	const struct region *r = arg;

	return map->dev == r->dev && map->ino == r->ino &&
	       map->offset < r->file_off + pages_to_bytes(r->nr) &&
	       r->file_off < map->offset + (map->end - map->start);
}

/* Pages of an unplugged region: whatever they were, they are nothing now. True: none is left. */
static bool forget_pages(struct guest *g, const struct region *r)
{
	bool all = true;

	for (uint32_t idx = r->first; idx < r->first + r->nr; idx++) {
		uint32_t word = page_table_load(&g->pt, idx);

		if (page_word_state(word) == PAGE_ABSENT)
			continue;
		if (!guest_forget_page(g, idx, word))
			all = false; /* in somebody's hands, who will find the mapping gone */
	}
	return all;
}

/*
 * Our descriptor would keep the memory of a region that is gone from being freed: put another file under its
 * number, which nobody uses any more (every page of the region is ABSENT) but may be about to close.
 */
static void close_memory(struct guest *g, const struct region *r)
{
	int nothing;

	for (unsigned int i = 0; i < g->regions.nr; i++)
		if (g->regions.r[i].memfd == r->memfd && !g->region_settled[i])
			return; /* another piece of the same file */
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0 || dup3(nothing, r->memfd, O_CLOEXEC) < 0)
		log_warn("%s: region %s: its memory stays in use: %s", g->name, r->name,
			 strerror(errno));
	if (nothing >= 0)
		close(nothing);
}

/*
 * The VMM has unmapped a region. A DIMM that was unplugged is forgotten. Memory that is mapped elsewhere, or
 * again, is not registered there: its evicted pages would read as zeros.
 */
static void check_gone(struct guest *g)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		int rc;

		if (!atomic_load(&g->region_gone[i]) || g->region_settled[i])
			continue;
		rc = proc_for_each_map(g->id.pid, is_mapped, (void *)(uintptr_t)r);
		if (rc < 0)
			continue; /* it is exiting, or we are short of something: look again */
		if (rc) {
			guest_fail(g, "region %s: the VMM has mapped its memory anew", r->name);
			return;
		}
		g->state.h->regions[i].gone = 1;
		g->region_settled[i] = forget_pages(g, r);
		if (!g->region_settled[i])
			continue;
		close_memory(g, r);
		log_info("%s: region %s was unplugged", g->name, r->name);
	}
}

bool watch_guest(struct guest *g, struct ebb_err *why)
{
	if (atomic_load(&g->phase) != GUEST_MANAGED)
		return true;
	check_gone(g);
	split_folio(g);
	check_registered(g);
	return check_mappers(g, why);
}
