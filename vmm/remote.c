// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * remote.c - plant a userfaultfd and an io_uring in a VMM, and fetch our own ends of both.
 *
 * DOC: which userfaultfd
 *
 * userfaultfd(2) is refused to a VMM that runs unprivileged, as libvirt's do.
 * UFFD_USER_MODE_ONLY would be allowed and is useless: faults taken inside the kernel (KVM's,
 * and those of the VMM's own disk I/O) would fail. /dev/userfaultfd asks for no capability but
 * for the right to open the node, which we have and the VMM's private /dev lacks; so the open
 * node travels: the VMM is made to create a socket pair, we fetch one end, send the node
 * through it, the VMM receives it and asks it for a descriptor of its own address space. Both
 * ways the VMM ends up with exactly one more descriptor.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/log.h>
#include "inject.h"
#include "procmem.h"
#include "remote.h"
#include "remote_ring.h"

#define KCMP_FILE 0

static const char uffd_link[] = "anon_inode:[userfaultfd]";
static const char ring_link[] = "anon_inode:[io_uring]";

/** struct planting - one stop's worth of work */
struct planting {
	struct remote rem;
	int dev; /* our /dev/userfaultfd, -1: could not be opened */
};

/** remote_call() - a call in the VMM whose result must be a success; negative errno otherwise */
static long remote_call(struct inject *inj, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	const uint64_t args[6] = {a, b, c, d};
	long val;
	int rc = inject_syscall(inj, nr, args, &val);

	return rc ? rc : val;
}

static void remote_call_close(struct inject *inj, int *fd)
{
	if (*fd >= 0)
		remote_call(inj, SYS_close, (uint64_t)*fd, 0, 0, 0);
	*fd = -1;
}

/*
 * --- the device, sent through a socket pair ---------------------------------------------------
 */

/* Where things lie in the scratch memory. */
struct parcel {
	struct msghdr msg;
	struct iovec iov;
	uint64_t data;
	uint64_t control[CMSG_SPACE(sizeof(int)) / sizeof(uint64_t)]; /* aligned for a cmsghdr */
	int pair[2];
};
_Static_assert(sizeof(struct parcel) <= INJECT_SCRATCH, "the parcel must fit the scratch memory");

static int send_device(int sock, int dev)
{
	struct parcel p = {.data = 0};
	struct cmsghdr *c = (struct cmsghdr *)p.control;

	p.iov = (struct iovec) {&p.data, 1};
	p.msg.msg_iov = &p.iov;
	p.msg.msg_iovlen = 1;
	p.msg.msg_control = p.control;
	p.msg.msg_controllen = sizeof(p.control);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &dev, sizeof(int));
	return sendmsg(sock, &p.msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}

/* The VMM's recvmsg; every pointer in the message is an address over there. */
static int receive_device(struct inject *inj, int sock)
{
	const uint64_t base = inject_scratch(inj);
	struct parcel p = {.data = 0};
	const struct cmsghdr *c = (const struct cmsghdr *)p.control;
	long n;
	int rc, fd;

#define THERE(member) ((void *)(uintptr_t)(base + offsetof(struct parcel, member)))
	p.iov = (struct iovec) {THERE(data), 1};
	p.msg.msg_iov = THERE(iov);
	p.msg.msg_iovlen = 1;
	p.msg.msg_control = THERE(control);
	p.msg.msg_controllen = sizeof(p.control);
#undef THERE
	rc = inject_write(inj, 0, &p, sizeof(p));
	if (rc)
		return rc;
	n = remote_call(inj, SYS_recvmsg, (uint64_t)sock, base, MSG_CMSG_CLOEXEC | MSG_DONTWAIT, 0);
	if (n < 0)
		return (int)n;
	rc = inject_read(inj, 0, &p, sizeof(p));
	if (rc)
		return rc;
	/*
	 * A security module that does not let the VMM have the device drops it from the message.
	 */
	if (n != 1 || p.msg.msg_controllen < CMSG_LEN(sizeof(int)) || c->cmsg_type != SCM_RIGHTS)
		return -EACCES;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static int plant_by_device(struct inject *inj, struct planting *pl)
{
	const size_t at = offsetof(struct parcel, pair);
	int pair[2] = {-1, -1}, dev = -1, rc;
	_cleanup_close_ int ours = -1;

	if (pl->dev < 0)
		return -EPERM;
	rc = (int)remote_call(inj, SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
			      inject_scratch(inj) + at);
	if (rc < 0)
		return rc;
	rc = inject_read(inj, at, pair, sizeof(pair));
	if (!rc) {
		ours = sys_pidfd_getfd(pl->rem.pidfd, pair[0]);
		rc = ours < 0 ? -errno : send_device(ours, pl->dev);
	}
	if (!rc)
		rc = dev = receive_device(inj, pair[1]);
	if (rc >= 0)
		rc = (int)remote_call(inj, SYS_ioctl, (uint64_t)dev, USERFAULTFD_IOC_NEW,
				      O_CLOEXEC | O_NONBLOCK, 0);
	remote_call_close(inj, &dev);
	remote_call_close(inj, &pair[1]);
	remote_call_close(inj, &pair[0]);
	return rc;
}

/* --- planting ------------------------------------------------------------------------------- */

static int plant_uffd(struct inject *inj, struct planting *pl)
{
	struct remote *rem = &pl->rem;

	rem->how = "userfaultfd(2)";
	rem->remote_uffd = (int)remote_call(inj, SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
	if (rem->remote_uffd == -EPERM || rem->remote_uffd == -EACCES) {
		rem->how = "/dev/userfaultfd";
		rem->remote_uffd = plant_by_device(inj, pl);
	}
	if (rem->remote_uffd < 0)
		return rem->remote_uffd;
	rem->uffd = sys_pidfd_getfd(rem->pidfd, rem->remote_uffd);
	if (rem->uffd < 0) {
		int rc = -errno;

		remote_call_close(inj, &rem->remote_uffd);
		return rc;
	}
	return 0;
}

/* Best effort: without a ring each madvise costs the VMM a stop, and that is all. */
static int plant_ring(struct inject *inj, struct planting *pl)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQPOLL,
		.sq_thread_idle = REMOTE_RING_IDLE_MS,
	};
	struct remote *rem = &pl->rem;
	int fd = -1, rc;

	rc = inject_write(inj, 0, &params, sizeof(params));
	if (!rc)
		rc = fd = (int)remote_call(inj, __NR_io_uring_setup, REMOTE_RING_ENTRIES,
					   inject_scratch(inj), 0, 0);
	if (rc < 0)
		return rc;
	rc = inject_read(inj, 0, &params, sizeof(params));
	if (!rc) {
		rem->ring_fd = sys_pidfd_getfd(rem->pidfd, fd);
		rc = rem->ring_fd < 0 ? -errno : 0;
	}
	if (rc) {
		remote_call_close(inj, &fd);
		return rc;
	}
	rem->remote_ring = fd;
	rem->ring_params = params;
	return 0;
}

static int plant(struct inject *inj, void *arg)
{
	struct planting *pl = arg;
	int rc = plant_uffd(inj, pl);

	if (rc)
		return rc;
	rc = plant_ring(inj, pl);
	/*
	 * Not for want of a ring, but because the VMM died or is out of reach: nothing will work.
	 */
	if (rc == -ESRCH)
		return rc;
	if (rc)
		log_info(
			"no io_uring in the VMM (%s): each sampling step will stop it for a moment",
			strerror(-rc));
	return 0;
}

static void remote_init(struct remote *rem, int pidfd)
{
	*rem = (struct remote) {
		.pidfd = pidfd,
		.uffd = -1,
		.remote_uffd = -1,
		.ring_fd = -1,
		.remote_ring = -1,
		.how = "",
	};
}

static int refuse_plant(pid_t pid, int rc, const struct planting *pl, struct ebb_err *err)
{
	bool by_device = !strcmp(pl->rem.how, "/dev/userfaultfd");

	if (rc == -ESRCH)
		return ebb_err_set(err, rc, "process %d ended while it was taken over", pid);
	if (rc == -EPERM && by_device && pl->dev < 0)
		return ebb_err_set(
			err, rc,
			"process %d may not create a userfaultfd and /dev/userfaultfd "
			"cannot be opened here: run as root on Linux 6.1 or newer, or set "
			"vm.unprivileged_userfaultfd=1",
			pid);
	if (rc == -EACCES)
		return ebb_err_set(err, rc,
				   "a security policy (seccomp, AppArmor or SELinux) of process "
				   "%d forbids what it takes to create a userfaultfd there (by %s)",
				   pid, pl->rem.how);
	if (rc == -EMFILE)
		return ebb_err_set(
			err, rc, "process %d has no descriptor left: raise its RLIMIT_NOFILE", pid);
	return ebb_err_set(err, rc, "cannot create a userfaultfd in process %d (by %s): %s", pid,
			   pl->rem.how, strerror(-rc));
}

static int uproot(struct inject *inj, void *arg)
{
	struct remote *rem = arg;

	remote_call_close(inj, &rem->remote_ring);
	remote_call_close(inj, &rem->remote_uffd);
	return 0;
}

int remote_open(pid_t pid, int pidfd, struct remote *ret, struct ebb_err *err)
{
	struct planting pl = {.dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)};
	struct ebb_err why = {""};
	uint64_t stopped = 0;
	int rc;

	remote_init(&pl.rem, pidfd);
	rc = inject_run(pid, plant, &pl, &stopped, &why);
	if (rc) {
		remote_forget(&pl.rem);
		if (!why.msg[0])
			refuse_plant(pid, rc, &pl, &why);
	} else {
		pl.rem.stopped_ns = stopped;
		rc = remote_ring_map(&pl.rem);
		if (rc) {
			ebb_err_set(&why, rc, "cannot map the io_uring of process %d: %s", pid,
				    strerror(-rc));
			remote_close(pid, &pl.rem, NULL);
		}
	}
	if (pl.dev >= 0)
		close(pl.dev);
	if (rc)
		return ebb_err_set(err, rc, "%s", why.msg);
	*ret = pl.rem;
	return 0;
}

