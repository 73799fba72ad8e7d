// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_remote.c - descriptors planted in a stand-in and in real QEMUs, and that they work from
 * here.
 */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <cmocka.h>
#include "standin.h"
#include "vmm/procmem.h"
#include "vmm/remote.h"
#include "vmm/uffd.h"

#define PAGE EBB_PAGE_SIZE
#define MIB  (1UL << 20)

static void become_nobody(struct standin *s)
{
	/* as libvirt's QEMUs run */
	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		_exit(99);
}

static void take_memory(struct standin *s, struct region_table *t)
{
	struct ebb_err err = {""};
	int rc = proc_find_regions(s->pid, s->pidfd, t, &err);

	if (rc)
		print_error("%s\n", err.msg);
	assert_int_equal(rc, 0);
	assert_int_equal(t->nr, 1);
	assert_int_equal(t->r[0].hva, (uintptr_t)s->ram);
}

static void open_remote(struct standin *s, struct remote *rem)
{
	struct ebb_err err = {""};
	int rc = remote_open(s->pid, s->pidfd, rem, &err);

	if (rc)
		print_error("%s\n", err.msg);
	assert_int_equal(rc, 0);
	assert_true(rem->uffd >= 0 && rem->remote_uffd >= 0);
	assert_true(rem->stopped_ns > 0);
}

static int count_fds(pid_t pid)
{
	char path[32];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* Descriptors of the kinds that are planted; a QEMU opens and closes others by itself. */
static int count_planted(pid_t pid)
{
	static const char *const kinds[] = {"anon_inode:[userfaultfd]", "anon_inode:[io_uring]",
					    "/dev/userfaultfd"};
	char path[32], link[256];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while ((e = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[len > 0 ? len : 0] = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			n += !strcmp(link, kinds[i]);
	}
	closedir(d);
	return n;
}

/* Pages of the stand-in that have a PTE, as its pagemap tells. */
static int present(pid_t pid, const char *addr, size_t pages)
{
	uint64_t word[256];
	char path[32];
	int fd, n = 0;

	assert_true(pages <= ARRAY_SIZE(word));
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, word, pages * 8, (off_t)((uintptr_t)addr / PAGE * 8)),
			 pages * 8);
	close(fd);
	for (size_t i = 0; i < pages; i++)
		n += !!(word[i] & PAGEMAP_PRESENT);
	return n;
}

static struct uffd_msg next_message(int uffd)
{
	struct pollfd p = {.fd = uffd, .events = POLLIN};
	struct uffd_msg msg = {0};

	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(read(uffd, &msg, sizeof(msg)), sizeof(msg));
	return msg;
}

/* A fault of the stand-in comes here and is served from here. */
static void fault_works(struct standin *s, struct remote *rem)
{
	unsigned char page[PAGE];
	struct uffd_msg msg;
	size_t done;

	assert_int_equal(uffd_enable(rem->uffd), 0);
	assert_int_equal(uffd_register(rem->uffd, (uintptr_t)s->ram, s->size), 0);
	standin_tell(s, 'r', 7 * PAGE + 5, 0);
	msg = next_message(rem->uffd);
	assert_int_equal(msg.event, UFFD_EVENT_PAGEFAULT);
	assert_int_equal(msg.arg.pagefault.address & ~(PAGE - 1), (uintptr_t)s->ram + 7 * PAGE);
	memset(page, 0x5a, sizeof(page));
	assert_int_equal(uffd_copy(rem->uffd, (uintptr_t)s->ram + 7 * PAGE, page, PAGE, &done), 0);
	assert_int_equal(done, PAGE);
	assert_int_equal(standin_hear(s), 0x5a);
	assert_int_equal(uffd_copy(rem->uffd, (uintptr_t)s->ram + 7 * PAGE, page, PAGE, &done),
			 -EEXIST);
	assert_int_equal(done, 0);

	assert_int_equal(uffd_writeprotect(rem->uffd, (uintptr_t)s->ram + 7 * PAGE, PAGE, true), 0);
	standin_tell(s, 'w', 7 * PAGE, 3);
	msg = next_message(rem->uffd);
	assert_true(msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP);
	assert_int_equal(uffd_writeprotect(rem->uffd, (uintptr_t)s->ram + 7 * PAGE, PAGE, false),
			 0);
	assert_int_equal(standin_hear(s), 3);

	assert_int_equal(uffd_zeropage(rem->uffd, (uintptr_t)s->ram, 2 * PAGE, &done), 0);
	assert_int_equal(done, 2 * PAGE);
	assert_int_equal(standin_do(s, 'r', PAGE, 0), 0);
	assert_int_equal(uffd_unregister(rem->uffd, (uintptr_t)s->ram, s->size), 0);
}

