// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * batch.c - the steps of an eviction batch; the order and its reasons are in batch.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/log.h>
#include "batch.h"
#include "uffd.h"
#include "watch.h"

/* LRU batches make freshly touched pages look busy; emptying them costs ~100 us, so not for each. */
#define DRAIN_EVERY_NS 20000000ull

/* The next run of pages of @b at or after *@i that are still ours and adjoin in one region. */
static unsigned int next_run(const struct guest *g, const struct batch *b, unsigned int *i,
			     const struct region **ret_region)
{
	unsigned int n = 1;

	while (*i < b->nr && b->p[*i].fate == BATCH_LOST)
		(*i)++;
	if (*i == b->nr)
		return 0;
	*ret_region = region_find_index(&g->regions, b->p[*i].idx);
	while (*i + n < b->nr && b->p[*i + n].fate != BATCH_LOST &&
	       b->p[*i + n].idx == b->p[*i].idx + n &&
	       b->p[*i + n].idx < (*ret_region)->first + (*ret_region)->nr)
		n++;
	return n;
}

static void unprotect(struct guest *g, uint32_t idx)
{
	const struct region *r = region_find_index(&g->regions, idx);

	/* EAGAIN: a REMOVE waits for the fault thread, which reads it in microseconds. */
	while (uffd_writeprotect(g->rem.uffd, region_hva(r, idx), EBB_PAGE_SIZE, false) == -EAGAIN)
		usleep(20);
}

static void put_back(struct guest *g, uint32_t idx, enum reclaim_kept why)
{
	guest_lock_lru(g);
	reclaim_note_kept(g->lru, idx, why);
	guest_unlock_lru(g);
}

static void cancel(struct guest *g, struct batch *b, unsigned int i, enum reclaim_kept why,
		   _Atomic uint64_t *counter)
{
	struct batch_page *p = &b->p[i];

	p->fate = BATCH_LOST;
	if (!page_try_cancel_batch(&g->pt, p->idx, b->tag, p->kept))
		return; /* the fault thread was faster; kept stays ours to free */
	unprotect(g, p->idx);
	page_end_unprotect(&g->pt, p->idx);
	p->kept = PAGE_SLOT_NONE; /* the page has it again */
	put_back(g, p->idx, why);
	guest_count(counter, 1);
}

/* The memfd holds nothing there: the VMM discarded it. Nothing to keep, nothing to punch. */
static void cancel_absent(struct guest *g, struct batch *b, unsigned int i)
{
	struct batch_page *p = &b->p[i];

	p->fate = BATCH_LOST;
	if (!page_try_cancel_batch(&g->pt, p->idx, b->tag, PAGE_SLOT_NONE))
		return;
	unprotect(g, p->idx);
	page_end_unprotect_absent(&g->pt, p->idx);
	guest_uncharge(g, 1);
	guest_lock_lru(g);
	reclaim_note_gone(g->lru, p->idx, 1);
	guest_unlock_lru(g);
	guest_count(&g->c.discarded, 1);
}

/*
 * The page is mapped, so it was touched since the last zap. If it is spared it is no longer isolated, and
 * the report that it was kept is ignored; until its word is RESIDENT again nobody else can pick it.
 */
static bool spare_young(struct guest *g, uint32_t idx)
{
	bool spared;

	guest_lock_lru(g);
	spared = reclaim_spare_young(g->lru, idx);
	guest_unlock_lru(g);
	return spared;
}

static void own(struct guest *g, struct batch *b, const struct page_run *runs, unsigned int nr_runs)
{
	b->nr = 0;
	for (unsigned int k = 0; k < nr_runs; k++) {
		for (uint32_t idx = runs[k].first; idx < runs[k].first + runs[k].nr; idx++) {
			struct batch_page *p = &b->p[b->nr];

			if (b->nr == BATCH_PAGES ||
			    !page_try_evict(&g->pt, idx, b->tag, &p->kept)) {
				put_back(g, idx, RECLAIM_KEPT_BUSY);
				continue;
			}
			p->idx = idx;
			p->slot = PAGE_SLOT_NONE;
			p->fate = BATCH_WRITE;
			b->nr++;
		}
	}
}

