// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * inject.c - make the main thread of another process issue system calls for us.
 *
 * DOC: one stop
 *
 * PTRACE_SEIZE changes nothing by itself; PTRACE_INTERRUPT makes the thread trap on its way
 * back to user mode, inside the kernel's signal code. If it was waiting in a system call, that
 * call has unwound to "restart me" and the kernel decides about it after we let go, so whatever
 * the thread's registers hold then is what counts. For each call the program counter is put on
 * a system call instruction that the process already has, and PTRACE_SYSCALL runs it to its
 * exit. At the end a second PTRACE_INTERRUPT brings the thread back into the same signal code,
 * where the old registers lead to a restart of the old call. (Put back at a call's exit they
 * would only if the thread passed there anyway; if it did not, it would see a raw
 * -ERESTARTNOHAND.)
 *
 * Single-stepping would be shorter by a stop, but a tracer that dies while a step is pending
 * leaves the thread with a SIGTRAP, which kills it. The trap of PTRACE_SYSCALL goes away with
 * the tracer.
 *
 * DOC: nothing is lost
 *
 * - A signal that arrives before our trap is handed to the thread and the trap awaited again. Later
 *   ones find all signals blocked and stay pending; SIGSTOP cannot be blocked, is handed on, and takes
 *   effect when we let go.
 * - The order of the steps holds for a tracer that is killed between any two of them: the escape
 *   frame (see inject_x86_64.h) is written first, then the registers that lead into it, then the mask;
 *   at the end mask, registers, and the borrowed stack memory last.
 * - All waits are bounded. A thread that does not trap cannot be detached either; the kernel does
 *   that when the tracing thread ends, which is why inject_run() has a thread of its own.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "inject.h"
#include "inject_text.h"
#include "procmem.h"

#include "inject_arch.h"

#define INJECT_STOP_MS	  2000	/* for the thread to trap */
#define INJECT_CALL_MS	  10000 /* for a call to return, before it is interrupted */
#define INJECT_SPIN_NS	  30000
#define INJECT_NAP_NS	  20000L
#define INJECT_NAP_MAX_NS 2000000L
#define INJECT_NICE	  (-15)
#define INJECT_AREA	  (INJECT_SCRATCH + ARCH_ESCAPE_SIZE + 64)