/* --- fetching again ------------------------------------------------------------------------- */

/* Fetches @remote_fd; it must be what @link says. */
static int refetch_one(int pidfd, int remote_fd, const char *link, struct ebb_err *err)
{
	_cleanup_close_ int fd = sys_pidfd_getfd(pidfd, remote_fd);
	char path[64], is[64];
	ssize_t n;
	int rc;

	if (fd < 0)
		return ebb_err_set(err, -errno, "cannot fetch descriptor %d of the VMM again: %s",
				   remote_fd, strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, is, sizeof(is) - 1);
	is[n > 0 ? n : 0] = '\0';
	if (strcmp(is, link))
		return ebb_err_set(err, -EBADF,
				   "descriptor %d of the VMM is %s, not the %s that was "
				   "left there",
				   remote_fd, is, link);
	rc = fd;
	fd = -1;
	return rc;
}

static bool looks_like_our_ring(pid_t pid, int fd)
{
	unsigned int mask = 0;
	char path[64], line[128];
	int thread = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", pid, fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "SqMask: %x", &mask);
		sscanf(line, "SqThread: %d", &thread);
	}
	if (f)
		fclose(f);
	return thread > 0 && mask == REMOTE_RING_ENTRIES - 1;
}

/*
 * Our ring polls (SQPOLL) and has our number of entries; the VMM's own do not. The kernel leaves these lines out while
 * the ring is locked by its thread: look a few times.
 */
