// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * guest_attach.c - take over the RAM of a running VMM, step by step, each step undone on refusal.
 *
 * DOC: the steps
 *
 * Checks first (gate.h), then the files, then what touches the VMM: descriptors are planted (its main
 * thread stops, ~100 us), the RAM is registered. From here on a fault on a page that is not in the memfd
 * waits for us. The fault thread starts before the memfd is scanned for the pages it holds: a fault
 * meanwhile asks for zeros, the kernel answers EEXIST where a page is, and either way the page gets its
 * word exactly once, by compare-and-swap from ABSENT.
 *
 * A crash in between leaves a state file in phase ATTACHING: nothing has been evicted, and the next
 * daemon unregisters, closes and forgets (guest_takeover.c).
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/log.h>
#include "evictor.h"
#include "fault.h"
#include "guest_life.h"
#include "qmp.h"
#include "uffd.h"
#include "units.h"
#include "watch.h"

#define LIMIT_FLOOR (16ull << 20)
#define MONITOR_MS  5000

struct guest *guest_new(const struct guest_conf *conf, struct ebb_err *err)
{
	struct guest *g = calloc(1, sizeof(*g));

	if (!g) {
		ebb_err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	g->pidfd = g->pagemap_fd = g->state.fd = g->store.fd = -1;
	g->rem = (struct remote){.pidfd = -1, .uffd = -1, .remote_uffd = -1, .ring_fd = -1,
				 .remote_ring = -1};
	g->guard = conf->guard;
	g->guard_delay_ms = conf->guard_delay_ms;
	g->drain_reserve = conf->drain_reserve;
	g->policy = conf->policy;
	g->split_idx = UINT32_MAX;
	g->limit = g->cap = RECLAIM_NO_LIMIT;
	g->evict_above = RECLAIM_NO_LIMIT;
	ioflow_join(&g->io);
	pthread_mutex_init(&g->lru_lock, NULL);
	pthread_mutex_init(&g->zap_lock, NULL);
	pthread_mutex_init(&g->ring_lock, NULL);
	pthread_mutex_init(&g->fail_lock, NULL);
	pthread_mutex_init(&g->mappers_lock, NULL);
	g->fault_kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	g->evictor_kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (g->fault_kick < 0 || g->evictor_kick < 0) {
		ebb_err_set(err, -errno, "eventfd: %s", strerror(errno));
		guest_free(g, false);
		return NULL;
	}
	return g;
}

void guest_free(struct guest *g, bool remove)
{
	if (!g)
		return;
	ioflow_leave(&g->io);
	remote_forget(&g->rem);
	if (g->store.map) /* first: a state file without its store is swept, the reverse is not known of */
		store_close(&g->store, remove);
	if (g->state.h)
		state_close(&g->state, remove);
	proc_close_regions(&g->regions);
	if (g->pidfd >= 0)
		close(g->pidfd);
	if (g->pagemap_fd >= 0)
		close(g->pagemap_fd);
	if (g->fault_kick >= 0)
		close(g->fault_kick);
	if (g->evictor_kick >= 0)
		close(g->evictor_kick);
	if (g->lru)
		munmap(g->lru, g->lru_size);
	pthread_mutex_destroy(&g->lru_lock);
	pthread_mutex_destroy(&g->zap_lock);
	pthread_mutex_destroy(&g->ring_lock);
	pthread_mutex_destroy(&g->fail_lock);
	pthread_mutex_destroy(&g->mappers_lock);
	free(g);
}

int guest_open_process(struct guest *g, struct ebb_err *err)
{
	struct pm_scan_arg arg = {.size = sizeof(arg)};
	char path[64];

	g->pidfd = sys_pidfd_open(g->id.pid);
	if (g->pidfd < 0)
		return ebb_err_set(err, -errno, "process %d: %s", g->id.pid, strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/pagemap", g->id.pid);
	g->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (g->pagemap_fd < 0)
		return ebb_err_set(err, -errno, "%s: %s", path, strerror(errno));
	g->has_pagemap_scan = ioctl(g->pagemap_fd, PAGEMAP_SCAN, &arg) == 0;
	return 0;
}

int guest_init_core(struct guest *g, const struct guest_conf *conf, struct ebb_err *err)
{
	struct reclaim_conf rc = {
		.nr_pages = g->regions.nr_pages,
		.seed = conf->seed,
		.scan_cost = RECLAIM_SCAN_PER_YOUNG_PAGE, /* the zap sampler */
		.policy = conf->policy,
	};
	void *mem;

	g->pt = (struct page_table){.words = g->state.words, .nr = g->regions.nr_pages};
	g->lru_size = reclaim_size(rc.nr_pages);
	mem = mmap(NULL, g->lru_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	g->lru = reclaim_init(mem, g->lru_size, &rc, guest_now_ns());
	if (!g->lru) {
		munmap(mem, g->lru_size);
		return ebb_err_set(err, -EINVAL, "the reclaim core refused %u pages", rc.nr_pages);
	}
	return 0;
}

static bool name_is_good(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("_.:@+-", name[i]))
			return false;
	return len > 0 && len < sizeof(((struct guest *)0)->name);
}

static int check_names(struct guest *g, const struct guest_conf *conf, struct ebb_err *err)
{
	if (conf->name && !name_is_good(conf->name))
		return ebb_err_set(err, -EINVAL, "a name has 1 to 63 letters, digits and any of _.:@+-");
	if (conf->name)
		snprintf(g->name, sizeof(g->name), "%s", conf->name);
	else
		snprintf(g->name, sizeof(g->name), "pid-%d", g->id.pid);
	if (conf->monitor && strlen(conf->monitor) >= sizeof(g->monitor))
		return ebb_err_set(err, -EINVAL, "monitor: path too long");
	if (conf->monitor)
		snprintf(g->monitor, sizeof(g->monitor), "%s", conf->monitor);
	return 0;
}

int guest_check_limit(uint64_t bytes, uint32_t nr_pages, uint32_t *ret_pages, struct ebb_err *err)
{
	uint64_t size = pages_to_bytes(nr_pages);
	char text[32], other[32];

	if (bytes == UINT64_MAX) {
		*ret_pages = RECLAIM_NO_LIMIT;
		return 0;
	}
	if (bytes < LIMIT_FLOOR)
		return ebb_err_set(err, -EINVAL,
				   "a limit of %s is below the floor of %s: a guest needs that much to "
				   "make progress%s", units_format_bytes(bytes, text, sizeof(text)),
				   units_format_bytes(LIMIT_FLOOR, other, sizeof(other)),
				   bytes < 1 << 20 ? " (a number alone is bytes; 512M is 512 MiB)" : "");
	if (bytes > size)
		return ebb_err_set(err, -EINVAL,
				   "a limit of %s is above the guest's memory of %s; say none for no "
				   "limit", units_format_bytes(bytes, text, sizeof(text)),
				   units_format_bytes(size, other, sizeof(other)));
	*ret_pages = (uint32_t)bytes_to_pages(bytes);
	return 0;
}

/* Without the pin guard nothing tells a large folio, and punching a part of one can zero it silently. */
static int check_no_large_folios(struct ebb_err *err)
{
	char text[128] = "";
	int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

	if (fd >= 0)
		close(fd);
	if (n <= 0 || strstr(text, "[never]") || strstr(text, "[deny]"))
		return 0;
	return ebb_err_set(err, -EOPNOTSUPP,
			   "--pin-guard=delay needs shared memory without large pages: echo never > "
			   "/sys/kernel/mm/transparent_hugepage/shmem_enabled, and start the VM anew");
}

/* Everything that can be known without touching the VMM. */
static int check_all(struct guest *g, pid_t pid, const struct guest_conf *conf, uint32_t *ret_limit,
		     struct ebb_err *err)
{
	struct gate_options opt = {.any_process = conf->any_process, .monitor = conf->monitor};
	int rc;

	if ((rc = proc_identify(pid, &g->id, err)) || (rc = check_names(g, conf, err)) ||
	    (rc = gate_check_process(&g->id, &opt, err)) || (rc = guest_open_process(g, err)) ||
	    (rc = proc_find_regions(pid, g->pidfd, &g->regions, err)))
		return rc;
	if (conf->monitor &&
	    (rc = qmp_place_regions(conf->monitor, &g->regions, MONITOR_MS, err)))
		return rc;
	if ((rc = gate_check_regions(pid, &g->regions, err)))
		return rc;
	if (!conf->guard && (rc = check_no_large_folios(err)))
		return rc;
	return guest_check_limit(conf->limit, g->regions.nr_pages, ret_limit, err);
}

/*
 * A file under the name of ours that is no state file. Only if no userfaultfd is left in the process may it go: with
 * one, it may be of another version of ebbd, and all that is known of pages that are out.
 */
static void drop_broken_state(const struct guest *g)
{
	struct remote found;
	struct state st;
	char path[sizeof(g->state.path)];
	int rc;

	snprintf(path, sizeof(path), "%.*s", (int)(strlen(g->state.path) - strlen(".tmp")),
		 g->state.path);
	rc = state_open(&st, path, NULL);
	if (!rc)
		state_close(&st, false);
	if (rc != -EPROTO)
		return;
	rc = remote_find(g->id.pid, g->pidfd, &found);
	if (!rc)
		remote_forget(&found);
	if (rc != -ENOENT)
		return;
	log_warn("%s: no state file, removed", path);
	unlink(path);
}

static int create_files(struct guest *g, const struct guest_conf *conf, struct ebb_err *err)
{
	uint64_t slots = store_slots_for(g->regions.nr_pages), seed;
	struct state_header *h;
	struct store_sums sums;
	int rc;

	if (slots > PAGE_SLOT_MAX)
		return ebb_err_set(err, -E2BIG, "the guest's memory is larger than a store can hold");
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return ebb_err_set(err, -EIO, "no random seed");
	rc = state_create(&g->state, conf->state_dir, &g->id, &g->regions, (uint32_t)slots, err);
	if (rc)
		return rc;
	h = g->state.h;
	h->seed = seed;
	snprintf(h->name, sizeof(h->name), "%s", g->name);
	snprintf(h->monitor, sizeof(h->monitor), "%s", g->monitor);
	rc = store_make_path(h->store_path, sizeof(h->store_path), conf->swap_dir, g->id.pid,
			     g->id.start_time, h->place.pid_ns);
	if (rc)
		return ebb_err_set(err, rc, "swap directory %s: path too long", conf->swap_dir);
	drop_broken_state(g);
	rc = state_publish(&g->state, err);
	if (rc)
		return rc;
	sums = (struct store_sums){.v = g->state.sums, .fd = g->state.fd,
				   .offset = g->state.sums_offset};
	return store_create(&g->store, h->store_path, (uint32_t)slots, seed, &sums, err);
}

void guest_unregister(struct guest *g)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];

