// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * evictor.c - the eviction thread: keeps a guest under its limit, several batches in flight.
 *
 * DOC: theory of operation
 *
 * How many pages must go is the core's word (reclaim_excess), which ones too (reclaim_pick). The thread
 * prepares a batch (protect, look, copy: CPU), hands its writes to io_uring and prepares the next while
 * the disk works; completed batches are committed and punched as they come. Pages of running batches
 * still count as resident, so they are subtracted from what is asked for.
 *
 * When nothing old is left to pick, the sampler will age soon; when faults are (or soon will be) starved for
 * room meanwhile, the core is asked again with `urgent` and gives up younger pages. A store that fails makes the thread
 * pause, so that a broken disk is not hammered: the pages stay in memory and the limit is missed.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <ebb/log.h>
#include "batch.h"
#include "evictor.h"

#define NR_BATCHES 4u
#define PICK_RUNS  BATCH_PAGES
#define PAUSE_NS   200000000ull /* after a store error */
#define BUSY_NS	   1000000ull	/* after a batch of which nothing could be had */
#define REST_US	   50

#define UD_KICK UINT64_MAX

struct evictor {
	struct guest *g;
	pthread_t thread;
	_Atomic bool stop;
	struct io_uring ring;
	bool kick_armed;
	uint32_t tag;
	uint32_t in_batches; /* pages */
	uint32_t due;	     /* pages still to go until the low watermark ... */
	uint32_t due_limit;  /* ... of this limit */
	uint32_t drop_hand;  /* where the search for kept copies to drop goes on */
	uint64_t pause_until;
	char *bounce;
	struct batch batches[NR_BATCHES];
};

/*
 * Pages to start evicting now. Once the guest is above the high watermark it is brought down to the low one,
 * whatever comes in meanwhile is on top: @due remembers what is left of that.
 */
static uint32_t excess(struct evictor *e)
{
	struct guest *g = e->g;
	uint32_t resident = atomic_load(&g->resident), limit = atomic_load(&g->limit), now;

	if (limit != e->due_limit)
		e->due = 0;
	e->due_limit = limit;
	if (atomic_load(&g->phase) != GUEST_MANAGED || atomic_load(&e->stop) ||
	    atomic_load(&g->suspect))
		return 0;
	guest_lock_lru(g);
	now = reclaim_excess(g->lru, resident > e->in_batches ? resident - e->in_batches : 0);
	guest_unlock_lru(g);
	e->due = MAX(e->due, now);
	return e->due;
}

/* A full store: give up kept copies, which only save writes. Bounded; goes on where it stopped. */
static void drop_kept_copies(struct evictor *e, uint32_t want)
{
	struct guest *g = e->g;

	for (uint32_t looked = 0; want > 0 && looked < g->pt.nr; looked++) {
		uint32_t idx = e->drop_hand;
		uint32_t word = page_table_load(&g->pt, idx);

		e->drop_hand = idx + 1 < g->pt.nr ? idx + 1 : 0;
		if (page_word_state(word) == PAGE_RESIDENT &&
		    page_slot_is_real(page_word_arg(word)) &&
		    page_try_drop_kept(&g->pt, idx, word)) {
			store_release(&g->store, page_word_arg(word));
			want--;
		}
	}
}

static void submit_writes(struct evictor *e, unsigned int id)
{
	struct batch *b = &e->batches[id];

	b->submitted_ns = guest_now_ns();
	for (unsigned int i = 0; i < b->nr_writes; i++) {
		struct batch_write *w = &b->writes[i];
		struct io_uring_sqe *sqe = io_uring_get_sqe(&e->ring);

		if (!sqe) { /* the ring holds every write of every batch: cannot be */
			batch_write_done(e->g, b, i, -EAGAIN);
			continue;
		}
		io_uring_prep_writev(sqe, e->g->store.fd, &b->iov[w->iov], w->nr_iov,
				     store_offset(w->slot));
		io_uring_sqe_set_data64(sqe, (uint64_t)id << 32 | i);
		ioflow_begin(&e->g->io, w->len);
	}
	io_uring_submit(&e->ring);
}

