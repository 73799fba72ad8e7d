// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * guest_drain.c - bring every evicted page of a guest back, in the order of the store, beside its faults.
 *
 * DOC: draining
 *
 * The drain owns pages like the fault thread does, by EVICTED -> FILLING, and runs beside it: a fault on
 * a page being drained finds FILLING and is woken by the drain. With the evictor stopped and
 * the limit lifted, pages only come in, so passes over the table end.
 *
 * It looks at a window of pages at a time, sorts those that are out by slot, and reads what lies together on disk at
 * once, over small gaps. Not more than RUN: a page of a run can be used only when the whole run is in. While faults
 * wait for the disk it gives way, but not for ever.
 *
 * Nobody looks for other mappers meanwhile (the sampler leaves a claimed guest alone): the answer to one would be this
 * very drain.
 *
 * How it ends:
 *
 *   all in      the caller has a guest in phase DRAINING, without a limit and with no page out, to let go or to manage
 *   aborted, no room, a slot that can't be read
 *               the guest is managed as before: what is out keeps its slot, and can be drained again
 *   killed      the same, by the next daemon; the state file has the limit as it was
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ebb/log.h>
#include "evictor.h"
#include "fault.h"
#include "guest_life.h"
#include "headroom.h"
#include "uffd.h"

#define RUN	     64u	   /* slots read at once */
#define GAP	     8u		   /* slots read though nobody wants them, rather than to read twice */
#define WINDOW	     (256u << 10)  /* pages sorted at once: 1 GiB, 2 MiB of memory for it */
#define LOOK_NS	     100000000ull  /* between looks at the memory that is left ... */
#define LOOK_PAGES   (16u << 10)   /* ... or pages, if those come in sooner */
#define LOOK_ROOM    (2 * LOOK_PAGES) /* wanted at a look: faults, and others, take some too */
#define YIELD_US     100
#define YIELD_MAX    20u /* 2 ms for RUN pages: 125 MiB/s are left under the worst load */

/** struct out - a page that was seen evicted */
struct out {
	uint32_t slot, idx;
};

struct work {
	struct guest *g;
	bool watch;
	uint64_t looked_ns;
	uint32_t since_look, since_yield; /* pages */
	uint32_t left;	     /* of this pass: seen out, or on their way */
	struct out *window;
	char *buf; /* RUN pages */
};

static bool is_called_off(const struct guest *g)
{
	return atomic_load(&g->drain.abort) || atomic_load(&g->ending);
}

/* --- may it go on? -------------------------------------------------------------------------- */

/*
 * Room for what comes in until the next look. Without, the drain does not wait for some: the guest has no limit
 * meanwhile, and its own faults would use up what is left.
 */
static int look_for_room(struct work *w, struct ebb_err *err)
{
	struct guest *g = w->g;
	uint32_t next = MIN(LOOK_ROOM, atomic_load(&g->evicted_pages));
	struct headroom h;
	struct ebb_err why;
	int rc;

	if (!w->watch || (w->since_look < LOOK_PAGES && guest_now_ns() - w->looked_ns < LOOK_NS))
		return 0;
	rc = headroom_read(g->id.pid, g->drain_reserve, &h);
	if (rc)
		return ebb_err_set(err, rc, "%s: cannot tell how much memory is free: %s", g->name,
				   strerror(-rc));
	rc = headroom_check(&h, pages_to_bytes(next), &why);
	w->looked_ns = guest_now_ns();
	w->since_look = 0;
	return rc ? ebb_err_set(err, rc, "%s: ended with %u MiB still out: %.400s", g->name,
				atomic_load(&g->evicted_pages) >> 8, why.msg) : 0;
}

static int may_go_on(struct work *w, struct ebb_err *err)
{
	struct guest *g = w->g;

	if (is_called_off(g))
		return ebb_err_set(err, -ECANCELED, "%s: called off", g->name);
	if (w->since_yield >= RUN) {
		w->since_yield = 0;
		for (unsigned int i = 0; i < YIELD_MAX && atomic_load(&g->fault_reads); i++)
			usleep(YIELD_US);
	}
	return look_for_room(w, err);
}

/* --- a run ---------------------------------------------------------------------------------- */

/* Where page @i of a run is in the buffer. Pages of zeros have no place on disk: one after the other. */
static size_t run_offset(const struct out *run, uint32_t i)
{
	return pages_to_bytes(page_slot_is_real(run[0].slot) ? run[i].slot - run[0].slot : i);
}

