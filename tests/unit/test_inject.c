// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_inject.c - calls made by another process for us, which must not notice.
 *
 * The victims are forked children: one that runs user code with known values in its registers
 * and looks at them all the time, others that wait in system calls. A victim reports through a
 * shared page.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "vmm/inject.h"
#include "vmm/procmem.h"

static struct shared {
	_Atomic int ready;
	_Atomic int stop;
	_Atomic int signals;
	_Atomic int sig_value;
	_Atomic int result;
	_Atomic uint64_t loops;
} * sh;

static void nap_ms(int ms)
{
	const struct timespec ts = {ms / 1000, (ms % 1000) * 1000000L};

	nanosleep(&ts, NULL);
}

static pid_t start(void (*victim)(void))
{
	pid_t pid;

	memset(sh, 0, sizeof(*sh));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		victim();
		_exit(0);
	}
	assert_true(pid > 0);
	while (!sh->ready)
		nap_ms(1);
	return pid;
}

static char state_of(pid_t pid)
{
	struct proc_id id;

	return proc_identify(pid, &id, NULL) ? '?' : id.state;
}

static void wait_state(pid_t pid, char state)
{
	for (int i = 0; i < 5000 && state_of(pid) != state; i++)
		nap_ms(1);
	assert_int_equal(state_of(pid), state);
}

/* The victim ends by itself: 0, or what it noticed. */
static void assert_ends_well(pid_t pid)
{
	int st;

	sh->stop = 1;
	assert_int_equal(waitpid(pid, &st, 0), pid);
	if (WIFSIGNALED(st))
		print_error("killed by signal %d\n", WTERMSIG(st));
	assert_true(WIFEXITED(st));
	assert_int_equal(WEXITSTATUS(st), 0);
}