struct inject {
	pid_t tid;
	bool gone;     /* died or was killed */
	bool lost;     /* did not come back in time; only the end of this thread detaches it */
	bool borrowed; /* runs on our registers */
	bool in_call;  /* stopped at a call's exit, not in the signal code */
	uint64_t stopped_at;
	struct arch_regs saved;
	uint64_t saved_mask;
	uint64_t insn;	   /* a system call instruction in the process */
	uint64_t restorer; /* with it, @insn is followed by a return; 0: no escape frame */
	uint64_t sp;	   /* while on our registers */
	uint64_t scratch;
	uint64_t area; /* stack memory borrowed, and what it held */
	size_t area_len;
	uint8_t backup[INJECT_AREA];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* --- waiting -------------------------------------------------------------------------------- */

struct stop {
	int sig;
	int event; /* PTRACE_EVENT_STOP, or 0 */
};

/*
 * Looked at first, then consumed if it is a stop: a death is left for the process's own parent,
 * which may be another part of this program. (Asking for deaths alone would not do: a tracer is
 * told of stops too.)
 */
static int inject_poll(struct inject *inj, struct stop *ret)
{
	const int look = WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL;
	siginfo_t si = {.si_pid = 0};

	if (waitid(P_PID, (id_t)inj->tid, &si, look) ||
	    (si.si_pid && si.si_code != CLD_TRAPPED && si.si_code != CLD_STOPPED)) {
		inj->gone = true;
		return -ESRCH;
	}
	if (!si.si_pid)
		return 0;
	ret->sig = si.si_status & 0xff;
	ret->event = si.si_status >> 8;
	si.si_pid = 0;
	/* Not there any more: it was killed in between, which the next look will tell. */
	if (waitid(P_PID, (id_t)inj->tid, &si, WSTOPPED | WNOHANG | __WALL) || !si.si_pid)
		return 0;
	return 1;
}

/*
 * A trap usually comes within microseconds: look often at first. On a busy host the thread has
 * to wait for a processor, perhaps ours, so looking soon gives way to sleeping, at first for
 * very little.
 */
static int inject_wait(struct inject *inj, unsigned int ms, struct stop *ret)
{
	const uint64_t start = now_ns();
	struct timespec nap = {.tv_nsec = 0};

	for (;;) {
		int rc = inject_poll(inj, ret);
		uint64_t waited = now_ns() - start;

		if (rc)
			return rc < 0 ? rc : 0;
		if (waited > ms * 1000000ull)
			return -ETIMEDOUT;
		if (waited < INJECT_SPIN_NS) {
			sched_yield();
			continue;
		}
		nap.tv_nsec = MAX(INJECT_NAP_NS, MIN((long)waited / 8, INJECT_NAP_MAX_NS));
		nanosleep(&nap, NULL);
	}
}

static int inject_resume(struct inject *inj, int request, int sig)
{
	if (!ptrace((enum __ptrace_request)request, inj->tid, 0, (void *)(intptr_t)sig))
		return 0;
	if (errno == ESRCH)
		inj->gone = true;
	return -errno;
}

static bool stop_is_group(const struct stop *s)
{
	return s->event == PTRACE_EVENT_STOP && s->sig != SIGTRAP;
}

/*
 * Waits for our own trap. Real signals that come first are delivered; a job-control stop is not
 * ours to end (-EAGAIN).
 */
static int inject_await_trap(struct inject *inj)
{
	const uint64_t deadline = now_ns() + INJECT_STOP_MS * 1000000ull;
	struct stop s;
	int rc;

	for (;;) {
		uint64_t now = now_ns();

		rc = inject_wait(
			inj, now < deadline ? (unsigned int)((deadline - now) / 1000000) : 0, &s);
		if (rc)
			return rc;
		if (stop_is_group(&s))
			return -EAGAIN;
		if (s.event == PTRACE_EVENT_STOP)
			return 0;
		rc = inject_resume(inj, PTRACE_CONT, s.event ? 0 : s.sig);
		if (rc)
			return rc;
	}
}

/* --- instructions to run on ----------------------------------------------------------------- */

static int inject_poke(pid_t pid, uint64_t addr, const void *buf, size_t len)
{
	struct iovec local = {(void *)(uintptr_t)buf, len}, remote = {(void *)(uintptr_t)addr, len};
	ssize_t n = process_vm_writev(pid, &local, 1, &remote, 1, 0);

	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EFAULT;
}

/* Before the stop, as it takes a millisecond; text does not change under us. */
static void inject_search_text(struct inject *inj)
{
	struct inject_text text = {.syscall = 0};

	inject_find_text(inj->tid, &text);
	inj->insn = text.restorer ? text.syscall_ret : text.syscall;
	inj->restorer = text.restorer;
}

static int inject_choose_insn(struct inject *inj)
{
	uint8_t insn[sizeof(arch_syscall_insn)];
	uint64_t at = arch_likely_insn(&inj->saved);

	if (inj->insn)
		return 0;
	if (inject_peek(inj->tid, at, insn, sizeof(insn)) != (ssize_t)sizeof(insn) ||
	    memcmp(insn, arch_syscall_insn, sizeof(insn)))
		return -ENOEXEC;
	inj->insn = at;
	return 0;
}

/* --- borrowing the stack -------------------------------------------------------------------- */

/*
 * Lays out, from high to low: red zone, scratch, escape frame. Nothing of the process is live
 * there.
 */
static int inject_borrow_stack(struct inject *inj)
{
	inj->scratch = (arch_sp(&inj->saved) - ARCH_RED_ZONE - INJECT_SCRATCH) & ~63ull;
	inj->area = inj->scratch;
	inj->sp = inj->scratch;
#if ARCH_HAS_ESCAPE
	uint8_t frame[ARCH_ESCAPE_SIZE] __attribute__((aligned(64)));
	size_t len = 0;

	if (inj->restorer) {
		inj->area = (inj->scratch - ARCH_ESCAPE_SIZE) & ~63ull;
		memset(frame, 0, sizeof(frame));
		len = arch_escape_build(inj->tid, &inj->saved, inj->saved_mask, inj->restorer,
					inj->area, frame);
		inj->sp = inj->area;
	}
#endif
	inj->area_len = inj->scratch + INJECT_SCRATCH - inj->area;
	if (inject_peek(inj->tid, inj->area, inj->backup, inj->area_len) != (ssize_t)inj->area_len)
		return -EFAULT;
#if ARCH_HAS_ESCAPE
	if (len)
		return inject_poke(inj->tid, inj->area, frame, len);
#endif
	return 0;
}

/* --- a call --------------------------------------------------------------------------------- */

static int inject_set_mask(struct inject *inj, uint64_t mask)
{
	if (!ptrace(PTRACE_SETSIGMASK, inj->tid, (void *)sizeof(mask), &mask))
		return 0;
	inj->gone |= errno == ESRCH;
	return -errno;
}

/*
 * Signals a call itself may raise: a seccomp filter that traps, above all. They stay unblocked,
 * because one that is forced through a block also resets the process's handler.
 */
static const int own_signals[] = {SIGSYS, SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGTRAP};

static uint64_t inject_call_mask(void)
{
	uint64_t mask = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(own_signals); i++)
		mask &= ~(1ull << (own_signals[i] - 1));
	return mask;
}

