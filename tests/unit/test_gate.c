// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_gate.c - each refusal of the safety gate, by name, and that nothing was changed by it.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <cmocka.h>
#include "standin.h"
#include "vmm/gate.h"
#include "vmm/procmem.h"
#include "vmm/uffd.h"

#define MIB (1UL << 20)

static const struct gate_options any = {.any_process = true};
static const struct gate_options strict = {.any_process = false};

static int check_pid(pid_t pid, const struct gate_options *opt, struct ebb_err *err)
{
	struct proc_id id;
	int rc = proc_identify(pid, &id, err);

	return rc ? rc : gate_check_process(&id, opt, err);
}

static void assert_says(const struct ebb_err *err, const char *says)
{
	if (!strstr(err->msg, says))
		print_error("%s\n", err->msg);
	assert_non_null(strstr(err->msg, says));
}

/* A stand-in set up by @setup is refused as a process. */
static void assert_process(void (*setup)(struct standin *s), int rc, const char *says)
{
	struct standin s = {.size = 2 * MIB, .setup = setup};
	struct ebb_err err = {""};

	if (standin_start(&s)) {
		int st;

		waitpid(s.pid, &st, 0);
		close(s.sock);
		close(s.pidfd);
		print_message("cannot be set up here: \"%s\"\n", says);
		assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 77);
		return;
	}
	assert_int_equal(check_pid(s.pid, &any, &err), rc);
	assert_says(&err, says);
	assert_int_equal(standin_end(&s), 0);
}

static void assert_regions(const struct standin *how, int rc, const char *says)
{
	struct ebb_err err = {""};
	struct standin s = *how;
	struct region_table t;

	assert_int_equal(standin_start(&s), 0);
	assert_int_equal(proc_find_regions(s.pid, s.pidfd, &t, &err), 0);
	assert_int_equal(gate_check_regions(s.pid, &t, &err), rc);
	assert_says(&err, says);
	proc_close_regions(&t);
	assert_int_equal(standin_end(&s), 0);
}

static void test_good_ones_pass(void **state)
{
	assert_process(NULL, 0, "");
	assert_regions(&(struct standin) {.size = 2 * MIB}, 0, "");
}

static void test_host(void **state)
{
	struct ebb_err err = {""};
	int rc = gate_check_host(&err);

	if (rc)
		print_error("%s\n", err.msg);
	assert_int_equal(rc, 0);
}

/* --- processes ------------------------------------------------------------------------------ */

static void test_no_such_process(void **state)
{
	struct ebb_err err;

	assert_int_equal(check_pid(0x3fffff, &any, &err), -ESRCH);
	assert_says(&err, "no process");
}

static void test_not_qemu(void **state)
{
	struct ebb_err err;

	assert_int_equal(check_pid(getpid(), &strict, &err), -EINVAL);
	assert_says(&err, "is not a QEMU");
}

static void test_stopped_and_zombie(void **state)
{
	struct standin s = {.size = 2 * MIB};
	struct ebb_err err;
	siginfo_t si;

	assert_int_equal(standin_start(&s), 0);
	kill(s.pid, SIGSTOP);
	waitid(P_PID, (id_t)s.pid, &si, WSTOPPED | WNOWAIT);
	assert_int_equal(check_pid(s.pid, &any, &err), -EAGAIN);
	assert_says(&err, "kill -CONT");
	kill(s.pid, SIGKILL);
	waitid(P_PID, (id_t)s.pid, &si, WEXITED | WNOWAIT);
	assert_int_equal(check_pid(s.pid, &any, &err), -ESRCH);
	assert_says(&err, "zombie");
	waitpid(s.pid, NULL, 0);
	close(s.sock);
	close(s.pidfd);
}

static void test_traced(void **state)
{
	struct standin s = {.size = 2 * MIB};
	struct ebb_err err;

	assert_int_equal(standin_start(&s), 0);
	if (ptrace(PTRACE_SEIZE, s.pid, 0, 0)) {
		standin_end(&s);
		skip();
	}
	assert_int_equal(check_pid(s.pid, &any, &err), -EBUSY);
	assert_says(&err, "is traced by");
	kill(s.pid, SIGKILL);
	waitpid(s.pid, NULL, 0);
	close(s.sock);
	close(s.pidfd);
}

static void open_uffd(struct standin *s)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || uffd_enable(fd))
		_exit(77);
}