		(void)uffd_unregister(g->rem.uffd, r->hva, pages_to_bytes(r->nr));
	}
	if (!g->fault)
		guest_drain_blindly(g);
}

void guest_drain_blindly(struct guest *g)
{
	struct uffd_msg msgs[64];
	ssize_t n;

	while ((n = read(g->rem.uffd, msgs, sizeof(msgs))) > 0)
		for (size_t i = 0; i < (size_t)n / sizeof(msgs[0]); i++)
			guest_note_unmapped(g, &msgs[i]);
}

/*
 * A thread of the VMM may have begun to discard memory before it was unregistered, and wait for its event to be
 * read; if that is the main thread, it can't be stopped to close the descriptors until it is.
 */
int guest_close_remote(struct guest *g, struct ebb_err *err)
{
	int rc;

	for (int tries = 0;; tries++) {
		if (g->rem.uffd >= 0)
			guest_drain_blindly(g);
		rc = remote_close(g->id.pid, &g->rem, err);
		if (rc != -ETIMEDOUT || tries == 5)
			return rc;
	}
}

static int register_regions(struct guest *g, struct ebb_err *err)
{
	int rc = uffd_enable(g->rem.uffd);

	if (rc)
		return ebb_err_set(err, rc, "this kernel's userfaultfd lacks write protection, missing "
				   "faults on shmem or remove events: %s", strerror(-rc));
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];

		rc = uffd_register(g->rem.uffd, r->hva, pages_to_bytes(r->nr));
		if (rc)
			return ebb_err_set(err, rc, "region %s: cannot register: %s", r->name,
					   rc == -EBUSY ? "another userfaultfd has it (postcopy "
							  "migration, a snapshot, another tool)" :
							  strerror(-rc));
	}
	return proc_check_vmflags(g->id.pid, &g->regions, err);
}

