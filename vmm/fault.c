// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fault.c - the fault thread: messages in, bytes back, waiters woken.
 *
 * DOC: theory of operation
 *
 * One thread a guest, one loop: drain the uffd until it is empty (REMOVEs take effect as they are read,
 * faults join the waiting list), serve what waits, reap reads, install, sleep. Everything is
 * asynchronous: a fault that needs the disk becomes an io_uring read into a bounce buffer, and many are
 * in flight. What to do with a message is not decided here but by page_action(), the protocol table.
 *
 * A fault is served now, or waits in the list because (a) the page is in a state its owner leaves within
 * microseconds, (b) there is no room under the limit until the evictor has made some, or (c) all fill
 * buffers are in use. (b) is the only long wait; the evictor kicks us.
 *
 *   fault thread                      VMM thread that discards
 *   ------------                      ------------------------
 *                                     fallocate(PUNCH_HOLE)
 *                                     madvise(DONTNEED): queues REMOVE, sleeps
 *   COPY elsewhere -> EAGAIN [A]
 *   read REMOVE, apply                wakes, zaps
 *   COPY again: works
 *
 * [A] is why every ioctl here is followed by "drain, then again" on EAGAIN, and why this thread must
 * never wait for the monitor: the VMM's main thread may be the one that sleeps in madvise.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <ebb/log.h>
#include "fault.h"
#include "uffd.h"

#define FILL_RUN   16u	 /* pages a read at most: the measured best for read-ahead */
#define NR_FILLS   128u	 /* reads in flight */
#define NR_WAITING 8192u /* faults known and not served; beyond that they are woken to fault again */
#define READ_TRIES 3u
#define RETRY_NS   500000000ull /* before a page is tried again that could not be read or installed */

/* A fault that found no room this long, while nothing could be evicted, is let over the limit: a guest
 * that waits for ever is worse than a limit that is missed, and it is counted and reported. */
#define STARVED_NS 2000000000ull

/** struct fill - a read in flight: pages first..first+nr-1 are FILLING from slot..slot+nr-1, and ours */
struct fill {
	uint32_t first, nr, slot;
	uint32_t tries;
	uint64_t since;
};

struct waiting {
	uint32_t idx;
	uint32_t msg; /* enum page_msg */
	uint64_t since;
	uint64_t not_before;
};

struct fault {
	struct guest *g;
	pthread_t thread;
	sem_t started;
	int start_rc;
	_Atomic bool stop;
	struct io_uring ring;
	bool uffd_armed, kick_armed;
	bool soon; /* something waits for a state that ends within microseconds */
	uint32_t starved;
	unsigned int inflight;
	struct fill fills[NR_FILLS];
	unsigned int free_fills[NR_FILLS], nr_free;
	unsigned int nr_waiting;
	uint64_t progress_evicted, progress_ns; /* when an eviction was last seen */
	bool stuck; /* none for STARVED_NS while faults starved: until the next they need not wait */
	struct waiting waiting[NR_WAITING];
	char *bounce; /* NR_FILLS x FILL_RUN pages */
};

enum served { SERVED, LATER, AGAIN };

enum { UD_UFFD = NR_FILLS, UD_KICK };

/* --- messages ------------------------------------------------------------------------------- */

static void remember_fault(struct fault *f, uint64_t hva, uint64_t flags, uint64_t now)
{
	struct guest *g = f->g;
	const struct region *r = region_find_hva(&g->regions, hva);

	if (!r) {
		log_limited(LOG_LVL_ERR, "%s: fault at %#llx, outside all regions", g->name,
			    (unsigned long long)hva);
		return;
	}
	if (f->nr_waiting == NR_WAITING) {
		uffd_wake(g->rem.uffd, hva & ~(EBB_PAGE_SIZE - 1), EBB_PAGE_SIZE);
		return;
	}
	f->waiting[f->nr_waiting++] = (struct waiting){
		.idx = region_index(r, hva),
		.msg = flags & UFFD_PAGEFAULT_FLAG_WP ? PAGE_MSG_WP : PAGE_MSG_MISSING,
		.since = now,
	};
	guest_count(flags & UFFD_PAGEFAULT_FLAG_WP ? &g->c.wp_faults : &g->c.faults, 1);
}