static void test_uffd(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct region_table t;
	struct remote rem;
	int fds;

	assert_int_equal(standin_start(&s), 0);
	take_memory(&s, &t);
	fds = count_fds(s.pid);
	open_remote(&s, &rem);
	fault_works(&s, &rem);
	assert_int_equal(count_fds(s.pid), fds + 1 + (rem.ring_fd >= 0));
	assert_int_equal(remote_close(s.pid, &rem, NULL), 0);
	assert_int_equal(count_fds(s.pid), fds);
	assert_int_equal(rem.uffd, -1);
	proc_close_regions(&t);
	assert_int_equal(standin_end(&s), 0);
}

/* Kernel-mode faults count: that is what the device is for. */
static void test_uffd_of_an_unprivileged_process(void **state)
{
	struct standin s = {.size = 4 * MIB, .setup = become_nobody};
	struct remote rem;
	int fds;

	if (getuid() || access("/dev/userfaultfd", R_OK | W_OK))
		skip();
	assert_int_equal(standin_start(&s), 0);
	fds = count_fds(s.pid);
	open_remote(&s, &rem);
	fault_works(&s, &rem);
	assert_int_equal(count_fds(s.pid), fds + 1 + (rem.ring_fd >= 0));
	assert_int_equal(remote_close(s.pid, &rem, NULL), 0);
	assert_int_equal(count_fds(s.pid), fds);
	assert_int_equal(standin_end(&s), 0);
}

static void touch_all(struct standin *s, size_t from, size_t pages)
{
	for (size_t i = from; i < from + pages; i++)
		standin_do(s, 'w', i * PAGE, (unsigned char)(i + 1));
}

/* Each call must reach its own range: a ring set up wrongly repeats the first one. */
static void ranges_are_zapped(struct standin *s, struct remote *rem)
{
	const size_t first[] = {0, 64, 16, 200, 128};

	touch_all(s, 0, 256);
	assert_int_equal(present(s->pid, s->ram, 256), 256);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		const char *at = s->ram + first[i] * PAGE;

		assert_int_equal(
			remote_madvise(rem, s->pid, (uintptr_t)at, 8 * PAGE, MADV_DONTNEED), 0);
		assert_int_equal(present(s->pid, at, 8), 0);
		assert_int_equal(present(s->pid, s->ram, 256), 256 - 8 * (int)(i + 1));
		assert_true(remote_idle(rem));
	}
	assert_int_equal(
		remote_madvise(rem, s->pid, (uintptr_t)s->ram, 16 * PAGE, MADV_POPULATE_READ), 0);
	assert_int_equal(present(s->pid, s->ram, 16), 16);
	/* dropping a PTE loses no byte */
	for (size_t i = 0; i < 256; i++)
		assert_int_equal(standin_do(s, 'r', i * PAGE, 0), (unsigned char)(i + 1));
	assert_int_equal(remote_madvise(rem, s->pid, 4096, PAGE, MADV_DONTNEED), -ENOMEM);
	assert_int_equal(remote_madvise(rem, s->pid, (uintptr_t)s->ram, PAGE, 12345), -EINVAL);
}

static void test_madvise_by_ring(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct remote rem;

	assert_int_equal(standin_start(&s), 0);
	open_remote(&s, &rem);
	if (rem.ring_fd < 0) {
		print_message("no io_uring here (kernel.io_uring_disabled?)\n");
		standin_end(&s);
		skip();
	}
	assert_true(remote_idle(&rem));
	for (int i = 0; i < 5; i++)
		ranges_are_zapped(&s, &rem);
	/* and once more when the kernel thread has gone to sleep */
	standin_nap(100);
	ranges_are_zapped(&s, &rem);
	remote_forget(&rem);
	assert_int_equal(standin_end(&s), 0);
}

static void test_madvise_without_ring(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct remote rem;

	assert_int_equal(standin_start(&s), 0);
	open_remote(&s, &rem);
	remote_forget(&rem);
	assert_true(remote_idle(&rem));
	ranges_are_zapped(&s, &rem);
	assert_int_equal(standin_end(&s), 0);
}

/* More submissions than the ring has entries. */
static void test_ring_goes_round(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct remote rem;

	assert_int_equal(standin_start(&s), 0);
	open_remote(&s, &rem);
	if (rem.ring_fd < 0) {
		standin_end(&s);
		skip();
	}
	for (size_t i = 0; i < 300; i++) {
		char *at = s.ram + (i % 256) * PAGE;

		standin_do(&s, 'w', (i % 256) * PAGE, 1);
		assert_int_equal(remote_madvise(&rem, s.pid, (uintptr_t)at, PAGE, MADV_DONTNEED),
				 0);
		assert_int_equal(present(s.pid, at, 1), 0);
	}
	remote_forget(&rem);
	assert_int_equal(standin_end(&s), 0);
}

