// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fault_store.c - the fault thread brings pages back from the store: read, check the sums, COPY.
 *
 * A page is FILLING from the moment its read is submitted until it is in, or EVICTED again; its slot is kept
 * through both. Pages read ahead are owned in the same way, and nobody waits for them.
 */
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include <ebb/log.h>
#include "fault_internal.h"

static void note_filled(struct guest *g, uint32_t first, uint32_t nr, enum reclaim_origin faulted)
{
	guest_lock_lru(g);
	reclaim_note_resident(g->lru, first, 1, faulted);
	if (nr > 1)
		reclaim_note_resident(g->lru, first + 1, nr - 1, RECLAIM_PREFETCH);
	guest_unlock_lru(g);
}

static char *fill_buffer(struct fault *f, unsigned int id)
{
	return f->bounce + (size_t)id * FILL_RUN * EBB_PAGE_SIZE;
}

struct io_uring_sqe *fault_get_sqe(struct fault *f)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&f->ring);

	if (!sqe) {
		io_uring_submit(&f->ring);
		sqe = io_uring_get_sqe(&f->ring);
	}
	return sqe;
}

static void submit_read(struct fault *f, unsigned int id)
{
	struct fill *fill = &f->fills[id];
	struct io_uring_sqe *sqe = fault_get_sqe(f);

	/* Not registered buffers: those would hold megabytes for each guest, idle ones too. */
	io_uring_prep_read(sqe, f->g->store.fd, fill_buffer(f, id),
			   (unsigned int)pages_to_bytes(fill->nr), store_offset(fill->slot));
	io_uring_sqe_set_data64(sqe, id);
	fill->submitted_ns = guest_now_ns();
	ioflow_begin(&f->g->io, fill->nr);
	f->inflight++;
	atomic_store_explicit(&f->g->fault_reads, f->inflight, memory_order_relaxed);
}

/* Own what follows @idx as far as it lies on disk behind it and there is room: nobody asked for it. */
static uint32_t own_readahead(struct guest *g, const struct region *r, uint32_t idx, uint32_t slot)
{
	uint32_t window, nr = 1, got;

	guest_lock_lru(g);
	window = reclaim_readahead(g->lru, idx);
	guest_unlock_lru(g);
	window = MIN(window, FILL_RUN - 1);
	while (nr <= window && idx + nr < r->first + r->nr && guest_has_slack(g, 1) &&
	       page_table_load(&g->pt, idx + nr) == page_word(PAGE_EVICTED, slot + nr) &&
	       guest_try_charge(g, 1)) {
		if (!page_try_fill(&g->pt, idx + nr, &got)) {
			guest_uncharge(g, 1);
			break;
		}
		if (got != slot + nr) { /* it went and came back elsewhere between the two looks */
			page_end_fill_failed(&g->pt, idx + nr);
			guest_uncharge(g, 1);
			break;
		}
		nr++;
	}
	return nr;
}

enum served fault_serve_from_store(struct fault *f, const struct region *r,
				    struct waiting *w)
{
	struct guest *g = f->g;
	unsigned int id;
	uint32_t slot;

	if (!f->nr_free)
		return LATER; /* a completion comes first */
	if (!ioflow_may_read(&g->io, f->inflight)) { /* here too */
		if (!w->is_held)
			guest_count(&g->io.held, 1);
		w->is_held = true;
		return LATER;
	}
	if (!fault_charge(f, w))
		return LATER;
	if (!page_try_fill(&g->pt, w->idx, &slot)) {
		guest_uncharge(g, 1);
		return AGAIN;
	}
	if (!page_slot_is_real(slot)) { /* evicted anew, as zeros, since we looked */
		page_end_fill_failed(&g->pt, w->idx);
		guest_uncharge(g, 1);
		return AGAIN;
	}
	id = f->free_fills[--f->nr_free];
	f->fills[id] = (struct fill){
		.first = w->idx, .slot = slot, .since = w->since,
		.nr = own_readahead(g, r, w->idx, slot),
	};
	submit_read(f, id);
	return SERVED;
}

static bool fill_is_good(const struct guest *g, const struct fill *fill, const char *buf, int res)
{
	if (res != (int)pages_to_bytes(fill->nr))
		return false;
	for (uint32_t i = 0; i < fill->nr; i++)
		if (!store_sum_equal(g->store.sums.v[fill->slot + i],
				     store_sum_page(&g->store, buf + pages_to_bytes(i))))
			return false;
	return true;
}

/* Nothing of the fill from its page @from on was installed: back to EVICTED, slots kept. */
static void give_back(struct guest *g, const struct fill *fill, uint32_t from)
{
	for (uint32_t i = from; i < fill->nr; i++)
		page_end_fill_failed(&g->pt, fill->first + i);
	guest_uncharge(g, fill->nr - from);
}

/*
 * The disk may come back, memory be freed: look again soon. At every page, for who waits for one was told by FILLING
 * that it is being cared for, and sends no second message.
 */
