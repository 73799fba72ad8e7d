// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * uffd.c - one function for each userfaultfd call; no policy.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/types.h>
#include "uffd.h"

static int uffd_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) ? -errno : 0;
}

/*
 * UFFDIO_API answers once per descriptor, so asking which features there are costs one of its
 * own. The system call is refused to a process without CAP_SYS_PTRACE; the device node is then
 * the other way.
 */
static int uffd_open_own(void)
{
	_cleanup_close_ int dev = -1;
	int fd;

	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	if (errno != EPERM)
		return -errno;
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -EPERM;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 ? fd : -errno;
}

int uffd_probe(uint64_t *ret_features)
{
	struct uffdio_api api = {.api = UFFD_API};
	_cleanup_close_ int fd = uffd_open_own();
	int rc;

	if (fd < 0)
		return fd;
	rc = uffd_ioctl(fd, UFFDIO_API, &api);
	if (rc)
		return rc;
	*ret_features = api.features;
	return 0;
}

int uffd_enable(int fd)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_NEEDED};

	return uffd_ioctl(fd, UFFDIO_API, &api);
}

/*
 * Never MINOR: with it each page whose PTE was dropped for sampling would cost a message.
 * MISSING alone would leave fault-around on, and one touch would bring back sixteen pages'
 * accessed state.
 */
int uffd_register(int fd, uint64_t start, uint64_t len)
{
	const uint64_t needed = 1ull << _UFFDIO_COPY | 1ull << _UFFDIO_ZEROPAGE |
				1ull << _UFFDIO_WAKE | 1ull << _UFFDIO_WRITEPROTECT;
	struct uffdio_register reg = {
		.range = {.start = start, .len = len},
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
	};
	int rc = uffd_ioctl(fd, UFFDIO_REGISTER, &reg);

	if (rc)
		return rc;
	/* hugetlb, for one, registers but cannot be given zero pages */
	if ((reg.ioctls & needed) != needed) {
		uffd_unregister(fd, start, len);
		return -EOPNOTSUPP;
	}
	return 0;
}

int uffd_unregister(int fd, uint64_t start, uint64_t len)
{
	struct uffdio_range range = {.start = start, .len = len};

	return uffd_ioctl(fd, UFFDIO_UNREGISTER, &range);
}

/*
 * What the kernel writes to the copy field of a COPY or ZEROPAGE: bytes installed, or a
 * negative errno when there were none. A call that stops half-way fails with EAGAIN and a
 * positive count whatever the reason; the caller goes on behind it and meets the true one.
 */
static size_t uffd_filled(int64_t field)
{
	return field > 0 ? (size_t)field : 0;
}

int uffd_copy(int fd, uint64_t dst, const void *src, size_t len, size_t *ret_done)
{
	struct uffdio_copy copy = {.dst = dst, .src = (uintptr_t)src, .len = len};
	int rc = uffd_ioctl(fd, UFFDIO_COPY, &copy);

	*ret_done = uffd_filled(copy.copy);
	return rc;
}

int uffd_zeropage(int fd, uint64_t dst, size_t len, size_t *ret_done)
{
	struct uffdio_zeropage zero = {.range = {.start = dst, .len = len}};
	int rc = uffd_ioctl(fd, UFFDIO_ZEROPAGE, &zero);

	*ret_done = uffd_filled(zero.zeropage);
	return rc;
}

int uffd_writeprotect(int fd, uint64_t start, size_t len, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = {.start = start, .len = len},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return uffd_ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
}

int uffd_wake(int fd, uint64_t start, size_t len)
{
	struct uffdio_range range = {.start = start, .len = len};

	return uffd_ioctl(fd, UFFDIO_WAKE, &range);
}