static void kill_victim(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void assert_untraced(pid_t pid)
{
	long long tracer = -1;

	assert_int_equal(proc_status_value(pid, "TracerPid", &tracer), 0);
	assert_int_equal(tracer, 0);
}

static int call_getpid(struct inject *inj, void *arg)
{
	const uint64_t args[6] = {0};

	return inject_syscall(inj, SYS_getpid, args, arg);
}

/* --- victims -------------------------------------------------------------------------------- */

static void count_signal(int sig, siginfo_t *si, void *uc)
{
	sh->signals++;
	sh->sig_value = si->si_value.sival_int;
}

static void catch_usr1(void)
{
	struct sigaction sa = {.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO};

	sigaction(SIGUSR1, &sa, NULL);
}

#ifdef __x86_64__
/* Every register the tracer borrows, the flags' direction bit apart, and two vector registers. */
static int registers_hold(void)
{
	long bad;

	__asm__ volatile("mov $0x1111, %%rbx; mov $0x2222, %%r8; mov $0x3333, %%r9\n"
			 "mov $0x4444, %%r10; mov $0x5555, %%r11; mov $0x6666, %%r12\n"
			 "mov $0x7777, %%r13; mov $0x8888, %%r14; mov $0x9999, %%r15\n"
			 "mov $0xaaaa, %%rdi; mov $0xbbbb, %%rsi; mov $0xcccc, %%rdx\n"
			 "movq %%rbx, %%xmm3; movq %%r12, %%xmm15\n"
			 "movq $0x123456, -8(%%rsp)\n" /* red zone */
			 "mov $20000, %%ecx; xor %%eax, %%eax\n"
			 "1: sub $0x1111, %%rbx; or %%rbx, %%rax; add $0x1111, %%rbx\n"
			 "sub $0x2222, %%r8; or %%r8, %%rax; add $0x2222, %%r8\n"
			 "sub $0x3333, %%r9; or %%r9, %%rax; add $0x3333, %%r9\n"
			 "sub $0x4444, %%r10; or %%r10, %%rax; add $0x4444, %%r10\n"
			 "sub $0x5555, %%r11; or %%r11, %%rax; add $0x5555, %%r11\n"
			 "sub $0x6666, %%r12; or %%r12, %%rax; add $0x6666, %%r12\n"
			 "sub $0x7777, %%r13; or %%r13, %%rax; add $0x7777, %%r13\n"
			 "sub $0x8888, %%r14; or %%r14, %%rax; add $0x8888, %%r14\n"
			 "sub $0x9999, %%r15; or %%r15, %%rax; add $0x9999, %%r15\n"
			 "sub $0xaaaa, %%rdi; or %%rdi, %%rax; add $0xaaaa, %%rdi\n"
			 "sub $0xbbbb, %%rsi; or %%rsi, %%rax; add $0xbbbb, %%rsi\n"
			 "sub $0xcccc, %%rdx; or %%rdx, %%rax; add $0xcccc, %%rdx\n"
			 "movq %%xmm3, %%rbx; movq %%xmm15, %%r12\n"
			 "cmpq $0x123456, -8(%%rsp); je 2f; or $1, %%rax\n"
			 "2: dec %%ecx; jnz 1b\n"
			 : "=a"(bad)
			 :
			 : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
			   "r13", "r14", "r15", "xmm3", "xmm15", "memory", "cc");
	return bad == 0;
}
#else
static int registers_hold(void)
{
	return 1;
}
#endif

static void spin_and_look(void)
{
	sigset_t mask, now;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	sh->ready = 1;
	while (!sh->stop) {
		sh->loops++;
		if (!registers_hold())
			_exit(1);
	}
	sigprocmask(SIG_SETMASK, NULL, &now);
	_exit(!sigismember(&now, SIGUSR2) || sigismember(&now, SIGUSR1) ||
	      sigismember(&now, SIGTERM));
}

static int pipe_fds[2];

/* The call must not come back before there is something to read, and not with an error. */
static void wait_in_read(void)
{
	char c = 0;

	sh->ready = 1;
	_exit(read(pipe_fds[0], &c, 1) == 1 && c == 'x' ? 0 : 1 + errno);
}

static void wait_in_ppoll(void)
{
	struct pollfd p = {.fd = pipe_fds[0], .events = POLLIN};
	const struct timespec ts = {30, 0};

	sh->ready = 1;
	_exit(ppoll(&p, 1, &ts, NULL) == 1 ? 0 : 1 + errno);
}

/* Keeps a restart block in the kernel. */
static void wait_in_nanosleep(void)
{
	struct timespec ts = {0, 700000000}, t0, t1;

	clock_gettime(CLOCK_MONOTONIC, &t0);
	sh->ready = 1;
	if (nanosleep(&ts, NULL))
		_exit(1);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	_exit((t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000 < 699 ? 2 : 0);
}

static void wait_for_signal(void)
{
	catch_usr1();
	sh->ready = 1;
	while (!sh->stop) {
		int rc = poll(NULL, 0, 60000);

		if (rc == 0 || errno != EINTR)
			_exit(1);
		if (sh->signals > 1)
			_exit(2);
	}
}

static void be_nobody_special(void)
{
	sh->ready = 1;
	while (!sh->stop)
		nap_ms(1);
}

/* --- tests ---------------------------------------------------------------------------------- */

static void test_registers_and_mask_stay(void **state)
{
	pid_t pid = start(spin_and_look);
	uint64_t before;

	for (int i = 0; i < 200; i++) {
		long val = 0;

		assert_int_equal(inject_run(pid, call_getpid, &val, NULL, NULL), 0);
		assert_int_equal(val, pid);
	}
	assert_untraced(pid);
	before = sh->loops;
	while (sh->loops == before)
		nap_ms(1);
	assert_ends_well(pid);
}

static void blocked_call(void (*victim)(void), bool has_pipe)
{
	uint64_t stopped;
	pid_t pid;

	if (has_pipe)
		assert_int_equal(pipe(pipe_fds), 0);
	pid = start(victim);
	wait_state(pid, 'S');
	for (int i = 0; i < 20; i++) {
		long val = 0;

		assert_int_equal(inject_run(pid, call_getpid, &val, &stopped, NULL), 0);
		assert_int_equal(val, pid);
		assert_true(stopped > 0);
		if (i % 5 == 0 && has_pipe)
			wait_state(pid, 'S');
	}
	if (has_pipe)
		assert_int_equal(write(pipe_fds[1], "x", 1), 1);
	assert_ends_well(pid);
	if (has_pipe) {
		close(pipe_fds[0]);
		close(pipe_fds[1]);
	}
}

static void test_read_is_restarted(void **state)
{
	blocked_call(wait_in_read, true);
}

static void test_ppoll_is_restarted(void **state)
{
	blocked_call(wait_in_ppoll, true);
}

static void test_nanosleep_sleeps_on(void **state)
{
	blocked_call(wait_in_nanosleep, false);
}

static void test_signal_during_stop_is_delivered(void **state)
{
	const uint64_t args[6] = {0};
	union sigval v = {.sival_int = 4711};
	pid_t pid = start(wait_for_signal);
	struct inject *inj;
	long val;

	wait_state(pid, 'S');
	assert_int_equal(inject_begin(pid, &inj, NULL), 0);
	assert_int_equal(sigqueue(pid, SIGUSR1, v), 0);
	assert_int_equal(inject_syscall(inj, SYS_getpid, args, &val), 0);
	assert_int_equal(val, pid);
	assert_int_equal(sh->signals, 0);
	inject_end(inj);
	while (!sh->signals)
		nap_ms(1);
	assert_int_equal(sh->sig_value, 4711);
	assert_untraced(pid);
	sh->stop = 1;
	kill_victim(pid);
	assert_int_equal(sh->signals, 1);
}

/* One that is on its way already when the tracer comes. */
static void test_signals_before_stop_are_delivered(void **state)
{
	pid_t pid = start(wait_for_signal);

	for (int i = 0; i < 50; i++) {
		union sigval v = {.sival_int = i};
		long val = 0;

		sh->signals = 0;
		sh->sig_value = -1;
		assert_int_equal(sigqueue(pid, SIGUSR1, v), 0);
		assert_int_equal(inject_run(pid, call_getpid, &val, NULL, NULL), 0);
		assert_int_equal(val, pid);
		while (!sh->signals)
			nap_ms(1);
		assert_int_equal(sh->sig_value, i);
	}
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	kill_victim(pid);
}

static void test_sigstop_during_stop_takes_effect(void **state)
{
	const uint64_t args[6] = {0};
	pid_t pid = start(spin_and_look);
	struct inject *inj;
	long val = 0;

	assert_int_equal(inject_begin(pid, &inj, NULL), 0);
	kill(pid, SIGSTOP);
	assert_int_equal(inject_syscall(inj, SYS_getpid, args, &val), 0);
	assert_int_equal(val, pid);
	inject_end(inj);
	wait_state(pid, 'T');
	assert_untraced(pid);
	kill(pid, SIGCONT);
	assert_ends_well(pid);
}

static void test_killed_in_the_middle(void **state)
{
	const uint64_t args[6] = {0};
	pid_t pid = start(spin_and_look);
	struct inject *inj;
	long val;
	int st;

	assert_int_equal(inject_begin(pid, &inj, NULL), 0);
	assert_int_equal(inject_syscall(inj, SYS_getpid, args, &val), 0);
	kill(pid, SIGKILL);
	assert_int_equal(inject_syscall(inj, SYS_getpid, args, &val), -ESRCH);
	assert_int_equal(inject_syscall(inj, SYS_getpid, args, &val), -ESRCH);
	inject_end(inj);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
}

static void test_stopped_one_stays_untouched(void **state)
{
	struct ebb_err err;
	pid_t pid = start(spin_and_look);
	struct inject *inj;

	kill(pid, SIGSTOP);
	wait_state(pid, 'T');
	assert_int_equal(inject_begin(pid, &inj, &err), -EAGAIN);
	assert_non_null(strstr(err.msg, "kill -CONT"));
	assert_int_equal(state_of(pid), 'T');
	assert_untraced(pid);
	kill(pid, SIGCONT);
	assert_ends_well(pid);
}

static void test_gone(void **state)
{
	struct inject *inj;
	struct ebb_err err;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	wait_state(pid, 'Z');
	assert_int_equal(inject_begin(pid, &inj, &err), -ESRCH);
	waitpid(pid, NULL, 0);
	assert_int_equal(inject_begin(pid, &inj, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "no process"));
}

static void test_traced_by_another(void **state)
{
	struct ebb_err err;
	pid_t pid = start(be_nobody_special), tracer;
	struct inject *inj;

	sh->ready = 0;
	tracer = fork();
	if (!tracer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_SEIZE, pid, 0, 0))
			_exit(1);
		sh->ready = 1;
		pause();
	}
	while (!sh->ready)
		nap_ms(1);
	assert_int_equal(inject_begin(pid, &inj, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "is traced by process"));
	kill_victim(tracer);
	assert_ends_well(pid);
}

