// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_pinguard.c - verdicts of the pin guard on pages of every kind, and its refusals.
 *
 * A page may carry a reference in passing (a per-CPU LRU batch, a scanner), which reads as busy:
 * where a page is expected to be clean the question is put again after a drain. Where it is
 * expected not to be clean, the first answer counts.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pinguard.h"

#define PG	 EBB_PAGE_SIZE
#define HUGE_PG	 512u /* pages of a PMD-sized folio */
#define TEST_PGS 700u /* more than one call, and no multiple of 64 */

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

static struct pinguard *guard;

/* A shared memfd with a mapping; its pages are small whatever the host's huge page policy is. */
struct mem {
	int fd;
	char *p;
	size_t pages;
};

static struct mem mem_new(size_t pages)
{
	struct mem m = {.pages = pages};

	m.fd = memfd_create("test-pinguard", MFD_CLOEXEC);
	assert_true(m.fd >= 0);
	assert_int_equal(ftruncate(m.fd, (off_t)(pages * PG)), 0);
	m.p = mmap(NULL, pages * PG, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	assert_true(m.p != MAP_FAILED);
	madvise(m.p, pages * PG, MADV_NOHUGEPAGE);
	return m;
}

static void mem_free(struct mem *m)
{
	munmap(m->p, m->pages * PG);
	close(m->fd);
}

static void mem_touch(struct mem *m, size_t first, size_t nr)
{
	for (size_t i = first; i < first + nr; i++)
		*(volatile char *)(m->p + i * PG) = 1;
}

static enum pin_verdict look(int fd, uint64_t index)
{
	uint8_t v = 0xff;

	assert_int_equal(pinguard_check(guard, fd, index, 1, &v, NULL), 0);
	return v;
}

/* The answer once passing references are gone. */
static enum pin_verdict look_settled(int fd, uint64_t index)
{
	enum pin_verdict v = look(fd, index);

	for (int i = 0; i < 100 && (v == PIN_BUSY || v == PIN_UNKNOWN); i++) {
		pinguard_drain(guard);
		usleep(1000);
		v = look(fd, index);
	}
	return v;
}

static void expect_all(int fd, uint64_t first, uint32_t nr, enum pin_verdict want)
{
	uint8_t v[PIN_MAX];

	for (int try = 0;; try++) {
		uint32_t bad = 0;

		assert_int_equal(pinguard_check(guard, fd, first, nr, v, NULL), 0);
		while (bad < nr && v[bad] == want)
			bad++;
		if (bad == nr)
			return;
		if (try == 100)
			fail_msg("page %llu is %s, not %s", (unsigned long long)(first + bad),
				 pin_verdict_name(v[bad]), pin_verdict_name(want));
		pinguard_drain(guard);
		usleep(1000);
	}
}

static void pin_page(struct io_uring *ring, void *page)
{
	struct iovec iov = {page, PG};

	assert_int_equal(io_uring_queue_init(2, ring, 0), 0);
	assert_int_equal(io_uring_register_buffers(ring, &iov, 1), 0);
}

static void test_hole_and_clean(void **state)
{
	struct mem m = mem_new(TEST_PGS);

	expect_all(m.fd, 0, PIN_MAX, PIN_ABSENT);
	mem_touch(&m, 0, TEST_PGS);
	expect_all(m.fd, 0, PIN_MAX, PIN_CLEAN);
	expect_all(m.fd, TEST_PGS - 500, 500, PIN_CLEAN);
	/* No PTE anywhere: nothing a look at page tables or PFNs could have found. */
	assert_int_equal(madvise(m.p, TEST_PGS * PG, MADV_DONTNEED), 0);
	expect_all(m.fd, 0, PIN_MAX, PIN_CLEAN);
	mem_free(&m);
}

static void test_hole_is_seen_exactly(void **state)
{
	struct mem m = mem_new(TEST_PGS);

	mem_touch(&m, 0, TEST_PGS);
	assert_int_equal(
		fallocate(m.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 60 * PG, 71 * PG), 0);
	expect_all(m.fd, 0, 60, PIN_CLEAN);
	expect_all(m.fd, 60, 71, PIN_ABSENT);
	expect_all(m.fd, 131, 512, PIN_CLEAN);
	mem_free(&m);
}

/* Trees of every height: none at all, page 0 alone, two levels, and far beyond the end. */
static void test_tree_shapes(void **state)
{
	const uint64_t far = 1ull << 26; /* 256 GiB into the file */
	struct mem m = mem_new(1);
	int fd = memfd_create("sparse", MFD_CLOEXEC);

	assert_int_equal(look(m.fd, 0), PIN_ABSENT);
	mem_touch(&m, 0, 1);
	assert_int_equal(look_settled(m.fd, 0), PIN_CLEAN);
	expect_all(m.fd, 1, 200, PIN_ABSENT);
	expect_all(m.fd, ~0ull - 600, PIN_MAX, PIN_ABSENT);
	mem_free(&m);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)((far + 1000) * PG)), 0);
	assert_int_equal(pwrite(fd, "x", 1, (off_t)((far + 77) * PG)), 1);
	assert_int_equal(look(fd, 0), PIN_ABSENT);
	assert_int_equal(look(fd, far + 76), PIN_ABSENT);
	assert_int_not_equal(look(fd, far + 77), PIN_ABSENT);
	assert_int_equal(look(fd, far + 78), PIN_ABSENT);
	/* Beyond the end of the tree, where a careless walk comes round to page far + 77. */
	assert_int_equal(look(fd, far + 77 + (1ull << 30)), PIN_ABSENT);
	assert_int_equal(look(fd, far + 77 + (1ull << 36)), PIN_ABSENT);
	close(fd);
}

