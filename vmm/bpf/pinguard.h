/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pinguard.h - the page of memory that pinguard.c and its BPF program share (the program's .bss).
 *
 * Included by both sides, so it knows no header of either: fixed-width kernel types only. One
 * request at a time; the caller holds a lock over write, run and read.
 */
#ifndef VMM_BPF_PINGUARD_H
#define VMM_BPF_PINGUARD_H

#include <linux/types.h>

#define PG_MAX	 512 /* pages a request */
#define PG_SLOTS 64  /* entries of an xarray node */

/* The order of enum pin_verdict in vmm/pinguard.h; checked there at compile time. */
enum pg_verdict {
	PG_ABSENT,
	PG_SWAPPED,
	PG_CLEAN,
	PG_PINNED,
	PG_BUSY,
	PG_LARGE,
	PG_UNKNOWN,
};

/* What the program returns. */
enum pg_status {
	PG_OK,
	PG_E_FD,     /* no such descriptor in the calling task */
	PG_E_FS,     /* not a file of tmpfs: other file systems count references otherwise */
	PG_E_LAYOUT, /* this kernel's structures are not shaped as the program needs them */
	PG_E_READ,   /* a kernel read failed */
};

struct pg_area {
	/* request */
	__u32 fd;
	__u32 nr;
	__u64 first;
	__u64 ticket; /* anything new */

	/* answer: only valid when done == ticket */
	__u64 done;
	__u64 nr_pages;
	__s64 file_count;
	__s32 mmap_writable;
	__s32 dentry_count;
	__u32 mmap_tree;
	__u8 verdict[PG_MAX];

	/* the program's scratch: the 64 entries it looked up last, from index @base */
	__u64 mapping;
	__u64 root;
	__u64 base;
	__u32 loaded;
	__u64 slot[PG_SLOTS];
};

#endif
