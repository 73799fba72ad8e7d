// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_wp_bit_in_pagemap.c - pagemap bit 57 tells which pages are protected, present or not.
 *
 * It is how ebb verifies that a WRITEPROTECT did what it said before it copies the page.
 */
#include "platform.h"

static bool wp(const struct area *a, size_t page)
{
	return pagemap(area_page(a, page)) & PAGEMAP_UFFD_WP;
}

static bool present(const struct area *a, size_t page)
{
	return pagemap(area_page(a, page)) & PAGEMAP_PRESENT;
}

int main(void)
{
	struct area a = area_new(8);

	plat_start(
		"Bit 57 of a pagemap entry says that the page is write-protected, present or not.");
	area_register(&a);
	must(uf_zeropage(&a, 0, 4, NULL) == 0);
	for (size_t i = 0; i < 8; i++)
		check(!wp(&a, i), "the bit is set on a page never protected");

	must(uf_wp(&a, 0, 1, true) == 0);
	check(present(&a, 0) && wp(&a, 0), "protected and present: bit not set");
	check(!wp(&a, 1), "the neighbour's bit is set");
	finding("protected and present: set");

	must(uf_wp(&a, 1, 1, true) == 0);
	must(area_zap(&a, 1, 1) == 0);
	check(!present(&a, 1) && wp(&a, 1), "protected, then zapped: bit not set");
	finding("protected, then zapped: set");

	must(area_zap(&a, 2, 1) == 0);
	must(uf_wp(&a, 2, 1, true) == 0);
	check(!present(&a, 2) && wp(&a, 2), "zapped, then protected: bit not set");
	finding("zapped, then protected: set");

	must(uf_wp(&a, 6, 1, true) == 0);
	check(!present(&a, 6) && wp(&a, 6), "protected without a page: bit not set");
	finding("protected where there is no page: set");

	must(uf_wp(&a, 0, 8, false) == 0);
	for (size_t i = 0; i < 8; i++)
		check(!wp(&a, i), "the bit of page %zu outlives un-WP", i);
	finding("after un-WP: clear on all");
	return 0;
}
