// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_procmem.c - who a process is, where its guest RAM is, and who else has it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "standin.h"
#include "vmm/procmem.h"

#define MIB (1UL << 20)

static int find(const struct standin *s, struct region_table *t, struct ebb_err *err)
{
	err->msg[0] = '\0';
	return proc_find_regions(s->pid, s->pidfd, t, err);
}

static void assert_refused(struct standin *s, int rc, const char *says)
{
	struct region_table t = {.nr = 77};
	struct ebb_err err;

	assert_int_equal(standin_start(s), 0);
	assert_int_equal(find(s, &t, &err), rc);
	if (!strstr(err.msg, says))
		print_error("%s\n", err.msg);
	assert_non_null(strstr(err.msg, says));
	assert_int_equal(t.nr, 77);
	assert_int_equal(standin_end(s), 0);
}

static int count_own_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* --- who it is ------------------------------------------------------------------------------ */

static void odd_name(struct standin *s)
{
	prctl(PR_SET_NAME, "a) R (b c");
}

static void test_identify(void **state)
{
	struct standin s = {.size = MIB, .setup = odd_name};
	struct proc_id id, again;
	struct ebb_err err;
	long long value;

	assert_int_equal(standin_start(&s), 0);
	for (int i = 0; i < 2000 && (proc_identify(s.pid, &id, NULL) || id.state != 'S'); i++)
		standin_nap(1);
	assert_int_equal(id.pid, s.pid);
	assert_string_equal(id.comm, "a) R (b c");
	assert_int_equal(id.state, 'S');
	assert_int_equal(id.uid, geteuid());
	assert_non_null(strstr(id.exe, "/test_procmem"));
	assert_true(id.start_time > 0);
	assert_int_equal(proc_identify(s.pid, &again, NULL), 0);
	assert_true(again.start_time == id.start_time);
	assert_int_equal(proc_status_value(s.pid, "PPid", &value), 0);
	assert_int_equal(value, getpid());
	assert_int_equal(proc_status_value(s.pid, "NoSuchThing", &value), -ENOENT);
	assert_int_equal(standin_end(&s), 0);

	assert_int_equal(proc_identify(s.pid, &id, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "no process"));
	assert_int_equal(id.pid, s.pid);
	assert_int_equal(proc_identify(-1, &id, &err), -ESRCH);
	assert_int_equal(proc_identify(0, &id, &err), -ESRCH);
	assert_int_equal(proc_status_value(s.pid, "PPid", &value), -ESRCH);
}

static bool is_qemu(const char *exe, const char *comm)
{
	struct proc_id id = {.pid = 1};

	snprintf(id.exe, sizeof(id.exe), "%s", exe);
	snprintf(id.comm, sizeof(id.comm), "%s", comm);
	return proc_is_qemu(&id);
}

static void test_is_qemu(void **state)
{
	assert_true(is_qemu("/usr/bin/qemu-system-x86_64", "x"));
	assert_true(is_qemu("/usr/libexec/qemu-kvm", "x"));
	assert_true(is_qemu("/opt/q/qemu-system-aarch64", "x"));
	assert_true(is_qemu("", "qemu-system-x86"));
	assert_false(is_qemu("/usr/bin/qemu-img", "qemu-system-x86"));
	assert_false(is_qemu("/usr/bin/qemu-nbd", ""));
	assert_false(is_qemu("/usr/bin/bash", "qemu"));
	assert_false(is_qemu("/home/qemu-system-x86_64/sh", ""));
}

static void test_options(void **state)
{
	static const char cmdline[] =
		"qemu\0-machine\0pc\0--M\0q35,usb=off\0-S\0-machine\0x=y\0-last";
	const size_t len = sizeof(cmdline);
	const char *arg = proc_cmdline_option(cmdline, len, "machine", NULL);

	assert_string_equal(arg, "pc");
	arg = proc_cmdline_option(cmdline, len, "machine", arg);
	assert_string_equal(arg, "x=y");
	assert_null(proc_cmdline_option(cmdline, len, "machine", arg));
	assert_string_equal(proc_cmdline_option(cmdline, len, "M", NULL), "q35,usb=off");
	assert_null(proc_cmdline_option(cmdline, len, "mach", NULL));
	assert_non_null(proc_cmdline_option(cmdline, len, "S", NULL));
}

/* --- finding RAM ---------------------------------------------------------------------------- */

