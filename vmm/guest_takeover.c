// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * guest_takeover.c - go on with a guest whose daemon died, at whatever step it died.
 *
 * DOC: the order, and what each step rests on
 *
 *   1. lock the store     the dead daemon's last write and last system call are over: nothing of it can
 *                         still change a slot, a hole or a PTE
 *   2. same VMM?          pid, start time, and the memfds' inodes, else the files are swept
 *   3. descriptors        fetched again by number from the VMM, which kept them open
 *   4. ring idle, drain   the remote ring may still be zapping for the dead daemon, and waits until its
 *                         REMOVE is read; whatever REMOVE is read now may be that zap's, so none of them
 *                         frees a slot
 *   5. finish PUNCHING    the commit had been made: punch (again)
 *   6. settle FILLING     by what the memfd holds: the page went in, or the slot is still the truth
 *   7. slot map           rebuilt from the words; a slot named twice is refused
 *   8. un-WP everything   with an unread REMOVE this fails (EAGAIN): drain, then again
 *   9. WAKE everything    messages the dead daemon had read are raised anew
 *
 * Without a ring (4) the dead daemon's madvise ran in the VMM's main thread and may run still; no REMOVE is
 * trusted until an injected call of ours has returned from that thread (sampler_zap.c).
 *
 * Until 9 the guest's threads that need a page wait; all others run. The write protection of a page is
 * lifted (8) only after its word says RESIDENT, so a touched page is never taken for evictable.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/log.h>
#include "evictor.h"
#include "fault.h"
#include "guest_life.h"
#include "uffd.h"

#define LOCK_WAIT_MS 10000 /* a dead daemon's I/O took 40-70 ms; a slow disk can take seconds */
#define IDLE_WAIT_MS 10000

/* The store first: a state file that is left tells the next daemon of the store, not the reverse. */
static void sweep(const struct state *st)
{
	if (st->h->store_path[0])
		unlink(st->h->store_path);
	unlink(st->path);
}

/* A pid means something only where and when it was written down. */
static bool same_pid_namespace(const struct state_header *h)
{
	struct state_place here;

	return state_get_place(&here) == 0 && here.pid_ns == h->place.pid_ns &&
	       !memcmp(here.boot_id, h->place.boot_id, sizeof(here.boot_id));
}

/* Surely dead: also when the host has restarted since. */
static bool vmm_is_gone(const struct state_header *h)
{
	struct state_place here;
	struct proc_id id;

	if (state_get_place(&here) || here.pid_ns != h->place.pid_ns)
		return false;
	if (memcmp(here.boot_id, h->place.boot_id, sizeof(here.boot_id)))
		return true;
	return proc_identify(h->pid, &id, NULL) == -ESRCH || id.start_time != h->start_time;
}

static int wait_ring_idle(struct guest *g, struct ebb_err *err)
{
	for (int ms = 0; ms < IDLE_WAIT_MS; ms++) {
		guest_drain_blindly(g);
		if (g->rem.ring_fd < 0 || remote_idle(&g->rem)) {
			guest_drain_blindly(g);
			return 0;
		}
		usleep(1000);
	}
	return ebb_err_set(err, -ETIMEDOUT, "%s: the ring in the VMM does not come to rest", g->name);
}

static int settle_page(struct guest *g, const struct region *r, uint32_t idx)
{
	uint32_t word = page_table_load(&g->pt, idx);
	bool present = false;

	if (page_word_state(word) == PAGE_PUNCHING &&
	    fallocate(r->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)region_offset(r, idx), EBB_PAGE_SIZE))
		return -errno;
	if (page_word_state(word) == PAGE_FILLING)
		present = region_holds(r, idx);
	word = page_take_over(word, present);
	page_table_store_take_over(&g->pt, idx, word);
	if (page_word_is_counted(word)) {
		atomic_fetch_add(&g->resident, 1);
	} else if (page_word_state(word) == PAGE_EVICTED) {
		atomic_fetch_add(&g->evicted_pages, 1);
		if (page_word_arg(word) == PAGE_SLOT_ZERO)
			atomic_fetch_add(&g->zero_pages, 1);
	}
	if (page_slot_is_real(page_word_slot(word)) && !store_claim(&g->store, page_word_slot(word)))
		return -EUCLEAN;
	return 0;
}

