/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inject_x86_64.h - registers, system call instruction and the escape frame on x86-64; for
 * inject.c only.
 */
#ifndef VMM_INJECT_X86_64_H
#define VMM_INJECT_X86_64_H

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <ucontext.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <ebb/types.h>

#define ARCH_RED_ZONE	128 /* below the stack pointer a leaf function may keep data */
#define ARCH_HAS_ESCAPE 1

static const uint8_t arch_syscall_insn[] = {0x0f, 0x05};
/* syscall; ret */
static const uint8_t arch_syscall_ret[] = {0x0f, 0x05, 0xc3};
/* mov $__NR_rt_sigreturn, %rax; syscall: the signal restorer of every C library */
static const uint8_t arch_restorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};

struct arch_regs {
	struct user_regs_struct u;
};

static inline int arch_get_regs(pid_t tid, struct arch_regs *regs)
{
	struct iovec iov = {&regs->u, sizeof(regs->u)};

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov))
		return -errno;
	/* A 32-bit program answers with its own, shorter, set. */
	return iov.iov_len == sizeof(regs->u) && regs->u.cs == 0x33 ? 0 : -ENOEXEC;
}

static inline int arch_set_regs(pid_t tid, const struct arch_regs *regs)
{
	struct arch_regs copy = *regs;
	struct iovec iov = {&copy.u, sizeof(copy.u)};

	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) ? -errno : 0;
}

static inline uint64_t arch_sp(const struct arch_regs *regs)
{
	return regs->u.rsp;
}

/**
 * arch_likely_insn() - where the system call instruction is if the thread was stopped in a call
 */
static inline uint64_t arch_likely_insn(const struct arch_regs *regs)
{
	return regs->u.rip - sizeof(arch_syscall_insn);
}

/* orig_rax -1: whatever happens next, it is not the interrupted call that is to be restarted */
static inline void arch_set_call(struct arch_regs *regs, uint64_t insn, uint64_t sp, long nr,
				 const uint64_t args[6])
{
	regs->u.rip = insn;
	regs->u.rsp = sp;
	regs->u.orig_rax = (unsigned long long)-1;
	regs->u.rax = (unsigned long long)nr;
	regs->u.rdi = args[0];
	regs->u.rsi = args[1];
	regs->u.rdx = args[2];
	regs->u.r10 = args[3];
	regs->u.r8 = args[4];
	regs->u.r9 = args[5];
}

static inline long arch_result(const struct arch_regs *regs)
{
	return (long)regs->u.rax;
}

/*
 * DOC: the escape frame
 *
 * Should the tracer be killed while the thread runs on borrowed registers, the kernel lets the
 * thread go on with them. So the stack pointer it was given points at [address of the signal
 * restorer][signal frame], and the instruction after the injected `syscall` is a `ret`: without
 * us the thread returns into the restorer, whose rt_sigreturn puts back every register and the
 * signal mask.
 */
#define ARCH_XSTATE_MAX 16384
#define ARCH_MAGIC1	0x46505853u
#define ARCH_MAGIC2	0x46505845u
#define ARCH_FX_SW	464 /* of the FXSAVE image: bytes left to software */
#define ARCH_XTILEDATA	18

struct arch_escape {
	uint64_t ret;  /* popped by `ret` */
	ucontext_t uc; /* glibc's begins like the kernel's, as handlers rely on */
};

#define ARCH_ESCAPE_FP	 ((sizeof(struct arch_escape) + 63) & ~63UL)
#define ARCH_ESCAPE_SIZE (ARCH_ESCAPE_FP + ARCH_XSTATE_MAX + 64)

/*
 * The FPU image, in the form the kernel itself writes to signal frames. Tile data is left out:
 * a thread without permission to use it has a smaller frame and the kernel would take nothing
 * but SSE from ours.
 */