static bool is_our_ring(pid_t pid, int fd)
{
	for (int tries = 0; tries < 50; tries++) {
		if (looks_like_our_ring(pid, fd))
			return true;
		usleep(2000);
	}
	return false;
}

int remote_refetch(int pidfd, int remote_uffd, int remote_ring,
		   const struct io_uring_params *ring_params, struct remote *ret,
		   struct ebb_err *err)
{
	struct remote rem;
	int rc;

	remote_init(&rem, pidfd);
	rem.how = "take-over";
	rc = rem.uffd = refetch_one(pidfd, remote_uffd, uffd_link, err);
	if (rc >= 0 && remote_ring >= 0) {
		rc = rem.ring_fd = refetch_one(pidfd, remote_ring, ring_link, err);
		rem.ring_params = *ring_params;
		if (rc >= 0 && !is_our_ring(getpid(), rem.ring_fd))
			rc = ebb_err_set(err, -EBADF, "descriptor %d of the VMM is not the io_uring "
					 "that was left there", remote_ring);
		if (rc >= 0) {
			rc = remote_ring_map(&rem);
			if (rc)
				ebb_err_set(err, rc, "cannot map the io_uring of the VMM again: %s",
					    strerror(-rc));
		}
	}
	if (rc < 0) {
		remote_forget(&rem);
		return rc;
	}
	rem.remote_uffd = remote_uffd;
	rem.remote_ring = remote_ring >= 0 ? remote_ring : -1;
	*ret = rem;
	return 0;
}