/*
 * Pages of [from, to) that are believed resident but are holes were discarded. The word is loaded before the
 * hole is looked for: the other way round a drain could fill the page in between.
 */
static void settle_run(struct guest *g, const struct region *r, uint32_t from, uint32_t to)
{
	for (uint32_t idx = from; idx < to; idx++) {
		uint32_t word = page_table_load(&g->pt, idx);

		if (page_word_state(word) != PAGE_RESIDENT || region_holds(r, idx) ||
		    !page_try_discard(&g->pt, idx, word))
			continue;
		store_release(&g->store, page_word_arg(word));
		guest_uncharge(g, 1);
		guest_count(&g->c.discarded, 1);
		pthread_mutex_lock(&g->lru_lock);
		reclaim_note_gone(g->lru, idx, 1);
		pthread_mutex_unlock(&g->lru_lock);
	}
}

static void apply_remove_region(struct guest *g, const struct region *r, uint32_t from, uint32_t to)
{
	bool settle = false;

	for (uint32_t idx = from; idx < to; idx++) {
		uint32_t word = page_table_load(&g->pt, idx);

		switch (page_action(PAGE_MSG_REMOVE, page_word_state(word))) {
		case PAGE_ACT_FORGET:
			if (!page_try_discard(&g->pt, idx, word))
				break; /* being filled: the old bytes are legal */
			store_release(&g->store, page_word_arg(word));
			atomic_fetch_sub(&g->evicted_pages, 1);
			if (page_word_arg(word) == PAGE_SLOT_ZERO)
				atomic_fetch_sub(&g->zero_pages, 1);
			guest_count(&g->c.discarded, 1);
			break;
		case PAGE_ACT_SETTLE:
			settle = true;
			break;
		default:
			break;
		}
	}
	if (settle)
		settle_run(g, r, from, to);
}

static void apply_remove(struct guest *g, uint64_t start, uint64_t end)
{
	guest_count(&g->c.removes, 1);
	if (guest_zap_overlaps(g, start, end))
		return; /* PAGE_MSG_OWN_ZAP: nothing in any state */
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		uint64_t a = MAX(start, r->hva);
		uint64_t b = MIN(end, region_hva(r, r->first + r->nr));

		if (a < b)
			apply_remove_region(g, r, region_index(r, a),
					    region_index(r, b - 1) + 1);
	}
}

/* Read the uffd until it is empty. Returns true if anything was read. */
static bool drain_messages(struct fault *f)
{
	struct uffd_msg msgs[64];
	bool any = false;
	uint64_t now = 0;
	ssize_t n;

	atomic_fetch_add(&f->g->drains_begun, 1);
	do {
		n = read(f->g->rem.uffd, msgs, sizeof(msgs));
		if (n <= 0)
			break;
		if (!now)
			now = guest_now_ns();
		any = true;
		for (size_t i = 0; i < (size_t)n / sizeof(msgs[0]); i++)
			if (msgs[i].event == UFFD_EVENT_REMOVE)
				apply_remove(f->g, msgs[i].arg.remove.start,
					     msgs[i].arg.remove.end);
			else if (msgs[i].event == UFFD_EVENT_UNMAP)
				guest_unmapped(f->g, msgs[i].arg.remove.start,
					       msgs[i].arg.remove.end, false);
			else if (msgs[i].event == UFFD_EVENT_REMAP)
				guest_unmapped(f->g, msgs[i].arg.remap.from,
					       msgs[i].arg.remap.from + msgs[i].arg.remap.len, true);
		for (size_t i = 0; i < (size_t)n / sizeof(msgs[0]); i++)
			if (msgs[i].event == UFFD_EVENT_PAGEFAULT)
				remember_fault(f, msgs[i].arg.pagefault.address,
					       msgs[i].arg.pagefault.flags, now);
		/* The kernel fills the buffer while it has messages: a short read left none. */
	} while (n == sizeof(msgs));
	atomic_fetch_add(&f->g->drains, 1);
	return any;
}

/* An ioctl said EAGAIN: an event waits to be read, or its sender has not run on yet. */
static void again(struct fault *f, unsigned int *tries)
{
	guest_count(&f->g->c.again, 1);
	drain_messages(f);
	if (++*tries > 16)
		usleep(20);
}

/* --- installing ----------------------------------------------------------------------------- */

