/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * uffd.h - one function for each userfaultfd call; no policy.
 *
 * All return 0 or a negative errno. Lengths are bytes, multiples of the page size. -EAGAIN from any of
 * them means that an event (a REMOVE) is waiting to be read: drain the descriptor and try again.
 */
#ifndef VMM_UFFD_H
#define VMM_UFFD_H

#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What ebb cannot do without: missing and WP faults on shmem, the VMM's discards, and word of memory that
 * is not where it was any more.
 */
#define UFFD_NEEDED                                                                                \
	(UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_MISSING_SHMEM |                             \
	 UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_EVENT_REMOVE |                             \
	 UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP)

/** uffd_probe() - features of the running kernel, asked of a throw-away descriptor of our own */
int uffd_probe(uint64_t *ret_features);

/** uffd_enable() - the UFFDIO_API handshake with UFFD_NEEDED */
int uffd_enable(int fd);

/** uffd_register() - MISSING|WP; -EBUSY: another userfaultfd has the range */
int uffd_register(int fd, uint64_t start, uint64_t len);
int uffd_unregister(int fd, uint64_t start, uint64_t len);

/**
 * uffd_copy() - install pages from @src and wake their waiters
 * @ret_done: bytes installed, also on error (the kernel's copy field is signed: it may hold an errno)
 *
 * -EEXIST: a page is there already; -ENOENT: nothing registered there any more; -ESRCH: process gone.
 */
int uffd_copy(int fd, uint64_t dst, const void *src, size_t len, size_t *ret_done);

/** uffd_zeropage() - the same with pages of zeros */
int uffd_zeropage(int fd, uint64_t dst, size_t len, size_t *ret_done);

/** uffd_writeprotect() - set (@on) or lift the protection; lifting wakes the waiters of the range */
int uffd_writeprotect(int fd, uint64_t start, size_t len, bool on);

int uffd_wake(int fd, uint64_t start, size_t len);

#endif