static void protect(struct guest *g, struct batch *b)
{
	const struct region *r;
	uint64_t entries[BATCH_PAGES];

	for (unsigned int i = 0, n; (n = next_run(g, b, &i, &r)) > 0; i += n) {
		uint64_t hva = region_hva(r, b->p[i].idx);
		ssize_t want = (ssize_t)(n * sizeof(uint64_t));
		int rc;

		while ((rc = guest_writeprotect(g, hva, pages_to_bytes(n), true)) == -EAGAIN)
			usleep(20);
		if (rc || pread(g->pagemap_fd, entries, (size_t)want,
				(off_t)((hva >> EBB_PAGE_SHIFT) * sizeof(uint64_t))) != want)
			memset(entries, 0, sizeof(entries));
		for (unsigned int k = 0; k < n; k++)
			if (!(entries[k] & PAGEMAP_UFFD_WP))
				cancel(g, b, i + k, RECLAIM_KEPT_BUSY, &g->c.cancel_unprotected);
			else if (entries[k] & PAGEMAP_PRESENT && spare_young(g, b->p[i + k].idx))
				cancel(g, b, i + k, RECLAIM_KEPT_BUSY, &g->c.cancel_young);
	}
}

enum { LOOK_BUSY = 1, LOOK_SUSPECT = 2 };

/* Ask the pin guard about every page; the verdicts, and what they have in common. */
static unsigned int look(struct guest *g, struct batch *b)
{
	const struct region *r;
	struct pin_mappers mappers;
	uint8_t verdicts[BATCH_PAGES];
	unsigned int found = 0;

	for (unsigned int i = 0, n; (n = next_run(g, b, &i, &r)) > 0; i += n) {
		uint64_t page = region_offset(r, b->p[i].idx) >> EBB_PAGE_SHIFT;

		if (pinguard_check(g->guard, r->memfd, page, n, verdicts, &mappers))
			memset(verdicts, PIN_UNKNOWN, sizeof(verdicts));
		else if (watch_mappers(g, r, &mappers))
			found |= LOOK_SUSPECT;
		for (unsigned int k = 0; k < n; k++) {
			b->p[i + k].verdict = verdicts[k];
			if (verdicts[k] == PIN_BUSY || verdicts[k] == PIN_UNKNOWN)
				found |= LOOK_BUSY;
		}
	}
	return found;
}

static void check_pins(struct guest *g, struct batch *b)
{
	unsigned int found;

	if (!g->guard) { /* --pin-guard=delay: wait longer than any I/O is expected to take */
		usleep(g->guard_delay_ms * 1000);
		return;
	}
	found = look(g, b);
	if (found == LOOK_BUSY && guest_now_ns() - g->last_drain_ns > DRAIN_EVERY_NS) {
		pinguard_drain(g->guard);
		g->last_drain_ns = guest_now_ns();
		found = look(g, b);
	}
	for (unsigned int i = 0; i < b->nr; i++) {
		if (b->p[i].fate == BATCH_LOST)
			continue;
		if (found & LOOK_SUSPECT) { /* somebody else may map the memory: evict nothing */
			cancel(g, b, i, RECLAIM_KEPT_BUSY, &g->c.cancel_busy);
			continue;
		}
		switch (b->p[i].verdict) {
		case PIN_CLEAN:
			break;
		case PIN_ABSENT:
			cancel_absent(g, b, i);
			break;
		case PIN_PINNED:
			cancel(g, b, i, RECLAIM_KEPT_BUSY, &g->c.cancel_pinned);
			break;
		case PIN_LARGE:
			cancel(g, b, i, RECLAIM_KEPT_BUSY, &g->c.cancel_large);
			guest_split_later(g, b->p[i].idx);
			break;
		default:
			cancel(g, b, i, RECLAIM_KEPT_BUSY, &g->c.cancel_busy);
		}
	}
}