/* Raised by the kernel, and not sent by somebody: ours, not theirs. */
static bool is_own_signal(const siginfo_t *si)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_signals); i++) {
		if (si->si_signo == own_signals[i])
			return si->si_code > 0;
	}
	return false;
}

static bool inject_own_signal(struct inject *inj)
{
	siginfo_t si;

	return !ptrace(PTRACE_GETSIGINFO, inj->tid, 0, &si) && is_own_signal(&si);
}

/* Runs to the next stop of a system call: to its entry, or from there to its exit. */
static int inject_step_call(struct inject *inj, unsigned int ms)
{
	struct stop s = {0, 0};
	int rc, sig = 0;

	for (;;) {
		rc = inject_resume(inj, PTRACE_SYSCALL, sig);
		if (!rc)
			rc = inject_wait(inj, ms, &s);
		if (rc)
			return rc;
		if (!s.event && s.sig == (SIGTRAP | 0x80))
			return 0;
		sig = s.event ? 0 : s.sig;
		if (sig && inject_own_signal(inj)) {
			inj->in_call = false;
			return -EACCES;
		}
	}
}

/* At a call's exit: has the call raised a signal that is still to come? */
static bool inject_raised_signal(struct inject *inj)
{
	struct __ptrace_peeksiginfo_args which = {.nr = 4};
	siginfo_t si[4];
	long n = ptrace(PTRACE_PEEKSIGINFO, inj->tid, &which, si);

	for (long i = 0; i < n; i++) {
		if (is_own_signal(&si[i]))
			return true;
	}
	return false;
}

/* The call does not return: make it, as a signal would. */
static int inject_break_call(struct inject *inj)
{
	struct stop s;
	int rc;

	if (ptrace(PTRACE_INTERRUPT, inj->tid, 0, 0))
		return -errno;
	rc = inject_wait(inj, INJECT_STOP_MS, &s);
	if (rc) {
		inj->lost = rc == -ETIMEDOUT;
		return rc;
	}
	inj->in_call = !s.event;
	return -ETIMEDOUT;
}