static inline size_t arch_escape_fpu(pid_t tid, uint8_t *fp)
{
	struct iovec iov = {fp, ARCH_XSTATE_MAX};
	uint32_t size, a, b, c, d, magic2 = ARCH_MAGIC2;
	uint64_t features;
	struct {
		uint32_t magic1, extended_size;
		uint64_t features;
		uint32_t size, padding[7];
	} sw = {.magic1 = ARCH_MAGIC1};

	if (ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &iov) || iov.iov_len < 576)
		return 0;
	size = (uint32_t)iov.iov_len;
	memcpy(&features, fp + ARCH_FX_SW, sizeof(features));
	if (features & 1ull << ARCH_XTILEDATA) {
		features &= ~(1ull << ARCH_XTILEDATA);
		if (__get_cpuid_count(0xd, ARCH_XTILEDATA, &a, &b, &c, &d) && b && b < size)
			size = b;
	}
	sw.extended_size = size + (uint32_t)sizeof(magic2);
	sw.features = features;
	sw.size = size;
	memcpy(fp + ARCH_FX_SW, &sw, sizeof(sw));
	memcpy(fp + size, &magic2, sizeof(magic2));
	return size + sizeof(magic2);
}

static inline bool arch_is_restart(long result)
{
	return result == -512 || result == -513 || result == -514 || result == -516;
}

/**
 * arch_escape_build() - fill @buf (ARCH_ESCAPE_SIZE bytes), to be put at @at (64-byte aligned,
 * @at + 8 becomes the stack pointer's value after the ret)
 *
 * Returns the bytes used, 0 when it cannot be done.
 */
static inline size_t arch_escape_build(pid_t tid, const struct arch_regs *regs, uint64_t mask,
				       uint64_t restorer, uint64_t at, uint8_t *buf)
{
	struct arch_escape esc = {.ret = restorer};
	const struct user_regs_struct *u = &regs->u;
	greg_t *g = esc.uc.uc_mcontext.gregs;
	size_t fp_len = arch_escape_fpu(tid, buf + ARCH_ESCAPE_FP);

	if (!fp_len)
		return 0;
	esc.uc.uc_flags = 1 | 2 | 4;   /* XSTATE frame, SS saved, SS to be restored */
	esc.uc.uc_stack.ss_flags = -1; /* invalid, hence left alone */
	g[REG_R8] = (greg_t)u->r8, g[REG_R9] = (greg_t)u->r9;
	g[REG_R10] = (greg_t)u->r10, g[REG_R11] = (greg_t)u->r11;
	g[REG_R12] = (greg_t)u->r12, g[REG_R13] = (greg_t)u->r13;
	g[REG_R14] = (greg_t)u->r14, g[REG_R15] = (greg_t)u->r15;
	g[REG_RDI] = (greg_t)u->rdi, g[REG_RSI] = (greg_t)u->rsi;
	g[REG_RBP] = (greg_t)u->rbp, g[REG_RBX] = (greg_t)u->rbx;
	g[REG_RDX] = (greg_t)u->rdx, g[REG_RCX] = (greg_t)u->rcx;
	g[REG_RAX] = (greg_t)u->rax, g[REG_RSP] = (greg_t)u->rsp;
	g[REG_RIP] = (greg_t)u->rip, g[REG_EFL] = (greg_t)u->eflags;
	g[REG_CSGSFS] = (greg_t)(u->cs | u->ss << 48);
	/*
	 * sigreturn knows nothing of the interrupted call: restart it here, as the kernel would
	 * have
	 */
	if ((long)u->orig_rax >= 0 && arch_is_restart((long)u->rax)) {
		g[REG_RAX] = (greg_t)u->orig_rax;
		g[REG_RIP] = (greg_t)(u->rip - sizeof(arch_syscall_insn));
	}
	esc.uc.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)(at + ARCH_ESCAPE_FP);
	memcpy(&esc.uc.uc_sigmask, &mask, sizeof(mask));
	memcpy(buf, &esc, sizeof(esc));
	return ARCH_ESCAPE_FP + fp_len;
}

#endif
