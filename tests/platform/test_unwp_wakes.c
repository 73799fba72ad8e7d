// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_unwp_wakes.c - lifting a protection wakes its waiters; WAKE makes them ask again.
 *
 * A cancelled eviction ends with un-WP and nothing else. After a take-over the whole range is
 * woken: who still has reason to wait must raise its message anew.
 */
#include "platform.h"

int main(void)
{
	struct area a = area_new(4);
	struct touch t, u;

	plat_start("Lifting a write-protection wakes those who wait for it.");
	area_register(&a);
	must(uf_zeropage(&a, 0, 4, NULL) == 0);
	must(uf_wp(&a, 0, 4, true) == 0);

	touch_store(&t, area_page(&a, 1), 't');
	check(uf_fault(&a, 1, LONG_MS) == FAULT_WP, "no WP message");
	must(uf_wake(&a, 0, 4) == 0);
	check(uf_fault(&a, 1, LONG_MS) == FAULT_WP, "WAKE did not make the waiter ask again");
	check(!atomic_load(&t.done), "WAKE let a store through the protection");
	finding("WAKE: the waiter raises its message again, the protection holds");

	must(uf_wp(&a, 2, 1, false) == 0);
	check(!done_within(&t.done, SHORT_MS), "un-WP of another page let the store through");
	must(uf_wp(&a, 1, 1, false) == 0);
	touch_finish(&t);
	check(area_pread(&a, 1) == 't', "the store was lost");
	finding("un-WP of the page: the waiter goes on");

	touch_store(&u, area_page(&a, 3), 'u');
	check(uf_pending(a.uffd, LONG_MS), "no message");
	must(uf_wp(&a, 0, 4, false) == 0);
	touch_finish(&u);
	check(!uf_pending(a.uffd, 0), "the message of a waiter already woken is still delivered");
	finding("un-WP before the message was read: the waiter goes on, the message is withdrawn");
	return 0;
}
