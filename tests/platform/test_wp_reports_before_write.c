// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_wp_reports_before_write.c - a store to a protected page is reported before it lands.
 *
 * Eviction copies a page after protecting it. The copy is good only if nothing can be stored into
 * the page between the protection and the message that cancels the eviction.
 */
#include "platform.h"

int main(void)
{
	struct area a = area_new(2);
	struct touch t;

	plat_start("A store to a write-protected page is reported before it lands.");
	area_register(&a);
	must(uf_copy_char(&a, 0, 'o') == 0);
	must(uf_wp(&a, 0, 1, true) == 0);

	touch_load(&t, area_page(&a, 0));
	check(touch_finish(&t) == 'o', "a load from a protected page went wrong");
	check(uf_fault(&a, 0, 0) == FAULT_NONE, "a load from a protected page gives a message");
	finding("loads go on, without a message");

	touch_store(&t, area_page(&a, 0), 'n');
	check(uf_fault(&a, 0, LONG_MS) == FAULT_WP, "a store to a protected page is no WP fault");
	check(!done_within(&t.done, SHORT_MS), "the store went on before it was let");
	check(area_pread(&a, 0) == 'o', "the store landed before its message was answered");
	finding("at the message, and later, the memfd holds the old content");

	must(uf_wp(&a, 0, 1, false) == 0);
	touch_finish(&t);
	check(area_pread(&a, 0) == 'n', "the store was lost");
	finding("the protection lifted, the store landed");
	return 0;
}
