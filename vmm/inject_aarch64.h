/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inject_aarch64.h - registers and system call instruction on arm64; for inject.c only.
 *
 * Written from the kernel's documentation and compiled, but never run on an arm64 machine.
 * There is no escape frame: a tracer killed in the ~100 us of an injection takes the VMM with
 * it.
 *
 * The arm64 kernel prepares an interrupted call for its restart (pc at the `svc`, x0 as it was)
 * before a tracer sees the thread, so that putting the registers back is all there is to do. A
 * call that keeps a restart block (nanosleep, futex with a time-out) begins anew with its whole
 * time-out.
 */
#ifndef VMM_INJECT_AARCH64_H
#define VMM_INJECT_AARCH64_H

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <ebb/types.h>

#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif

#define ARCH_RED_ZONE	0
#define ARCH_HAS_ESCAPE 0

static const uint8_t arch_syscall_insn[] = {0x01, 0x00, 0x00, 0xd4}; /* svc #0 */

struct arch_regs {
	struct user_regs_struct u;
};

static inline int arch_get_regs(pid_t tid, struct arch_regs *regs)
{
	struct iovec iov = {&regs->u, sizeof(regs->u)};

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov))
		return -errno;
	return iov.iov_len == sizeof(regs->u) ? 0 : -ENOEXEC;
}

/*
 * The call number is a register of its own: -1 says that the thread is in no call to be
 * restarted.
 */
static inline int arch_set_regs(pid_t tid, const struct arch_regs *regs)
{
	struct arch_regs copy = *regs;
	int none = -1;
	struct iovec nr = {&none, sizeof(none)};
	struct iovec iov = {&copy.u, sizeof(copy.u)};

	if (ptrace(PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &nr) ||
	    ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov))
		return -errno;
	return 0;
}

static inline uint64_t arch_sp(const struct arch_regs *regs)
{
	return regs->u.sp;
}

/* Already wound back to the svc; a thread in user code has none there and the vDSO's is used. */
static inline uint64_t arch_likely_insn(const struct arch_regs *regs)
{
	return regs->u.pc;
}

static inline void arch_set_call(struct arch_regs *regs, uint64_t insn, uint64_t sp, long nr,
				 const uint64_t args[6])
{
	regs->u.pc = insn;
	regs->u.sp = sp;
	regs->u.regs[8] = (unsigned long long)nr;
	for (int i = 0; i < 6; i++)
		regs->u.regs[i] = args[i];
}

static inline long arch_result(const struct arch_regs *regs)
{
	return (long)regs->u.regs[0];
}

#endif