static void copy(struct guest *g, struct batch *b)
{
	const struct region *r;

	for (unsigned int i = 0, n; (n = next_run(g, b, &i, &r)) > 0; i += n) {
		ssize_t want = (ssize_t)pages_to_bytes(n);

		if (pread(r->memfd, b->bounce + pages_to_bytes(i), (size_t)want,
			  (off_t)region_offset(r, b->p[i].idx)) != want)
			for (unsigned int k = 0; k < n; k++)
				cancel(g, b, i + k, RECLAIM_KEPT_ERROR, &g->c.cancel_error);
	}
	for (unsigned int i = 0; i < b->nr; i++) {
		struct batch_page *p = &b->p[i];
		const char *page = b->bounce + pages_to_bytes(i);

		if (p->fate == BATCH_LOST)
			continue;
		if (store_page_is_zero(page)) {
			p->fate = BATCH_ZERO;
			p->slot = PAGE_SLOT_ZERO;
			continue;
		}
		p->sum = store_sum_page(&g->store, page);
		if (page_slot_is_real(p->kept) &&
		    store_sum_equal(p->sum, g->store.sums.v[p->kept])) {
			p->fate = BATCH_CLEAN;
			p->slot = p->kept;
		}
	}
}

void batch_prepare(struct guest *g, struct batch *b, uint32_t tag, const struct page_run *runs,
		   unsigned int nr_runs)
{
	b->tag = tag & PAGE_ARG_MASK;
	b->nr_writes = b->writes_left = 0;
	b->write_failed = false;
	own(g, b, runs, nr_runs);
	protect(g, b);
	check_pins(g, b);
	copy(g, b);
}

/* The pages of an extent as an iovec: adjoining ones in one piece. */
static void add_write(struct batch *b, uint32_t slot, uint32_t len, unsigned int *page,
		      unsigned int *iov)
{
	struct batch_write *w = &b->writes[b->nr_writes++];
	uint32_t given = 0;
	unsigned int i = *page;

	*w = (struct batch_write){.slot = slot, .len = len, .iov = *iov};
	for (; given < len; i++) {
		char *at = b->bounce + pages_to_bytes(i);
		struct iovec *last = w->nr_iov ? &b->iov[*iov - 1] : NULL;

		if (b->p[i].fate != BATCH_WRITE)
			continue;
		b->p[i].slot = slot + given++;
		if (last && (char *)last->iov_base + last->iov_len == at) {
			last->iov_len += EBB_PAGE_SIZE;
			continue;
		}
		b->iov[(*iov)++] = (struct iovec){.iov_base = at, .iov_len = EBB_PAGE_SIZE};
		w->nr_iov++;
	}
	*page = i;
}

unsigned int batch_assign_slots(struct guest *g, struct batch *b)
{
	unsigned int left = 0, page = 0, iov = 0, refused = 0;

	for (unsigned int i = 0; i < b->nr; i++)
		left += b->p[i].fate == BATCH_WRITE;
	while (left > 0) {
		uint32_t len, slot = store_alloc(&g->store, left, &len);

		if (slot == UINT32_MAX)
			break;
		add_write(b, slot, len, &page, &iov);
		left -= len;
	}
	for (unsigned int i = page; left > 0 && i < b->nr; i++) {
		if (b->p[i].fate != BATCH_WRITE)
			continue;
		cancel(g, b, i, RECLAIM_KEPT_ERROR, &g->c.cancel_error);
		refused++;
		left--;
	}
	b->writes_left = b->nr_writes;
	return refused;
}