static void open_idle_uffd(struct standin *s)
{
	if (syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK) < 0)
		_exit(77);
}

static void lock_memory(struct standin *s)
{
	/* not mlock(), which the sanitizers make do nothing */
	if (syscall(SYS_mlock, s->ram, EBB_PAGE_SIZE))
		_exit(77);
}

/* A device node's name is enough: a plain file in a /dev of the stand-in's own. */
static void open_in_own_dev(const char *dir, const char *file)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, NULL) || (dir && mkdir(dir, 0700)) ||
	    open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 0)
		_exit(77);
}

static void open_vfio(struct standin *s)
{
	open_in_own_dev("/dev/vfio", "/dev/vfio/42");
}

static void open_vdpa(struct standin *s)
{
	open_in_own_dev(NULL, "/dev/vhost-vdpa-0");
}

static void open_iommufd(struct standin *s)
{
	open_in_own_dev(NULL, "/dev/iommu");
}

static void open_sev(struct standin *s)
{
	open_in_own_dev(NULL, "/dev/sev");
}

static void open_vhost_net(struct standin *s)
{
	open_in_own_dev(NULL, "/dev/vhost-net");
}

static void test_descriptors(void **state)
{
	assert_process(open_uffd, -EBUSY, "has a userfaultfd open");
	/* never enabled, so watching nothing */
	assert_process(open_idle_uffd, 0, "");
	assert_process(open_vfio, -EBUSY, "has a VFIO device open");
	assert_process(open_vdpa, -EBUSY, "has a vDPA device open");
	assert_process(open_iommufd, -EBUSY, "has an iommufd open");
	assert_process(open_sev, -EBUSY, "has AMD SEV open");
	/* works in the VMM's own address space: fine */
	assert_process(open_vhost_net, 0, "");
}

static void test_locked(void **state)
{
	assert_process(lock_memory, -EBUSY, "locked in memory");
}

/* --- regions -------------------------------------------------------------------------------- */

static void seal(struct standin *s)
{
	if (fcntl(s->memfd, F_ADD_SEALS, 0x10 /* F_SEAL_FUTURE_WRITE */))
		_exit(99);
}

static void test_regions(void **state)
{
	assert_regions(&(struct standin) {.size = 2 * MIB, .inherited = true}, -EINVAL,
		       "is inherited by fork");
	assert_regions(&(struct standin) {.size = 2 * MIB, .setup = lock_memory}, -EBUSY,
		       "is locked");
	assert_regions(
		&(struct standin) {.size = 2 * MIB, .flags = MFD_ALLOW_SEALING, .setup = seal},
		-EPERM, "sealed");
}

static pid_t second_mapper;

static void fork_a_second_mapper(struct standin *s)
{
	second_mapper = fork();
	if (!second_mapper) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "the-culprit");
		for (;;)
			pause();
	}
}

/* A child that inherited the descriptor is one, though its copy of the mapping is gone. */
static void test_second_mapper(void **state)
{
	struct standin s = {
		.size = 2 * MIB, .flags = MFD_ALLOW_SEALING, .setup = fork_a_second_mapper};

	assert_regions(&s, -EBUSY, "holds open guest RAM");
}

static void test_regions_gone(void **state)
{
	struct standin s = {.size = 2 * MIB};
	struct region_table t;
	struct ebb_err err;

	assert_int_equal(standin_start(&s), 0);
	assert_int_equal(proc_find_regions(s.pid, s.pidfd, &t, &err), 0);
	t.r[0].hva += 64 * MIB * 1024;
	assert_int_equal(gate_check_regions(s.pid, &t, &err), -EAGAIN);
	proc_close_regions(&t);
	assert_int_equal(standin_end(&s), 0);
}

/* --- real QEMUs ----------------------------------------------------------------------------- */

#define RAM                                                                                        \
	"-m", "64M", "-machine", "q35,memory-backend=m", "-object",                                \
		"memory-backend-memfd,id=m,size=64M,share=on"

static void test_qemu_passes(void **state)
{
	const char *const args[] = {RAM, NULL};
	struct gate_options opt = strict;
	struct region_table t;
	struct ebb_err err = {""};
	struct qemu q;

	if (!qemu_available())
		skip();
	assert_true(qemu_start(&q, args));
	assert_int_equal(check_pid(q.pid, &opt, &err), 0);
	opt.monitor = q.monitor;
	assert_int_equal(check_pid(q.pid, &opt, &err), 0);
	assert_int_equal(proc_find_regions(q.pid, q.pidfd, &t, &err), 0);
	assert_int_equal(gate_check_regions(q.pid, &t, &err), 0);
	proc_close_regions(&t);
	opt.monitor = "/nonexistent/qmp";
	assert_int_equal(check_pid(q.pid, &opt, &err), -ENOENT);
	qemu_end(&q);
}

