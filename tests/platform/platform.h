/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * platform.h - what the programs in this directory share: memory under a userfaultfd, and threads
 * that touch it.
 *
 * Each program proves one behaviour of the kernel that ebb relies on, with plain system calls and
 * no code of ebb's own, and exits 0 (so it is), 1 (it is not: ebb must not run here) or 77 (cannot
 * be tried here). Waits are bounded and only ever decide "it did not happen"; a hang ends by
 * SIGALRM.
 */
#ifndef TESTS_PLATFORM_H
#define TESTS_PLATFORM_H

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include <ebb/types.h>

#define PG	 EBB_PAGE_SIZE
#define LONG_MS	 5000 /* "it will happen": never waited out unless it fails */
#define SHORT_MS 100  /* "it does not happen" */

/* One line for each thing found out. */
#define finding(...)                                                                               \
	do {                                                                                       \
		printf("  " __VA_ARGS__);                                                          \
		putchar('\n');                                                                     \
	} while (0)

#define skip_test(...)                                                                             \
	do {                                                                                       \
		printf("skipped: " __VA_ARGS__);                                                   \
		putchar('\n');                                                                     \
		exit(77);                                                                          \
	} while (0)

#define fail_test(...)                                                                             \
	do {                                                                                       \
		printf("FAILED at %s:%d: ", __FILE__, __LINE__);                                   \
		printf(__VA_ARGS__);                                                               \
		putchar('\n');                                                                     \
		exit(1);                                                                           \
	} while (0)

/* A claim of the test itself. */
#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail_test(__VA_ARGS__);                                                    \
	} while (0)

/* Something the test needs in order to run at all. */
#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail_test("%s: %s", #cond, strerror(errno));                               \
	} while (0)

static inline void plat_start(const char *proves)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(60);
	printf("%s\n", proves);
}

static inline void sleep_ms(long ms)
{
	poll(NULL, 0, (int)ms);
}

/** struct area - a shared memfd mapped once, small pages only; @uffd -1 until area_register() */
struct area {
	int memfd;
	int uffd;
	size_t pages;
	char *p;
};

static inline struct area area_new(size_t pages)
{
	struct area a = {.uffd = -1, .pages = pages};

	a.memfd = memfd_create("platform", MFD_CLOEXEC);
	must(a.memfd >= 0);
	must(ftruncate(a.memfd, (off_t)(pages * PG)) == 0);
	a.p = mmap(NULL, pages * PG, PROT_READ | PROT_WRITE, MAP_SHARED, a.memfd, 0);
	must(a.p != MAP_FAILED);
	madvise(a.p, pages * PG, MADV_NOHUGEPAGE);
	return a;
}

static inline char *area_page(const struct area *a, size_t i)
{
	return a->p + i * PG;
}

/* Pages [first, first + nr) get @c as their first byte. */
static inline void area_fill(const struct area *a, size_t first, size_t nr, char c)
{
	for (size_t i = first; i < first + nr; i++)
		*(volatile char *)area_page(a, i) = c;
}

/* What the memfd holds, read past all page tables. */
static inline char area_pread(const struct area *a, size_t i)
{
	char c;

	must(pread(a->memfd, &c, 1, (off_t)(i * PG)) == 1);
	return c;
}

static inline int area_punch(const struct area *a, size_t first, size_t nr)
{
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	int rc = fallocate(a->memfd, mode, (off_t)(first * PG), (off_t)(nr * PG));

	return rc < 0 ? -errno : 0;
}

static inline int area_zap(const struct area *a, size_t first, size_t nr)
{
	return madvise(area_page(a, first), nr * PG, MADV_DONTNEED) < 0 ? -errno : 0;
}

/* Pages in a memfd's page cache. */
static inline uint64_t cached_pages(int memfd)
{
	struct stat st;

	must(fstat(memfd, &st) == 0);
	return (uint64_t)st.st_blocks * 512 / PG;
}

static inline uint64_t pagemap_of(const char *file, const void *addr)
{
	uint64_t entry;
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	must(fd >= 0);
	must(pread(fd, &entry, 8, (off_t)((uintptr_t)addr / PG * 8)) == 8);
	close(fd);
	return entry;
}

static inline uint64_t pagemap(const void *addr)
{
	return pagemap_of("/proc/self/pagemap", addr);
}

/** uf_open() - a userfaultfd with the API enabled; skips the test where there is none */
static inline int uf_open(int flags, uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);

	if (fd < 0)
		skip_test("userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		skip_test("this kernel's userfaultfd lacks features 0x%llx",
			  (unsigned long long)features);
	return fd;
}

#define UF_WP (UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM)

static inline void area_register_fd(struct area *a, int fd, uint64_t mode)
{
	struct uffdio_register reg = {
		.range = {(uintptr_t)a->p, a->pages * PG},
		.mode = mode,
	};

	must(ioctl(fd, UFFDIO_REGISTER, &reg) == 0);
	a->uffd = fd;
}

