/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest.h - one managed VM: its RAM, its page words, its store, and what the threads share.
 *
 * DOC: threads and locks of a guest
 *
 *   fault thread  reads the uffd, fills pages; never waits for another thread, the monitor or a lock
 *                 that is held across I/O
 *   evictor       carries out batches
 *   sampler       (one for all guests) looks for accessed pages, ages
 *   main loop     attach, detach, limits, queries
 *
 *   lru_lock   the reclaim core; held for microseconds, never across a system call
 *   store.lock the slot map; the same
 *   zap_lock   the list of own zaps; the same
 *   ring_lock  the remote ring; held while a madvise runs. Not taken by the fault thread: a zap waits for
 *              the fault thread to read its REMOVE.
 *
 * No lock is taken while another is held. Pages are not locked: see page.h.
 */
#ifndef VMM_GUEST_H
#define VMM_GUEST_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <ebb/page.h>
#include <ebb/reclaim.h>
#include <reclaim/page_table.h>
#include "gate.h"
#include "hist.h"
#include "ioflow.h"
#include "pinguard.h"
#include "procmem.h"
#include "remote.h"
#include "state.h"
#include "store.h"

/** struct guest_conf - what a guest is attached with */
struct guest_conf {
	const char *name;    /* NULL: "pid-N" */
	const char *monitor; /* QMP socket, NULL: none */
	uint64_t limit;	     /* bytes, UINT64_MAX: none */
	const char *state_dir, *swap_dir;
	struct reclaim_policy policy;
	uint64_t seed; /* of RECLAIM_ORDER_RANDOM */
	bool any_process;
	struct pinguard *guard;	    /* NULL: --pin-guard=delay */
	unsigned int guard_delay_ms; /* with no guard: time between protection and copy */
	uint64_t drain_reserve; /* bytes of the host that a drain leaves; see headroom.h */
};

/** struct guest_counters - each has one writer thread or is bumped atomically */
struct guest_counters {
	_Atomic uint64_t faults, wp_faults, removes;
	_Atomic uint64_t refaults, prefetched, zero_filled;
	_Atomic uint64_t evicted, evicted_zero, evicted_clean, written;
	_Atomic uint64_t cancel_touched, cancel_pinned, cancel_busy, cancel_large, cancel_error;
	_Atomic uint64_t cancel_young;	     /* seen accessed, and spared */
	_Atomic uint64_t cancel_unprotected; /* the write protection did nothing */
	_Atomic uint64_t throttled;	     /* faults that had to wait for an eviction */
	_Atomic uint64_t over_limit;	     /* fills let over the limit: nothing could be evicted */
	_Atomic uint64_t discarded, hazards, again, read_errors, write_errors;
	_Atomic uint64_t sample_passes, sample_ns, sample_young;
};

/** struct own_zaps - ranges the sampler zapped, until no REMOVE of theirs can be unread */
#define OWN_ZAPS 64
struct own_zaps {
	struct {
		uint64_t start, end;
		uint64_t retire_at; /* drain count; UINT64_MAX while the zap runs */
	} z[OWN_ZAPS];
	unsigned int nr;
};

enum guest_phase { GUEST_MANAGED, GUEST_DRAINING, GUEST_FAILED, GUEST_GONE };

/** struct guest_drain - how far bringing all pages back is, for others to see; guest_drain.c */
struct guest_drain {
	_Atomic bool runs;
	_Atomic bool abort;	  /* somebody wants it to end early */
	_Atomic uint32_t total;	  /* pages that were out when it began */
	_Atomic uint64_t begun_ns;
};

struct fault;
struct evictor;

struct guest {
	char name[64];
	char monitor[256];
	struct proc_id id;
	int pidfd;
	struct region_table regions;
	struct remote rem;
	struct state state;
	struct store store;
	struct page_table pt;

	pthread_mutex_t lru_lock;
	struct reclaim *lru;
	size_t lru_size;

