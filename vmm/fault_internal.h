/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault_internal.h - what the parts of the fault thread share; private to vmm/fault*.c.
 *
 *   fault.c         the thread: its loop, who is served when
 *   fault_event.c   messages of the uffd: faults remembered, discards and unmaps applied
 *   fault_zero.c    pages of zeros
 *   fault_store.c   pages from the store
 */
#ifndef VMM_FAULT_INTERNAL_H
#define VMM_FAULT_INTERNAL_H

#include <semaphore.h>
#include "fault.h"
#include "uffd.h"

#define FILL_RUN   16u	 /* pages a read at most: the measured best for read-ahead */
#define NR_FILLS   128u	 /* reads in flight */
#define NR_WAITING 8192u /* faults known and not served; beyond that they are woken to fault again */
#define READ_TRIES 3u
#define WAIT_NS	   5000000ull	/* for room or a state, before all that wait are looked at again */
#define RETRY_NS   500000000ull /* before a page is tried again that could not be read or installed */

/* A fault that found no room this long, while nothing could be evicted, is let over the limit: a guest
 * that waits for ever is worse than a limit that is missed, and it is counted and reported. */
#define STARVED_NS 2000000000ull

/** struct fill - a read in flight: pages first..first+nr-1 are FILLING from slot..slot+nr-1, and ours */
struct fill {
	uint32_t first, nr, slot;
	uint32_t tries;
	uint64_t since;
	uint64_t submitted_ns;
};

struct waiting {
	uint32_t idx;
	uint16_t msg; /* enum page_msg */
	bool is_held; /* for the guest's share of the disk */
	uint64_t since;
	uint64_t not_before;
};

struct fault {
	struct guest *g;
	pthread_t thread;
	sem_t started;
	int start_rc;
	_Atomic bool stop;
	struct io_uring ring;
	bool uffd_armed, kick_armed;
	bool soon; /* something waits for a state that ends within microseconds */
	uint32_t starved;
	unsigned int inflight;
	struct fill fills[NR_FILLS];
	unsigned int free_fills[NR_FILLS], nr_free;
	unsigned int nr_waiting;
	uint64_t progress_evicted, progress_ns; /* when an eviction was last seen */
	uint64_t write_errors, error_ns;	/* when a write was last seen to fail ... */
	uint64_t failing_since;			/* ... and the first of them; 0: none for STARVED_NS */
	bool stuck; /* none for STARVED_NS while faults starved: until the next they need not wait */
	struct waiting waiting[NR_WAITING];
	char *bounce; /* NR_FILLS x FILL_RUN pages */
};

enum served { SERVED, LATER, AGAIN };

enum { UD_UFFD = NR_FILLS, UD_KICK };

/* --- fault.c -------------------------------------------------------------------------------- */

/** fault_charge() - room for the page of a fault; false: wait for the evictor */
bool fault_charge(struct fault *f, const struct waiting *w);

/** fault_unprotect_page() - lift the write protection, whatever is queued meanwhile; wakes */
void fault_unprotect_page(struct fault *f, const struct region *r, uint32_t idx);

/* --- fault_event.c -------------------------------------------------------------------------- */

/** fault_drain() - read the uffd until it is empty; true if anything was read */
bool fault_drain(struct fault *f);

/** fault_again() - an ioctl said EAGAIN: an event waits to be read, or its sender has not run on yet */
void fault_again(struct fault *f, unsigned int *tries);

/* --- fault_zero.c --------------------------------------------------------------------------- */

/** fault_serve_zero() - zeros for a page that has none of its own: never touched, discarded, all zeros */
enum served fault_serve_zero(struct fault *f, const struct region *r, struct waiting *w,
			     uint32_t word);

/* --- fault_store.c -------------------------------------------------------------------------- */

enum served fault_serve_from_store(struct fault *f, const struct region *r,
				   struct waiting *w);

/** fault_fill_done() - the read of fill @id completed with @res */
void fault_fill_done(struct fault *f, unsigned int id, int res);

/** fault_get_sqe() - never NULL: what is in the way is submitted */
struct io_uring_sqe *fault_get_sqe(struct fault *f);

#endif