/* Large pages would come back by khugepaged and can't be punched in part: ask for none. */
static void forbid_large_pages(struct guest *g)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		int rc = remote_madvise(&g->rem, g->id.pid, r->hva, pages_to_bytes(r->nr),
					MADV_NOHUGEPAGE);

		if (rc && rc != -EINVAL) /* EINVAL: a kernel without THP */
			log_warn("%s: region %s: cannot ask for small pages: %s", g->name, r->name,
				 strerror(-rc));
	}
}

static int plant(struct guest *g, struct ebb_err *err)
{
	struct state_header *h = g->state.h;
	int rc = remote_open(g->id.pid, g->pidfd, &g->rem, err);

	if (rc)
		return rc;
	h->remote_uffd = g->rem.remote_uffd;
	h->remote_ring = g->rem.ring_fd >= 0 ? g->rem.remote_ring : -1;
	h->ring_params = g->rem.ring_params;
	h->stopped_ns = g->rem.stopped_ns;
	snprintf(h->how, sizeof(h->how), "%s", g->rem.how);
	rc = register_regions(g, err);
	if (!rc) /* again: somebody may have mapped it since the first look */
		rc = gate_check_regions(g->id.pid, &g->regions, err);
	if (rc) {
		guest_unregister(g);
		(void)guest_close_remote(g, NULL);
		return rc;
	}
	forbid_large_pages(g);
	watch_baseline(g);
	return 0;
}