static void note_filled(struct guest *g, uint32_t first, uint32_t nr, enum reclaim_origin faulted)
{
	pthread_mutex_lock(&g->lru_lock);
	reclaim_note_resident(g->lru, first, 1, faulted);
	if (nr > 1)
		reclaim_note_resident(g->lru, first + 1, nr - 1, RECLAIM_PREFETCH);
	pthread_mutex_unlock(&g->lru_lock);
}

static void unprotect_page(struct fault *f, const struct region *r, uint32_t idx)
{
	unsigned int tries = 0;

	while (uffd_writeprotect(f->g->rem.uffd, region_hva(r, idx), EBB_PAGE_SIZE, false) == -EAGAIN)
		again(f, &tries);
}

static enum served serve_unprotect(struct fault *f, const struct region *r, uint32_t idx,
				   uint32_t word)
{
	struct guest *g = f->g;

	if (!page_try_unprotect(&g->pt, idx, word))
		return AGAIN;
	unprotect_page(f, r, idx);
	page_end_unprotect(&g->pt, idx);
	if (page_word_state(word) == PAGE_EVICTING) {
		pthread_mutex_lock(&g->lru_lock);
		reclaim_note_kept(g->lru, idx, RECLAIM_KEPT_TOUCHED);
		pthread_mutex_unlock(&g->lru_lock);
		guest_count(&g->c.cancel_touched, 1);
	}
	return SERVED;
}

/* The page a ZEROPAGE found present: what that means depends on what we believed. */
static void zero_found_present(struct fault *f, const struct region *r, uint32_t idx, uint32_t was)
{
	struct guest *g = f->g;

	switch (page_word_state(was)) {
	case PAGE_EVICTED:
		page_end_fill_failed(&g->pt, idx);
		guest_uncharge(g, 1);
		guest_fail(g, "page %u was evicted, but the memfd holds one: somebody else writes to "
			   "the guest's memory", idx);
		return;
	case PAGE_EVICTING: /* a stale message; the page was protected by its batch */
		unprotect_page(f, r, idx);
		page_end_fill(&g->pt, idx, PAGE_SLOT_NONE);
		break;
	case PAGE_RESIDENT: /* a stale message */
		page_end_fill(&g->pt, idx, page_word_arg(was));
		break;
	default: /* ABSENT: there since before the scan at attach came by */
		page_end_fill(&g->pt, idx, PAGE_SLOT_NONE);
	}
	uffd_wake(g->rem.uffd, region_hva(r, idx), EBB_PAGE_SIZE);
}

/* A page ZEROPAGE installed. */
static void zero_installed(struct guest *g, uint32_t idx, uint32_t was)
{
	page_end_fill(&g->pt, idx, PAGE_SLOT_NONE);
	if (page_word_state(was) == PAGE_EVICTED) {
		atomic_fetch_sub(&g->evicted_pages, 1);
		atomic_fetch_sub(&g->zero_pages, 1);
	} else if (page_word_state(was) == PAGE_RESIDENT) {
		store_release(&g->store, page_word_arg(was));
		guest_count(&g->c.discarded, 1);
	}
	guest_count(&g->c.zero_filled, 1);
}

/*
 * Give zeros to pages first..first+nr-1, all FILLING(ZERO) and ours; was[]: what they were. False: not to all,
 * try again later.
 */
static bool install_zeros(struct fault *f, const struct region *r, uint32_t first, uint32_t nr,
			  const uint32_t *was)
{
	struct guest *g = f->g;
	unsigned int tries = 0;
	uint32_t done = 0, step = nr;
	bool good;

	while (done < nr) {
		size_t bytes = 0;
		int rc = uffd_zeropage(g->rem.uffd, region_hva(r, first + done),
				       pages_to_bytes(MIN(step, nr - done)), &bytes);

		for (uint32_t n = (uint32_t)bytes_to_pages(bytes); n > 0; n--, done++)
			zero_installed(g, first + done, was[done]);
		if (rc == -EEXIST) {
			zero_found_present(f, r, first + done, was[done]);
			done++;
		} else if (rc == -EAGAIN) {
			again(f, &tries);
		} else if (rc == -ENOENT && step > 1) {
			step = 1; /* crosses from one VMA to the next: the kernel takes none of it */
		} else if (rc) {
			break; /* no memory (it is tried again), or the VMM is going away */
		}
	}
	good = done == nr;
	for (; done < nr; done++) {
		if (page_word_state(was[done]) == PAGE_EVICTED) {
			page_end_fill_failed(&g->pt, first + done);
		} else {
			page_end_zero_failed(&g->pt, first + done);
			store_release(&g->store, page_word_slot(was[done]));
		}
		guest_uncharge(g, 1);
	}
	return good;
}