static void test_pinned(void **state)
{
	struct mem m = mem_new(TEST_PGS);
	struct io_uring ring;

	mem_touch(&m, 0, TEST_PGS);
	pin_page(&ring, m.p + 130 * PG);
	assert_int_equal(look(m.fd, 130), PIN_PINNED);
	expect_all(m.fd, 100, 30, PIN_CLEAN);
	expect_all(m.fd, 131, 30, PIN_CLEAN);
	assert_int_equal(madvise(m.p, TEST_PGS * PG, MADV_DONTNEED), 0);
	assert_int_equal(look(m.fd, 130), PIN_PINNED);
	io_uring_unregister_buffers(&ring);
	expect_all(m.fd, 100, 100, PIN_CLEAN);
	io_uring_queue_exit(&ring);
	mem_free(&m);
}

/* A page given to a pipe is held by a plain reference: no pin count tells. */
static void test_busy(void **state)
{
	struct mem m = mem_new(4);
	struct iovec iov = {m.p + PG, PG};
	char sink[PG];
	int p[2];

	mem_touch(&m, 0, 4);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(vmsplice(p[1], &iov, 1, 0), PG);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(look(m.fd, 1), PIN_BUSY);
		pinguard_drain(guard);
	}
	assert_int_equal(look_settled(m.fd, 0), PIN_CLEAN);
	assert_int_equal(read(p[0], sink, PG), PG);
	assert_int_equal(look_settled(m.fd, 1), PIN_CLEAN);
	close(p[0]);
	close(p[1]);
	mem_free(&m);
}

/* Mapped by two processes is not held by anybody else: each PTE brings its reference. */
static void test_two_mappings_are_clean(void **state)
{
	struct mem m = mem_new(64);
	char *second = mmap(NULL, 64 * PG, PROT_READ, MAP_SHARED, m.fd, 0);

	assert_true(second != MAP_FAILED);
	mem_touch(&m, 0, 64);
	for (size_t i = 0; i < 32; i++)
		(void)*(volatile char *)(second + i * PG);
	expect_all(m.fd, 0, 64, PIN_CLEAN);
	munmap(second, 64 * PG);
	mem_free(&m);
}

