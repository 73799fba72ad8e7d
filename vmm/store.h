/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * store.h - where a guest's evicted pages live: an O_DIRECT file of 4 KiB slots, its lock, its checksums.
 *
 * DOC: the store and a crash of the daemon
 *
 * The file outlives the daemon; so do the page words and checksums (state.h). Whoever works on a store
 * holds an exclusive flock on it. The lock belongs to the open file, and a dead daemon's open file
 * stays until its last thread has left the kernel and its last io_uring write is done: taking the lock
 * on a fresh open therefore *fences* the dead daemon's I/O. A daemon that is merely stopped keeps the
 * lock, and its successor refuses to work.
 *
 * Slot ownership: every used slot is owned by exactly one page word or one entry of a running batch.
 * Only the words survive a crash; the map of used slots is rebuilt from them, so nothing leaks.
 */
#ifndef VMM_STORE_H
#define VMM_STORE_H

#include <pthread.h>
#include <ebb/types.h>
#include "slotmap.h"

/** struct store_sum - checksum of a slot's 4 KiB: xxh3-128, seeded per guest */
struct store_sum {
	uint64_t lo, hi;
};

/** struct store_sums - where the checksums are: mapped from the state file, by slot */
struct store_sums {
	struct store_sum *v;
	int fd;
	uint64_t offset;
};

struct store {
	char path[256];
	char dir[256];
	int fd;
	uint32_t nr_slots;
	uint64_t seed;
	struct store_sums sums;
	uint32_t sums_reserved; /* slots whose checksum has memory for sure */
	pthread_mutex_t lock;	/* of @map */
	struct slotmap *map;
};

/** store_slots_for() - slots a guest of @nr_pages needs: one a page, and room for kept copies */
uint64_t store_slots_for(uint32_t nr_pages);

/**
 * store_create() - make and lock the file, reserve its space
 * @sums: room for store_slots_for(@nr_pages) checksums
 *
 * Refused with a sentence: directory missing or not writable, no O_DIRECT there, not enough room.
 */
int store_create(struct store *s, const char *path, uint32_t nr_slots,
		 uint64_t seed, const struct store_sums *sums, struct ebb_err *err);

/**
 * store_reopen() - take-over: open and lock an existing file
 *
 * Waits up to @wait_ms for the lock. -EBUSY: another live daemon has it.
 */
int store_reopen(struct store *s, const char *path, uint32_t nr_slots, uint64_t seed,
		 const struct store_sums *sums, int wait_ms, struct ebb_err *err);

/**
 * store_make_path() - where the store of process @pid, started at @start_time, is
 * @pid_ns: the pid namespace in which that is so
 */
int store_make_path(char *path, size_t size, const char *dir, int pid, uint64_t start_time,
		    uint64_t pid_ns);

/**
 * store_sweep() - remove the stores in @dir that nobody can want any more
 * @pid_ns: ours
 * @is_dead: is the process surely gone?
 *
 * A store goes when its name says our pid namespace, its process is dead and nobody holds its lock.
 */
void store_sweep(const char *dir, uint64_t pid_ns, bool (*is_dead)(int pid, uint64_t start_time));

/** store_close() - @remove: the file is of no use any more */
void store_close(struct store *s, bool remove);

/** store_alloc() - see slotmap_alloc(); UINT32_MAX also when no checksum memory is left; any thread */
uint32_t store_alloc(struct store *s, uint32_t want, uint32_t *ret_len);

/** store_release() - @slot may be NONE or ZERO: nothing to do; any thread */
void store_release(struct store *s, uint32_t slot);

/** store_claim() - take-over: @slot belongs to a page; false if it is taken or out of range */
bool store_claim(struct store *s, uint32_t slot);

uint32_t store_nr_used(struct store *s);

/** store_sum_page() - checksum of one page */
struct store_sum store_sum_page(const struct store *s, const void *page);

static inline bool store_sum_equal(struct store_sum a, struct store_sum b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

/** store_page_is_zero() - are all 4096 bytes zero? */
bool store_page_is_zero(const void *page);

static inline uint64_t store_offset(uint32_t slot)
{
	return (uint64_t)slot << EBB_PAGE_SHIFT;
}

#endif
