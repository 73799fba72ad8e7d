// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_zeropage_multi.c - UFFDIO_ZEROPAGE fills a run in one call and says how far it came.
 *
 * Pages never touched are filled in chunks. Where a chunk meets a page that is there, the count
 * tells which pages are new and the page that was there is kept.
 */
#include "platform.h"

int main(void)
{
	struct area a = area_new(16);
	struct touch t;
	int64_t done;
	int rc;

	plat_start("UFFDIO_ZEROPAGE fills a run; over a present page it stops and says how far it "
		   "came.");
	area_register(&a);
	rc = uf_zeropage(&a, 0, 8, &done);
	check(rc == 0 && done == (int64_t)(8 * PG), "a run of eight: %d, %lld bytes", rc,
	      (long long)done);
	check(cached_pages(a.memfd) == 8, "%llu pages are there",
	      (unsigned long long)cached_pages(a.memfd));
	finding("run of 8: filled in one call");

	must(uf_copy_char(&a, 12, 'p') == 0);
	rc = uf_zeropage(&a, 8, 8, &done);
	check(rc == -EAGAIN && done == (int64_t)(4 * PG), "over a present fifth: %d, %lld bytes",
	      rc, (long long)done);
	check(area_pread(&a, 12) == 'p', "ZEROPAGE zeroed a page that was there");
	rc = uf_zeropage(&a, 12, 4, &done);
	check(rc == -EEXIST && done == -EEXIST, "from a present page on: %d, %lld", rc,
	      (long long)done);
	check(cached_pages(a.memfd) == 13, "pages behind the present one were filled");
	finding("run of 8, fifth present: 4 filled, EAGAIN, then EEXIST; content kept");

	touch_load(&t, area_page(&a, 14));
	check(uf_fault(&a, 14, LONG_MS) == FAULT_MISSING, "no MISSING message");
	must(uf_zeropage(&a, 13, 3, NULL) == 0);
	check(touch_finish(&t) == 0, "a zero page is not zero");
	touch_store(&t, area_page(&a, 14), 'w');
	touch_finish(&t);
	check(area_pread(&a, 14) == 'w', "a zero page is not writable");
	finding("waiters anywhere in the run are woken; the pages are writable");
	return 0;
}
