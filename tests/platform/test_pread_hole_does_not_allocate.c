// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_pread_hole_does_not_allocate.c - pread of a memfd's hole gives zeros and leaves it a hole.
 *
 * The daemon reads guest memory by pread and never through a mapping of its own: a load from a hole
 * there would put a page of zeros where an evicted page belongs, and no message would ever be
 * raised for it.
 */
#include "platform.h"

int main(void)
{
	static char buf[8 * EBB_PAGE_SIZE];
	struct area a = area_new(8);
	struct touch t;
	char *other;

	plat_start(
		"pread of a hole in a memfd gives zeros, allocates nothing and raises no message.");
	area_register(&a);
	must(uf_copy_char(&a, 2, 'x') == 0);
	memset(buf, 0xff, sizeof(buf));
	must(pread(a.memfd, buf, sizeof(buf), 0) == (ssize_t)sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++)
		check(buf[i] == (i == 2 * PG ? 'x' : 0), "byte %zu is wrong", i);
	check(cached_pages(a.memfd) == 1, "pread allocated %llu pages",
	      (unsigned long long)cached_pages(a.memfd) - 1);
	check(!uf_pending(a.uffd, 0), "pread raised a message");
	finding("pread over 7 holes: zeros, still 1 page, no message");

	touch_load(&t, area_page(&a, 5));
	check(uf_fault(&a, 5, LONG_MS) == FAULT_MISSING, "the hole no longer raises MISSING");
	must(uf_copy_char(&a, 5, 'c') == 0);
	check(touch_finish(&t) == 'c', "wrong content");
	finding("the hole still raises MISSING afterwards");

	other = mmap(NULL, 8 * PG, PROT_READ, MAP_SHARED, a.memfd, 0);
	must(other != MAP_FAILED);
	madvise(other, 8 * PG, MADV_NOHUGEPAGE);
	(void)*(volatile char *)(other + 7 * PG);
	check(cached_pages(a.memfd) == 3, "a load through a second mapping allocated nothing");
	touch_load(&t, area_page(&a, 7));
	check(touch_finish(&t) == 0 && !uf_pending(a.uffd, 0), "a populated hole raised a message");
	finding("a load through a second mapping does allocate, and silences MISSING: why there is "
		"none");
	return 0;
}