static void test_one_memfd(void **state)
{
	struct standin s = {.size = 8 * MIB};
	struct region_table t;
	struct ebb_err err;
	char byte = 0;
	int fds;

	assert_int_equal(standin_start(&s), 0);
	fds = count_own_fds();
	standin_do(&s, 'w', 3 * MIB + 17, 0x42);
	assert_int_equal(find(&s, &t, &err), 0);
	assert_int_equal(t.nr, 1);
	assert_int_equal(t.nr_pages, bytes_to_pages(8 * MIB));
	assert_int_equal(t.r[0].first, 0);
	assert_int_equal(t.r[0].nr, t.nr_pages);
	assert_int_equal(t.r[0].hva, (uintptr_t)s.ram);
	assert_int_equal(t.r[0].file_off, 0);
	assert_int_equal(t.r[0].gpa, REGION_GPA_UNKNOWN);
	assert_string_equal(t.r[0].name, "standin");
	assert_int_equal(pread(t.r[0].memfd, &byte, 1, 3 * MIB + 17), 1);
	assert_int_equal(byte, 0x42);
	assert_ptr_equal(region_find_hva(&t, t.r[0].hva + 8 * MIB - 1), &t.r[0]);
	assert_null(region_find_hva(&t, t.r[0].hva + 8 * MIB));
	assert_null(region_find_hva(&t, t.r[0].hva - 1));
	assert_null(region_find_index(&t, t.nr_pages));
	proc_close_regions(&t);
	assert_int_equal(count_own_fds(), fds);
	assert_int_equal(standin_end(&s), 0);
}

static void split_vma(struct standin *s)
{
	if (madvise(s->ram + 2 * MIB, MIB, MADV_DONTDUMP) ||
	    madvise(s->ram + 5 * MIB, MIB, MADV_RANDOM))
		_exit(99);
}

static void test_split_vma_is_one_piece(void **state)
{
	struct standin s = {.size = 8 * MIB, .setup = split_vma};
	struct region_table t;
	struct ebb_err err;

	assert_int_equal(standin_start(&s), 0);
	assert_int_equal(find(&s, &t, &err), 0);
	assert_int_equal(t.nr, 1);
	assert_int_equal(t.nr_pages, bytes_to_pages(8 * MIB));
	proc_close_regions(&t);
	assert_int_equal(standin_end(&s), 0);
}

static void map_more(struct standin *s)
{
	int fd = memfd_create("second", MFD_CLOEXEC), small = memfd_create("small", MFD_CLOEXEC);

	if (ftruncate(fd, 2 * MIB) || ftruncate(small, 64 << 10) ||
	    mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ||
	    mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_SHARED, small, 0) == MAP_FAILED)
		_exit(99);
}

static void test_two_memfds(void **state)
{
	struct standin s = {.size = 8 * MIB, .setup = map_more};
	struct region_table t;
	struct ebb_err err;
	int fds;

	assert_int_equal(standin_start(&s), 0);
	fds = count_own_fds();
	assert_int_equal(find(&s, &t, &err), 0);
	assert_int_equal(t.nr, 2);
	assert_int_equal(t.nr_pages, bytes_to_pages(10 * MIB));
	assert_int_equal(t.r[1].first, t.r[0].nr);
	assert_true(t.r[0].memfd != t.r[1].memfd);
	assert_ptr_equal(region_find_index(&t, t.r[0].nr - 1), &t.r[0]);
	assert_ptr_equal(region_find_index(&t, t.r[0].nr), &t.r[1]);
	assert_int_equal(region_index(&t.r[1], t.r[1].hva + 5000), t.r[1].first + 1);
	assert_int_equal(region_offset(&t.r[1], t.r[1].first + 3), 3 * EBB_PAGE_SIZE);
	proc_close_regions(&t);
	assert_int_equal(count_own_fds(), fds);
	assert_int_equal(standin_end(&s), 0);
}

static void map_twice(struct standin *s)
{
	if (mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, s->memfd, MIB) == MAP_FAILED)
		_exit(99);
}

static void map_read_only_too(struct standin *s)
{
	if (mmap(NULL, EBB_PAGE_SIZE, PROT_READ, MAP_SHARED, s->memfd, 0) == MAP_FAILED)
		_exit(99);
}

static void close_memfd(struct standin *s)
{
	close(s->memfd);
}

static void shrink(struct standin *s)
{
	if (ftruncate(s->memfd, MIB))
		_exit(99);
}