static int read_slots(struct guest *g, const struct out *run, uint32_t nr, char *buf)
{
	ssize_t want = (ssize_t)(run_offset(run, nr - 1) + EBB_PAGE_SIZE), got;

	if (!page_slot_is_real(run[0].slot)) {
		memset(buf, 0, (size_t)want);
		return 0;
	}
	got = pread(g->store.fd, buf, (size_t)want, (off_t)store_offset(run[0].slot));
	return got == want ? 0 : got < 0 ? -errno : -EIO;
}

/* The pages that are ours (idx not UINT32_MAX) have the bytes that were written. */
static bool sums_are_right(const struct guest *g, const struct out *run, uint32_t nr, const char *buf)
{
	if (!page_slot_is_real(run[0].slot))
		return true;
	for (uint32_t i = 0; i < nr; i++)
		if (run[i].idx != UINT32_MAX &&
		    !store_sum_equal(g->store.sums.v[run[i].slot],
				     store_sum_page(&g->store, buf + run_offset(run, i))))
			return false;
	return true;
}

static int read_run(struct guest *g, const struct out *run, uint32_t nr, char *buf)
{
	int rc = -EIO;

	for (int tries = 0; tries < 3; tries++) {
		rc = read_slots(g, run, nr, buf);
		if (!rc && sums_are_right(g, run, nr, buf))
			return 0;
		rc = rc ? rc : -EIO;
	}
	return rc;
}

/* Pages that adjoin in the guest too, from idx on; all FILLING and ours. */
static int install(struct guest *g, const struct region *r, uint32_t idx, uint32_t nr, uint32_t slot,
		   const char *buf)
{
	uint32_t done = 0, step = nr;
	int rc = 0;

	guest_charge(g, nr);
	while (done < nr) {
		size_t bytes = 0;

		rc = uffd_copy(g->rem.uffd, region_hva(r, idx + done), buf + pages_to_bytes(done),
			       pages_to_bytes(MIN(step, nr - done)), &bytes);
		for (uint32_t n = (uint32_t)bytes_to_pages(bytes); n > 0; n--, done++) {
			page_end_fill(&g->pt, idx + done, PAGE_SLOT_NONE);
			if (page_slot_is_real(slot))
				store_release(&g->store, slot + done);
		}
		if (rc == -EAGAIN)
			usleep(20);
		else if (rc == -ENOMEM && !is_called_off(g))
			usleep(1000);
		else if (rc == -ENOENT && step > 1)
			step = 1; /* crosses from one VMA to the next: the kernel takes none of it */
		else if (rc)
			break;
	}
	atomic_fetch_sub(&g->evicted_pages, done);
	if (!page_slot_is_real(slot))
		atomic_fetch_sub(&g->zero_pages, done);
	guest_lock_lru(g);
	reclaim_note_resident(g->lru, idx, done, RECLAIM_PREFETCH);
	guest_unlock_lru(g);
	for (uint32_t i = done; i < nr; i++)
		page_end_fill_failed(&g->pt, idx + i);
	guest_uncharge(g, nr - done);
	/*
	 * The fault thread answers MISSING on FILLING with nothing, for a COPY wakes. A thread that came to wait
	 * after our COPY (a zap dropped the new entry at once) may have been answered so: wake it now.
	 */
	(void)uffd_wake(g->rem.uffd, region_hva(r, idx), pages_to_bytes(nr));
	return done < nr ? rc : 0;
}

/* Not brought back: EVICTED again. Who faulted meanwhile was told nothing, for a fill was under way. */
static void give_back(struct guest *g, const struct region *r, const struct out *run, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (run[i].idx == UINT32_MAX)
			continue;
		page_end_fill_failed(&g->pt, run[i].idx);
		(void)uffd_wake(g->rem.uffd, region_hva(r, run[i].idx), EBB_PAGE_SIZE);
	}
}

/* Take the pages that are still where they were seen; idx of the others becomes UINT32_MAX. */
static bool own(struct guest *g, struct out *run, uint32_t nr)
{
	bool any = false;

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t got;

		if (!page_try_fill(&g->pt, run[i].idx, &got)) {
			run[i].idx = UINT32_MAX;
		} else if (got != run[i].slot) { /* it went and came back elsewhere: the next pass has it */
			const struct region *r = region_find_index(&g->regions, run[i].idx);

			give_back(g, r, &run[i], 1);
			run[i].idx = UINT32_MAX;
		} else {
			any = true;
		}
	}
	return any;
}

