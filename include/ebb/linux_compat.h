/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * linux_compat.h - kernel interfaces newer than the 6.1 headers ebb is built against.
 *
 * Each is probed at run time; a definition here promises nothing about the running kernel.
 */
#ifndef EBB_LINUX_COMPAT_H
#define EBB_LINUX_COMPAT_H

#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* PAGEMAP_SCAN, Linux 6.7 */
#ifndef PAGEMAP_SCAN
#define PAGEMAP_SCAN	  _IOWR('f', 16, struct pm_scan_arg)
#define PAGE_IS_WPALLOWED (1 << 0)
#define PAGE_IS_WRITTEN	  (1 << 1)
#define PAGE_IS_FILE	  (1 << 2)
#define PAGE_IS_PRESENT	  (1 << 3)
#define PAGE_IS_SWAPPED	  (1 << 4)

struct page_region {
	__u64 start;
	__u64 end;
	__u64 categories;
};

struct pm_scan_arg {
	__u64 size;
	__u64 flags;
	__u64 start;
	__u64 end;
	__u64 walk_end;
	__u64 vec;
	__u64 vec_len;
	__u64 max_pages;
	__u64 category_inverted;
	__u64 category_mask;
	__u64 category_anyof_mask;
	__u64 return_mask;
};
#endif

/* /proc/PID/pagemap entry */
#define PAGEMAP_UFFD_WP (1ULL << 57)
#define PAGEMAP_SWAPPED (1ULL << 62)
#define PAGEMAP_PRESENT (1ULL << 63)

#ifndef USERFAULTFD_IOC_NEW /* Linux 6.1: /dev/userfaultfd */
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static inline int sys_pidfd_open(int pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_getfd(int pidfd, int fd)
{
	return (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
}

#endif