static void only_reopened_read_only(struct standin *s)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->memfd);
	if (open(path, O_RDONLY | O_CLOEXEC) < 0)
		_exit(99);
	close(s->memfd);
}

static void test_refusals(void **state)
{
	struct standin twice = {.size = 4 * MIB, .setup = map_twice};
	struct standin reader = {.size = 4 * MIB, .setup = map_read_only_too};
	struct standin closed = {.size = 4 * MIB, .setup = close_memfd};
	struct standin ro = {.size = 4 * MIB, .setup = only_reopened_read_only};
	struct standin shrunk = {.size = 4 * MIB, .setup = shrink};
	struct standin hidden = {.size = 4 * MIB, .map_private = true};
	struct standin small = {.size = 64 << 10};
	int fds = count_own_fds();

	assert_refused(&twice, -EOPNOTSUPP, "twice");
	assert_refused(&reader, -EOPNOTSUPP, "a second time");
	assert_refused(&closed, -ENOENT, "no writable descriptor");
	assert_refused(&ro, -ENOENT, "no writable descriptor");
	assert_refused(&shrunk, -EINVAL, "than there is");
	assert_refused(&hidden, -ENOENT, "no shared memory");
	assert_refused(&small, -ENOENT, "memory-backend-memfd,share=on");
	assert_int_equal(count_own_fds(), fds);
}

static void map_huge(struct standin *s)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);

	if (fd < 0 || ftruncate(fd, 4 * MIB) ||
	    mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0) ==
		    MAP_FAILED)
		_exit(77);
}

static void test_hugetlb(void **state)
{
	struct standin s = {.size = 4 * MIB, .setup = map_huge};
	struct region_table t;
	struct ebb_err err;

	if (standin_start(&s)) {
		print_message("no hugetlb here\n");
		skip();
	}
	assert_int_equal(find(&s, &t, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.msg, "huge pages"));
	assert_int_equal(standin_end(&s), 0);
}

static void test_gone(void **state)
{
	struct region_table t;
	struct ebb_err err;

	assert_int_equal(proc_find_regions(0x3fffff, -1, &t, &err), -ESRCH);
}

/* --- others --------------------------------------------------------------------------------- */

