/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * watch.h - what must be looked at again while a guest is managed: other mappers of its memory, large pages.
 *
 * DOC: a second mapper
 *
 * A process that maps the guest's memfd without our userfaultfd reads zeros where a page is evicted,
 * and by reading populates it. The gate refuses such a guest, but one can appear later (a vhost-user
 * device is plugged in). Three looks, each cheaper and later than it could be wrong:
 *
 *   each batch    the pin guard's BPF program also counts the references to the memfd (no extra cost).
 *                 More than the baseline: the batch is cancelled and eviction pauses.
 *   watch_guest() then scans /proc (milliseconds): nobody foreign (the VMM split a mapping of its own):
 *                 new baseline, eviction goes on. Somebody, for half a second: the guest is unfit and
 *                 is let go, all its pages brought back, with an event that names the process.
 *   COPY          EEXIST over an evicted page: too late for both; the VM is stopped, the slot kept.
 *
 * Memory the VMM unmaps: the kernel tells (UNMAP), and waits until the fault thread has read it. From that
 * moment the region is neither sampled, filled nor evicted. Unplugged memory is then forgotten.
 *
 * Once a minute the VmFlags are read again: memory the VMM has mapped anew is not registered any more, and
 * its evicted pages would read as zeros. That too stops the VM.
 */
#ifndef VMM_WATCH_H
#define VMM_WATCH_H

#include "guest.h"

/** watch_baseline() - the references of now are the VMM's and ours; after the gate's check */
void watch_baseline(struct guest *g);

/** watch_mappers() - evictor: has a memfd of region @r more references than the baseline? */
bool watch_mappers(struct guest *g, const struct region *r, const struct pin_mappers *now);

/** watch_guest() - sampler thread, ten times a second; false: let the guest go, *@why says why */
bool watch_guest(struct guest *g, struct ebb_err *why);

#endif