/* A parent in vfork() waits uninterruptibly. (The call itself, as the sanitizers make it a fork.) */
static void wait_in_vfork(void)
{
	sh->ready = 1;
	if (!syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)) {
		while (!sh->stop)
			nap_ms(1);
		_exit(0);
	}
}

static void test_uninterruptible_times_out(void **state)
{
	struct ebb_err err;
	pid_t pid = start(wait_in_vfork);
	long val;

	wait_state(pid, 'D');
	assert_int_equal(inject_run(pid, call_getpid, &val, NULL, &err), -ETIMEDOUT);
	assert_untraced(pid);
	assert_ends_well(pid);
}

static void test_scratch_is_given_back(void **state)
{
	char before[INJECT_SCRATCH], after[INJECT_SCRATCH], text[] = "left in another's stack";
	pid_t pid = start(be_nobody_special);
	struct inject *inj;
	uint64_t at;
	char path[64];
	FILE *mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	assert_int_equal(inject_begin(pid, &inj, NULL), 0);
	at = inject_scratch(inj);
	assert_int_equal(at % 64, 0);
	mem = fopen(path, "r");
	assert_non_null(mem);
	setbuf(mem, NULL);
	fseek(mem, (long)at, SEEK_SET);
	assert_int_equal(fread(before, 1, sizeof(before), mem), sizeof(before));

	assert_int_equal(inject_write(inj, INJECT_SCRATCH - sizeof(text), text, sizeof(text)), 0);
	assert_int_equal(inject_read(inj, INJECT_SCRATCH - sizeof(text), after, sizeof(text)), 0);
	assert_string_equal(after, text);
	assert_int_equal(inject_write(inj, INJECT_SCRATCH - 4, text, 5), -EINVAL);
	assert_int_equal(inject_read(inj, SIZE_MAX, after, 2), -EINVAL);

	/* The call that uses it: getcwd, whose buffer is there. */
	const uint64_t args[6] = {at, INJECT_SCRATCH};
	char cwd[INJECT_SCRATCH];
	long val;

	assert_int_equal(inject_syscall(inj, SYS_getcwd, args, &val), 0);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(val, strlen(cwd) + 1);
	assert_int_equal(inject_read(inj, 0, after, (size_t)val), 0);
	assert_string_equal(after, cwd);
	inject_end(inj);
	kill(pid, SIGSTOP);
	wait_state(pid, 'T');
	fclose(mem);
	kill(pid, SIGCONT);
	assert_ends_well(pid);
}

