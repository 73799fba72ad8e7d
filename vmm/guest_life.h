/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_life.h - steps that attach, take-over and detach share; private to vmm/guest_*.c.
 */
#ifndef VMM_GUEST_LIFE_H
#define VMM_GUEST_LIFE_H

#include "guest.h"

/** guest_new() - locks, eventfds and counters; nothing of the VMM yet */
struct guest *guest_new(const struct guest_conf *conf, struct ebb_err *err);

/** guest_open_process() - pidfd and pagemap of g->id; what PAGEMAP_SCAN can do here */
int guest_open_process(struct guest *g, struct ebb_err *err);

/** guest_init_core() - the page table over the mapped words, and an empty LRU */
int guest_init_core(struct guest *g, const struct guest_conf *conf, struct ebb_err *err);

/** guest_note_found() - the LRU learns of all RESIDENT pages; not yet known to other threads */
void guest_note_found(struct guest *g);

/** guest_unregister() - all regions; waiters wake, and without a fault thread the events are read */
void guest_unregister(struct guest *g);

/** guest_drain_blindly() - read and ignore whatever the uffd holds, but that memory is gone */
void guest_drain_blindly(struct guest *g);

/** guest_close_remote() - remote_close(), reading events the VMM's main thread may be waiting for */
int guest_close_remote(struct guest *g, struct ebb_err *err);

/**
 * guest_drain() - bring every evicted page back
 * @watch: only if there is room, and only as long as there is
 *
 * 0: none is out; the guest is DRAINING, without a limit or evictor. -ESRCH: the same, for the VMM has exited.
 * Else it is managed as before: -ECANCELED called off, -ENOSPC no room, or what the store said.
 */
int guest_drain(struct guest *g, bool watch, struct ebb_err *err);

#endif
