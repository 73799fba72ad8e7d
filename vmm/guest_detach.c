// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * guest_detach.c - let a guest go: bring every page back first, or find that it has exited.
 *
 * DOC: draining
 *
 * The drain owns pages like the fault thread does, by EVICTED -> FILLING, and runs beside it: a fault on
 * a page being drained finds FILLING and is woken by the drain. With the evictor stopped and
 * the limit lifted, pages only come in, so passes over the table end. Only when none is left outside is
 * the memory unregistered; an unreadable slot ends the drain, and the guest stays managed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ebb/log.h>
#include "evictor.h"
#include "fault.h"
#include "guest_life.h"
#include "uffd.h"

#define DRAIN_RUN 64u

/* Own the pages from @idx that are evicted and adjoin on disk too; all-zero ones make their own runs. */
static uint32_t own_run(struct guest *g, const struct region *r, uint32_t idx, uint32_t *ret_slot)
{
	uint32_t first, nr = 0;

	if (!page_try_fill(&g->pt, idx, &first))
		return 0;
	nr = 1;
	while (nr < DRAIN_RUN && idx + nr < r->first + r->nr) {
		uint32_t want = page_slot_is_real(first) ? first + nr : first, got;

		if (page_table_load(&g->pt, idx + nr) != page_word(PAGE_EVICTED, want) ||
		    !page_try_fill(&g->pt, idx + nr, &got))
			break;
		if (got != want) {
			page_end_fill_failed(&g->pt, idx + nr);
			break;
		}
		nr++;
	}
	*ret_slot = first;
	return nr;
}

static int read_run(struct guest *g, uint32_t slot, uint32_t nr, char *buf)
{
	ssize_t want = (ssize_t)pages_to_bytes(nr);

	if (!page_slot_is_real(slot)) {
		memset(buf, 0, (size_t)want);
		return 0;
	}
	for (int tries = 0; tries < 3; tries++) {
		uint32_t good = 0;

		if (pread(g->store.fd, buf, (size_t)want, (off_t)store_offset(slot)) != want)
			continue;
		while (good < nr && store_sum_equal(g->store.sums.v[slot + good],
						    store_sum_page(&g->store, buf + pages_to_bytes(good))))
			good++;
		if (good == nr)
			return 0;
	}
	return -EIO;
}

static int install_run(struct guest *g, const struct region *r, uint32_t idx, uint32_t nr,
		       uint32_t slot, const char *buf)
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
		if (rc == -EAGAIN || rc == -ENOMEM)
			usleep(rc == -EAGAIN ? 20 : 1000);
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

static int drain_run(struct guest *g, const struct region *r, uint32_t idx, char *buf,
		     uint32_t *ret_nr, struct ebb_err *err)
{
	uint32_t slot, nr = own_run(g, r, idx, &slot);
	int rc;

	*ret_nr = MAX(nr, 1u);
	if (!nr)
		return 0;
	rc = read_run(g, slot, nr, buf);
	if (rc) {
		for (uint32_t i = 0; i < nr; i++)
			page_end_fill_failed(&g->pt, idx + i);
		/* Who faulted meanwhile was told nothing, for a fill was under way. */
		(void)uffd_wake(g->rem.uffd, region_hva(r, idx), pages_to_bytes(nr));
		guest_count(&g->c.read_errors, 1);
		return ebb_err_set(err, rc, "%s: %s: slots %u to %u can't be read; the guest stays "
				   "managed", g->name, g->store.path, slot, slot + nr - 1);
	}
	rc = install_run(g, r, idx, nr, slot, buf);
	if (rc == -EEXIST)
		guest_fail(g, "a page near %u was evicted, but the memfd holds one: somebody else "
			   "writes to the guest's memory", idx);
	return rc ? ebb_err_set(err, rc, "%s: bringing pages back: %s", g->name, strerror(-rc)) : 0;
}

/* One pass; *@ret_left: pages seen out, or on their way. */
static int drain_pass(struct guest *g, char *buf, uint32_t *ret_left, struct ebb_err *err)
{
	*ret_left = 0;
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];

		for (uint32_t idx = r->first, n = 1; idx < r->first + r->nr; idx += n) {
			enum page_state s = page_word_state(page_table_load(&g->pt, idx));
			int rc;

			n = 1;
			if (s == PAGE_RESIDENT || s == PAGE_ABSENT)
				continue;
			(*ret_left)++;
			if (s != PAGE_EVICTED)
				continue;
			rc = drain_run(g, r, idx, buf, &n, err);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int guest_drain(struct guest *g, struct ebb_err *err)
{
	char *buf = aligned_alloc(EBB_PAGE_SIZE, DRAIN_RUN * EBB_PAGE_SIZE);
	uint32_t left;
	int rc;

	if (!buf)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	do {
		rc = drain_pass(g, buf, &left, err);
		if (!rc && left)
			usleep(1000);
	} while (!rc && left);
	free(buf);
	return rc;
}

/* Two full drains of the uffd from now on: no VMM thread waits for us to read its event. */
static void wait_for_drains(struct guest *g)
{
	uint64_t until = atomic_load(&g->drains) + 2;

	while (atomic_load(&g->drains) < until) {
		guest_kick(g->fault_kick);
		usleep(100);
	}
}

int guest_detach(struct guest *g, struct ebb_err *err)
{
	int managed = GUEST_MANAGED, failed = GUEST_FAILED, rc;
	uint32_t limit = atomic_load(&g->limit);
	bool was_failed = atomic_load(&g->phase) == GUEST_FAILED;
	struct ebb_err close_err;

	if (!atomic_compare_exchange_strong(&g->phase, &managed, GUEST_DRAINING) &&
	    !atomic_compare_exchange_strong(&g->phase, &failed, GUEST_DRAINING))
		return ebb_err_set(err, -EBUSY, "%s: is being let go already", g->name);
	evictor_stop(g);
	guest_apply_limit(g, RECLAIM_NO_LIMIT); /* the file keeps it: a successor goes on under it */
	rc = guest_drain(g, err);
	if (rc && rc != -ESRCH) {
		int draining = GUEST_DRAINING;

		guest_apply_limit(g, limit);
		if (evictor_start(g, NULL))
			log_err("%s: the limit is not kept: no eviction thread", g->name);
		atomic_compare_exchange_strong(&g->phase, &draining,
					       was_failed ? GUEST_FAILED : GUEST_MANAGED);
		return rc;
	}
	atomic_store(&g->state.h->phase, STATE_DETACHED);
	guest_unregister(g);
	wait_for_drains(g);
	fault_stop(g);
	if (guest_close_remote(g, &close_err))
		log_warn("%s: %s", g->name, close_err.msg);
	log_info("%s: let go", g->name);
	return 0;
}

void guest_reap(struct guest *g)
{
	atomic_store(&g->phase, GUEST_GONE);
	evictor_stop(g);
	fault_stop(g);
	log_info("%s: VM has exited", g->name);
}
