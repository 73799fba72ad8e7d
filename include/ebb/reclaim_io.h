/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reclaim_io.h - whose I/O must wait, so that one guest's refaults do not slow all the others down.
 *
 * Facts in, decisions out: no system calls, threads, clock or allocation. One caller at a time.
 */
#ifndef EBB_RECLAIM_IO_H
#define EBB_RECLAIM_IO_H

#include <ebb/types.h>

#define IO_WINDOW_MAX 128u
#define IO_OP_PAGES   16u /* an operation costs the disk as much as moving so many pages */

enum io_class { IO_READ, IO_WRITE, IO_NR_CLASSES };

/** struct io_facts - what one guest's I/O was since the last update; in flight between both counts later */
struct io_facts {
	uint32_t ops[IO_NR_CLASSES];   /* completed */
	uint64_t pages[IO_NR_CLASSES]; /* that these moved */
	uint64_t ns[IO_NR_CLASSES];    /* sum of their latencies, in the device and before it */
};

/**
 * struct io_flow - one guest's part; zeroed, then io_flow_init()
 * @next: the caller's list of all guests with their stores on one disk
 * @weight: the caller may change it; at least 1
 * @facts: the caller's
 * @window: the answer: reads it may have in flight, 1..IO_WINDOW_MAX; writes in proportion
 * @pause_ns: and the time from the start of one operation to the next, for each page it moves and
 *            IO_OP_PAGES more; 0: none
 */
struct io_flow {
	struct io_flow *next;
	uint32_t weight;
	struct io_facts facts;
	uint32_t window;
	uint32_t pause_ns;
	/* no field below is for callers */
	double used; /* cost a second, fading */
	uint64_t active_ns;
	bool was_active;
};

void io_flow_init(struct io_flow *flow, uint32_t weight);

/** struct io_shares - one disk; zeroed */
struct io_shares {
	uint64_t last_ns, base_since_ns, peak_since_ns;
	uint64_t base_ns[IO_NR_CLASSES][2]; /* shortest latency in this span and the one before; 0: none */
	double peak[2];			    /* most that was used in all, the same */
};

/**
 * io_shares_update() - new windows, by what happened since the last call
 * @first: of the list, may be NULL
 * @now_ns: of any clock that does not go back; calls are some 10 ms to some 100 ms apart
 *
 * Sets @window and @pause_ns of each, and zeroes @facts.
 */
void io_shares_update(struct io_shares *io, struct io_flow *first, uint64_t now_ns);

#endif
