/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inject_text.h - instructions to be found in a process; for inject.c only.
 */
#ifndef VMM_INJECT_TEXT_H
#define VMM_INJECT_TEXT_H

#include <sys/types.h>
#include <ebb/types.h>

/** struct inject_text - addresses in a process; 0: none found */
struct inject_text {
	uint64_t syscall;     /* a system call instruction */
	uint64_t syscall_ret; /* one that is followed by a return ... */
	uint64_t restorer;    /* ... and the C library's rt_sigreturn; both or neither */
};

/** inject_find_text() - look through the C library and the vDSO of @pid */
void inject_find_text(pid_t pid, struct inject_text *ret);

/** inject_peek() - read memory of @pid; bytes read, or -1 and errno */
ssize_t inject_peek(pid_t pid, uint64_t addr, void *buf, size_t len);

#endif
