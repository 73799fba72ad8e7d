/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pinguard.h - is anybody but the page tables holding this page? Asked of the kernel through BPF.
 *
 * DOC: why
 *
 * A device or an O_DIRECT read pins a page before the evictor write-protects it and writes into it
 * after the evictor has copied it. Punching the hole ignores pins: the write goes to a page nobody will
 * see again. So after the write protection, and before the copy, each page's references are counted:
 * page cache + page tables, and not one more, or the eviction is cancelled. Write protection first:
 * it keeps a new writer's pin from being taken after the look.
 */
#ifndef VMM_PINGUARD_H
#define VMM_PINGUARD_H

#include <ebb/types.h>

enum pin_verdict {
	PIN_ABSENT,  /* the memfd holds no page there */
	PIN_SWAPPED, /* the kernel has swapped it out itself */
	PIN_CLEAN,   /* page cache and page tables only */
	PIN_PINNED,  /* pinned for I/O */
	PIN_BUSY,    /* a plain extra reference: a pipe, an LRU batch */
	PIN_LARGE,   /* part of a large folio: must not be punched in part */
	PIN_UNKNOWN, /* could not be told apart: treat as busy */
	PIN_NR_VERDICTS,
};

#define PIN_MAX 512 /* pages a call */

/** struct pin_mappers - references to the memfd as a whole, to notice a second mapper cheaply */
struct pin_mappers {
	int32_t mmap_writable; /* shared writable VMAs */
	uint32_t mmap_tree;    /* VMAs of any kind: 0, 1, 2 = more */
	int32_t dentry_count;
	int64_t file_count;
	uint64_t nr_pages; /* pages in the page cache */
};

struct pinguard;

/**
 * pinguard_open() - load the program; checked on a page of our own (clean, pinned, absent) before it is
 * trusted
 *
 * -EPERM, -ENOSYS, ... with a sentence that says what the kernel lacks.
 */
int pinguard_open(struct pinguard **ret, struct ebb_err *err);
void pinguard_close(struct pinguard *pg);

/** pinguard_selftest() - that check; pinguard_open() has done it once. -EOPNOTSUPP: wrong answers */
int pinguard_selftest(struct pinguard *pg, struct ebb_err *err);

/**
 * pinguard_check() - verdicts for @nr <= PIN_MAX pages of @memfd (a descriptor of this process)
 * @first: page offset in the memfd
 * @ret_mappers: may be NULL
 *
 * Any thread; calls are serialised. About 1 us, and 25 us for 512 pages.
 */
int pinguard_check(struct pinguard *pg, int memfd, uint64_t first, uint32_t nr,
		   uint8_t *ret_verdicts, struct pin_mappers *ret_mappers);

/** pinguard_drain() - empty the per-CPU LRU batches, whose references read as BUSY; ~100 us */
void pinguard_drain(struct pinguard *pg);

const char *pin_verdict_name(enum pin_verdict v);

#endif