static int settle_pages(struct guest *g, struct ebb_err *err)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		bool gone = atomic_load(&g->region_gone[i]);

		for (uint32_t idx = r->first; idx < r->first + r->nr; idx++) {
			int rc;

			if (gone) {
				page_table_store_take_over(&g->pt, idx,
							   page_word(PAGE_ABSENT, PAGE_SLOT_NONE));
				continue;
			}
			rc = settle_page(g, r, idx);

			if (rc == -EUCLEAN)
				return ebb_err_set(err, rc, "%s: page %u names a slot that another "
						   "page has: %s is damaged; left as it is", g->name,
						   idx, g->state.path);
			if (rc)
				return ebb_err_set(err, rc, "%s: page %u: punching: %s", g->name, idx,
						   strerror(-rc));
		}
	}
	return 0;
}

static int release_waiters(struct guest *g, struct ebb_err *err)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		size_t len = pages_to_bytes(r->nr);
		int rc;

		if (atomic_load(&g->region_gone[i]))
			continue;
		while ((rc = guest_writeprotect(g, r->hva, len, false)) == -EAGAIN) {
			guest_drain_blindly(g);
			usleep(20);
		}
		if (!rc)
			rc = uffd_wake(g->rem.uffd, r->hva, len);
		if (rc)
			return ebb_err_set(err, rc, "%s: region %s: cannot lift the protection: %s",
					   g->name, r->name, strerror(-rc));
	}
	return 0;
}

/* The region of @now that is @r, or NULL. */
static struct region *find_same(struct region_table *now, const struct region *r)
{
	for (unsigned int i = 0; i < now->nr; i++)
		if (now->r[i].hva <= r->hva && region_hva(r, r->first + r->nr) <=
		    now->r[i].hva + pages_to_bytes(now->r[i].nr) &&
		    now->r[i].ino == r->ino && now->r[i].dev == r->dev)
			return &now->r[i];
	return NULL;
}

static bool file_is_mapped(const struct region_table *now, const struct region *r)
{
	for (unsigned int i = 0; i < now->nr; i++)
		if (now->r[i].ino == r->ino && now->r[i].dev == r->dev)
			return true;
	return false;
}

/* Each region gets a memfd descriptor of its own; one that is not mapped any more was unplugged. */
static int match_regions(struct guest *g, struct region_table *now, struct ebb_err *err)
{
	state_regions(&g->state, &g->regions);
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		struct region *r = &g->regions.r[i], *same = find_same(now, r);

		if (same) {
			r->memfd = fcntl(same->memfd, F_DUPFD_CLOEXEC, 0);
			if (r->memfd < 0)
				return ebb_err_set(err, -errno, "%s: %s", g->name, strerror(errno));
		} else if (g->state.h->regions[i].gone || !file_is_mapped(now, r)) {
			g->state.h->regions[i].gone = 1;
			atomic_store(&g->region_gone[i], true);
			g->region_settled[i] = true;
		} else {
			return ebb_err_set(err, -EUCLEAN, "%s: region %s is not where it was", g->name,
					   r->name);
		}
	}
	return 0;
}

/* Is the process the one of the file, with the same RAM? Fetches the memfds. */
static int find_vmm(struct guest *g, struct ebb_err *err)
{
	const struct state_header *h = g->state.h;
	struct region_table now;
	int rc;

	rc = proc_identify(h->pid, &g->id, err);
	if (rc && rc != -ESRCH)
		return rc; /* not known to be dead: delete nothing */
	if (vmm_is_gone(h) || g->id.state == 'Z')
		return ebb_err_set(err, -ESRCH, "%s: the VM (pid %d) is gone", h->name, h->pid);
	if (!same_pid_namespace(h))
		return ebb_err_set(err, -EXDEV, "%s: belongs to another pid namespace; left as it is",
				   g->state.path);
	rc = guest_open_process(g, err);
	if (!rc)
		rc = proc_find_regions(h->pid, g->pidfd, &now, err);
	if (rc)
		return rc;
	rc = match_regions(g, &now, err);
	proc_close_regions(&now);
	return rc;
}