/* A zap waits until its REMOVE is read: the time-out, the late completion, and the next call. */
static void test_late_completion(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct uffd_msg msg;
	struct remote rem;

	assert_int_equal(standin_start(&s), 0);
	open_remote(&s, &rem);
	if (rem.ring_fd < 0) {
		standin_end(&s);
		skip();
	}
	touch_all(&s, 0, 64);
	assert_int_equal(uffd_enable(rem.uffd), 0);
	assert_int_equal(uffd_register(rem.uffd, (uintptr_t)s.ram, s.size), 0);
	assert_int_equal(remote_madvise(&rem, s.pid, (uintptr_t)s.ram, 8 * PAGE, MADV_DONTNEED),
			 -ETIMEDOUT);
	assert_false(remote_idle(&rem));
	msg = next_message(rem.uffd);
	assert_int_equal(msg.event, UFFD_EVENT_REMOVE);
	assert_int_equal(msg.arg.remove.start, (uintptr_t)s.ram);
	/* its completion is there, and not taken yet, when another one is waited for */
	while (io_uring_cq_ready(&rem.ring) == 0)
		standin_nap(1);
	assert_int_equal(remote_madvise(&rem, s.pid, (uintptr_t)s.ram, PAGE, 12345), -EINVAL);
	while (!remote_idle(&rem))
		standin_nap(1);
	assert_int_equal(present(s.pid, s.ram, 8), 0);
	assert_int_equal(uffd_unregister(rem.uffd, (uintptr_t)s.ram, s.size), 0);
	remote_forget(&rem);
	assert_int_equal(standin_end(&s), 0);
}

static void test_refetch(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct remote rem, again;
	struct ebb_err err;

	assert_int_equal(standin_start(&s), 0);
	open_remote(&s, &rem);
	assert_int_equal(uffd_enable(rem.uffd), 0);
	if (rem.ring_fd >= 0) {
		/* the ring's position must be kept: several operations before, several after */
		for (int i = 0; i < 5; i++)
			assert_int_equal(
				remote_madvise(&rem, s.pid, (uintptr_t)s.ram, PAGE, MADV_DONTNEED),
				0);
	}
	remote_forget(&rem);
	assert_int_equal(remote_refetch(s.pidfd, rem.remote_uffd, rem.remote_ring, &rem.ring_params,
					&again, &err),
			 0);
	assert_int_equal(again.remote_uffd, rem.remote_uffd);
	assert_true(remote_idle(&again));
	assert_int_equal(uffd_register(again.uffd, (uintptr_t)s.ram, s.size), 0);
	assert_int_equal(uffd_unregister(again.uffd, (uintptr_t)s.ram, s.size), 0);
	ranges_are_zapped(&s, &again);

	/* not what was left there: the stand-in's memfd; nothing at all */
	rem.remote_ring = again.remote_ring;
	assert_int_equal(remote_refetch(s.pidfd, 0, -1, &rem.ring_params, &rem, &err), -EBADF);
	assert_non_null(strstr(err.msg, "descriptor 0"));
	assert_int_equal(remote_refetch(s.pidfd, 999, -1, &rem.ring_params, &rem, &err), -EBADF);
	if (again.ring_fd >= 0)
		assert_int_equal(remote_refetch(s.pidfd, again.remote_uffd, again.remote_uffd,
						&rem.ring_params, &rem, &err),
				 -EBADF);
	assert_int_equal(remote_close(s.pid, &again, NULL), 0);
	assert_int_equal(standin_end(&s), 0);
}

/* A number that has become something else since is not closed. */
static void test_close_only_what_is_ours(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct remote rem;
	int fds;

	assert_int_equal(standin_start(&s), 0);
	open_remote(&s, &rem);
	fds = count_fds(s.pid);
	rem.remote_uffd = 2;
	rem.remote_ring = 1;
	assert_int_equal(remote_close(s.pid, &rem, NULL), 0);
	assert_int_equal(count_fds(s.pid), fds);
	assert_int_equal(standin_end(&s), 0);
}

static void test_dead_process(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct remote rem;
	struct ebb_err err;

	assert_int_equal(standin_start(&s), 0);
	open_remote(&s, &rem);
	kill(s.pid, SIGKILL);
	waitid(P_PID, (id_t)s.pid, &(siginfo_t) {0}, WEXITED | WNOWAIT);
	assert_int_equal(remote_madvise(&rem, s.pid, (uintptr_t)s.ram, PAGE, MADV_DONTNEED),
			 -ESRCH);
	assert_int_equal(remote_close(s.pid, &rem, &err), 0);
	assert_int_equal(remote_open(s.pid, s.pidfd, &rem, &err), -ESRCH);
	waitpid(s.pid, NULL, 0);
	assert_int_equal(remote_open(s.pid, s.pidfd, &rem, &err), -ESRCH);
	close(s.pidfd);
	close(s.sock);
}

