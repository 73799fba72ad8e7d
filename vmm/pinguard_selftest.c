// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pinguard_selftest.c - tries the pin guard on pages of our own before it is trusted with a guest.
 *
 * DOC: why
 *
 * A guard that answers "clean" for a pinned page loses a guest's data and tells nobody. The program
 * takes its offsets from the kernel's BTF, but not the meaning of the fields: a kernel that counts
 * references differently would load it just as well. So one page of each kind is made - never
 * written, plain, registered as an io_uring buffer, that one again with no PTE left, given to a
 * pipe - and every one must be called by its right name, and the pinned page must be clean again
 * when the buffer is given up.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "pinguard.h"

/* Pages of the self-test's memfd. */
enum { ST_ABSENT, ST_PLAIN, ST_BUFFER, ST_PIPE, ST_PAGES };

struct selftest {
	struct pinguard *pg;
	struct io_uring ring;
	int memfd;
	int pipe[2];
	char *mem;
	struct ebb_err *err;
};

/*
 * A reference in passing (an LRU batch, compaction, a scanner) makes a page look held, and a buffer
 * given up may be let go a moment later. So an answer that errs on the careful side is asked again;
 * one that errs on the other side never is.
 */
static bool answer_is_excused(enum pin_verdict got, enum pin_verdict want)
{
	if (got == PIN_UNKNOWN)
		return true;
	return want == PIN_CLEAN && (got == PIN_BUSY || got == PIN_PINNED);
}

static int selftest_ask(struct selftest *st, uint32_t page, enum pin_verdict *ret)
{
	uint8_t got;
	int rc = pinguard_check(st->pg, st->memfd, page, 1, &got, NULL);

	if (rc == -ENOSYS)
		return ebb_err_set(st->err, rc,
				   "the pin guard does not work on this kernel: struct folio has a "
				   "shape it does not know");
	if (rc < 0)
		return ebb_err_set(st->err, rc, "the pin guard does not work on this kernel: %s",
				   strerror(-rc));
	*ret = got;
	return 0;
}

static int selftest_expect(struct selftest *st, uint32_t page, enum pin_verdict want,
			   const char *what)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	enum pin_verdict got = PIN_UNKNOWN;
	int rc;

	for (int try = 0; try < 200; try++) {
		/* A page still in an LRU batch would hide a count that is one too low. */
		pinguard_drain(st->pg);
		rc = selftest_ask(st, page, &got);
		if (rc < 0 || got == want)
			return rc;
		if (!answer_is_excused(got, want))
			break;
		nanosleep(&pause, NULL);
	}
	return ebb_err_set(st->err, -EOPNOTSUPP,
			   "the pin guard gives wrong answers on this kernel, so it is not used: "
			   "it calls %s \"%s\", not \"%s\"",
			   what, pin_verdict_name(got), pin_verdict_name(want));
}

