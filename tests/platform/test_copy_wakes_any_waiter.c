// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_copy_wakes_any_waiter.c - a punch wakes nobody; COPY also wakes who waits on a WP message.
 *
 * A guest may store into a page in the instant between its last look and its punch. It then waits
 * on a WP message for a page that is gone, and nothing but ebb will ever wake it.
 */
#include "platform.h"

int main(void)
{
	struct area a = area_new(2);
	struct touch t;

	plat_start(
		"A punch wakes no waiter; UFFDIO_COPY wakes one that waits on a WP message too.");
	area_register(&a);
	must(uf_copy_char(&a, 0, 'o') == 0);

	must(uf_wp(&a, 0, 1, true) == 0);
	touch_store(&t, area_page(&a, 0), 'n');
	check(uf_fault(&a, 0, LONG_MS) == FAULT_WP, "no WP message");
	must(area_punch(&a, 0, 1) == 0);
	check(!done_within(&t.done, SHORT_MS), "the punch let the store go on");
	check(!uf_pending(a.uffd, 0), "the punch made the waiter ask again");
	finding("after the punch the writer still waits, and says nothing");
	must(uf_copy_char(&a, 0, 'c') == 0);
	touch_finish(&t);
	check(area_pread(&a, 0) == 'n', "the store was lost");
	finding("COPY wakes it and its store lands on the new page");

	must(uf_wp(&a, 0, 1, true) == 0);
	touch_store(&t, area_page(&a, 0), 'm');
	check(uf_fault(&a, 0, LONG_MS) == FAULT_WP, "no WP message");
	must(area_punch(&a, 0, 1) == 0);
	must(uf_wake(&a, 0, 1) == 0);
	check(uf_fault(&a, 0, LONG_MS) == FAULT_MISSING, "woken after a punch, no MISSING message");
	must(uf_copy_char(&a, 0, 'c') == 0);
	touch_finish(&t);
	check(area_pread(&a, 0) == 'm', "the store was lost");
	finding("WAKE after the punch: the waiter comes back with MISSING");
	return 0;
}
