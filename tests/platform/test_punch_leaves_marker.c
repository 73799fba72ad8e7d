// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_punch_leaves_marker.c - after a write-protect and a punch the next access is MISSING.
 *
 * The punch takes the page but leaves a uffd-wp marker in the PTE. If that made the next access a
 * WP fault, the fault handler would take an evicted page for one still being written. And what
 * UFFDIO_COPY without MODE_WP puts there must be writable: a leftover protection would block the
 * guest for ever.
 */
#include "platform.h"

static void evict_and_return(struct area *a, size_t page, bool store)
{
	struct touch t;
	uint64_t e;

	must(uf_wp(a, page, 1, true) == 0);
	must(area_punch(a, page, 1) == 0);
	e = pagemap(area_page(a, page));
	check(!(e & PAGEMAP_PRESENT), "a punched page still has its PTE");
	check(e & PAGEMAP_UFFD_WP, "no marker is left: the PTE says %#llx", (unsigned long long)e);

	if (store)
		touch_store(&t, area_page(a, page), 's');
	else
		touch_load(&t, area_page(a, page));
	check(uf_fault(a, page, LONG_MS) == FAULT_MISSING, "the next %s is no MISSING fault",
	      store ? "store" : "load");
	must(uf_copy_char(a, page, 'c') == 0);
	check(touch_finish(&t) == (store ? 's' : 'c'), "the access saw another content");
	finding("%s after WP and punch: MISSING, served by COPY", store ? "store" : "load");

	check(!(pagemap(area_page(a, page)) & PAGEMAP_UFFD_WP), "COPY left the protection on");
	touch_store(&t, area_page(a, page), 'w');
	touch_finish(&t);
	check(uf_fault(a, page, 0) == FAULT_NONE, "a store to a page just copied gives a message");
	check(area_pread(a, page) == 'w', "the store did not reach the memfd");
}

int main(void)
{
	struct area a = area_new(4);

	plat_start("After WP and punch the next access is MISSING, and COPY installs a writable "
		   "page.");
	area_register(&a);
	must(uf_zeropage(&a, 0, 4, NULL) == 0);
	area_fill(&a, 0, 4, 'a');
	evict_and_return(&a, 1, false);
	evict_and_return(&a, 2, true);
	evict_and_return(&a, 1, true);
	return 0;
}