/* The mode ebb uses. */
static inline void area_register(struct area *a)
{
	area_register_fd(a, uf_open(0, UF_WP | UFFD_FEATURE_MISSING_SHMEM),
			 UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
}

/* Each returns 0 or -errno; @ret_done (may be NULL) is the kernel's signed answer field. */
static inline int uf_copy(const struct area *a, size_t first, const void *src, size_t nr,
			  uint64_t mode, int64_t *ret_done)
{
	struct uffdio_copy c = {
		.dst = (uintptr_t)area_page(a, first),
		.src = (uintptr_t)src,
		.len = nr * PG,
		.mode = mode,
	};
	int rc = ioctl(a->uffd, UFFDIO_COPY, &c) < 0 ? -errno : 0;

	if (ret_done)
		*ret_done = c.copy;
	return rc;
}

/* COPY of one page that starts with @c. */
static inline int uf_copy_char(const struct area *a, size_t page, char c)
{
	static __thread char buf[EBB_PAGE_SIZE] __attribute__((aligned(4096)));

	buf[0] = c;
	return uf_copy(a, page, buf, 1, 0, NULL);
}

static inline int uf_zeropage(const struct area *a, size_t first, size_t nr, int64_t *ret_done)
{
	struct uffdio_zeropage z = {.range = {(uintptr_t)area_page(a, first), nr * PG}};
	int rc = ioctl(a->uffd, UFFDIO_ZEROPAGE, &z) < 0 ? -errno : 0;

	if (ret_done)
		*ret_done = z.zeropage;
	return rc;
}

static inline int uf_wp(const struct area *a, size_t first, size_t nr, bool on)
{
	struct uffdio_writeprotect w = {
		.range = {(uintptr_t)area_page(a, first), nr * PG},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(a->uffd, UFFDIO_WRITEPROTECT, &w) < 0 ? -errno : 0;
}

static inline int uf_wake(const struct area *a, size_t first, size_t nr)
{
	struct uffdio_range r = {(uintptr_t)area_page(a, first), nr * PG};

	return ioctl(a->uffd, UFFDIO_WAKE, &r) < 0 ? -errno : 0;
}

static inline bool uf_pending(int uffd, int timeout_ms)
{
	struct pollfd p = {.fd = uffd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) > 0;
}

/** uf_read() - the next message, if there is one within @timeout_ms */
static inline bool uf_read(int uffd, int timeout_ms, struct uffd_msg *ret)
{
	if (!uf_pending(uffd, timeout_ms))
		return false;
	return read(uffd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);
}

enum fault_kind { FAULT_NONE, FAULT_MISSING, FAULT_WP, FAULT_OTHER };

/** uf_fault() - of what kind is the next message? it must be for @page */
static inline enum fault_kind uf_fault(const struct area *a, size_t page, int timeout_ms)
{
	struct uffd_msg m;

	if (!uf_read(a->uffd, timeout_ms, &m))
		return FAULT_NONE;
	if (m.event != UFFD_EVENT_PAGEFAULT)
		return FAULT_OTHER;
	check((m.arg.pagefault.address & ~(PG - 1)) == (uintptr_t)area_page(a, page),
	      "a fault message names another page than the one touched");
	if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP)
		return FAULT_WP;
	return FAULT_MISSING;
}

/**
 * plat_direct_file() - a new, unlinked file open for O_DIRECT, in the first place that can have one
 * @size: bytes given to it
 *
 * Returns -1 if no file system here can.
 */
static inline int plat_direct_file(size_t size)
{
	static const char *const dirs[] = {".", "/var/tmp", "/tmp"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char name[64];
		int fd;

		snprintf(name, sizeof(name), "%s/ebb-platform-XXXXXX", dirs[i]);
		fd = mkostemp(name, O_DIRECT | O_CLOEXEC);
		if (fd < 0)
			continue;
		unlink(name);
		if (fallocate(fd, 0, 0, (off_t)size) == 0)
			return fd;
		close(fd);
	}
	return -1;
}

/** plat_direct_page() - the same, one page of @c */
static inline int plat_direct_page(char c)
{
	static char page[EBB_PAGE_SIZE] __attribute__((aligned(4096)));
	int fd = plat_direct_file(PG);

	memset(page, c, sizeof(page));
	must(fd < 0 || pwrite(fd, page, PG, 0) == (ssize_t)PG);
	return fd;
}

/** struct touch - one load or store by another thread, which may block in it */
struct touch {
	pthread_t thread;
	volatile char *at;
	bool store;
	char value; /* to store; or what was loaded */
	atomic_bool done;
};

static inline void *touch_run(void *arg)
{
	struct touch *t = arg;

	if (t->store)
		*t->at = t->value;
	else
		t->value = *t->at;
	atomic_store(&t->done, true);
	return NULL;
}

static inline void touch_load(struct touch *t, char *at)
{
	*t = (struct touch) {.at = at};
	must(pthread_create(&t->thread, NULL, touch_run, t) == 0);
}

static inline void touch_store(struct touch *t, char *at, char value)
{
	*t = (struct touch) {.at = at, .store = true, .value = value};
	must(pthread_create(&t->thread, NULL, touch_run, t) == 0);
}

/** done_within() - does @done become true within @ms? */
static inline bool done_within(atomic_bool *done, long ms)
{
	for (long i = 0; i < ms; i++) {
		if (atomic_load(done))
			return true;
		sleep_ms(1);
	}
	return atomic_load(done);
}

/** touch_finish() - the touch must end now; returns the byte loaded or stored */
static inline char touch_finish(struct touch *t)
{
	check(done_within(&t->done, LONG_MS), "a thread that should go on stays blocked");
	pthread_join(t->thread, NULL);
	return t->value;
}

#endif