/* Does page @i follow the one before it, in the guest and on disk? */
static bool adjoins(const struct out *run, uint32_t i)
{
	return run[i].idx != UINT32_MAX && run[i].idx == run[i - 1].idx + 1 &&
	       (!page_slot_is_real(run[0].slot) || run[i].slot == run[i - 1].slot + 1);
}

/* @run: pages of @r in slots that lie together, or pages of zeros. */
static int bring_back(struct work *w, const struct region *r, struct out *run, uint32_t nr,
		      struct ebb_err *err)
{
	struct guest *g = w->g;
	int rc;

	if (!own(g, run, nr))
		return 0;
	rc = read_run(g, run, nr, w->buf);
	if (rc) {
		give_back(g, r, run, nr);
		guest_count(&g->c.read_errors, 1);
		return ebb_err_set(err, rc, "%s: %s: slots %u to %u can't be read; the guest stays "
				   "managed", g->name, g->store.path, run[0].slot,
				   run[nr - 1].slot);
	}
	for (uint32_t i = 0, n; i < nr; i += n) {
		n = 1;
		if (run[i].idx == UINT32_MAX)
			continue;
		while (i + n < nr && adjoins(run, i + n))
			n++;
		rc = install(g, r, run[i].idx, n, run[i].slot, w->buf + run_offset(run, i));
		if (!rc)
			continue;
		give_back(g, r, run + i + n, nr - i - n);
		if (rc == -EEXIST)
			guest_fail(g, "a page near %u was evicted, but the memfd holds one: somebody "
				   "else writes to the guest's memory", run[i].idx);
		return ebb_err_set(err, rc, "%s: bringing pages back: %s", g->name, strerror(-rc));
	}
	w->since_look += nr;
	w->since_yield += nr;
	return 0;
}

/* --- a pass --------------------------------------------------------------------------------- */

static int by_slot(const void *a, const void *b)
{
	const struct out *x = a, *y = b;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return x->idx < y->idx ? -1 : 1;
}

/* Pages from *@idx on that are out, until the window is full. */
static uint32_t look_for_pages(struct work *w, const struct region *r, uint32_t *idx)
{
	struct guest *g = w->g;
	uint32_t nr = 0;

	for (; *idx < r->first + r->nr && nr < WINDOW; (*idx)++) {
		uint32_t word = page_table_load(&g->pt, *idx);
		enum page_state s = page_word_state(word);

		if (s == PAGE_RESIDENT || s == PAGE_ABSENT)
			continue;
		w->left++;
		if (s == PAGE_EVICTED)
			w->window[nr++] = (struct out){.slot = page_word_arg(word), .idx = *idx};
	}
	qsort(w->window, nr, sizeof(*w->window), by_slot);
	return nr;
}

/* How many pages from run[0] on are read at once. */
static uint32_t run_length(const struct out *run, uint32_t nr)
{
	bool real = page_slot_is_real(run->slot);
	uint32_t n = 1;

	while (n < MIN(RUN, nr) &&
	       (real ? run[n].slot - run[n - 1].slot <= GAP && run[n].slot - run->slot < RUN :
		       run[n].slot == run->slot))
		n++;
	return n;
}

static int drain_window(struct work *w, const struct region *r, uint32_t nr, struct ebb_err *err)
{
	int rc = 0;

	for (uint32_t i = 0, n; i < nr && !rc; i += n) {
		n = run_length(w->window + i, nr - i);
		rc = may_go_on(w, err);
		if (!rc)
			rc = bring_back(w, r, w->window + i, n, err);
	}
	return rc;
}

static int drain_pass(struct work *w, struct ebb_err *err)
{
	struct guest *g = w->g;
	int rc = 0;

	w->left = 0;
	for (unsigned int i = 0; i < g->regions.nr && !rc; i++) {
		const struct region *r = &g->regions.r[i];
		uint32_t idx = r->first;

		if (atomic_load(&g->region_gone[i]))
			continue; /* unmapped: nobody can read it any more */
		while (!rc && idx < r->first + r->nr)
			rc = drain_window(w, r, look_for_pages(w, r, &idx), err);
	}
	return rc;
}

