// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_wp_blocks_new_pins.c - a protected page cannot be pinned for writing behind ebb's back.
 *
 * Eviction protects, looks for pins, copies. The look is worth something only because no pin that
 * could write can be taken after the protection: it waits with a message, or fails. (An older pin
 * shows in the look.)
 */
#include <liburing.h>
#include "platform.h"

/* One attempt to pin a page for writing, by another thread: it may block. */
struct pin {
	pthread_t thread;
	struct io_uring *ring; /* register it there */
	int file;	       /* or read into it from this O_DIRECT file */
	void *page;
	long rc;
	atomic_bool done;
};

static void *pin_run(void *arg)
{
	struct pin *p = arg;
	struct iovec iov = {p->page, PG};

	if (p->ring) {
		p->rc = io_uring_register_buffers(p->ring, &iov, 1);
	} else {
		p->rc = pread(p->file, p->page, PG, 0);
		if (p->rc < 0)
			p->rc = -errno;
	}
	atomic_store(&p->done, true);
	return NULL;
}

static void pin_start(struct pin *p, struct io_uring *ring, int file, void *page)
{
	*p = (struct pin) {.ring = ring, .file = file, .page = page};
	must(pthread_create(&p->thread, NULL, pin_run, p) == 0);
}

static long pin_finish(struct pin *p)
{
	check(done_within(&p->done, LONG_MS), "the pin is still not taken");
	pthread_join(p->thread, NULL);
	return p->rc;
}

/* Page 0 protected and mapped, 1 protected and zapped, 2 evicted. */
static const struct {
	const char *what;
	enum fault_kind fault;
} states[] = {
	{"protected, mapped", FAULT_WP},
	{"protected, zapped", FAULT_WP},
	{"evicted", FAULT_MISSING},
};

static void prepare(struct area *a)
{
	must(uf_wp(a, 0, 3, true) == 0);
	must(area_zap(a, 1, 1) == 0);
	must(area_punch(a, 2, 1) == 0);
}

static void release(struct area *a, size_t page)
{
	if (states[page].fault == FAULT_WP)
		must(uf_wp(a, page, 1, false) == 0);
	else
		must(uf_copy_char(a, page, 'c') == 0);
}

static void try_direct(struct area *a, size_t page, int file)
{
	struct pin p;

	pin_start(&p, NULL, file, area_page(a, page));
	check(uf_fault(a, page, LONG_MS) == states[page].fault,
	      "O_DIRECT read, page %s: no message", states[page].what);
	check(!done_within(&p.done, SHORT_MS), "O_DIRECT read, page %s: went on",
	      states[page].what);
	check(area_pread(a, page) != 'd', "the data arrived under the protection");
	release(a, page);
	check(pin_finish(&p) == (long)PG && area_pread(a, page) == 'd', "the data did not arrive");
	finding("O_DIRECT read, page %s: waits with a message", states[page].what);
}

/* On 6.1 a registration cannot wait in a fault: it fails, which is as safe. */
static void try_register(struct area *a, size_t page, struct io_uring *ring)
{
	enum fault_kind fault;
	struct pin p;
	long rc;

	pin_start(&p, ring, -1, area_page(a, page));
	for (int i = 0; i < LONG_MS && !uf_pending(a->uffd, 1) && !atomic_load(&p.done); i++)
		;
	fault = uf_fault(a, page, 0);
	if (fault == FAULT_NONE) {
		rc = pin_finish(&p);
		check(rc == -EFAULT, "io_uring buffer, page %s: no message, registering gives %ld",
		      states[page].what, rc);
		finding("io_uring buffer, page %s: fails with EFAULT", states[page].what);
		release(a, page);
		return;
	}
	check(fault == states[page].fault, "io_uring buffer, page %s: another message",
	      states[page].what);
	check(!done_within(&p.done, SHORT_MS), "io_uring buffer, page %s: pinned all the same",
	      states[page].what);
	release(a, page);
	check(pin_finish(&p) == 0, "io_uring buffer, page %s: not pinned in the end",
	      states[page].what);
	must(io_uring_unregister_buffers(ring) == 0);
	finding("io_uring buffer, page %s: waits with a message", states[page].what);
}

int main(void)
{
	struct area a = area_new(4);
	int file = plat_direct_page('d');
	struct io_uring ring;
	int rc;

	plat_start("Nobody can pin a write-protected page for writing before the protection is "
		   "lifted.");
	area_register(&a);
	must(uf_zeropage(&a, 0, 4, NULL) == 0);
	if (file >= 0) {
		prepare(&a);
		for (size_t i = 0; i < ARRAY_SIZE(states); i++)
			try_direct(&a, i, file);
	} else {
		finding("O_DIRECT: no file system here that can, not tried");
	}
	rc = io_uring_queue_init(2, &ring, 0);
	if (rc < 0 && file < 0)
		skip_test("neither O_DIRECT nor io_uring here (%s)", strerror(-rc));
	if (rc < 0)
		return 0;
	prepare(&a);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		try_register(&a, i, &ring);
	io_uring_queue_exit(&ring);
	return 0;
}