static void retry_later(struct fault *f, const struct fill *fill)
{
	struct guest *g = f->g;
	const struct region *r = region_find_index(&g->regions, fill->first);

	for (uint32_t i = 0; i < fill->nr; i++) {
		if (f->nr_waiting == NR_WAITING) {
			uffd_wake(g->rem.uffd, region_hva(r, fill->first + i), EBB_PAGE_SIZE);
			continue;
		}
		f->waiting[f->nr_waiting++] = (struct waiting){
			.idx = fill->first + i,
			.msg = PAGE_MSG_MISSING,
			.since = fill->since,
			.not_before = guest_now_ns() + RETRY_NS,
		};
	}
}

static void read_failed(struct fault *f, unsigned int id, int res)
{
	struct guest *g = f->g;
	struct fill *fill = &f->fills[id];

	guest_count(&g->c.read_errors, 1);
	if (fill->nr > 1) { /* which page is bad? The one that faulted by itself; the others if they must */
		const struct region *r = region_find_index(&g->regions, fill->first);

		give_back(g, fill, 1);
		uffd_wake(g->rem.uffd, region_hva(r, fill->first + 1), pages_to_bytes(fill->nr - 1));
		fill->nr = 1;
		submit_read(f, id);
		return;
	}
	if (++fill->tries < READ_TRIES) {
		submit_read(f, id);
		return;
	}
	give_back(g, fill, 0);
	retry_later(f, fill);
	f->free_fills[f->nr_free++] = id;
	if (res < 0)
		guest_fail(g, "%s: reading slot %u failed: %s", g->store.path, fill->slot,
			   strerror(-res));
	else
		guest_fail(g, "%s: slot %u does not have the bytes that were written",
			   g->store.path, fill->slot);
}

/* A page went in: keep its slot as the clean copy while the store has room. */
static void fill_installed(struct guest *g, uint32_t idx, uint32_t slot, bool keep)
{
	page_end_fill(&g->pt, idx, keep ? slot : PAGE_SLOT_NONE);
	if (!keep)
		store_release(&g->store, slot);
	atomic_fetch_sub(&g->evicted_pages, 1);
}

/*
 * COPY the fill's pages; returns how many went in. The rest is EVICTED again, and to be retried: but not
 * where somebody else's page was found (fill->nr is cut there), for nobody may be woken over that.
 */
static uint32_t install_fill(struct fault *f, struct fill *fill, const char *buf)
{
	struct guest *g = f->g;
	const struct region *r = region_find_index(&g->regions, fill->first);
	bool keep = store_nr_used(&g->store) < g->store.nr_slots / 8 * 7, hazard = false;
	unsigned int tries = 0;
	uint32_t done = 0, step = fill->nr;

	while (done < fill->nr) {
		size_t bytes = 0;
		int rc = uffd_copy(g->rem.uffd, region_hva(r, fill->first + done),
				   buf + pages_to_bytes(done),
				   pages_to_bytes(MIN(step, fill->nr - done)), &bytes);

		for (uint32_t n = (uint32_t)bytes_to_pages(bytes); n > 0; n--, done++)
			fill_installed(g, fill->first + done, fill->slot + done, keep);
		if (rc == -EAGAIN) {
			fault_again(f, &tries);
		} else if (rc == -EEXIST) {
			guest_fail(g, "page %u was evicted, but the memfd holds one: somebody else "
				   "writes to the guest's memory", fill->first + done);
			hazard = true;
			break;
		} else if (rc == -ENOENT && step > 1) {
			step = 1; /* as in install_zeros() */
		} else if (rc) {
			break;
		}
	}
	if (done < fill->nr)
		give_back(g, fill, done);
	if (hazard)
		fill->nr = done;
	return done;
}

void fault_fill_done(struct fault *f, unsigned int id, int res)
{
	struct guest *g = f->g;
	struct fill *fill = &f->fills[id];
	uint32_t done;

	f->inflight--;
	ioflow_note(&g->io, IO_READ, fill->nr, guest_now_ns() - fill->submitted_ns);
	atomic_store_explicit(&g->fault_reads, f->inflight, memory_order_relaxed);
	if (!fill_is_good(g, fill, fill_buffer(f, id), res)) {
		read_failed(f, id, res);
		return;
	}
	done = install_fill(f, fill, fill_buffer(f, id));
	if (done < fill->nr)
		retry_later(f, &(struct fill){
				       .first = fill->first + done,
				       .nr = fill->nr - done,
				       .since = fill->since,
			       });
	if (done) {
		hist_add(&g->fault_hist, guest_now_ns() - fill->since);
		note_filled(g, fill->first, done, RECLAIM_REFAULT);
		guest_count(&g->c.refaults, 1);
		guest_count(&g->c.prefetched, done - 1);
	}
	f->free_fills[f->nr_free++] = id;
}
