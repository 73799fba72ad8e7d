/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standin.h - processes for tests to take over: a child with a shared memfd, or a real QEMU.
 *
 * A stand-in does what it is told through a socket (touch a page, read one, quit), so that a
 * test knows exactly which pages it has used. QEMUs use TCG and no display, and run their
 * firmware.
 */
#ifndef TESTS_UNIT_STANDIN_H
#define TESTS_UNIT_STANDIN_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include "vmm/qmp.h"

struct standin {
	size_t size;	    /* of the memfd */
	unsigned int flags; /* of memfd_create */
	bool inherited;	    /* no MADV_DONTFORK */
	bool map_private;
	void (*setup)(struct standin *s); /* in the child, after the mapping is made */

	pid_t pid;
	int pidfd;
	int sock;
	int memfd; /* in the child */
	char *ram; /* in the child */
};

struct standin_cmd {
	char op; /* w: write @value at @off, r: read, q: quit */
	size_t off;
	unsigned char value;
};

static inline void standin_nap(int ms)
{
	const struct timespec ts = {ms / 1000, (ms % 1000) * 1000000L};

	nanosleep(&ts, NULL);
}

static inline void standin_child(struct standin *s, int sock)
{
	const int share = s->map_private ? MAP_PRIVATE : MAP_SHARED;
	struct standin_cmd c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	s->memfd = memfd_create("standin", s->flags | MFD_CLOEXEC);
	if (s->memfd < 0 || ftruncate(s->memfd, (off_t)s->size))
		_exit(101);
	s->ram = mmap(NULL, s->size, PROT_READ | PROT_WRITE, share, s->memfd, 0);
	if (s->ram == MAP_FAILED)
		_exit(102);
	if (!s->inherited && madvise(s->ram, s->size, MADV_DONTFORK))
		_exit(103);
	if (s->setup)
		s->setup(s);
	c = (struct standin_cmd) {.op = '!', .off = (size_t)s->ram};
	if (write(sock, &c, sizeof(c)) != sizeof(c))
		_exit(104);
	while (read(sock, &c, sizeof(c)) == sizeof(c) && c.op != 'q') {
		volatile char *p = s->ram + c.off;

		if (c.op == 'w')
			*p = (char)c.value;
		c.value = (unsigned char)*p;
		if (write(sock, &c, sizeof(c)) != sizeof(c))
			_exit(105);
	}
	_exit(0);
}

/** standin_start() - 0, or a negative errno when the child could not be set up */
static inline int standin_start(struct standin *s)
{
	struct standin_cmd c;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	s->pid = fork();
	if (!s->pid) {
		close(pair[0]);
		standin_child(s, pair[1]);
	}
	close(pair[1]);
	s->sock = pair[0];
	s->pidfd = sys_pidfd_open(s->pid);
	if (read(s->sock, &c, sizeof(c)) != sizeof(c))
		return -EIO;
	s->ram = (char *)c.off;
	return 0;
}

static inline void standin_tell(struct standin *s, char op, size_t off, unsigned char value)
{
	const struct standin_cmd c = {.op = op, .off = off, .value = value};

	if (write(s->sock, &c, sizeof(c)) != sizeof(c))
		abort();
}

/* Waits for the answer to standin_tell(); what was read. */
static inline int standin_hear(struct standin *s)
{
	struct standin_cmd c;

	return read(s->sock, &c, sizeof(c)) == sizeof(c) ? c.value : -1;
}

static inline int standin_do(struct standin *s, char op, size_t off, unsigned char value)
{
	standin_tell(s, op, off, value);
	return standin_hear(s);
}

/** standin_end() - end it; its exit status, or -1 when it did not end by itself */
static inline int standin_end(struct standin *s)
{
	int st = -1;

	standin_tell(s, 'q', 0, 0);
	waitpid(s->pid, &st, 0);
	close(s->sock);
	close(s->pidfd);
	return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

/* --- real QEMUs ----------------------------------------------------------------------------- */

struct qemu {
	pid_t pid;
	int pidfd;
	char dir[32];
	char monitor[64];
};

/* A failed assertion leaves a test without its end; and -runas undoes PR_SET_PDEATHSIG. */
static pid_t qemu_running;

static inline void qemu_kill_left_over(void)
{
	if (qemu_running > 0)
		kill(qemu_running, SIGKILL);
}

static inline bool qemu_available(void)
{
	return !access("/usr/bin/qemu-system-x86_64", X_OK);
}

static inline void qemu_end(struct qemu *q)
{
	kill(q->pid, SIGKILL);
	waitpid(q->pid, NULL, 0);
	qemu_running = -1;
	close(q->pidfd);
	unlink(q->monitor);
	rmdir(q->dir);
}

/**
 * qemu_start() - @args: NULL-terminated, in addition to the basic ones; false when it did not
 * come up
 */
static inline bool qemu_start(struct qemu *q, const char *const args[])
{
	const char *argv[64] = {"qemu-system-x86_64", "-accel", "tcg", "-display", "none",
				"-nodefaults",	      "-qmp"};
	siginfo_t si;
	char qmp[96];
	int n = 8;

	snprintf(q->dir, sizeof(q->dir), "/tmp/ebb-test.XXXXXX");
	if (!mkdtemp(q->dir))
		return false;
	snprintf(q->monitor, sizeof(q->monitor), "%s/qmp", q->dir);
	snprintf(qmp, sizeof(qmp), "unix:%s,server=on,wait=off", q->monitor);
	argv[7] = qmp;
	while (*args && n < 63)
		argv[n++] = *args++;
	q->pid = fork();
	if (!q->pid) {
		int null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, 0);
		dup2(null, 1); /* a QEMU left over must not hold the test's output open */
		dup2(null, 2);
		execv("/usr/bin/qemu-system-x86_64", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	q->pidfd = sys_pidfd_open(q->pid);
	qemu_kill_left_over();
	if (!qemu_running)
		atexit(qemu_kill_left_over);
	qemu_running = q->pid;
	for (int i = 0; i < 300; i++) {
		if (!qmp_execute(q->monitor, "query-status", NULL, 5000, NULL, NULL))
			return true;
		si.si_pid = 0;
		waitid(P_PID, (id_t)q->pid, &si, WEXITED | WNOHANG | WNOWAIT);
		if (si.si_pid)
			break;
		standin_nap(50);
	}
	qemu_end(q);
	return false;
}

#endif
