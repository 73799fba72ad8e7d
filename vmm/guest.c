// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * guest.c - what the threads of a guest share: the charge, the list of own zaps, failing, events.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <ebb/log.h>
#include "guest.h"
#include "qmp.h"
#include "uffd.h"

/* Pages a guest above its new limit may go above where it is: a few batches of the evictor. */
#define CAP_SLACK 256u

static void (*event_sink)(void *arg, const char *name, json_t *data);
static void *event_arg;

uint64_t guest_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void guest_kick(int eventfd)
{
	uint64_t one = 1;

	while (write(eventfd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* --- charge --------------------------------------------------------------------------------- */

static void wake_evictor(struct guest *g, uint32_t resident)
{
	if (resident > atomic_load_explicit(&g->evict_above, memory_order_relaxed) &&
	    atomic_load(&g->evictor_idle) && atomic_exchange(&g->evictor_idle, false))
		guest_kick(g->evictor_kick);
}

bool guest_try_charge(struct guest *g, uint32_t nr)
{
	/* A cap below the limit is one of an older limit, stored late. */
	uint32_t cap = MAX(atomic_load_explicit(&g->cap, memory_order_relaxed),
			   atomic_load_explicit(&g->limit, memory_order_relaxed));
	uint32_t resident = atomic_load(&g->resident);

	do {
		if (cap != RECLAIM_NO_LIMIT && (uint64_t)resident + nr > cap) {
			wake_evictor(g, UINT32_MAX);
			return false;
		}
	} while (!atomic_compare_exchange_weak(&g->resident, &resident, resident + nr));
	wake_evictor(g, resident + nr);
	return true;
}

bool guest_has_slack(const struct guest *g, uint32_t nr)
{
	uint64_t high = atomic_load_explicit(&g->evict_above, memory_order_relaxed);
	uint64_t limit = atomic_load_explicit(&g->limit, memory_order_relaxed);

	return (uint64_t)atomic_load(&g->resident) + nr <= (high + 3 * limit) / 4;
}

void guest_charge(struct guest *g, uint32_t nr)
{
	wake_evictor(g, atomic_fetch_add(&g->resident, nr) + nr);
}

/* Near the limit there is little slack left, so that the guest ends at it rather than around it. */
static uint32_t cap_for(uint32_t limit, uint32_t resident)
{
	if (limit == RECLAIM_NO_LIMIT || resident <= limit)
		return limit;
	return resident + MIN(CAP_SLACK, (resident - limit) / 2);
}

/* The cap follows the guest down to its limit, a little above it so that faults go on meanwhile. */
static void lower_cap(struct guest *g, uint32_t resident, uint32_t evicted)
{
	uint32_t limit = atomic_load(&g->limit), cap = atomic_load(&g->cap);
	uint32_t to = cap_for(limit, resident);

	/* Down in any case, by half of what went, though faults may have taken all of it back. */
	if (limit != RECLAIM_NO_LIMIT && cap != RECLAIM_NO_LIMIT && cap > evicted / 2)
		to = MAX(limit, MIN(to, cap - evicted / 2));
	while (cap > to && !atomic_compare_exchange_weak(&g->cap, &cap, to))
		;
}

void guest_uncharge(struct guest *g, uint32_t nr)
{
	uint32_t resident;

	if (!nr)
		return;
	resident = atomic_fetch_sub(&g->resident, nr) - nr;
	if (atomic_load_explicit(&g->cap, memory_order_relaxed) !=
	    atomic_load_explicit(&g->limit, memory_order_relaxed))
		lower_cap(g, resident, nr);
	if (atomic_load(&g->starved))
		guest_kick(g->fault_kick);
}

void guest_set_limit(struct guest *g, uint32_t pages)
{
	atomic_store(&g->state.h->limit, pages);
	guest_apply_limit(g, pages);
}

void guest_lock_lru(struct guest *g)
{
	pthread_mutex_lock(&g->lru_lock);
	reclaim_tick(g->lru, guest_now_ns());
}

void guest_unlock_lru(struct guest *g)
{
	pthread_mutex_unlock(&g->lru_lock);
}

void guest_apply_limit(struct guest *g, uint32_t pages)
{
	guest_lock_lru(g);
	reclaim_set_limit(g->lru, pages);
	atomic_store(&g->evict_above, reclaim_high_watermark(g->lru));
	guest_unlock_lru(g);
	atomic_store(&g->limit, pages);
	atomic_store(&g->cap, cap_for(pages, atomic_load(&g->resident)));
	guest_kick(g->evictor_kick);
	guest_kick(g->fault_kick);
}

void guest_split_later(struct guest *g, uint32_t idx)
{
	atomic_store(&g->split_idx, idx);
}

bool guest_forget_page(struct guest *g, uint32_t idx, uint32_t word)
{
	if (!page_try_discard(&g->pt, idx, word))
		return false;
	store_release(&g->store, page_word_arg(word));
	if (page_word_state(word) == PAGE_EVICTED) {
		atomic_fetch_sub(&g->evicted_pages, 1);
		if (page_word_arg(word) == PAGE_SLOT_ZERO)
			atomic_fetch_sub(&g->zero_pages, 1);
		return true;
	}
	guest_uncharge(g, 1);
	guest_lock_lru(g);
	reclaim_note_gone(g->lru, idx, 1);
	guest_unlock_lru(g);
	return true;
}

int guest_writeprotect(struct guest *g, uint64_t start, size_t len, bool on)
{
	int rc = uffd_writeprotect(g->rem.uffd, start, len, on);
	size_t half = (len / 2) & ~(EBB_PAGE_SIZE - 1);

	if (rc != -ENOENT || !half)
		return rc;
	rc = guest_writeprotect(g, start, half, on);
	return rc ? rc : guest_writeprotect(g, start + half, len - half, on);
}

/* --- own zaps ------------------------------------------------------------------------------- */

bool guest_zap_begin(struct guest *g, uint64_t start, uint64_t end)
{
	struct own_zaps *z = &g->zaps;
	uint64_t drains = atomic_load(&g->drains);
	unsigned int kept = 0;
	bool room;

	pthread_mutex_lock(&g->zap_lock);
	for (unsigned int i = 0; i < z->nr; i++)
		if (z->z[i].retire_at > drains)
			z->z[kept++] = z->z[i];
	z->nr = kept;
	room = z->nr < OWN_ZAPS;
	if (room) {
		z->z[z->nr].start = start;
		z->z[z->nr].end = end;
		z->z[z->nr++].retire_at = UINT64_MAX;
	}
	pthread_mutex_unlock(&g->zap_lock);
	return room;
}

void guest_zap_end(struct guest *g, uint64_t start, uint64_t end)
{
	struct own_zaps *z = &g->zaps;

	pthread_mutex_lock(&g->zap_lock);
	for (unsigned int i = 0; i < z->nr; i++)
		if (z->z[i].start >= start && z->z[i].end <= end &&
		    z->z[i].retire_at == UINT64_MAX)
			/*
			 * Each REMOVE of the zap has been read by now (the kernel waited for that), in a
			 * drain that may not have been counted yet; the one after it is surely later.
			 */
			z->z[i].retire_at = atomic_load(&g->drains) + 2;
	pthread_mutex_unlock(&g->zap_lock);
}

bool guest_zap_overlaps(struct guest *g, uint64_t start, uint64_t end)
{
	const struct own_zaps *z = &g->zaps;
	uint64_t drains = atomic_load(&g->drains);
	bool found = false;

	pthread_mutex_lock(&g->zap_lock);
	for (unsigned int i = 0; i < z->nr && !found; i++)
		found = z->z[i].retire_at > drains && z->z[i].start < end && start < z->z[i].end;
	pthread_mutex_unlock(&g->zap_lock);
	return found;
}

static void note_gone(struct guest *g, uint64_t start, uint64_t end, bool moved)
{
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];

		if (r->hva >= end || start >= region_hva(r, r->first + r->nr))
			continue;
		atomic_store(&g->region_gone[i], true); /* no zap, no fill, no eviction from now on */
		if (moved)
			guest_fail(g, "region %s: the VMM has moved its memory (mremap)", r->name);
	}
}

void guest_note_unmapped(struct guest *g, const struct uffd_msg *msg)
{
	if (msg->event == UFFD_EVENT_UNMAP)
		note_gone(g, msg->arg.remove.start, msg->arg.remove.end, false);
	else if (msg->event == UFFD_EVENT_REMAP)
		note_gone(g, msg->arg.remap.from, msg->arg.remap.from + msg->arg.remap.len, true);
}

/* --- failing and telling -------------------------------------------------------------------- */

void guest_set_event_sink(void (*sink)(void *arg, const char *name, json_t *data), void *arg)
{
	event_sink = sink;
	event_arg = arg;
}

void guest_event(struct guest *g, const char *name, json_t *data)
{
	if (!event_sink) {
		json_decref(data);
		return;
	}
	if (!data)
		data = json_object();
	json_object_set_new(data, "name", json_string(g->name));
	event_sink(event_arg, name, data);
}

struct stop_order {
	char monitor[256];
	char name[64];
	int pidfd;
};

/* The monitor may not answer (its thread may be the one that waits for a page): then SIGSTOP. */
static void *stop_vm(void *arg)
{
	struct stop_order *o = arg;
	struct ebb_err err;

	if (!o->monitor[0] || qmp_execute(o->monitor, "stop", NULL, 2000, NULL, &err)) {
		if (syscall(SYS_pidfd_send_signal, o->pidfd, SIGSTOP, NULL, 0))
			log_err("%s: cannot stop the VM: %s", o->name, strerror(errno));
		else
			log_err("%s: VM stopped by SIGSTOP; SIGCONT lets it go on", o->name);
	} else {
		log_err("%s: VM stopped over QMP; `cont` lets it go on", o->name);
	}
	close(o->pidfd);
	free(o);
	return NULL;
}

static void stop_vm_from_thread(struct guest *g)
{
	struct stop_order *o = calloc(1, sizeof(*o));
	pthread_attr_t attr;
	pthread_t thread;

	if (!o)
		return;
	snprintf(o->monitor, sizeof(o->monitor), "%s", g->monitor);
	snprintf(o->name, sizeof(o->name), "%s", g->name);
	o->pidfd = fcntl(g->pidfd, F_DUPFD_CLOEXEC, 0);
	if (o->pidfd < 0) {
		log_err("%s: cannot stop the VM: %s", g->name, strerror(errno));
		free(o);
		return;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, stop_vm, o))
		stop_vm(o);
	pthread_attr_destroy(&attr);
}

void guest_fail(struct guest *g, const char *fmt, ...)
{
	int managed = GUEST_MANAGED, draining = GUEST_DRAINING;
	char why[sizeof(g->failure)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	guest_count(&g->c.hazards, 1);
	log_limited(LOG_LVL_ERR, "%s: %s", g->name, why);
	pthread_mutex_lock(&g->fail_lock); /* the reason is there before the phase says so */
	if (!g->failure[0])
		memcpy(g->failure, why, sizeof(why));
	pthread_mutex_unlock(&g->fail_lock);
	if (!atomic_compare_exchange_strong(&g->phase, &managed, GUEST_FAILED) &&
	    !atomic_compare_exchange_strong(&g->phase, &draining, GUEST_FAILED))
		return;
	stop_vm_from_thread(g);
	guest_event(g, "HAZARD", json_pack("{s:s}", "reason", why));
}
