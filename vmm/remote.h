/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * remote.h - the two descriptors ebb plants in a VMM: a userfaultfd and an io_uring that acts in its mm.
 *
 * DOC: why they live in the VMM
 *
 * The userfaultfd must be created by the VMM (it is bound to the creator's address space) and is left
 * open there: when the daemon dies, faults wait instead of being zero-filled, and the next daemon
 * fetches the same descriptor again with pidfd_getfd. The ring is created with SQPOLL, so that its
 * kernel thread runs in the VMM's mm: a madvise submitted from here acts on the VMM's address space
 * with no further stop of the VMM.
 */
#ifndef VMM_REMOTE_H
#define VMM_REMOTE_H

#include <liburing.h>
#include <ebb/types.h>

/** struct remote - our ends of what was planted, and where it is in the VMM */
struct remote {
	int pidfd;
	int uffd;	 /* ours, -1 = none */
	int remote_uffd; /* its number in the VMM */
	int ring_fd;	 /* ours, -1: the VMM may not make one (io_uring disabled) */
	int remote_ring;
	struct io_uring_params ring_params; /* as the kernel filled them: needed to map it again */
	struct io_uring ring;		    /* mapped when ring_fd >= 0 */
	uint64_t stopped_ns;		    /* the VMM's main thread was stopped this long */
	const char *how;		    /* "userfaultfd(2)" or "/dev/userfaultfd" */
};

/**
 * remote_open() - plant both, in one stop of the main thread of @pid
 * @pidfd: stays the caller's
 *
 * Tries userfaultfd(2) first; when the VMM lacks the right (it runs unprivileged) hands it our open
 * /dev/userfaultfd through a socketpair made inside it and asks that for a descriptor. A ring that
 * cannot be had is not an error: ring_fd is -1 then. The uffd is O_NONBLOCK|O_CLOEXEC, API not yet
 * enabled.
 */
int remote_open(pid_t pid, int pidfd, struct remote *ret, struct ebb_err *err);

/** remote_refetch() - take-over: get both again by their numbers, checking they are what they must be */
int remote_refetch(int pidfd, int remote_uffd, int remote_ring,
		   const struct io_uring_params *ring_params, struct remote *ret,
		   struct ebb_err *err);

/**
 * remote_find() - what a daemon that died while planting left in @pid, to be closed with remote_close()
 *
 * It had found no userfaultfd in use there (gate.h), so whichever there is now is its own; a ring is if it
 * polls and has our size. The ring is not mapped. -ENOENT: nothing was planted.
 */
int remote_find(pid_t pid, int pidfd, struct remote *ret);

/** remote_close() - close both, there (one stop) and here; for a VMM that goes on living */
int remote_close(pid_t pid, struct remote *rem, struct ebb_err *err);

/** remote_forget() - close our ends only */
void remote_forget(struct remote *rem);

/**
 * remote_madvise() - madvise(@addr, @len, @advice) in the VMM; waits for the result
 *
 * @len may be any multiple of the page size (submitted in pieces of at most 1 GiB). Without a ring each
 * call is one injected madvise. Returns 0 or a negative errno; -ETIMEDOUT when the ring does not answer
 * for 5 s (the operation is then still in flight: see remote_idle()). One caller at a time.
 */
int remote_madvise(struct remote *rem, pid_t pid, uint64_t addr, uint64_t len, int advice);

/**
 * remote_idle() - has everything ever submitted to the ring completed?
 *
 * Completions not yet consumed are consumed. After a take-over the ring may still be working for the
 * dead daemon; the caller polls this while it drains the uffd (a zap waits until its REMOVE is read).
 */
bool remote_idle(struct remote *rem);

#endif