/* Every page the memfd holds gets its word, unless a fault was faster. */
static void scan_present(struct guest *g, const struct region *r)
{
	uint64_t end = region_offset(r, r->first + r->nr);
	off_t data = (off_t)r->file_off, hole;

	while ((data = lseek(r->memfd, data, SEEK_DATA)) >= 0 && (uint64_t)data < end) {
		uint32_t idx = r->first + (uint32_t)(((uint64_t)data - r->file_off) >> EBB_PAGE_SHIFT);
		uint32_t to;

		hole = lseek(r->memfd, data, SEEK_HOLE);
		if (hole < 0 || (uint64_t)hole > end)
			hole = (off_t)end;
		to = r->first + (uint32_t)(((uint64_t)hole - r->file_off) >> EBB_PAGE_SHIFT);
		for (; idx < to; idx++)
			if (page_try_found(&g->pt, idx))
				guest_charge(g, 1);
		data = hole;
	}
}

void guest_note_found(struct guest *g)
{
	for (uint32_t idx = 0; idx < g->pt.nr; idx++) {
		uint32_t n = 0;

		guest_lock_lru(g); /* in small steps: faults go on */
		for (; idx + n < g->pt.nr && n < 512; n++)
			if (page_word_state(page_table_load(&g->pt, idx + n)) == PAGE_RESIDENT)
				reclaim_note_resident(g->lru, idx + n, 1, RECLAIM_FOUND);
		guest_unlock_lru(g);
		idx += n - 1;
	}
}

static int start(struct guest *g, uint32_t limit, struct ebb_err *err)
{
	int rc;

	guest_set_limit(g, limit); /* before the first fault: it holds from the first instruction */
	rc = fault_start(g, err);
	if (rc)
		return rc;
	for (unsigned int i = 0; i < g->regions.nr; i++)
		scan_present(g, &g->regions.r[i]);
	guest_note_found(g);
	guest_set_limit(g, limit); /* again: what was found may be above it */
	atomic_store(&g->state.h->phase, STATE_MANAGED);
	rc = evictor_start(g, err);
	if (rc) {
		guest_unregister(g);
		fault_stop(g);
	}
	return rc;
}

int guest_attach(pid_t pid, const struct guest_conf *conf, struct guest **ret, struct ebb_err *err)
{
	struct guest *g = guest_new(conf, err);
	struct ebb_err warning;
	uint32_t limit;
	int rc;

	if (!g)
		return -ENOMEM;
	if ((rc = check_all(g, pid, conf, &limit, err)) || (rc = create_files(g, conf, err)) ||
	    (rc = guest_init_core(g, conf, err)) || (rc = plant(g, err)))
		goto fail;
	rc = start(g, limit, err);
	if (rc) {
		guest_unregister(g);
		(void)guest_close_remote(g, NULL);
		goto fail;
	}
	log_info("%s: attached pid %d, %u MiB in %u region(s), by %s, VM's main thread stopped %llu us",
		 g->name, pid, g->pt.nr >> 8, g->regions.nr, g->rem.how,
		 (unsigned long long)(g->rem.stopped_ns / 1000));
	if (conf->limit != UINT64_MAX && gate_warn_cgroup(pid, conf->limit, &warning))
		log_warn("%s: %s", g->name, warning.msg);
	*ret = g;
	return 0;
fail:
	guest_free(g, true);
	return rc;
}