static int open_files(struct guest *g, const char *path, struct ebb_err *err)
{
	struct store_sums sums;
	int rc = state_open(&g->state, path, err);
	struct state_header *h = g->state.h;

	if (rc)
		return rc;
	snprintf(g->name, sizeof(g->name), "%.63s", h->name);
	snprintf(g->monitor, sizeof(g->monitor), "%.255s", h->monitor);
	sums = (struct store_sums){.v = g->state.sums, .fd = g->state.fd,
				   .offset = g->state.sums_offset};
	rc = store_reopen(&g->store, h->store_path, h->nr_slots, h->seed, &sums, LOCK_WAIT_MS, err);
	if (rc == -ENOENT && atomic_load(&h->phase) != STATE_MANAGED)
		rc = 0; /* it has no store yet, or no more: nothing is in it */
	if (rc == -ENOENT && vmm_is_gone(h))
		sweep(&g->state);
	return rc;
}

/*
 * The daemon died while attaching, or after it had brought everything back: nothing is evicted. Let the VMM
 * have its memory, which may still be registered.
 */
static int finish_letting_go(struct guest *g, struct ebb_err *err)
{
	const struct state_header *h = g->state.h;

	int rc = h->remote_uffd < 0 ? remote_find(h->pid, g->pidfd, &g->rem) :
				      remote_refetch(g->pidfd, h->remote_uffd, h->remote_ring,
						     &h->ring_params, &g->rem, err);

	if (rc == -EBADF && h->remote_ring >= 0) /* it died between closing the ring and the uffd */
		rc = remote_refetch(g->pidfd, h->remote_uffd, -1, &h->ring_params, &g->rem, err);
	if (rc && rc != -ENOENT && rc != -EBADF && rc != -ESRCH) /* those: closed already */
		return rc;
	if (g->rem.uffd >= 0) {
		guest_unregister(g);
		rc = guest_close_remote(g, err);
		if (rc)
			return rc;
	}
	sweep(&g->state);
	return ebb_err_set(err, -ESRCH, "%s: the daemon had died while attaching or letting go; let go",
			   g->name);
}

static int resume(struct guest *g, const struct guest_conf *conf, struct ebb_err *err)
{
	struct state_header *h = g->state.h;
	uint64_t begun = guest_now_ns();
	int rc;

	if ((rc = remote_refetch(g->pidfd, h->remote_uffd, h->remote_ring, &h->ring_params, &g->rem,
				 err)) ||
	    (rc = guest_init_core(g, conf, err)) || (rc = wait_ring_idle(g, err)) ||
	    (rc = settle_pages(g, err)) || (rc = release_waiters(g, err)))
		return rc;
	g->rem.stopped_ns = h->stopped_ns;
	atomic_store(&g->suspect, true); /* nobody watched meanwhile: look before the first batch */
	if (g->rem.ring_fd < 0)
		g->distrust_removes = guest_zap_begin(g, 0, UINT64_MAX);
	guest_set_limit(g, atomic_load(&h->limit));
	rc = fault_start(g, err);
	if (rc)
		return rc;
	guest_note_found(g);
	rc = evictor_start(g, err);
	if (rc) {
		fault_stop(g);
		return rc;
	}
	log_info("%s: took over pid %d in %llu us: %u pages resident, %u evicted", g->name, g->id.pid,
		 (unsigned long long)((guest_now_ns() - begun) / 1000), atomic_load(&g->resident),
		 atomic_load(&g->evicted_pages));
	return 0;
}

int guest_take_over(const char *path, const struct guest_conf *conf, struct guest **ret,
		    struct ebb_err *err)
{
	struct guest *g = guest_new(conf, err);
	int rc;

	if (!g)
		return -ENOMEM;
	rc = open_files(g, path, err);
	if (!rc) {
		rc = find_vmm(g, err);
		if (rc == -ESRCH)
			sweep(&g->state);
		else if (!rc && atomic_load(&g->state.h->phase) != STATE_MANAGED)
			rc = finish_letting_go(g, err);
		else if (!rc)
			rc = resume(g, conf, err);
	}
	if (rc) {
		guest_free(g, false);
		return rc;
	}
	*ret = g;
	return 0;
}