int inject_syscall(struct inject *inj, long nr, const uint64_t args[6], long *ret_val)
{
	struct arch_regs regs = inj->saved;
	int rc;

	if (inj->gone || inj->lost)
		return inj->gone ? -ESRCH : -ETIMEDOUT;
	arch_set_call(&regs, inj->insn, inj->sp, nr, args);
	inj->borrowed = true;
	rc = arch_set_regs(inj->tid, &regs);
	if (!rc)
		rc = inject_set_mask(inj, inject_call_mask());
	if (!rc)
		rc = inject_step_call(inj, INJECT_STOP_MS);
	if (!rc) {
		inj->in_call = true;
		rc = inject_step_call(inj, INJECT_CALL_MS);
	}
	/* Its result is none then; one more step meets the signal, and drops it. */
	if (!rc && inject_raised_signal(inj))
		rc = inject_step_call(inj, INJECT_STOP_MS);
	if (rc == -ETIMEDOUT)
		rc = inject_break_call(inj);
	if (!rc)
		rc = arch_get_regs(inj->tid, &regs);
	if (rc) {
		inj->gone |= rc == -ESRCH;
		return rc;
	}
	*ret_val = arch_result(&regs);
	return 0;
}

uint64_t inject_scratch(const struct inject *inj)
{
	return inj->scratch;
}

int inject_write(struct inject *inj, size_t off, const void *buf, size_t len)
{
	if (off > INJECT_SCRATCH || len > INJECT_SCRATCH - off)
		return -EINVAL;
	return inject_poke(inj->tid, inj->scratch + off, buf, len);
}

int inject_read(struct inject *inj, size_t off, void *buf, size_t len)
{
	ssize_t n;

	if (off > INJECT_SCRATCH || len > INJECT_SCRATCH - off)
		return -EINVAL;
	n = inject_peek(inj->tid, inj->scratch + off, buf, len);
	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EFAULT;
}

/* --- begin and end -------------------------------------------------------------------------- */

/*
 * From a call's exit back into the signal code, where putting the registers back restarts the old
 * call.
 */
static int inject_return_to_trap(struct inject *inj)
{
	struct stop s;
	int rc, sig = 0;

	if (ptrace(PTRACE_INTERRUPT, inj->tid, 0, 0))
		return -errno;
	for (;;) {
		rc = inject_resume(inj, PTRACE_CONT, sig);
		if (!rc)
			rc = inject_wait(inj, INJECT_STOP_MS, &s);
		if (rc)
			break;
		if (s.event == PTRACE_EVENT_STOP) {
			inj->in_call = false;
			return 0;
		}
		sig = s.event ? 0 : s.sig;
	}
	inj->lost |= rc == -ETIMEDOUT;
	return rc;
}

static void inject_restore(struct inject *inj)
{
	if (inj->in_call && inject_return_to_trap(inj))
		return;
	inject_set_mask(inj, inj->saved_mask);
	arch_set_regs(inj->tid, &inj->saved);
	inject_poke(inj->tid, inj->area, inj->backup, inj->area_len);
}

uint64_t inject_end(struct inject *inj)
{
	uint64_t stopped;

	if (inj->borrowed && !inj->gone && !inj->lost)
		inject_restore(inj);
	if (!inj->gone && !inj->lost)
		ptrace(PTRACE_DETACH, inj->tid, 0, 0);
	stopped = now_ns() - inj->stopped_at;
	free(inj);
	return stopped;
}

static int inject_refuse(pid_t pid, int rc, struct ebb_err *err)
{
	long long tracer = 0;

	switch (rc) {
	case -ESRCH:
		return ebb_err_set(err, rc, "process %d is gone", pid);
	case -EAGAIN:
		return ebb_err_set(err, rc,
				   "process %d is stopped (job control): continue it first, "
				   "for example with kill -CONT %d",
				   pid, pid);
	case -ETIMEDOUT:
		return ebb_err_set(
			err, rc,
			"the main thread of process %d did not stop within %d s: it "
			"is in an uninterruptible wait (state D); try again when that is "
			"over",
			pid, INJECT_STOP_MS / 1000);
	case -ENOEXEC:
		return ebb_err_set(err, rc,
				   "process %d is not a 64-bit program, or has no system call "
				   "instruction where one was looked for",
				   pid);
	case -EFAULT:
		return ebb_err_set(err, rc,
				   "the main thread of process %d has no room on its stack", pid);
	case -EPERM:
	case -EBUSY:
		if (!proc_status_value(pid, "TracerPid", &tracer) && tracer && tracer != getpid())
			return ebb_err_set(err, -EBUSY,
					   "process %d is traced by process %lld (a "
					   "debugger or strace): end that first",
					   pid, tracer);
		return ebb_err_set(
			err, -EPERM,
			"no right to trace process %d: run as root or with "
			"CAP_SYS_PTRACE, and see that kernel.yama.ptrace_scope is below 3",
			pid);
	default:
		return ebb_err_set(err, rc, "cannot take over the main thread of process %d: %s",
				   pid, strerror(-rc));
	}
}