	_Atomic uint32_t resident; /* pages in the memfd, or promised to a fill */
	_Atomic uint32_t limit;	   /* pages, RECLAIM_NO_LIMIT */
	_Atomic uint32_t cap;	   /* what fills are held to: the limit, or more while it is being reached */
	_Atomic int phase;	   /* enum guest_phase */
	_Atomic uint32_t starved;  /* faults that wait for room under the limit */
	_Atomic uint32_t evict_above; /* resident pages above which the evictor has work */
	_Atomic bool evictor_idle; /* it sleeps: kick it */
	_Atomic uint64_t drains_begun; /* of the uffd: messages are being read and applied ... */
	_Atomic uint64_t drains;       /* ... and so many full drains are done */
	_Atomic uint32_t zero_pages; /* evicted pages that are all zeros */
	_Atomic uint32_t evicted_pages;
	pthread_mutex_t fail_lock;
	char failure[512]; /* why, when GUEST_FAILED; fail_lock */

	pthread_mutex_t zap_lock;
	struct own_zaps zaps;
	_Atomic bool region_gone[REGION_MAX]; /* unmapped by the VMM: see watch.h */
	bool region_settled[REGION_MAX];      /* ... and forgotten; the watcher's */
	bool thrashing; /* told so; the sampler's */
	bool zap_lost; /* one timed out: the sampler's */
	bool distrust_removes; /* after a take-over without a ring: see guest_takeover.c */
	pthread_mutex_t ring_lock;

	struct pinguard *guard;
	unsigned int guard_delay_ms;
	struct reclaim_policy policy; /* as set last; lru_lock */
	uint64_t last_drain_ns; /* the evictor's */
	_Atomic uint32_t split_idx; /* a page of a large folio to be split, UINT32_MAX: none */
	pthread_mutex_t mappers_lock;
	struct pin_mappers mappers[REGION_MAX]; /* by region: see watch.h */
	_Atomic bool suspect;			/* more references than that: eviction pauses */
	uint64_t foreign_since;
	uint64_t check_flags_at, scan_at; /* the watcher's */
	int pagemap_fd;
	bool has_pagemap_scan;
	int fault_kick;	  /* eventfd: the fault thread should look around */
	int evictor_kick; /* eventfd: the same for the evictor */

	struct guest_drain drain;
	uint64_t drain_reserve;
	_Atomic bool ending; /* the daemon ends: no drain may run, now or later */
	_Atomic uint32_t fault_reads; /* reads of the fault thread in flight */

	struct fault *fault;
	struct evictor *evictor;
	struct ioflow io;
	struct guest_counters c;
	struct hist fault_hist; /* message read to page installed */
	bool busy;	/* a long command works on it; daemon.lock */
	struct guest *next; /* daemon.lock */
};

uint64_t guest_now_ns(void);

static inline void guest_count(_Atomic uint64_t *c, uint64_t by)
{
	atomic_fetch_add_explicit(c, by, memory_order_relaxed);
}

/** guest_kick() - wake the thread that polls @eventfd */
void guest_kick(int eventfd);

/** guest_lock_lru() - the reclaim core is ours until guest_unlock_lru(), and knows what time it is */
void guest_lock_lru(struct guest *g);
void guest_unlock_lru(struct guest *g);

/**
 * guest_try_charge() - promise @nr pages to a fill, within the limit
 *
 * The promise comes before the page, so that the memfd never holds more than the limit.
 */
bool guest_try_charge(struct guest *g, uint32_t nr);

/** guest_has_slack() - room for @nr pages nobody asked for, without waking the evictor? */
bool guest_has_slack(const struct guest *g, uint32_t nr);

/** guest_charge() - the same without asking: the page is there, or must come */
void guest_charge(struct guest *g, uint32_t nr);

/** guest_uncharge() - @nr pages have left the memfd; wakes fills that wait */
void guest_uncharge(struct guest *g, uint32_t nr);

/**
 * guest_forget_page() - the VMM has discarded the page whose word is @word: slot, charge and LRU let it go
 *
 * False, and nothing changed, where the word is not @word any more, or is in somebody's hands.
 */
bool guest_forget_page(struct guest *g, uint32_t idx, uint32_t word);

/** guest_split_later() - the page is part of a large folio: have it split before it is tried again */
void guest_split_later(struct guest *g, uint32_t idx);

/** guest_apply_limit() - what guest_set_limit() does, but not for a successor of this daemon */
void guest_apply_limit(struct guest *g, uint32_t pages);