static void finish(struct evictor *e, unsigned int id)
{
	struct batch *b = &e->batches[id];
	uint32_t pages = b->nr;

	if (b->write_failed)
		e->pause_until = guest_now_ns() + PAUSE_NS;
	batch_finish(e->g, b);
	e->in_batches -= pages;
}

static bool all_lost(const struct batch *b)
{
	for (unsigned int i = 0; i < b->nr; i++)
		if (b->p[i].fate != BATCH_LOST)
			return false;
	return true;
}

/* Faults wait, or soon will: half of the room between the high watermark and the limit is gone. */
static bool is_urgent(const struct guest *g)
{
	uint64_t half = ((uint64_t)atomic_load(&g->evict_above) + atomic_load(&g->limit)) / 2;

	return atomic_load(&g->starved) || atomic_load(&g->resident) > half;
}

/*
 * A search of a large guest comes in pieces: faults want the lock in between. Without a rest it would be ours
 * again before one that waits is awake.
 */
static uint32_t pick(struct evictor *e, struct page_run *runs, uint32_t want)
{
	struct guest *g = e->g;
	bool searching = false;
	uint32_t nr;

	do {
		if (searching)
			usleep(REST_US);
		guest_lock_lru(g);
		nr = reclaim_pick(g->lru, runs, PICK_RUNS, want, false);
		if (!nr && !reclaim_is_searching(g->lru) && is_urgent(g))
			nr = reclaim_pick(g->lru, runs, PICK_RUNS, want, true);
		searching = reclaim_is_searching(g->lru);
		guest_unlock_lru(g);
	} while (!nr && searching && !atomic_load(&e->stop));
	return nr;
}

/* Pick and start one batch of at most @want pages. Returns false when there was nothing to pick. */
static bool start_batch(struct evictor *e, unsigned int id, uint32_t want)
{
	struct guest *g = e->g;
	struct batch *b = &e->batches[id];
	struct page_run runs[PICK_RUNS];
	uint32_t nr;

	want = MIN(want, BATCH_PAGES);
	nr = pick(e, runs, want);
	if (!nr)
		return false;
	batch_prepare(g, b, e->tag++, runs, nr);
	b->running = true;
	e->in_batches += b->nr;
	e->due -= MIN(e->due, b->nr);
	if (all_lost(b)) /* pinned or busy, all of them: give whoever holds them a moment */
		e->pause_until = guest_now_ns() + BUSY_NS;
	if (store_nr_used(&g->store) + 4 * BATCH_PAGES > g->store.nr_slots)
		drop_kept_copies(e, 4 * BATCH_PAGES);
	if (batch_assign_slots(g, b)) {
		log_limited(LOG_LVL_WARN, "%s: %s: no slot left", g->name, g->store.path);
		e->pause_until = guest_now_ns() + PAUSE_NS;
	}
	if (b->nr_writes)
		submit_writes(e, id);
	if (!b->writes_left)
		finish(e, id);
	return true;
}

static bool start_batches(struct evictor *e)
{
	bool any = false;

	if (guest_now_ns() < e->pause_until)
		return false;
	for (unsigned int id = 0; id < ioflow_batches(&e->g->io, NR_BATCHES); id++) {
		uint32_t want;

		if (e->batches[id].running)
			continue;
		want = excess(e);
		if (!want || !start_batch(e, id, want))
			break;
		any = true;
	}
	return any;
}

static void note_write(struct evictor *e, const struct batch *b, unsigned int nr)
{
	ioflow_note(&e->g->io, IO_WRITE, b->writes[nr].len, guest_now_ns() - b->submitted_ns);
}

