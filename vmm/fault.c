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
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <ebb/log.h>
#include "fault_internal.h"

void fault_unprotect_page(struct fault *f, const struct region *r, uint32_t idx)
{
	unsigned int tries = 0;

	while (uffd_writeprotect(f->g->rem.uffd, region_hva(r, idx), EBB_PAGE_SIZE, false) == -EAGAIN)
		fault_again(f, &tries);
}

static enum served serve_unprotect(struct fault *f, const struct region *r, uint32_t idx,
				   uint32_t word)
{
	struct guest *g = f->g;

	if (!page_try_unprotect(&g->pt, idx, word))
		return AGAIN;
	fault_unprotect_page(f, r, idx);
	page_end_unprotect(&g->pt, idx);
	if (page_word_state(word) == PAGE_EVICTING) {
		guest_lock_lru(g);
		reclaim_note_kept(g->lru, idx, RECLAIM_KEPT_TOUCHED);
		guest_unlock_lru(g);
		guest_count(&g->c.cancel_touched, 1);
	}
	return SERVED;
}

bool fault_charge(struct fault *f, const struct waiting *w)
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
			return fault_serve_from_store(f, r, w);
		return fault_serve_zero(f, r, w, word);
	case PAGE_ACT_ZERO:
		return fault_serve_zero(f, r, w, word);
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
			fault_fill_done(f, (unsigned int)id, res);
		}
	}
}

static void arm_poll(struct fault *f, bool *armed, int fd, uint64_t id)
{
	struct io_uring_sqe *sqe;

	if (*armed)
		return;
	sqe = fault_get_sqe(f);
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, id);
	*armed = true;
}

/* Until what waits is looked at again, if nothing happens before. */
static uint64_t wait_ns(const struct fault *f)
{
	uint64_t pause = ioflow_pause(&f->g->io);

	return pause ? MIN(pause, WAIT_NS) : WAIT_NS;
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
		ts = (struct __kernel_timespec){.tv_nsec = (long long)wait_ns(f)};
	arm_poll(f, &f->uffd_armed, f->g->rem.uffd, UD_UFFD);
	arm_poll(f, &f->kick_armed, f->g->fault_kick, UD_KICK);
	io_uring_submit_and_wait_timeout(&f->ring, &cqe, 1, &ts, NULL);
}

/* Pages of zeros go without the store: a trickle of them must not hide that it fails. */
static bool store_fails(struct fault *f, uint64_t now)
{
	uint64_t errors = atomic_load_explicit(&f->g->c.write_errors, memory_order_relaxed);

	if (errors != f->write_errors) {
		f->write_errors = errors;
		f->error_ns = now;
		if (!f->failing_since)
			f->failing_since = now;
	} else if (f->failing_since && now - f->error_ns >= STARVED_NS) {
		f->failing_since = 0;
	}
	return f->failing_since && now - f->failing_since >= STARVED_NS;
}

static void watch_progress(struct fault *f)
{
	uint64_t evicted = atomic_load_explicit(&f->g->c.evicted, memory_order_relaxed);
	uint64_t now = guest_now_ns();

	if (store_fails(f, now))
		f->stuck = true;
	else if (evicted != f->progress_evicted)
		f->stuck = false;
	if (evicted != f->progress_evicted || !f->starved) {
		f->progress_evicted = evicted;
		f->progress_ns = now;
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
		bool busy = false;

		if (!atomic_load(&f->stop)) { /* else only what is in flight is finished */
			busy = fault_drain(f);
			busy |= serve_waiting(f);
			watch_progress(f);
		}
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
