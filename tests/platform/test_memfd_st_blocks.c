// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_memfd_st_blocks.c - st_blocks of a memfd counts its pages exactly.
 *
 * It is the check on ebb's own count of resident pages, and notices discards nobody reported.
 */
#include "platform.h"

static void expect(const struct area *a, uint64_t want, const char *when)
{
	uint64_t got = cached_pages(a->memfd);

	check(got == want, "%s: %llu pages by st_blocks, not %llu", when, (unsigned long long)got,
	      (unsigned long long)want);
	finding("%s: %llu", when, (unsigned long long)got);
}

int main(void)
{
	struct area a = area_new(1000);

	plat_start("st_blocks of a memfd counts the pages it holds, neither more nor less.");
	area_register(&a);
	expect(&a, 0, "new");
	must(uf_zeropage(&a, 10, 300, NULL) == 0);
	expect(&a, 300, "300 pages by ZEROPAGE");
	must(uf_copy_char(&a, 500, 'c') == 0);
	must(uf_copy_char(&a, 700, 'c') == 0);
	expect(&a, 302, "2 more by COPY");
	must(uf_wp(&a, 400, 1, true) == 0);
	expect(&a, 302, "a hole protected");
	must(area_zap(&a, 0, 1000) == 0);
	expect(&a, 302, "all PTEs zapped");
	must(area_punch(&a, 0, 110) == 0);
	expect(&a, 202, "100 of them punched");
	must(area_punch(&a, 0, 110) == 0);
	expect(&a, 202, "the same punched again");
	must(area_punch(&a, 0, 1000) == 0);
	expect(&a, 0, "all punched");
	return 0;
}