/* May @idx be given zeros beside a neighbour that faulted? Then it is FILLING and charged. */
static bool own_zero_neighbour(struct guest *g, uint32_t idx, uint32_t *ret_was)
{
	uint32_t word = page_table_load(&g->pt, idx), slot;
	bool won;

	if (word == page_word(PAGE_EVICTED, PAGE_SLOT_ZERO)) {
		if (!guest_try_charge(g, 1))
			return false;
		won = page_try_fill(&g->pt, idx, &slot);
		assert(!won || slot == PAGE_SLOT_ZERO);
	} else if (page_word_state(word) == PAGE_ABSENT) {
		if (!guest_try_charge(g, 1))
			return false;
		won = page_try_zero(&g->pt, idx, word);
	} else {
		return false;
	}
	if (!won)
		guest_uncharge(g, 1);
	*ret_was = word;
	return won;
}

static bool own_zero_faulted(struct guest *g, uint32_t idx, uint32_t word)
{
	uint32_t slot;

	if (page_word_state(word) == PAGE_EVICTED)
		return page_try_fill(&g->pt, idx, &slot);
	return page_try_zero(&g->pt, idx, word);
}

/* Room for the page of a fault; false: wait for the evictor. */
static bool charge_fault(struct fault *f, const struct waiting *w)
{
	struct guest *g = f->g;

	if (guest_try_charge(g, 1))
		return true;
	if (!f->stuck && atomic_load(&g->phase) != GUEST_FAILED &&
	    guest_now_ns() - MAX(w->since, f->progress_ns) < STARVED_NS) {
		f->starved++;
		return false;
	}
	f->stuck = true;
	guest_charge(g, 1);
	guest_count(&g->c.over_limit, 1);
	return true;
}

/* Zeros for a page that has none of its own: never touched, discarded, or evicted as all zeros. */
static enum served serve_zero(struct fault *f, const struct region *r, struct waiting *w,
			      uint32_t word)
{
	struct guest *g = f->g;
	uint32_t was[FILL_RUN], idx = w->idx, first = idx, nr = 1;
	bool charge = !page_word_is_counted(word), chunk = charge && guest_has_slack(g, FILL_RUN);
	uint32_t lo = MAX(r->first, idx - (idx - r->first) % FILL_RUN);
	uint32_t hi = MIN(r->first + r->nr, lo + FILL_RUN);
	uint32_t before[FILL_RUN];

	if (charge && !charge_fault(f, w))
		return LATER;
	if (!own_zero_faulted(g, idx, word)) {
		if (charge)
			guest_uncharge(g, 1);
		return AGAIN;
	}
	while (chunk && first > lo && own_zero_neighbour(g, first - 1, &before[idx - first]))
		first--;
	for (uint32_t i = first; i < idx; i++)
		was[i - first] = before[idx - i - 1];
	was[idx - first] = word;
	nr = idx - first + 1;
	while (chunk && first + nr < hi && own_zero_neighbour(g, first + nr, &was[nr]))
		nr++;
	if (!install_zeros(f, r, first, nr, was)) {
		w->not_before = guest_now_ns() + RETRY_NS;
		return LATER;
	}
	pthread_mutex_lock(&g->lru_lock);
	if (page_word_state(word) == PAGE_EVICTING)
		reclaim_note_kept(g->lru, idx, RECLAIM_KEPT_TOUCHED);
	reclaim_note_resident(g->lru, idx, 1,
			      page_word_state(word) == PAGE_EVICTED ? RECLAIM_REFAULT : RECLAIM_NEW);
	if (nr > 1)
		reclaim_note_resident(g->lru, first, nr, RECLAIM_PREFETCH);
	pthread_mutex_unlock(&g->lru_lock);
	if (page_word_state(word) == PAGE_EVICTED)
		guest_count(&g->c.refaults, 1);
	return SERVED;
}

/* --- filling from the store ----------------------------------------------------------------- */