static pid_t start_foreign(const struct standin *s, int remote_fd, bool map)
{
	char path[64];
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", s->pid, remote_fd);
	pid = fork();
	if (!pid) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (map && mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED)
			close(fd);
		if (fd < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ready[0], &c, 1) != 1)
		return -1;
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void test_foreign_mapper(void **state)
{
	struct standin s = {.size = 4 * MIB};
	struct region_table t;
	struct ebb_err err;
	char who[32];

	assert_int_equal(standin_start(&s), 0);
	assert_int_equal(find(&s, &t, &err), 0);
	/* this process holds it too, and is not foreign */
	assert_int_equal(proc_foreign_mapper(s.pid, &t, &err), 0);
	for (int map = 0; map < 2; map++) {
		pid_t other = start_foreign(&s, t.r[0].remote_fd, map);

		assert_true(other > 0);
		assert_int_equal(proc_foreign_mapper(s.pid, &t, &err), -EBUSY);
		snprintf(who, sizeof(who), "process %d (", other);
		assert_non_null(strstr(err.msg, who));
		assert_non_null(strstr(err.msg, "/test_procmem"));
		assert_non_null(strstr(err.msg, map ? " maps " : " holds open "));
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	assert_int_equal(proc_foreign_mapper(s.pid, &t, &err), 0);
	proc_close_regions(&t);
	assert_int_equal(standin_end(&s), 0);
}

/* --- real QEMUs ----------------------------------------------------------------------------- */

static void assert_qemu(const char *const args[], int rc, const char *says)
{
	struct region_table t;
	struct ebb_err err = {""};
	struct qemu q;

	assert_true(qemu_start(&q, args));
	assert_int_equal(proc_find_regions(q.pid, q.pidfd, &t, &err), rc);
	if (!strstr(err.msg, says))
		print_error("%s\n", err.msg);
	assert_non_null(strstr(err.msg, says));
	if (!rc) {
		assert_int_equal(t.nr, 1);
		assert_int_equal(t.nr_pages, bytes_to_pages(64 * MIB));
		assert_int_equal(t.r[0].gpa, 0);
		proc_close_regions(&t);
	}
	qemu_end(&q);
}

#define QEMU(rc, says, ...) assert_qemu((const char *const[]) {__VA_ARGS__, NULL}, rc, says)

static void test_qemu_memory(void **state)
{
	if (!qemu_available())
		skip();
	QEMU(0, "", "-m", "64M", "-machine", "pc,memory-backend=m", "-object",
	     "memory-backend-memfd,share=on,id=m,size=64M");
	QEMU(0, "", "-m", "64M", "-machine", "q35,memory-backend=m", "-object",
	     "memory-backend-file,id=m,size=64M,share=on,mem-path=/dev/shm");
	QEMU(-EOPNOTSUPP, "is private memory", "-m", "64M");
	QEMU(-EOPNOTSUPP, "ebb-run", "-m", "64M");
	QEMU(-EOPNOTSUPP, "share=off", "-m", "64M", "-machine", "q35,memory-backend=m", "-object",
	     "memory-backend-memfd,id=m,size=64M,share=off");
	QEMU(-EOPNOTSUPP, "without a descriptor", "-m", "64M", "-machine", "q35,memory-backend=m",
	     "-object", "memory-backend-ram,id=m,size=64M,share=on");
}

static void test_qemu_numa(void **state)
{
	const char *const args[] = {"-machine", "q35",
				    "-m",	"4096M",
				    "-smp",	"2",
				    "-object",	"memory-backend-memfd,share=on,id=a,size=2G",
				    "-object",	"memory-backend-memfd,share=on,id=b,size=2G",
				    "-numa",	"node,memdev=a,cpus=0",
				    "-numa",	"node,memdev=b,cpus=1",
				    NULL};
	struct region_table t;
	struct ebb_err err;
	struct qemu q;

	if (!qemu_available())
		skip();
	assert_true(qemu_start(&q, args));
	assert_int_equal(proc_find_regions(q.pid, q.pidfd, &t, &err), 0);
	assert_int_equal(t.nr, 2);
	assert_int_equal(t.r[0].gpa, REGION_GPA_UNKNOWN);
	assert_int_equal(t.r[1].gpa, REGION_GPA_UNKNOWN);
	assert_int_equal(qmp_place_regions(q.monitor, &t, 20000, &err), 0);
	assert_int_equal(t.nr, 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(t.r[i].gpa, strcmp(t.r[i].name, "a") ? 4096 * MIB : 0);
	assert_string_not_equal(t.r[0].name, t.r[1].name);
	proc_close_regions(&t);
	qemu_end(&q);
}

/* The monitor and the machine rule must agree. */
static void test_qemu_split(void **state)
{
	static const char *const machines[] = {"pc,memory-backend=m", "q35,memory-backend=m"};

	if (!qemu_available())
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		const char *const args[] = {
			"-m",	    "4096M",
			"-object",  "memory-backend-memfd,share=on,id=m,size=4096M",
			"-machine", machines[i],
			NULL};
		struct region_table t, asked;
		struct ebb_err err;
		struct qemu q;

		assert_true(qemu_start(&q, args));
		assert_int_equal(proc_find_regions(q.pid, q.pidfd, &t, &err), 0);
		asked = t;
		assert_int_equal(qmp_place_regions(q.monitor, &asked, 20000, &err), 0);
		assert_int_equal(t.nr, 2);
		assert_int_equal(asked.nr, 2);
		for (unsigned int j = 0; j < 2; j++) {
			assert_int_equal(asked.r[j].gpa, t.r[j].gpa);
			assert_int_equal(asked.r[j].nr, t.r[j].nr);
			assert_int_equal(asked.r[j].hva, t.r[j].hva);
		}
		proc_close_regions(&t);
		qemu_end(&q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identify),
		cmocka_unit_test(test_is_qemu),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_one_memfd),
		cmocka_unit_test(test_split_vma_is_one_piece),
		cmocka_unit_test(test_two_memfds),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_hugetlb),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_foreign_mapper),
		cmocka_unit_test(test_qemu_memory),
		cmocka_unit_test(test_qemu_numa),
		cmocka_unit_test(test_qemu_split),
	};
	struct standin s = {.size = MIB};
	int fd = -1;

	if (!standin_start(&s)) {
		fd = sys_pidfd_getfd(s.pidfd, 0);
		standin_end(&s);
	}
	if (fd < 0) {
		printf("SKIP: pidfd_getfd is not permitted here\n");
		return 77;
	}
	close(fd);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
