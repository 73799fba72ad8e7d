// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_remove_event_blocks_ioctls.c - an unread REMOVE stops the discarder, COPY and WRITEPROTECT.
 *
 * So whoever reads the userfaultfd may never wait for the VMM, which may be the one that discards.
 * One madvise gives one REMOVE per VMA, and a punch gives none: a range cannot be matched to a call
 * by size.
 */
#include "platform.h"

struct discard {
	pthread_t thread;
	char *at;
	size_t len;
	int rc;
	atomic_bool done;
};

static void *discard_run(void *arg)
{
	struct discard *d = arg;

	d->rc = madvise(d->at, d->len, MADV_DONTNEED) < 0 ? -errno : 0;
	atomic_store(&d->done, true);
	return NULL;
}

static void discard_start(struct discard *d, const struct area *a, size_t first, size_t nr)
{
	*d = (struct discard) {.at = area_page(a, first), .len = nr * PG};
	must(pthread_create(&d->thread, NULL, discard_run, d) == 0);
}

static void discard_finish(struct discard *d)
{
	check(done_within(&d->done, LONG_MS), "the discarder stays blocked");
	pthread_join(d->thread, NULL);
	check(d->rc == 0, "madvise returned %d", d->rc);
}

static void expect_remove(const struct area *a, size_t first, size_t nr)
{
	struct uffd_msg m;

	check(uf_read(a->uffd, LONG_MS, &m), "no message");
	check(m.event == UFFD_EVENT_REMOVE, "the message is no REMOVE");
	check(m.arg.remove.start == (uintptr_t)area_page(a, first) &&
		      m.arg.remove.end == (uintptr_t)area_page(a, first + nr),
	      "the REMOVE names another range");
}

int main(void)
{
	static char src[EBB_PAGE_SIZE] __attribute__((aligned(4096)));
	struct area a = area_new(64);
	struct discard d;
	int64_t done;
	int rc;

	plat_start(
		"An unread REMOVE makes COPY and WRITEPROTECT say EAGAIN and its discarder wait.");
	area_register_fd(&a,
			 uf_open(0, UF_WP | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_EVENT_REMOVE),
			 UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
	must(uf_zeropage(&a, 0, 32, NULL) == 0);

	must(area_punch(&a, 0, 4) == 0);
	check(!uf_pending(a.uffd, SHORT_MS), "a punch raised an event");
	finding("fallocate(PUNCH_HOLE): no event");

	discard_start(&d, &a, 4, 3);
	check(uf_pending(a.uffd, LONG_MS), "madvise raised no event");
	rc = uf_copy(&a, 40, src, 1, 0, &done);
	/* 6.1 leaves the copy field alone, 6.18 says -EAGAIN there: nothing was installed. */
	check(rc == -EAGAIN && done <= 0, "COPY elsewhere: %d, copy field %lld", rc,
	      (long long)done);
	check(cached_pages(a.memfd) == 28, "a refused COPY installed its page");
	rc = uf_zeropage(&a, 41, 1, &done);
	check(rc == -EAGAIN && done <= 0, "ZEROPAGE elsewhere: %d, %lld", rc, (long long)done);
	rc = uf_wp(&a, 20, 1, true);
	check(rc == -EAGAIN, "WRITEPROTECT elsewhere: %d", rc);
	rc = uf_wp(&a, 20, 1, false);
	check(rc == -EAGAIN, "un-WP elsewhere: %d", rc);
	check(uf_wake(&a, 20, 1) == 0, "WAKE failed");
	check(!done_within(&d.done, SHORT_MS), "the discarder did not wait");
	finding("unread: COPY, ZEROPAGE, WP, un-WP give EAGAIN; WAKE does not; madvise waits");

	expect_remove(&a, 4, 3);
	discard_finish(&d);
	check(uf_copy(&a, 40, src, 1, 0, NULL) == 0 && uf_wp(&a, 20, 1, true) == 0,
	      "still refused after the event was read");
	finding("read: the REMOVE names the exact range, madvise returns, the ioctls work again");

	discard_start(&d, &a, 0, 4);
	expect_remove(&a, 0, 4);
	discard_finish(&d);
	finding("discard of holes: a REMOVE all the same");

	/* Another flag on the middle third makes it a VMA of its own. */
	must(madvise(area_page(&a, 24), 16 * PG, MADV_DONTDUMP) == 0);
	discard_start(&d, &a, 8, 48);
	expect_remove(&a, 8, 16);
	expect_remove(&a, 24, 16);
	expect_remove(&a, 40, 16);
	discard_finish(&d);
	check(!uf_pending(a.uffd, 0), "a fourth event");
	finding("one madvise over three VMAs: three REMOVEs, one after the other");
	return 0;
}