int remote_find(pid_t pid, int pidfd, struct remote *ret)
{
	char path[64], link[64];
	struct remote rem;
	struct dirent *e;
	DIR *d;

	remote_init(&rem, pidfd);
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, uffd_link))
			rem.remote_uffd = atoi(e->d_name);
		else if (!strcmp(link, ring_link) && is_our_ring(pid, atoi(e->d_name)))
			rem.remote_ring = atoi(e->d_name);
	}
	if (d)
		closedir(d);
	if (rem.remote_uffd < 0)
		return -ENOENT;
	rem.uffd = sys_pidfd_getfd(pidfd, rem.remote_uffd);
	if (rem.remote_ring >= 0)
		rem.ring_fd = sys_pidfd_getfd(pidfd, rem.remote_ring);
	*ret = rem;
	return 0;
}

/* --- closing -------------------------------------------------------------------------------- */

void remote_forget(struct remote *rem)
{
	remote_ring_unmap(rem);
	if (rem->ring_fd >= 0)
		close(rem->ring_fd);
	if (rem->uffd >= 0)
		close(rem->uffd);
	rem->ring_fd = rem->uffd = -1;
}

/*
 * Is descriptor @there of @pid still the file we have as @here? The VMM may have closed and
 * reused it.
 */
static bool same_file(pid_t pid, int there, int here, const char *link)
{
	char path[64], is[64];
	ssize_t n;
	long rc;

	rc = syscall(SYS_kcmp, getpid(), pid, KCMP_FILE, (unsigned long)here, (unsigned long)there);
	if (rc >= 0 || (errno != ENOSYS && errno != EPERM))
		return rc == 0;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, there);
	n = readlink(path, is, sizeof(is) - 1);
	is[n > 0 ? n : 0] = '\0';
	return !strcmp(is, link);
}

int remote_close(pid_t pid, struct remote *rem, struct ebb_err *err)
{
	struct remote there = *rem;
	int rc = 0;

	if (there.remote_uffd >= 0 && !same_file(pid, there.remote_uffd, rem->uffd, uffd_link))
		there.remote_uffd = -1;
	if (there.remote_ring >= 0 && !same_file(pid, there.remote_ring, rem->ring_fd, ring_link))
		there.remote_ring = -1;
	if (there.remote_uffd >= 0 || there.remote_ring >= 0)
		rc = inject_run(pid, uproot, &there, NULL, err);
	if (rc && rc != -ESRCH)
		return rc;
	remote_forget(rem);
	rem->remote_uffd = rem->remote_ring = -1;
	return 0;
}

/* --- madvise -------------------------------------------------------------------------------- */

struct madvise_job {
	uint64_t addr, len;
	int advice;
};

static int madvise_injected(struct inject *inj, void *arg)
{
	const struct madvise_job *job = arg;

	return (int)remote_call(inj, SYS_madvise, job->addr, job->len, (uint64_t)job->advice, 0);
}

int remote_madvise(struct remote *rem, pid_t pid, uint64_t addr, uint64_t len, int advice)
{
	while (len) {
		struct madvise_job job = {addr, MIN(len, REMOTE_MADVISE_MAX), advice};
		int rc;

		if (rem->ring_fd >= 0)
			rc = remote_ring_madvise(rem, job.addr, job.len, job.advice);
		else
			rc = inject_run(pid, madvise_injected, &job, NULL, NULL);
		if (rc)
			return rc;
		addr += job.len;
		len -= job.len;
	}
	return 0;
}