static int selftest_prepare(struct selftest *st)
{
	size_t size = ST_PAGES * EBB_PAGE_SIZE;
	int rc;

	st->memfd = memfd_create("ebb-pinguard-test", MFD_CLOEXEC);
	if (st->memfd < 0 || ftruncate(st->memfd, (off_t)size) < 0)
		return ebb_err_set(st->err, -errno, "the pin guard's test needs a memfd: %s",
				   strerror(errno));
	st->mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, st->memfd, 0);
	if (st->mem == MAP_FAILED || pipe2(st->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		return ebb_err_set(st->err, -errno, "the pin guard's test cannot be set up: %s",
				   strerror(errno));
	/* Small pages also where the host makes all shared memory huge. */
	madvise(st->mem, size, MADV_NOHUGEPAGE);
	rc = io_uring_queue_init(2, &st->ring, 0);
	if (rc < 0) {
		st->ring.ring_fd = -1;
		return ebb_err_set(st->err, rc,
				   "the pin guard's test needs io_uring: %s; set the sysctl "
				   "kernel.io_uring_disabled to 0 if that is why",
				   strerror(-rc));
	}
	return 0;
}

static int selftest_pinned(struct selftest *st)
{
	struct iovec buffer = {st->mem + ST_BUFFER * EBB_PAGE_SIZE, EBB_PAGE_SIZE};
	int rc;

	rc = io_uring_register_buffers(&st->ring, &buffer, 1);
	if (rc < 0)
		return ebb_err_set(st->err, rc, "the pin guard's test cannot pin a page: %s",
				   strerror(-rc));
	rc = selftest_expect(st, ST_BUFFER, PIN_PINNED, "a pinned page");
	if (rc == 0 && madvise(st->mem, ST_PAGES * EBB_PAGE_SIZE, MADV_DONTNEED) < 0)
		rc = ebb_err_set(st->err, -errno, "the pin guard's test cannot zap: %s",
				 strerror(errno));
	if (rc == 0)
		rc = selftest_expect(st, ST_BUFFER, PIN_PINNED, "a pinned page without a PTE");
	if (rc == 0)
		rc = selftest_expect(st, ST_PLAIN, PIN_CLEAN, "a page without a PTE");
	io_uring_unregister_buffers(&st->ring);
	if (rc == 0)
		rc = selftest_expect(st, ST_BUFFER, PIN_CLEAN, "a page no longer pinned");
	return rc;
}

static int selftest_run(struct selftest *st)
{
	struct iovec part = {st->mem + ST_PIPE * EBB_PAGE_SIZE, EBB_PAGE_SIZE};
	struct pin_mappers m;
	uint8_t verdicts[ST_PAGES];
	int rc;

	for (int i = ST_PLAIN; i < ST_PAGES; i++)
		st->mem[(size_t)i * EBB_PAGE_SIZE] = 1;
	rc = selftest_expect(st, ST_ABSENT, PIN_ABSENT, "a hole");
	for (uint32_t i = ST_PLAIN; rc == 0 && i < ST_PAGES; i++)
		rc = selftest_expect(st, i, PIN_CLEAN, "a page nobody else has");
	if (rc < 0)
		return rc;
	if (vmsplice(st->pipe[1], &part, 1, 0) != (ssize_t)EBB_PAGE_SIZE)
		return ebb_err_set(st->err, -errno, "the pin guard's test cannot fill a pipe: %s",
				   strerror(errno));
	rc = selftest_expect(st, ST_PIPE, PIN_BUSY, "a page in a pipe");
	if (rc == 0)
		rc = selftest_pinned(st);
	if (rc < 0)
		return rc;
	rc = pinguard_check(st->pg, st->memfd, 0, ST_PAGES, verdicts, &m);
	if (rc < 0)
		return ebb_err_set(st->err, rc, "the pin guard does not work on this kernel: %s",
				   strerror(-rc));
	/* One mapping and one descriptor at least: a passing fork() may add to both. */
	if (m.mmap_writable < 1 || m.mmap_tree < 1 || m.file_count < 2 || m.dentry_count < 1 ||
	    m.nr_pages != ST_PAGES - ST_PLAIN)
		return ebb_err_set(st->err, -EOPNOTSUPP,
				   "the pin guard gives wrong answers on this kernel, so it is not "
				   "used: it miscounts who maps a memfd");
	return 0;
}

int pinguard_selftest(struct pinguard *pg, struct ebb_err *err)
{
	struct selftest st = {
		.pg = pg,
		.ring.ring_fd = -1,
		.memfd = -1,
		.pipe = {-1, -1},
		.mem = MAP_FAILED,
		.err = err,
	};
	int rc = selftest_prepare(&st);

	if (rc == 0)
		rc = selftest_run(&st);
	if (st.ring.ring_fd >= 0)
		io_uring_queue_exit(&st.ring);
	if (st.mem != MAP_FAILED)
		munmap(st.mem, ST_PAGES * EBB_PAGE_SIZE);
	cleanup_close(&st.pipe[0]);
	cleanup_close(&st.pipe[1]);
	cleanup_close(&st.memfd);
	return rc;
}