/**
 * guest_set_limit() - pages or RECLAIM_NO_LIMIT
 *
 * A guest already above the new limit is not stopped until it is below: fills are held to a cap that
 * starts where the guest is and follows the evictor down.
 */
void guest_set_limit(struct guest *g, uint32_t pages);

/**
 * guest_writeprotect() - uffd_writeprotect() of a range that may cross from one VMA to the next
 *
 * Before Linux 6.4 the kernel takes none of such a range (-ENOENT): it is halved until it fits.
 */
int guest_writeprotect(struct guest *g, uint64_t start, size_t len, bool on);

/**
 * guest_fail() - something happened that must not go on: stop the VM (QMP `stop`, else SIGSTOP), stop
 * evicting, keep every slot, say why. Any thread but one that holds a lock.
 */
void guest_fail(struct guest *g, const char *fmt, ...) __printf(2, 3);

/** guest_set_event_sink() - where guest_event() goes; set once, before any guest */
void guest_set_event_sink(void (*sink)(void *arg, const char *name, json_t *data), void *arg);

/** guest_event() - an event for the clients of the socket; @data is consumed */
void guest_event(struct guest *g, const char *name, json_t *data);

/* --- own zaps (sampler.c marks, fault.c asks) ------------------------------------------------- */

/** guest_zap_begin() - the range is about to be zapped; false when the list is full: try later */
bool guest_zap_begin(struct guest *g, uint64_t start, uint64_t end);

/** guest_zap_end() - the zaps begun within [@start, @end) are over */
void guest_zap_end(struct guest *g, uint64_t start, uint64_t end);

/** guest_zap_overlaps() - may a REMOVE of this range be our own? */
bool guest_zap_overlaps(struct guest *g, uint64_t start, uint64_t end);

struct uffd_msg;

/** guest_note_unmapped() - if @msg says that the VMM has unmapped or moved memory, take note */
void guest_note_unmapped(struct guest *g, const struct uffd_msg *msg);

/* --- life ----------------------------------------------------------------------------------- */

/**
 * guest_check_limit() - bytes (UINT64_MAX: none) to pages; a sentence when out of bounds
 *
 * At least 16 MiB, at most the guest's memory.
 */
int guest_check_limit(uint64_t bytes, uint32_t nr_pages, uint32_t *ret_pages, struct ebb_err *err);

/**
 * guest_attach() - take over the RAM of a running VMM
 *
 * Everything is checked first; on any refusal the VMM is as it was. Returns 0 and *@ret.
 */
int guest_attach(pid_t pid, const struct guest_conf *conf, struct guest **ret,
		 struct ebb_err *err);

/**
 * guest_take_over() - go on with a guest whose daemon died; @path: its state file
 *
 * -ESRCH: the VMM is gone, its files have been removed. -EBUSY: another daemon has it.
 */
int guest_take_over(const char *path, const struct guest_conf *conf, struct guest **ret,
		    struct ebb_err *err);

/** guest_check_room() - does what is out fit, into the host and the VMM's cgroup? -ENOSPC with a sentence */
int guest_check_room(struct guest *g, struct ebb_err *err);

/**
 * guest_bring_back() - bring every page back; the guest stays managed, without a limit from then on
 * @watch: refuse, or end early, when memory is short (-ENOSPC)
 *
 * Blocks; the guest runs on meanwhile. On failure (-ECANCELED: called off by g->drain.abort) what has come back stays:
 * the limit is raised to that, and a second call goes on from there.
 */
int guest_bring_back(struct guest *g, bool watch, struct ebb_err *err);

/**
 * guest_detach() - bring every page back, let go, remove the files
 * @watch: as above
 *
 * Blocks; the guest runs on meanwhile. On failure (a slot that can't be read) the guest stays managed and
 * nothing is lost. After success only guest_free() is left to do.
 */
int guest_detach(struct guest *g, bool watch, struct ebb_err *err);

/**
 * guest_hand_over() - finish what is under way and leave the guest to the next daemon; frees it
 *
 * From here on its threads wait where they touch a page that is out.
 */
void guest_hand_over(struct guest *g);

/** guest_reap() - the VMM has exited: stop the threads; then guest_free() */
void guest_reap(struct guest *g);

/** guest_free() - threads are stopped; @remove: the files are of no use any more */
void guest_free(struct guest *g, bool remove);

#endif