static char *fill_buffer(struct fault *f, unsigned int id)
{
	return f->bounce + (size_t)id * FILL_RUN * EBB_PAGE_SIZE;
}

static struct io_uring_sqe *get_sqe(struct fault *f)
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
	struct io_uring_sqe *sqe = get_sqe(f);

	/* Not registered buffers: those would hold megabytes for each guest, idle ones too. */
	io_uring_prep_read(sqe, f->g->store.fd, fill_buffer(f, id),
			   (unsigned int)pages_to_bytes(fill->nr), store_offset(fill->slot));
	io_uring_sqe_set_data64(sqe, id);
	f->inflight++;
}

/* Own what follows @idx as far as it lies on disk behind it and there is room: nobody asked for it. */
static uint32_t own_readahead(struct guest *g, const struct region *r, uint32_t idx, uint32_t slot)
{
	uint32_t window, nr = 1, got;

	pthread_mutex_lock(&g->lru_lock);
	window = reclaim_readahead(g->lru, idx);
	pthread_mutex_unlock(&g->lru_lock);
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

static enum served serve_from_store(struct fault *f, const struct region *r,
				    const struct waiting *w)
{
	struct guest *g = f->g;
	unsigned int id;
	uint32_t slot;

	if (!f->nr_free)
		return LATER; /* a completion comes first */
	if (!charge_fault(f, w))
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
			again(f, &tries);
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

static void fill_done(struct fault *f, unsigned int id, int res)
{
	struct guest *g = f->g;
	struct fill *fill = &f->fills[id];
	uint32_t done;

	f->inflight--;
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

/* --- the loop ------------------------------------------------------------------------------- */

static enum served serve(struct fault *f, struct waiting *w)
{
	struct guest *g = f->g;
	const struct region *r = region_find_index(&g->regions, w->idx);
	uint32_t word = page_table_load(&g->pt, w->idx);

	if (atomic_load(&g->region_gone[r - g->regions.r]))
		return SERVED; /* who waited there is gone with the mapping */
	switch (page_action((enum page_msg)w->msg, page_word_state(word))) {
	case PAGE_ACT_FILL:
		if (page_word_arg(word) != PAGE_SLOT_ZERO)
			return serve_from_store(f, r, w);
		return serve_zero(f, r, w, word);
	case PAGE_ACT_ZERO:
		return serve_zero(f, r, w, word);
	case PAGE_ACT_UNPROTECT:
		return serve_unprotect(f, r, w->idx, word);
	case PAGE_ACT_WAKE:
		uffd_wake(g->rem.uffd, region_hva(r, w->idx), EBB_PAGE_SIZE);
		return SERVED;
	case PAGE_ACT_DEFER:
		f->soon = true;
		return LATER;
	default:
		return SERVED;
	}
}

/* Try each waiting fault once; the rest stays, in order. Returns true if any was served. */
static bool serve_waiting(struct fault *f)
{
	unsigned int kept = 0, nr = f->nr_waiting;
	uint64_t now = nr ? guest_now_ns() : 0;
	bool any = false;

	f->soon = false;
	f->starved = 0;
	for (unsigned int i = 0; i < nr; i++) {
		struct waiting w = f->waiting[i];
		enum served s = LATER;

		if (w.not_before <= now)
			do
				s = serve(f, &w);
			while (s == AGAIN);
		if (s == LATER)
			f->waiting[kept++] = w;
		else
			any = true;
	}
	/* An EAGAIN on the way may have read more messages: they stand behind @nr. */
	for (unsigned int i = nr; i < f->nr_waiting; i++)
		f->waiting[kept++] = f->waiting[i];
	any |= f->nr_waiting > nr;
	f->nr_waiting = kept;
	if (f->starved != atomic_load(&f->g->starved)) {
		if (f->starved)
			guest_count(&f->g->c.throttled, f->starved);
		atomic_store(&f->g->starved, f->starved);
	}
	return any;
}

static void reap(struct fault *f)
{
	struct io_uring_cqe *cqe;

	while (io_uring_peek_cqe(&f->ring, &cqe) == 0) {
		uint64_t id = io_uring_cqe_get_data64(cqe);
		int res = cqe->res;

		io_uring_cqe_seen(&f->ring, cqe);
		if (id == UD_UFFD) {
			f->uffd_armed = false;
		} else if (id == UD_KICK) {
			uint64_t n;

			f->kick_armed = false;
			if (read(f->g->fault_kick, &n, sizeof(n)) < 0) {
				/* somebody else's read cannot be: nothing to do */
			}
		} else if (id < NR_FILLS) {
			fill_done(f, (unsigned int)id, res);
		}
	}
}

static void arm_poll(struct fault *f, bool *armed, int fd, uint64_t id)
{
	struct io_uring_sqe *sqe;

	if (*armed)
		return;
	sqe = get_sqe(f);
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, id);
	*armed = true;
}

/*
 * Hand over what was prepared and, if @wait, sleep until a read is done, a message comes or we are kicked: one
 * system call. No message is missed: the poll is armed after the last drain, and a descriptor that is
 * readable by then completes it at once.
 */
static void submit_and_sleep(struct fault *f, bool wait)
{
	struct __kernel_timespec ts = {.tv_sec = 1};
	struct io_uring_cqe *cqe;

	if (!wait) {
		io_uring_submit_and_get_events(&f->ring);
		return;
	}
	if (f->soon)
		ts = (struct __kernel_timespec){.tv_nsec = 30000};
	else if (f->nr_waiting)
		ts = (struct __kernel_timespec){.tv_nsec = 5000000};
	arm_poll(f, &f->uffd_armed, f->g->rem.uffd, UD_UFFD);
	arm_poll(f, &f->kick_armed, f->g->fault_kick, UD_KICK);
	io_uring_submit_and_wait_timeout(&f->ring, &cqe, 1, &ts, NULL);
}

static void watch_progress(struct fault *f)
{
	uint64_t evicted = atomic_load_explicit(&f->g->c.evicted, memory_order_relaxed);

	if (evicted != f->progress_evicted)
		f->stuck = false;
	if (evicted != f->progress_evicted || !f->starved) {
		f->progress_evicted = evicted;
		f->progress_ns = guest_now_ns();
	}
}

static void *fault_main(void *arg)
{
	struct fault *f = arg;

	pthread_setname_np(pthread_self(), "ebb-fault");
	f->start_rc = io_uring_queue_init(256, &f->ring,
					  IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	if (f->start_rc == -EINVAL)
		f->start_rc = io_uring_queue_init(256, &f->ring, 0);
	sem_post(&f->started);
	if (f->start_rc)
		return NULL;
	while (!atomic_load(&f->stop) || f->inflight) {
		bool busy = drain_messages(f);

		busy |= serve_waiting(f);
		watch_progress(f);
		/*
		 * What still waits is tried once more before sleeping: room made before the evictor could
		 * see that it is missed brings no kick.
		 */
		submit_and_sleep(f, !busy || !f->nr_waiting);
		reap(f);
	}
	io_uring_queue_exit(&f->ring);
	return NULL;
}

static void fault_free(struct fault *f)
{
	if (!f)
		return;
	if (f->bounce)
		munmap(f->bounce, (size_t)NR_FILLS * FILL_RUN * EBB_PAGE_SIZE);
	sem_destroy(&f->started);
	free(f);
}

int fault_start(struct guest *g, struct ebb_err *err)
{
	struct fault *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	f->g = g;
	sem_init(&f->started, 0, 0);
	for (unsigned int i = 0; i < NR_FILLS; i++)
		f->free_fills[f->nr_free++] = NR_FILLS - 1 - i;
	f->bounce = mmap(NULL, (size_t)NR_FILLS * FILL_RUN * EBB_PAGE_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f->bounce == MAP_FAILED) {
		f->bounce = NULL;
		fault_free(f);
		return ebb_err_set(err, -ENOMEM, "out of memory");
	}
	rc = -pthread_create(&f->thread, NULL, fault_main, f);
	if (!rc) {
		sem_wait(&f->started);
		rc = f->start_rc;
		if (rc)
			pthread_join(f->thread, NULL);
	}
	if (rc) {
		fault_free(f);
		return ebb_err_set(err, rc, "cannot start the fault thread: %s", strerror(-rc));
	}
	g->fault = f;
	return 0;
}

void fault_stop(struct guest *g)
{
	struct fault *f = g->fault;

	if (!f)
		return;
	atomic_store(&f->stop, true);
	guest_kick(g->fault_kick);
	pthread_join(f->thread, NULL);
	fault_free(f);
	g->fault = NULL;
}