static int drain_passes(struct guest *g, bool watch, struct ebb_err *err)
{
	_cleanup_free_ struct out *window = malloc(WINDOW * sizeof(*window));
	_cleanup_free_ char *buf = aligned_alloc(EBB_PAGE_SIZE, RUN * EBB_PAGE_SIZE);
	struct work w = {.g = g, .watch = watch, .window = window, .buf = buf};
	int rc;

	if (!window || !buf)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	do {
		rc = is_called_off(g) ? ebb_err_set(err, -ECANCELED, "%s: called off", g->name) :
					drain_pass(&w, err);
		if (!rc && w.left)
			usleep(1000);
	} while (!rc && w.left);
	return rc;
}

/* --- the whole ------------------------------------------------------------------------------ */

int guest_check_room(struct guest *g, struct ebb_err *err)
{
	uint64_t bytes = pages_to_bytes(atomic_load(&g->evicted_pages));
	struct ebb_err why;
	struct headroom h;
	int rc = headroom_read(g->id.pid, g->drain_reserve, &h);

	if (rc)
		return ebb_err_set(err, rc, "%s: cannot tell how much memory is free: %s", g->name,
				   strerror(-rc));
	rc = headroom_check(&h, bytes, &why);
	return rc ? ebb_err_set(err, rc, "%s: %.440s", g->name, why.msg) : 0;
}

static void tell_end(struct guest *g, int rc)
{
	const char *reason = !rc	      ? "done" :
			     rc == -ECANCELED ? "aborted" :
			     rc == -ENOSPC    ? "no-room" :
			     rc == -ESRCH     ? "exited" :
						"error";

	guest_event(g, "DRAIN_ENDED",
		    json_pack("{s:s,s:I}", "reason", reason, "left",
			      (json_int_t)pages_to_bytes(atomic_load(&g->evicted_pages))));
}

/* Not all came back: manage the guest under @limit. */
static void manage_again(struct guest *g, uint32_t limit, bool was_failed)
{
	int draining = GUEST_DRAINING;

	guest_apply_limit(g, limit);
	if (evictor_start(g, NULL))
		log_err("%s: the limit is not kept: no eviction thread", g->name);
	atomic_compare_exchange_strong(&g->phase, &draining, was_failed ? GUEST_FAILED : GUEST_MANAGED);
}

int guest_drain(struct guest *g, bool watch, struct ebb_err *err)
{
	int managed = GUEST_MANAGED, failed = GUEST_FAILED, rc;
	uint32_t limit = atomic_load(&g->limit);
	bool was_failed = atomic_load(&g->phase) == GUEST_FAILED;

	if (watch && (rc = guest_check_room(g, err)))
		return rc;
	if (!atomic_compare_exchange_strong(&g->phase, &managed, GUEST_DRAINING) &&
	    !atomic_compare_exchange_strong(&g->phase, &failed, GUEST_DRAINING))
		return ebb_err_set(err, -EBUSY, "%s: is being let go already", g->name);
	atomic_store(&g->drain.abort, false);
	atomic_store(&g->drain.total, atomic_load(&g->evicted_pages));
	atomic_store(&g->drain.begun_ns, guest_now_ns());
	atomic_store(&g->drain.runs, true);
	evictor_stop(g);
	guest_apply_limit(g, RECLAIM_NO_LIMIT); /* the file keeps it: a successor goes on under it */
	rc = drain_passes(g, watch, err);
	atomic_store(&g->drain.runs, false);
	if (rc && rc != -ESRCH)
		manage_again(g, limit, was_failed);
	tell_end(g, rc);
	return rc;
}

int guest_bring_back(struct guest *g, bool watch, struct ebb_err *err)
{
	uint32_t limit = atomic_load(&g->limit), kept;
	bool was_failed = atomic_load(&g->phase) == GUEST_FAILED;
	int rc = guest_drain(g, watch, err);

	if (!rc) {
		guest_set_limit(g, RECLAIM_NO_LIMIT);
		manage_again(g, RECLAIM_NO_LIMIT, was_failed);
	} else if (rc != -ESRCH && rc != -EBUSY && limit != RECLAIM_NO_LIMIT &&
		   (kept = atomic_load(&g->resident)) > limit) {
		/* What has come back stays: a second drain goes on from here. */
		guest_set_limit(g, MIN(kept, g->pt.nr));
	}
	return rc;
}
