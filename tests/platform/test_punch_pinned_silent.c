// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_punch_pinned_silent.c - a hole can be punched over a pinned page, and nobody is told.
 *
 * The page goes on living for the one who pinned it, outside the file: what is written there later
 * is lost. This is why evictions need the pin guard. (test_pin_lost_write.c shows the loss itself.)
 */
#include <liburing.h>
#include "platform.h"

int main(void)
{
	struct area a = area_new(4);
	struct io_uring ring;
	struct iovec iov = {area_page(&a, 1), PG};
	int rc;

	plat_start("PUNCH_HOLE over a page pinned for I/O succeeds and says nothing.");
	area_fill(&a, 0, 4, 'o');
	rc = io_uring_queue_init(2, &ring, 0);
	if (rc < 0)
		skip_test("io_uring: %s", strerror(-rc));
	must(io_uring_register_buffers(&ring, &iov, 1) == 0);
	rc = area_punch(&a, 1, 1);
	check(rc == 0, "the punch gives %d: pins are respected, the pin guard is not needed", rc);
	check(cached_pages(a.memfd) == 3 && area_pread(&a, 1) == 0,
	      "the page is still in the file");
	finding("punched: rc 0, the page is out of the file while pinned");
	io_uring_unregister_buffers(&ring);
	check(area_pread(&a, 1) == 0, "the page came back when unpinned");
	finding("unpinned: it does not come back");
	io_uring_queue_exit(&ring);
	return 0;
}