void batch_write_done(struct guest *g, struct batch *b, unsigned int nr, int res)
{
	struct batch_write *w = &b->writes[nr];

	b->writes_left--;
	if (res == (int)pages_to_bytes(w->len)) {
		guest_count(&g->c.written, w->len);
		return;
	}
	b->write_failed = true;
	guest_count(&g->c.write_errors, 1);
	log_limited(LOG_LVL_ERR, "%s: %s: writing %u pages failed: %s", g->name, g->store.path, w->len,
		    res < 0 ? strerror(-res) : "short write");
	for (unsigned int i = 0; i < b->nr; i++)
		if (b->p[i].fate == BATCH_WRITE && b->p[i].slot >= w->slot &&
		    b->p[i].slot < w->slot + w->len)
			cancel(g, b, i, RECLAIM_KEPT_ERROR, &g->c.cancel_error);
}

/*
 * No commit between the read of a REMOVE and its application. The read lets the discarding thread go on;
 * the guest may use the page again, write to it, and a quick eviction would put the new bytes where the
 * late REMOVE, finding EVICTED, throws them away. Bytes written after a REMOVE was read were copied
 * after it, so it is enough to wait, after the copy, for the drain that is under way, if any.
 */
static void wait_for_applied_removes(const struct guest *g)
{
	uint64_t begun = atomic_load(&g->drains_begun);

	while (atomic_load(&g->drains) < begun)
		usleep(5);
}

static void commit(struct guest *g, struct batch *b)
{
	wait_for_applied_removes(g);
	for (unsigned int i = 0; i < b->nr; i++) {
		struct batch_page *p = &b->p[i];

		if (p->fate == BATCH_LOST)
			continue;
		if (p->fate == BATCH_WRITE)
			g->store.sums.v[p->slot] = p->sum;
		if (!page_try_commit(&g->pt, p->idx, b->tag, p->slot))
			p->fate = BATCH_LOST;
	}
}

static void punch(struct guest *g, struct batch *b)
{
	const struct region *r;

	for (unsigned int i = 0, n; (n = next_run(g, b, &i, &r)) > 0; i += n)
		if (fallocate(r->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      (off_t)region_offset(r, b->p[i].idx), (off_t)pages_to_bytes(n)))
			guest_fail(g, "punching a hole in the memfd failed: %s", strerror(errno));
}

/* Slots that no page word names any more, now that no write to them is in flight. */
static void free_slots(struct guest *g, const struct batch *b)
{
	for (unsigned int i = 0; i < b->nr; i++) {
		const struct batch_page *p = &b->p[i];

		if (p->kept != p->slot || p->fate == BATCH_LOST)
			store_release(&g->store, p->kept);
		if (p->fate == BATCH_LOST && p->slot != p->kept)
			store_release(&g->store, p->slot);
	}
}

static void account(struct guest *g, const struct batch *b, uint32_t nr)
{
	uint32_t zero = 0, clean = 0;

	guest_lock_lru(g);
	for (unsigned int i = 0; i < b->nr; i++) {
		if (b->p[i].fate == BATCH_LOST)
			continue;
		reclaim_note_evicted(g->lru, b->p[i].idx);
		zero += b->p[i].fate == BATCH_ZERO;
		clean += b->p[i].fate == BATCH_CLEAN;
	}
	guest_unlock_lru(g);
	atomic_fetch_add(&g->evicted_pages, nr);
	atomic_fetch_add(&g->zero_pages, zero);
	guest_count(&g->c.evicted, nr);
	guest_count(&g->c.evicted_zero, zero);
	guest_count(&g->c.evicted_clean, clean);
}

uint32_t batch_finish(struct guest *g, struct batch *b)
{
	uint32_t nr = 0;

	commit(g, b);
	punch(g, b);
	for (unsigned int i = 0; i < b->nr; i++)
		nr += b->p[i].fate != BATCH_LOST;
	/*
	 * The counts go first: once the word says EVICTED the fault thread may fill the page and
	 * count it in again.
	 */
	account(g, b, nr);
	free_slots(g, b);
	for (unsigned int i = 0; i < b->nr; i++)
		if (b->p[i].fate != BATCH_LOST)
			page_end_punch(&g->pt, b->p[i].idx);
	guest_uncharge(g, nr);
	b->running = false;
	return nr;
}
