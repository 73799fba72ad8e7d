// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_unregister_effects.c - UNREGISTER lets all go: protections end, holes read as zeros.
 *
 * So a detach must bring every evicted page back first; and a protection never outlives it.
 */
#include "platform.h"

int main(void)
{
	struct area a = area_new(8);
	struct uffdio_range all = {(uintptr_t)a.p, 8 * PG};
	struct touch missing, wp, later;

	plat_start("UFFDIO_UNREGISTER wakes all waiters, lifts protections; evicted pages read as "
		   "zeros.");
	area_register(&a);
	for (size_t i = 0; i < 4; i++)
		must(uf_copy_char(&a, i, 'o') == 0);
	must(uf_wp(&a, 0, 4, true) == 0);
	must(area_punch(&a, 2, 1) == 0);

	touch_load(&missing, area_page(&a, 2));
	check(uf_fault(&a, 2, LONG_MS) == FAULT_MISSING, "no MISSING message");
	touch_store(&wp, area_page(&a, 1), 'n');
	check(uf_fault(&a, 1, LONG_MS) == FAULT_WP, "no WP message");
	must(ioctl(a.uffd, UFFDIO_UNREGISTER, &all) == 0);
	check(touch_finish(&missing) == 0, "a page lost to a hole does not read as zeros");
	touch_finish(&wp);
	check(area_pread(&a, 1) == 'n', "the store was lost");
	finding("both waiters go on: the store lands, the evicted page reads as zeros");

	touch_store(&later, area_page(&a, 0), 'n');
	touch_finish(&later);
	check(!(pagemap(area_page(&a, 0)) & PAGEMAP_UFFD_WP) &&
		      !(pagemap(area_page(&a, 3)) & PAGEMAP_UFFD_WP),
	      "a protection outlives UNREGISTER");
	check(area_pread(&a, 3) == 'o', "content changed");
	check(!uf_pending(a.uffd, 0), "a message after UNREGISTER");
	finding("no protection is left, no message comes");
	return 0;
}