static void test_error_result_is_passed_on(void **state)
{
	const uint64_t args[6] = {(uint64_t)-1};
	pid_t pid = start(spin_and_look);
	struct inject *inj;
	long val = 0;

	assert_int_equal(inject_begin(pid, &inj, NULL), 0);
	assert_int_equal(inject_syscall(inj, SYS_close, args, &val), 0);
	assert_int_equal(val, -EBADF);
	inject_end(inj);
	assert_ends_well(pid);
}

/* What a sandbox does that traps instead of refusing: its signal must not reach the victim. */
static void forbid_getpid_by_signal(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {ARRAY_SIZE(code), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		_exit(99);
	spin_and_look();
}

static void test_call_that_traps(void **state)
{
	pid_t pid = start(forbid_getpid_by_signal);

	for (int i = 0; i < 10; i++) {
		long val = 0;

		assert_int_equal(inject_run(pid, call_getpid, &val, NULL, NULL), -EACCES);
	}
	assert_untraced(pid);
	assert_ends_well(pid);
}

/*
 * The tracer is killed at whatever point it has reached. The victim goes on, with its registers
 * and its mask, or (the other kind) in its call.
 */
static void tracer_killed(void (*victim)(void), int rounds)
{
	pid_t pid = start(victim);

	for (int i = 0; i < rounds; i++) {
		pid_t tracer = fork();

		if (!tracer) {
			long val;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				inject_run(pid, call_getpid, &val, NULL, NULL);
		}
		for (int spin = 0; spin < (i * 7919) % 3000; spin++)
			__asm__ volatile("" ::: "memory");
		nap_ms(1 + i % 3);
		kill_victim(tracer);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	}
	assert_untraced(pid);
	if (victim == wait_in_read)
		assert_int_equal(write(pipe_fds[1], "x", 1), 1);
	assert_ends_well(pid);
}

static void test_tracer_killed_while_victim_runs(void **state)
{
#ifndef __x86_64__
	skip();
#endif
	tracer_killed(spin_and_look, 300);
}

static void test_tracer_killed_while_victim_waits(void **state)
{
#ifndef __x86_64__
	skip();
#endif
	assert_int_equal(pipe(pipe_fds), 0);
	tracer_killed(wait_in_read, 300);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static bool may_trace(void)
{
	pid_t pid = start(be_nobody_special);
	int rc = ptrace(PTRACE_SEIZE, pid, 0, 0);

	kill_victim(pid);
	return rc == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers_and_mask_stay),
		cmocka_unit_test(test_read_is_restarted),
		cmocka_unit_test(test_ppoll_is_restarted),
		cmocka_unit_test(test_nanosleep_sleeps_on),
		cmocka_unit_test(test_signal_during_stop_is_delivered),
		cmocka_unit_test(test_signals_before_stop_are_delivered),
		cmocka_unit_test(test_sigstop_during_stop_takes_effect),
		cmocka_unit_test(test_killed_in_the_middle),
		cmocka_unit_test(test_stopped_one_stays_untouched),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_traced_by_another),
		cmocka_unit_test(test_uninterruptible_times_out),
		cmocka_unit_test(test_scratch_is_given_back),
		cmocka_unit_test(test_error_result_is_passed_on),
		cmocka_unit_test(test_call_that_traps),
		cmocka_unit_test(test_tracer_killed_while_victim_runs),
		cmocka_unit_test(test_tracer_killed_while_victim_waits),
	};

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return 1;
	if (!may_trace()) {
		printf("SKIP: no right to trace a child (ptrace is not permitted here)\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