static void test_qemu_incoming(void **state)
{
	const char *const args[] = {RAM, "-incoming", "defer", NULL};
	struct gate_options opt = strict;
	struct ebb_err err = {""};
	struct qemu q;

	if (!qemu_available())
		skip();
	assert_true(qemu_start(&q, args));
	assert_int_equal(check_pid(q.pid, &opt, &err), -EBUSY);
	assert_says(&err, "name its monitor");
	opt.monitor = q.monitor;
	assert_int_equal(check_pid(q.pid, &opt, &err), -EBUSY);
	assert_says(&err, "inmigrate");
	qemu_end(&q);
}

static void test_qemu_mem_lock(void **state)
{
	const char *const args[] = {"-m",	   "1M",
				    "-machine",	   "q35,memory-backend=m",
				    "-object",	   "memory-backend-memfd,id=m,size=1M,share=on",
				    "-overcommit", "mem-lock=on",
				    NULL};
	struct ebb_err err;
	struct qemu q;

	if (!qemu_available())
		skip();
	/* where RLIMIT_MEMLOCK is too small QEMU refuses by itself */
	if (!qemu_start(&q, args))
		skip();
	assert_int_equal(check_pid(q.pid, &strict, &err), -EBUSY);
	assert_says(&err, "mem-lock=on");
	qemu_end(&q);
}

/* --- the cgroup ----------------------------------------------------------------------------- */

static bool write_text(const char *dir, const char *file, const char *text)
{
	char path[160];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "w");
	if (!f)
		return false;
	n = fputs(text, f);
	return fclose(f) == 0 && n >= 0;
}

/* A memory cgroup of our own with 256 MiB; false where none can be made. */
static bool make_cgroup(char *dir, size_t size)
{
	snprintf(dir, size, "/sys/fs/cgroup/memory/ebb-test-%d", getpid());
	if (!mkdir(dir, 0755)) {
		if (write_text(dir, "memory.limit_in_bytes", "268435456"))
			return true;
		rmdir(dir);
	}
	snprintf(dir, size, "/sys/fs/cgroup/ebb-test-%d", getpid());
	if (mkdir(dir, 0755))
		return false;
	if (write_text(dir, "memory.max", "268435456"))
		return true;
	rmdir(dir);
	return false;
}

static void test_cgroup(void **state)
{
	struct standin s = {.size = 2 * MIB};
	struct ebb_err warning;
	char dir[96], pid[16];

	assert_int_equal(standin_start(&s), 0);
	assert_false(gate_warn_cgroup(s.pid, MIB, &warning));
	assert_false(gate_warn_cgroup(s.pid, UINT64_MAX, &warning));
	if (!make_cgroup(dir, sizeof(dir))) {
		standin_end(&s);
		print_message("no memory cgroup can be made here\n");
		skip();
	}
	snprintf(pid, sizeof(pid), "%d", s.pid);
	assert_true(write_text(dir, "cgroup.procs", pid));
	/* 256 MiB hold 153 + 25 % + 64, and not 154 */
	assert_false(gate_warn_cgroup(s.pid, 153 * MIB, &warning));
	assert_true(gate_warn_cgroup(s.pid, 154 * MIB, &warning));
	assert_says(&warning, "allows 256 MiB");
	assert_int_equal(standin_end(&s), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_ones_pass),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_no_such_process),
		cmocka_unit_test(test_not_qemu),
		cmocka_unit_test(test_stopped_and_zombie),
		cmocka_unit_test(test_traced),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_locked),
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_second_mapper),
		cmocka_unit_test(test_regions_gone),
		cmocka_unit_test(test_qemu_passes),
		cmocka_unit_test(test_qemu_incoming),
		cmocka_unit_test(test_qemu_mem_lock),
		cmocka_unit_test(test_cgroup),
	};
	struct ebb_err err;
	int rc = gate_check_host(&err);

	/* what is missing is said by the gate itself: nothing more to test on such a host */
	if (rc) {
		printf("SKIP: %s\n", err.msg);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