static bool have_swap(void)
{
	char line[256];
	FILE *f = fopen("/proc/swaps", "re");
	int lines = 0;

	while (f && fgets(line, sizeof(line), f))
		lines++;
	if (f)
		fclose(f);
	return lines > 1;
}

static void test_swapped(void **state)
{
	struct mem m;

	if (!have_swap()) {
		print_message("no swap on this machine\n");
		skip();
	}
	m = mem_new(64);
	mem_touch(&m, 0, 64);
	expect_all(m.fd, 0, 64, PIN_CLEAN);
	assert_int_equal(madvise(m.p, 64 * PG, MADV_PAGEOUT), 0);
	expect_all(m.fd, 0, 64, PIN_SWAPPED);
	mem_touch(&m, 3, 1);
	assert_int_equal(look_settled(m.fd, 3), PIN_CLEAN);
	mem_free(&m);
}

/* Run in a child, which gets a mount namespace: 0 right, 1 wrong, 77 no large folio to be had. */
static int large_folio_child(void)
{
	uint8_t v[PIN_MAX];
	char *p;
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/mnt", "tmpfs", 0, "huge=always,size=16m") < 0)
		return 77;
	fd = open("/mnt/f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 2 * HUGE_PG * PG) < 0)
		return 1;
	p = mmap(NULL, 2 * HUGE_PG * PG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || pwrite(fd, "x", 1, 5 * PG) != 1)
		return 1;
	/* Only page 5 was written: that page 300 is there too says that it is one large folio. */
	if (look(fd, 300) == PIN_ABSENT)
		return 77;
	if (pinguard_check(guard, fd, 0, PIN_MAX, v, NULL) < 0)
		return 1;
	for (uint32_t i = 0; i < HUGE_PG; i++)
		if (v[i] != PIN_LARGE) {
			fprintf(stderr, "page %u of a large folio: %s\n", i,
				pin_verdict_name(v[i]));
			return 1;
		}
	if (look(fd, HUGE_PG) != PIN_ABSENT)
		return 1;
	/*
	 * A hole in it splits it; what is left of it in larger pieces is still named so. The kernel does not split while
	 * somebody else holds a reference, as its own page batches do for a moment: then the whole stays large.
	 */
	for (int tries = 0; tries < 100; tries++) {
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10 * PG, PG) < 0 ||
		    pinguard_check(guard, fd, 0, PIN_MAX, v, NULL) < 0 || v[300] == PIN_ABSENT)
			return 1;
		if (v[10] == PIN_ABSENT && v[300] != PIN_PINNED)
			return 0;
		usleep(20000);
	}
	fprintf(stderr, "page 10, a hole: %s; page 300: %s\n", pin_verdict_name(v[10]),
		pin_verdict_name(v[300]));
	return 1;
}

