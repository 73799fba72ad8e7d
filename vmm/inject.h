/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inject.h - make the main thread of another process issue system calls for us.
 *
 * The thread is stopped from inject_begin() to inject_end(), typically ~100 us; every other
 * thread runs on. Registers, signal mask and the scratch memory are restored, and an
 * interrupted system call is restarted by the kernel, so that the process sees nothing. x86-64
 * and arm64.
 */
#ifndef VMM_INJECT_H
#define VMM_INJECT_H

#include <sys/types.h>
#include <ebb/types.h>

#define INJECT_SCRATCH 1024 /* bytes of the thread's stack (below its red zone) lent for arguments */

struct inject;

/**
 * inject_begin() - stop the main thread of @pid and get ready
 *
 * Returns 0 and *@ret, or: -EPERM no right to trace it, -EBUSY somebody else traces it, -ESRCH
 * it is gone, -ETIMEDOUT it did not stop within 2 s (uninterruptible sleep), -EAGAIN when it is
 * stopped (job control) and must be continued first, -ENOEXEC no system call instruction found.
 */
int inject_begin(pid_t pid, struct inject **ret, struct ebb_err *err);

/**
 * inject_run() - inject_begin(), @fn, inject_end() in a thread of their own; returns what @fn
 * returns
 * @ret_stopped_ns: how long the process was stopped; may be NULL
 *
 * The way to use this: a process that does not stop in time can be let go only by the end of
 * the thread that traced it, so a thread that lives on must not call inject_begin() itself
 * (short-lived programs and tests may).
 */
int inject_run(pid_t pid, int (*fn)(struct inject *inj, void *arg), void *arg,
	       uint64_t *ret_stopped_ns, struct ebb_err *err);

/**
 * inject_syscall() - issue one call; returns 0 and the raw result (negative errno) in *@ret_val
 *
 * -ESRCH: it died; -EACCES: the call raised a signal (a seccomp filter); -ETIMEDOUT: it did not
 * return within 10 s and was interrupted. All between begin and end are to come from the same thread.
 */
int inject_syscall(struct inject *inj, long nr, const uint64_t args[6], long *ret_val);

/** inject_scratch() - address, in the process, of INJECT_SCRATCH bytes (64-byte aligned) */
uint64_t inject_scratch(const struct inject *inj);
int inject_write(struct inject *inj, size_t off, const void *buf, size_t len);
int inject_read(struct inject *inj, size_t off, void *buf, size_t len);

/** inject_end() - restore, let it run, free @inj; returns how long it was stopped, in ns */
uint64_t inject_end(struct inject *inj);

#endif
