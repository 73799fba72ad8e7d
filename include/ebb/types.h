/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * types.h - units, ranges and the error sentence every module shares.
 *
 * Guest memory is counted in 4 KiB pages. Inside the daemon a page has one name, its *page index*:
 * the regions of a guest (its RAM blocks) are laid end to end and numbered from 0, so that an index
 * fits 32 bits (16 TiB) and every per-page table is one array. gfn, address in the VMM and offset in
 * the memfd are derived from the index by vmm/region.h.
 */
#ifndef EBB_TYPES_H
#define EBB_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EBB_PAGE_SHIFT 12
#define EBB_PAGE_SIZE  (1UL << EBB_PAGE_SHIFT)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

#define __printf(f, a) __attribute__((format(printf, f, a)))
#define __must_check   __attribute__((warn_unused_result))

/** struct page_run - @nr consecutive pages from page index @first */
struct page_run {
	uint32_t first;
	uint32_t nr;
};

/**
 * struct ebb_err - why something was refused, in one sentence for a person
 *
 * The sentence names the cause and, where there is one, the way out. It is filled on failure only.
 */
struct ebb_err {
	char msg[512];
};

/**
 * ebb_err_set() - fill @err (may be NULL) and return @rc
 * @rc: the negative errno to hand on
 *
 * Written so that a refusal is one statement: return ebb_err_set(err, -EPERM, "...").
 */
int ebb_err_set(struct ebb_err *err, int rc, const char *fmt, ...) __printf(3, 4);

static inline uint64_t bytes_to_pages(uint64_t bytes)
{
	return bytes >> EBB_PAGE_SHIFT;
}

static inline uint64_t pages_to_bytes(uint64_t pages)
{
	return pages << EBB_PAGE_SHIFT;
}

/* Descriptors and allocations given back when the scope ends; NULL and negative are fine. */
void cleanup_close(int *fd);
void cleanup_free(void *p);
#define _cleanup_close_ __attribute__((cleanup(cleanup_close)))
#define _cleanup_free_  __attribute__((cleanup(cleanup_free)))

#endif