static void test_large(void **state)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(large_folio_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("no large folios in tmpfs here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static struct pin_mappers mappers_of(int fd)
{
	struct pin_mappers m;
	uint8_t v;

	assert_int_equal(pinguard_check(guard, fd, 0, 1, &v, &m), 0);
	return m;
}

static void test_mappers(void **state)
{
	struct mem m = mem_new(100);
	struct pin_mappers a, b;
	char link[64];
	char *q;
	int fd;

	mem_touch(&m, 0, 40);
	a = mappers_of(m.fd);
	assert_int_equal(a.mmap_writable, 1);
	assert_int_equal(a.mmap_tree, 1);
	assert_int_equal(a.dentry_count, 1);
	assert_int_equal(a.file_count, 2); /* the descriptor and the mapping */
	assert_int_equal(a.nr_pages, 40);

	q = mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	b = mappers_of(m.fd);
	assert_int_equal(b.mmap_writable, 2);
	assert_int_equal(b.mmap_tree, 2);
	assert_int_equal(b.file_count, 3);
	munmap(q, PG);

	/* Opened anew and mapped read-only: the writable count does not see it, the rest does. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", m.fd);
	fd = open(link, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(mappers_of(m.fd).dentry_count, 2);
	q = mmap(NULL, PG, PROT_READ, MAP_SHARED, fd, 0);
	b = mappers_of(m.fd);
	assert_int_equal(b.mmap_writable, 1);
	assert_int_equal(b.mmap_tree, 2);
	munmap(q, PG);
	close(fd);

	munmap(m.p, 100 * PG);
	b = mappers_of(m.fd);
	assert_int_equal(b.mmap_writable, 0);
	assert_int_equal(b.mmap_tree, 0);
	assert_int_equal(b.file_count, 1);
	close(m.fd);
}

static void test_bad_requests(void **state)
{
	struct pin_mappers m, untouched;
	struct mem mem = mem_new(1);
	uint8_t v[PIN_MAX + 1];
	int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	int huge = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);

	memset(v, 0xaa, sizeof(v));
	memset(&m, 0x55, sizeof(m));
	untouched = m;
	assert_int_equal(pinguard_check(guard, mem.fd, 0, 0, v, &m), -EINVAL);
	assert_int_equal(pinguard_check(guard, mem.fd, 0, PIN_MAX + 1, v, &m), -EINVAL);
	assert_int_equal(pinguard_check(guard, -1, 0, 1, v, &m), -EBADF);
	assert_int_equal(pinguard_check(guard, 1 << 20, 0, 1, v, &m), -EBADF);
	assert_int_equal(pinguard_check(guard, 200, 0, 1, v, &m), -EBADF);
	assert_true(file >= 0);
	assert_int_equal(pinguard_check(guard, file, 0, 1, v, &m), -EINVAL);
	if (huge >= 0) {
		assert_int_equal(pinguard_check(guard, huge, 0, 1, v, &m), -EINVAL);
		close(huge);
	}
	for (size_t i = 0; i < sizeof(v); i++)
		assert_int_equal(v[i], 0xaa);
	assert_memory_equal(&m, &untouched, sizeof(m));
	close(file);
	mem_free(&mem);
}

static void drop_caps(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)keep, .permitted = (uint32_t)keep},
		{.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
	};

	if (syscall(SYS_capset, &head, data) < 0)
		_exit(2);
}

/* What pinguard_open() says in a child that keeps only @keep. */
static int open_with_caps(uint64_t keep, struct ebb_err *ret)
{
	int p[2], status;
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct pinguard *pg = NULL;
		struct ebb_err err = {""};
		int rc;

		drop_caps(keep);
		rc = pinguard_open(&pg, &err);
		if ((rc < 0) != (pg == NULL) || write(p[1], &err, sizeof(err)) != sizeof(err))
			_exit(2);
		pinguard_close(pg);
		_exit(rc == 0 ? 0 : rc == -EPERM ? 1 : 3);
	}
	assert_int_equal(read(p[0], ret, sizeof(*ret)), sizeof(*ret));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	close(p[0]);
	close(p[1]);
	return WEXITSTATUS(status);
}

static void test_refuses_without_capabilities(void **state)
{
	const uint64_t perfmon = 1ull << 38, bpf = 1ull << 39;
	struct ebb_err err;

	assert_int_equal(open_with_caps(0, &err), 1);
	assert_non_null(strstr(err.msg, "CAP_BPF"));
	assert_int_equal(open_with_caps(bpf, &err), 1);
	assert_non_null(strstr(err.msg, "CAP_PERFMON"));
	assert_int_equal(open_with_caps(bpf | perfmon, &err), 0);
	assert_string_equal(err.msg, "");
}

struct asker {
	int fd;
	enum pin_verdict want;
	uint32_t wrong;
};

static void *ask_often(void *arg)
{
	struct asker *a = arg;
	uint8_t v[PIN_MAX];

	for (int i = 0; i < 3000; i++) {
		if (pinguard_check(guard, a->fd, 0, 100, v, NULL) < 0) {
			a->wrong++;
			continue;
		}
		for (int j = 0; j < 100; j++)
			a->wrong += v[j] != a->want;
	}
	return NULL;
}

/* The request lives in one shared place: two threads must not get each other's answers. */
static void test_two_callers(void **state)
{
	struct mem full = mem_new(100), empty = mem_new(100);
	struct asker a = {.fd = empty.fd, .want = PIN_ABSENT};
	struct asker b = {.fd = full.fd, .want = PIN_PINNED};
	struct iovec iov = {full.p, 100 * PG};
	struct io_uring ring;
	pthread_t t;

	assert_int_equal(io_uring_queue_init(2, &ring, 0), 0);
	assert_int_equal(io_uring_register_buffers(&ring, &iov, 1), 0);
	assert_int_equal(pthread_create(&t, NULL, ask_often, &a), 0);
	ask_often(&b);
	pthread_join(t, NULL);
	assert_int_equal(a.wrong, 0);
	assert_int_equal(b.wrong, 0);
	io_uring_queue_exit(&ring);
	mem_free(&full);
	mem_free(&empty);
}

#define CHURN_ASKS 100000u

static atomic_bool churn_stop;

/* Maps and unmaps both pages as fast as it goes. */
static void *churn(void *arg)
{
	struct mem *m = arg;

	while (!atomic_load(&churn_stop)) {
		madvise(m->p, m->pages * PG, MADV_DONTNEED);
		for (size_t i = 0; i < m->pages; i++)
			(void)*(volatile char *)(m->p + i * PG);
	}
	return NULL;
}

/*
 * The two counts of a page change with every map and unmap. A page in a pipe has one reference too
 * many, which is what a torn look would miss: it must never be called clean.
 */
static void test_never_clean_under_churn(void **state)
{
	struct mem m = mem_new(2);
	struct iovec iov = {m.p, PG};
	uint32_t not_busy = 0, not_pinned = 0;
	struct io_uring ring;
	pthread_t t;
	int p[2];

	mem_touch(&m, 0, 2);
	pin_page(&ring, m.p + PG);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(vmsplice(p[1], &iov, 1, 0), PG);
	atomic_store(&churn_stop, false);
	assert_int_equal(pthread_create(&t, NULL, churn, &m), 0);
	for (uint32_t i = 0; i < CHURN_ASKS; i++) {
		not_busy += look(m.fd, 0) != PIN_BUSY;
		not_pinned += i % 8 == 0 && look(m.fd, 1) != PIN_PINNED;
	}
	atomic_store(&churn_stop, true);
	pthread_join(t, NULL);
	assert_int_equal(not_busy, 0);
	assert_int_equal(not_pinned, 0);
	io_uring_queue_exit(&ring);
	close(p[0]);
	close(p[1]);
	mem_free(&m);
}

static void test_names(void **state)
{
	for (int v = 0; v < PIN_NR_VERDICTS; v++)
		for (int w = 0; w < v; w++)
			assert_string_not_equal(pin_verdict_name(v), pin_verdict_name(w));
	assert_string_equal(pin_verdict_name(PIN_CLEAN), "clean");
	assert_string_equal(pin_verdict_name(PIN_NR_VERDICTS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hole_and_clean),
		cmocka_unit_test(test_hole_is_seen_exactly),
		cmocka_unit_test(test_tree_shapes),
		cmocka_unit_test(test_pinned),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_two_mappings_are_clean),
		cmocka_unit_test(test_swapped),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_mappers),
		cmocka_unit_test(test_bad_requests),
		cmocka_unit_test(test_refuses_without_capabilities),
		cmocka_unit_test(test_two_callers),
		cmocka_unit_test(test_never_clean_under_churn),
		cmocka_unit_test(test_names),
	};
	struct ebb_err err = {""};
	int rc = pinguard_open(&guard, &err);

	if (rc == -EOPNOTSUPP) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	if (rc < 0) {
		printf("skipped: %s\n", err.msg);
		return 77;
	}
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	pinguard_close(guard);
	return rc;
}