/*
 * A look without touching it: a stopped process stays untouched, an uninterruptible one gets
 * time.
 */
static int inject_check_state(pid_t pid, struct ebb_err *err)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	struct proc_id id;

	for (int i = 0; i < INJECT_STOP_MS / 5; i++) {
		int rc = proc_identify(pid, &id, err);

		if (rc)
			return rc;
		if (id.state != 'D')
			break;
		nanosleep(&nap, NULL);
	}
	switch (id.state) {
	case 'T':
		return inject_refuse(pid, -EAGAIN, err);
	case 't':
		return inject_refuse(pid, -EBUSY, err);
	case 'Z':
	case 'X':
		return inject_refuse(pid, -ESRCH, err);
	case 'D':
		return inject_refuse(pid, -ETIMEDOUT, err);
	default:
		return 0;
	}
}

static int inject_stop(struct inject *inj)
{
	int rc;

	if (ptrace(PTRACE_SEIZE, inj->tid, 0, (void *)PTRACE_O_TRACESYSGOOD))
		return -errno;
	inj->stopped_at = now_ns();
	if (ptrace(PTRACE_INTERRUPT, inj->tid, 0, 0))
		return -errno;
	rc = inject_await_trap(inj);
	inj->lost = rc == -ETIMEDOUT;
	if (rc)
		return rc;
	if (ptrace(PTRACE_GETSIGMASK, inj->tid, (void *)sizeof(inj->saved_mask), &inj->saved_mask))
		return -errno;
	rc = arch_get_regs(inj->tid, &inj->saved);
	if (!rc)
		rc = inject_choose_insn(inj);
	if (!rc)
		rc = inject_borrow_stack(inj);
	return rc;
}

int inject_begin(pid_t pid, struct inject **ret, struct ebb_err *err)
{
	struct inject *inj;
	int rc = inject_check_state(pid, err);

	if (rc)
		return rc;
	inj = calloc(1, sizeof(*inj));
	if (!inj)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	inj->tid = pid;
	inject_search_text(inj);
	rc = inject_stop(inj);
	if (rc) {
		inject_end(inj);
		return inject_refuse(pid, rc, err);
	}
	*ret = inj;
	return 0;
}

/*
 * --- a tracing thread that ends --------------------------------------------------------------
 */

struct inject_job {
	pid_t pid;
	int (*fn)(struct inject *inj, void *arg);
	void *arg;
	struct ebb_err *err;
	uint64_t stopped_ns;
	int rc;
};

static void *inject_thread(void *arg)
{
	struct inject_job *job = arg;
	struct inject *inj;

	/* While a VMM is stopped, others can wait: wake in time, and run when there is work. */
	prctl(PR_SET_TIMERSLACK, 1);
	(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), INJECT_NICE);
	job->rc = inject_begin(job->pid, &inj, job->err);
	if (job->rc)
		return NULL;
	job->rc = job->fn(inj, job->arg);
	job->stopped_ns = inject_end(inj);
	return NULL;
}

int inject_run(pid_t pid, int (*fn)(struct inject *inj, void *arg), void *arg,
	       uint64_t *ret_stopped_ns, struct ebb_err *err)
{
	struct inject_job job = {.pid = pid, .fn = fn, .arg = arg, .err = err};
	sigset_t all, old;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, inject_thread, &job);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return ebb_err_set(err, -rc, "cannot start a thread: %s", strerror(rc));
	pthread_join(thread, NULL);
	if (ret_stopped_ns)
		*ret_stopped_ns = job.stopped_ns;
	return job.rc;
}