/* Nothing left behind in the process when it may not have another descriptor. */
static void test_no_descriptor_left(void **state)
{
	struct rlimit none = {4, 4};
	struct standin s = {.size = 4 * MIB};
	struct remote rem = {.uffd = 77};
	struct ebb_err err;
	int fds;

	assert_int_equal(standin_start(&s), 0);
	fds = count_fds(s.pid);
	assert_int_equal(prlimit(s.pid, RLIMIT_NOFILE, &none, NULL), 0);
	assert_int_equal(remote_open(s.pid, s.pidfd, &rem, &err), -EMFILE);
	assert_non_null(strstr(err.msg, "RLIMIT_NOFILE"));
	assert_int_equal(rem.uffd, 77);
	assert_int_equal(count_fds(s.pid), fds);
	assert_int_equal(standin_end(&s), 0);
}

/* --- real QEMUs ----------------------------------------------------------------------------- */

#define SANDBOX "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
#define RAM                                                                                        \
	"-m", "64M", "-machine", "q35,memory-backend=m", "-object",                                \
		"memory-backend-memfd,id=m,size=64M,share=on"

static void attach_to_qemu(const char *const args[])
{
	struct region_table t = {.nr = 0};
	struct ebb_err err = {""};
	struct remote rem;
	struct qemu q;
	int planted;

	if (!qemu_available()) {
		print_message("no qemu-system-x86_64 here\n");
		skip();
	}
	assert_true(qemu_start(&q, args));
	assert_int_equal(proc_find_regions(q.pid, q.pidfd, &t, &err), 0);
	planted = count_planted(q.pid);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(remote_open(q.pid, q.pidfd, &rem, &err), 0);
		assert_int_equal(count_planted(q.pid), planted + 1 + (rem.ring_fd >= 0));
		assert_int_equal(uffd_enable(rem.uffd), 0);
		assert_int_equal(uffd_register(rem.uffd, t.r[0].hva, pages_to_bytes(t.r[0].nr)), 0);
		assert_int_equal(proc_check_vmflags(q.pid, &t, &err), 0);
		assert_int_equal(uffd_unregister(rem.uffd, t.r[0].hva, pages_to_bytes(t.r[0].nr)),
				 0);
		assert_int_equal(proc_check_vmflags(q.pid, &t, &err), -EINVAL);
		assert_int_equal(remote_madvise(&rem, q.pid, t.r[0].hva, pages_to_bytes(t.r[0].nr),
						MADV_NOHUGEPAGE),
				 0);
		assert_int_equal(remote_close(q.pid, &rem, &err), 0);
		/* still alive and answering */
		assert_int_equal(qmp_execute(q.monitor, "query-status", NULL, 20000, NULL, &err),
				 0);
	}
	assert_int_equal(count_planted(q.pid), planted);
	proc_close_regions(&t);
	qemu_end(&q);
}

static void test_qemu(void **state)
{
	attach_to_qemu((const char *const[]) {RAM, NULL});
}

static void test_qemu_in_its_sandbox(void **state)
{
	attach_to_qemu((const char *const[]) {RAM, "-sandbox", SANDBOX, NULL});
}

static void test_qemu_as_nobody(void **state)
{
	if (getuid() || access("/dev/userfaultfd", R_OK | W_OK))
		skip();
	attach_to_qemu((const char *const[]) {RAM, "-runas", "nobody", NULL});
}

static bool may_attach(void)
{
	struct standin s = {.size = MIB};
	struct remote rem;
	struct ebb_err err;
	int rc;

	if (standin_start(&s))
		return false;
	rc = remote_open(s.pid, s.pidfd, &rem, &err);
	standin_end(&s);
	if (!rc)
		remote_forget(&rem);
	else if (rc == -EPERM || rc == -ENOSYS)
		printf("SKIP: %s\n", err.msg);
	return rc != -EPERM && rc != -ENOSYS;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uffd),
		cmocka_unit_test(test_uffd_of_an_unprivileged_process),
		cmocka_unit_test(test_madvise_by_ring),
		cmocka_unit_test(test_madvise_without_ring),
		cmocka_unit_test(test_ring_goes_round),
		cmocka_unit_test(test_late_completion),
		cmocka_unit_test(test_refetch),
		cmocka_unit_test(test_close_only_what_is_ours),
		cmocka_unit_test(test_dead_process),
		cmocka_unit_test(test_no_descriptor_left),
		cmocka_unit_test(test_qemu),
		cmocka_unit_test(test_qemu_in_its_sandbox),
		cmocka_unit_test(test_qemu_as_nobody),
	};

	if (!may_attach())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
