// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_pin_lost_write.c - a write through an old pin is lost by an unguarded eviction.
 *
 * Deterministic, without a disk and without a race to win: a fixed-buffer read from an EMPTY pipe
 * is in flight for as long as nothing is written to the pipe, and its page is pinned all that time.
 * One page is evicted by hand meanwhile - protect, copy, punch - then the pipe is written to, then
 * the page comes back from the copy. The protection cannot help: the data goes to the page by its
 * pin, not by the page table.
 *
 * Four times: without and with the pin guard, with the page mapped and with its PTE zapped before.
 * Without the guard the loss must happen, or this test proves nothing.
 */
#include <liburing.h>
#include "pinguard.h"
#include "platform.h"

static struct pinguard *guard;

/* The evictor by hand; returns whether the page was evicted, its content then in *@ret_copy. */
static bool evict(struct area *a, bool guarded, char *ret_copy)
{
	uint8_t verdict;

	must(uf_wp(a, 0, 1, true) == 0);
	if (guarded) {
		must(pinguard_check(guard, a->memfd, 0, 1, &verdict, NULL) == 0);
		check(verdict == PIN_PINNED, "a page with a read in flight is called \"%s\"",
		      pin_verdict_name(verdict));
		must(uf_wp(a, 0, 1, false) == 0);
		return false;
	}
	*ret_copy = area_pread(a, 0);
	must(area_punch(a, 0, 1) == 0);
	return true;
}

/* What the guest reads in the end: 'o' old, 'n' what the device brought. */
static char read_by_guest(struct area *a, bool evicted, char copy)
{
	struct touch t;

	touch_load(&t, area_page(a, 0));
	if (evicted) {
		check(uf_fault(a, 0, LONG_MS) == FAULT_MISSING, "no MISSING message");
		must(uf_copy_char(a, 0, copy) == 0);
	}
	return touch_finish(&t);
}

static char one_case(bool guarded, bool zapped)
{
	struct area a = area_new(1);
	struct iovec iov = {a.p, PG};
	struct io_uring_cqe *cqe = NULL;
	struct io_uring ring;
	char copy = 0, seen;
	bool evicted;
	int p[2];

	area_register(&a);
	must(uf_copy_char(&a, 0, 'o') == 0);
	must(pipe(p) == 0);
	must(io_uring_queue_init(2, &ring, 0) == 0);
	must(io_uring_register_buffers(&ring, &iov, 1) == 0);
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), p[0], a.p, 16, 0, 0);
	must(io_uring_submit(&ring) == 1);
	check(io_uring_peek_cqe(&ring, &cqe) == -EAGAIN,
	      "the read from an empty pipe is not in flight");
	if (zapped)
		must(area_zap(&a, 0, 1) == 0);

	evicted = evict(&a, guarded, &copy);

	must(write(p[1], "new data here..", 16) == 16);
	check(io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->res == 16, "the read failed: %d",
	      cqe ? cqe->res : 0);
	io_uring_cqe_seen(&ring, cqe);
	seen = read_by_guest(&a, evicted, copy);

	io_uring_queue_exit(&ring);
	close(p[0]);
	close(p[1]);
	close(a.uffd);
	munmap(a.p, PG);
	close(a.memfd);
	return seen;
}

int main(void)
{
	struct ebb_err err = {""};
	int rc;

	plat_start("A write through a pin older than the eviction is lost, unless the pin guard "
		   "cancels it.");
	close(uf_open(0, UF_WP | UFFD_FEATURE_MISSING_SHMEM));
	rc = pinguard_open(&guard, &err);
	if (rc == -EOPNOTSUPP)
		fail_test("%s", err.msg);
	if (rc < 0)
		skip_test("%s", err.msg);
	for (int zapped = 0; zapped < 2; zapped++) {
		const char *pte = zapped ? "no PTE" : "mapped";
		char seen = one_case(false, zapped);

		check(seen == 'o', "%s, no guard: nothing was lost, so this test proves nothing",
		      pte);
		finding("%s, no guard: the read's data is LOST, the guest sees the old content",
			pte);
		seen = one_case(true, zapped);
		check(seen == 'n', "%s, with the guard: the guest sees '%c'", pte, seen);
		finding("%s, with the guard: verdict pinned, eviction cancelled, data kept", pte);
	}
	pinguard_close(guard);
	return 0;
}
