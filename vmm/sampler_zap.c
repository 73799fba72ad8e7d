// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sampler_zap.c - accessed pages by dropping page-table entries and seeing which come back.
 *
 * DOC: theory of operation
 *
 * Guest RAM is a shared memfd: madvise(DONTNEED) in the VMM drops page-table entries (and, through the
 * kernel's notifier, KVM's) but not the pages, which stay in the page cache. Whatever is present at the
 * next look was touched in between. With MISSING|WP registered the kernel maps exactly the page touched
 * (no fault-around), so the answer is exact; the price is one minor fault, 1-1.4 us, for each page
 * touched in a period. A write-protected page keeps its marker through the zap.
 *
 * Per slice: first harvest (which entries are present), then zap, so that each page has one full
 * period to be touched. The kernel reports our own zap as a REMOVE, one for each VMA it crosses, and waits
 * until it is read; the range stands in the guest's list of own zaps until two full drains of the uffd
 * after the zap's end, so that the fault thread takes no event of ours for a discard.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/log.h>
#include "sampler.h"

#define SLICE	    8192u /* pages: 32 MiB, about 1.5 ms of zapping */
#define SLICE_WORDS (SLICE / 64)

static int harvest_scan(struct guest *g, const struct region *r, uint32_t first, uint32_t nr,
			uint32_t base, uint64_t *young)
{
	struct page_region found[512];
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = region_hva(r, first),
		.end = region_hva(r, first + nr),
		.vec = (uintptr_t)found,
		.vec_len = ARRAY_SIZE(found),
		.category_mask = PAGE_IS_PRESENT,
		.return_mask = PAGE_IS_PRESENT,
	};

	while (arg.start < arg.end) {
		int n = ioctl(g->pagemap_fd, PAGEMAP_SCAN, &arg);

		if (n < 0)
			return -errno;
		for (int i = 0; i < n; i++) {
			uint32_t from = region_index(r, found[i].start) - base;
			uint32_t to = region_index(r, found[i].end) - base;

			for (; from < to; from++)
				young[from / 64] |= 1ull << from % 64;
		}
		arg.start = arg.walk_end;
	}
	return 0;
}

static int harvest_pagemap(struct guest *g, const struct region *r, uint32_t first, uint32_t nr,
			   uint32_t base, uint64_t *young)
{
	uint64_t entries[512];

	for (uint32_t done = 0; done < nr;) {
		uint32_t n = MIN(nr - done, (uint32_t)ARRAY_SIZE(entries));
		off_t at = (off_t)((region_hva(r, first + done) >> EBB_PAGE_SHIFT) * sizeof(uint64_t));
		ssize_t got = pread(g->pagemap_fd, entries, n * sizeof(uint64_t), at);

		if (got <= 0)
			return got < 0 ? -errno : -ESRCH;
		for (uint32_t i = 0; i < (uint32_t)got / sizeof(uint64_t); i++) {
			uint32_t bit = first + done + i - base;

			if (entries[i] & PAGEMAP_PRESENT)
				young[bit / 64] |= 1ull << bit % 64;
		}
		done += (uint32_t)((size_t)got / sizeof(uint64_t));
	}
	return 0;
}

/*
 * A zap we gave up on (the VM was stopped, say) may still come. None is added to it; once the ring is idle, all
 * are over.
 */
static bool lost_zaps_are_over(struct guest *g)
{
	bool idle;

	if (!g->zap_lost)
		return true;
	pthread_mutex_lock(&g->ring_lock);
	idle = g->rem.ring_fd < 0 || remote_idle(&g->rem);
	pthread_mutex_unlock(&g->ring_lock);
	if (!idle)
		return false;
	guest_zap_end(g, 0, UINT64_MAX);
	g->zap_lost = false;
	return true;
}

static int zap(struct guest *g, const struct region *r, uint32_t first, uint32_t nr)
{
	uint64_t start = region_hva(r, first), end = region_hva(r, first + nr);
	int rc;

	if (!lost_zaps_are_over(g))
		return -EAGAIN;
	/* Full only while the fault thread is behind with its drains: it needs us out of the way. */
	for (int tries = 0; !guest_zap_begin(g, start, end); tries++) {
		if (tries == 500 || atomic_load(&g->phase) != GUEST_MANAGED)
			return -ECANCELED;
		guest_kick(g->fault_kick);
		usleep(200);
	}
	pthread_mutex_lock(&g->ring_lock);
	if (atomic_load(&g->region_gone[r - g->regions.r]))
		rc = 0; /* what is at that address now is not the guest's memory */
	else
		rc = remote_madvise(&g->rem, g->id.pid, start, end - start, MADV_DONTNEED);
	pthread_mutex_unlock(&g->ring_lock);
	/* Timed out: the zap is still on its way, and the range stays in the list until it has come. */
	if (rc == -ETIMEDOUT)
		g->zap_lost = true;
	else
		guest_zap_end(g, start, end);
	/* The VMM's main thread has come back, so a dead daemon's zap that it ran is over as well. */
	if (!rc && g->distrust_removes) {
		guest_zap_end(g, 0, UINT64_MAX);
		g->distrust_removes = false;
	}
	return rc;
}

static int sample_slice(struct guest *g, const struct region *r, uint32_t first, uint32_t nr,
			uint64_t *ret_young)
{
	uint64_t young[SLICE_WORDS + 2];
	uint32_t base = first - first % 64, words = (first + nr - base + 63) / 64;
	int rc;

	memset(young, 0, sizeof(young));
	rc = g->has_pagemap_scan ? harvest_scan(g, r, first, nr, base, young) :
				   harvest_pagemap(g, r, first, nr, base, young);
	if (rc)
		return rc;
	for (uint32_t w = 0; w < words; w++)
		*ret_young += (uint64_t)__builtin_popcountll(young[w]);
	guest_lock_lru(g);
	reclaim_note_young(g->lru, base, young, words);
	guest_unlock_lru(g);
	return zap(g, r, first, nr);
}

/* The core names pages; a run of them may reach from one region into the next. */
static int sample_run(struct guest *g, struct page_run run, uint64_t *ret_young)
{
	while (run.nr) {
		const struct region *r = region_find_index(&g->regions, run.first);
		uint32_t nr = MIN(run.nr, r->first + r->nr - run.first);
		int rc = 0;

		if (atomic_load(&g->phase) != GUEST_MANAGED)
			return -ECANCELED;
		if (!atomic_load(&g->region_gone[r - g->regions.r]))
			rc = sample_slice(g, r, run.first, nr, ret_young);
		if (rc)
			return rc;
		run.first += nr;
		run.nr -= nr;
	}
	return 0;
}

int sampler_zap_pass(struct guest *g, uint64_t *ret_young)
{
	for (;;) {
		struct page_run run;
		bool more;
		int rc;

		guest_lock_lru(g);
		more = reclaim_next_scan(g->lru, SLICE, &run);
		guest_unlock_lru(g);
		if (!more)
			return 0;
		rc = sample_run(g, run, ret_young);
		if (rc)
			return rc;
	}
}