static bool reap(struct evictor *e)
{
	struct io_uring_cqe *cqe;
	bool any = false;

	while (io_uring_peek_cqe(&e->ring, &cqe) == 0) {
		uint64_t data = io_uring_cqe_get_data64(cqe);
		int res = cqe->res;

		io_uring_cqe_seen(&e->ring, cqe);
		if (data == UD_KICK) {
			uint64_t n;

			e->kick_armed = false;
			if (read(e->g->evictor_kick, &n, sizeof(n)) < 0)
				continue; /* nothing was there: a spurious wake-up */
			continue;
		}
		note_write(e, &e->batches[data >> 32], (unsigned int)data);
		batch_write_done(e->g, &e->batches[data >> 32], (unsigned int)data, res);
		if (!e->batches[data >> 32].writes_left)
			finish(e, (unsigned int)(data >> 32));
		any = true;
	}
	return any;
}

static void sleep_until_work(struct evictor *e)
{
	struct __kernel_timespec ts = {.tv_sec = 1};
	struct io_uring_cqe *cqe;

	if (!e->kick_armed) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&e->ring);

		if (sqe) {
			io_uring_prep_poll_add(sqe, e->g->evictor_kick, POLLIN);
			io_uring_sqe_set_data64(sqe, UD_KICK);
			e->kick_armed = true;
		}
	}
	atomic_store(&e->g->evictor_idle, true);
	if (excess(e)) {
		/*
		 * Due, but every batch runs, nothing is to be picked, or a pause: look again soon. A kick
		 * would tell nothing new, and cost each fault meanwhile a system call and a wake-up.
		 */
		atomic_store(&e->g->evictor_idle, false);
		ts = (struct __kernel_timespec){.tv_nsec = 500000};
	}
	io_uring_submit_and_wait_timeout(&e->ring, &cqe, 1, &ts, NULL);
	atomic_store(&e->g->evictor_idle, false);
}

static bool batches_running(const struct evictor *e)
{
	for (unsigned int id = 0; id < NR_BATCHES; id++)
		if (e->batches[id].running)
			return true;
	return false;
}

static void *evictor_main(void *arg)
{
	struct evictor *e = arg;

	pthread_setname_np(pthread_self(), "ebb-evict");
	while (!atomic_load(&e->stop) || batches_running(e)) {
		bool busy = start_batches(e);

		busy |= reap(e);
		if (!busy)
			sleep_until_work(e);
	}
	return NULL;
}

static void evictor_free(struct evictor *e)
{
	if (e->ring.ring_fd > 0)
		io_uring_queue_exit(&e->ring);
	if (e->bounce)
		munmap(e->bounce, (size_t)NR_BATCHES * BATCH_PAGES * EBB_PAGE_SIZE);
	free(e);
}

int evictor_start(struct guest *g, struct ebb_err *err)
{
	struct evictor *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	e->g = g;
	e->bounce = mmap(NULL, (size_t)NR_BATCHES * BATCH_PAGES * EBB_PAGE_SIZE,
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->bounce == MAP_FAILED) {
		e->bounce = NULL;
		evictor_free(e);
		return ebb_err_set(err, -ENOMEM, "out of memory");
	}
	for (unsigned int id = 0; id < NR_BATCHES; id++)
		e->batches[id].bounce = e->bounce + (size_t)id * BATCH_PAGES * EBB_PAGE_SIZE;
	/* Completions need no interrupt of the thread: it asks for them. */
	rc = io_uring_queue_init(NR_BATCHES * BATCH_PAGES * 2, &e->ring, IORING_SETUP_COOP_TASKRUN);
	if (rc == -EINVAL)
		rc = io_uring_queue_init(NR_BATCHES * BATCH_PAGES * 2, &e->ring, 0);
	if (rc) {
		e->ring.ring_fd = -1;
		evictor_free(e);
		return ebb_err_set(err, rc, "io_uring: %s", strerror(-rc));
	}
	rc = -pthread_create(&e->thread, NULL, evictor_main, e);
	if (rc) {
		evictor_free(e);
		return ebb_err_set(err, rc, "cannot start the eviction thread: %s", strerror(-rc));
	}
	g->evictor = e;
	return 0;
}

void evictor_stop(struct guest *g)
{
	struct evictor *e = g->evictor;

	if (!e)
		return;
	atomic_store(&e->stop, true);
	guest_kick(g->evictor_kick);
	pthread_join(e->thread, NULL);
	evictor_free(e);
	g->evictor = NULL;
}
