/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state.h - what must survive the daemon for one guest, in a mapped file.
 *
 * DOC: the state file
 *
 * DIR/PID-STARTTIME.state, 0600, mapped shared: a header, the page words (4 bytes a page), the checksums
 * (16 bytes a slot). The words are the live ones, so there is nothing to save and no moment at which a
 * crash of the daemon leaves them behind reality by more than one step of a page; the protocol table
 * says what a successor makes of each. The file is on tmpfs by default (/run): it need not survive the
 * host, whose crash takes the guests with it.
 *
 * The header's phase moves only forward: ATTACHING (nothing of the guest has been changed but planted
 * descriptors) -> MANAGED -> DETACHED. A field that changes at run time is a single aligned word.
 */
#ifndef VMM_STATE_H
#define VMM_STATE_H

#include <linux/io_uring.h>
#include <stdatomic.h>
#include "procmem.h"
#include "region.h"
#include "store.h"

/** struct state_place - where and when a pid means something */
struct state_place {
	uint64_t pid_ns; /* inode of the pid namespace */
	char boot_id[40];
};

enum state_phase { STATE_ATTACHING = 1, STATE_MANAGED, STATE_DETACHED };

struct state_region {
	uint64_t hva, file_off, gpa, dev, ino;
	uint32_t first, nr;
	int32_t remote_fd;
	uint32_t gone; /* unplugged: its pages are ABSENT */
	char name[64];
};

/** struct state_header - first page(s) of the file */
struct state_header {
	char magic[8];
	uint32_t version, header_size;
	_Atomic uint32_t phase;
	int32_t pid;
	struct state_place place;
	uint64_t start_time;
	uint64_t seed;
	uint32_t nr_pages, nr_slots;
	_Atomic uint32_t limit; /* pages; RECLAIM_NO_LIMIT */
	int32_t remote_uffd, remote_ring;
	uint32_t nr_regions;
	uint64_t stopped_ns;
	struct io_uring_params ring_params;
	char name[64];
	char monitor[256];
	char store_path[256];
	char how[32];
	struct state_region regions[REGION_MAX];
};

struct state {
	char path[256];
	int fd;
	size_t size;
	size_t sums_offset; /* of @sums in the file */
	struct state_header *h;
	_Atomic uint32_t *words;
	struct store_sum *sums;
};

/**
 * state_create() - a new file in @dir for process @id with room for the pages of @t and their slots
 *
 * Called NAME.state.tmp until state_publish(): a daemon that is killed in between leaves nothing that looks
 * like a guest.
 */
int state_create(struct state *st, const char *dir, const struct proc_id *id,
		 const struct region_table *t, uint32_t nr_slots, struct ebb_err *err);

/** state_publish() - the header is complete: give the file its name; -EEXIST when it is taken */
int state_publish(struct state *st, struct ebb_err *err);

/** state_open() - an existing file; -EPROTO with a sentence when it is not one or of another version */
int state_open(struct state *st, const char *path, struct ebb_err *err);

/** state_get_place() - here and now */
int state_get_place(struct state_place *ret);

/** state_regions() - the region table as recorded; memfds are -1 */
void state_regions(const struct state *st, struct region_table *ret);

void state_close(struct state *st, bool remove);

#endif
