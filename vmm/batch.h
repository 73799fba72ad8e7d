/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * batch.h - one batch of evictions: the steps from a picked page to a hole, in their order.
 *
 * DOC: the order that loses nothing
 *
 *   1. own        RESIDENT -> EVICTING(tag)
 *   2. protect    WRITEPROTECT; seen to have worked (pagemap says so: on 6.1 it can do nothing silently)
 *   3. look       the pin guard: nobody but page cache and page tables holds the page
 *   4. copy       pread of the memfd into our own buffer; checksum; all zeros? the same as the kept slot?
 *   5. write      O_DIRECT, to a slot nobody owns; skipped for zeros and unchanged pages
 *   6. commit     EVICTING(tag) -> PUNCHING(slot), after slot and checksum are complete, and after every
 *                 REMOVE that was read before the copy has been applied
 *   7. punch      the hole; PUNCHING -> EVICTED
 *
 * Protect before look: after the protection no new writer can pin the page, so a clean look stays
 * clean. Look before copy: a pin found later would mean bytes that came after the copy. From 2 on a CPU
 * write traps, and the fault thread cancels by taking the page from EVICTING; the commit then fails. A
 * reader's pin taken after the look is harmless: it reads the bytes that were copied.
 *
 *   guest / device                 evictor                              fault thread
 *   --------------                 -------                              ------------
 *   pins page for a DMA write
 *                                  EVICTING, protect
 *                                  look: pinned -> cancel
 *   ...or...
 *                                  EVICTING, protect, look, copy
 *   writes: traps, waits           write in flight                      WP: UNPROTECTING, un-WP
 *   goes on                        commit fails, slot freed             RESIDENT
 *
 * Slots: the batch owns each new slot until the commit, and each page's kept slot from 1 on. Whoever
 * takes the page from EVICTING leaves both to the batch, which frees them when its writes are done: a
 * slot with a write in flight is never free.
 */
#ifndef VMM_BATCH_H
#define VMM_BATCH_H

#include <sys/uio.h>
#include "guest.h"

#define BATCH_PAGES 64u

enum batch_fate {
	BATCH_LOST,  /* not ours any more, or cancelled: nothing left to do but free slots */
	BATCH_WRITE, /* to be written to its new slot */
	BATCH_CLEAN, /* equal to its kept slot */
	BATCH_ZERO,
};

struct batch_page {
	uint32_t idx;
	uint32_t kept;	/* slot it had, NONE */
	uint32_t slot;	/* slot it gets, NONE */
	uint8_t fate;	/* enum batch_fate */
	uint8_t verdict; /* enum pin_verdict */
	struct store_sum sum;
};

/** struct batch_write - an extent being written: pages from..to of the batch, those with fate WRITE */
struct batch_write {
	uint32_t slot, len;
	unsigned int iov, nr_iov;
};

struct batch {
	uint32_t tag;
	unsigned int nr;
	unsigned int writes_left;
	uint64_t submitted_ns;
	unsigned int nr_writes;
	bool running;
	bool write_failed;
	char *bounce; /* BATCH_PAGES pages: page i of the batch at i */
	struct batch_page p[BATCH_PAGES];
	struct batch_write writes[BATCH_PAGES];
	struct iovec iov[BATCH_PAGES];
};

/** batch_prepare() - steps 1 to 4 for the pages of @runs; pages that can't be had are put back */
void batch_prepare(struct guest *g, struct batch *b, uint32_t tag, const struct page_run *runs,
		   unsigned int nr_runs);

/**
 * batch_assign_slots() - extents for what must be written, into b->writes
 *
 * Pages that get none (a full store) are cancelled; returns how many.
 */
unsigned int batch_assign_slots(struct guest *g, struct batch *b);

/** batch_write_done() - one of b->writes completed with @res */
void batch_write_done(struct guest *g, struct batch *b, unsigned int nr, int res);

/** batch_finish() - steps 6 and 7; returns the pages evicted */
uint32_t batch_finish(struct guest *g, struct batch *b);

#endif
