/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ioflow.h - the I/O of the guests as one disk sees it: counted by their threads, held to shares.
 *
 * DOC: threads
 *
 * A guest's fault thread and evictor count what they complete, and look at the window before they begin
 * something: atomics, no lock. Whoever calls ioflow_update() (the sampler, ten times a second) collects the counts
 * of all flows and lets reclaim/ set the windows. A window is looked at by the thread that has the
 * I/O in flight which it waits for, so a closed one is always followed by a completion that wakes it.
 *
 * All stores of a daemon lie in one directory, hence on one disk.
 */
#ifndef VMM_IOFLOW_H
#define VMM_IOFLOW_H

#include <stdatomic.h>
#include <ebb/reclaim_io.h>

/** struct ioflow - one guest's; zeroed, then ioflow_join() */
struct ioflow {
	struct io_flow share;	 /* the updater's; first, for its list is ours */
	_Atomic uint32_t window, pause_ns; /* see struct io_flow */
	_Atomic uint64_t next_ns;	   /* not before that may the next operation begin */
	_Atomic uint32_t ops[IO_NR_CLASSES];
	_Atomic uint64_t pages[IO_NR_CLASSES], ns[IO_NR_CLASSES];
	_Atomic uint64_t held;	    /* faults that waited for the window */
	_Atomic uint64_t narrow_ns; /* time in which it was not wide open */
};

/** ioflow_join() - @flow shares the disk until ioflow_leave(); after a leave it may join again */
void ioflow_join(struct ioflow *flow);
void ioflow_leave(struct ioflow *flow);

/** ioflow_set_enabled() - on to begin with; when off, all windows are open at the next update */
void ioflow_set_enabled(bool enabled);

/** ioflow_update() - new windows for all; any thread, some 10 ms to some 100 ms apart */
void ioflow_update(uint64_t now_ns);

/** ioflow_note() - an operation on @pages took @ns from its submission to when it was seen to be done */
void ioflow_note(struct ioflow *flow, enum io_class class, uint32_t pages, uint64_t ns);

/** ioflow_pause() - ns until the next operation may begin; 0: now */
uint64_t ioflow_pause(const struct ioflow *flow);

/** ioflow_may_read() - one more read, with @in_flight running? For 0, only a pause can be in the way */
static inline bool ioflow_may_read(const struct ioflow *flow, uint32_t in_flight)
{
	return in_flight < atomic_load_explicit(&flow->window, memory_order_relaxed) &&
	       !ioflow_pause(flow);
}

/** ioflow_batches() - of @most eviction batches, how many may run at once: 1 at least but in a pause */
uint32_t ioflow_batches(const struct ioflow *flow, uint32_t most);

/** ioflow_begin() - an operation on @pages begins: the next pause is reckoned from it */
void ioflow_begin(struct ioflow *flow, uint32_t pages);

#endif
