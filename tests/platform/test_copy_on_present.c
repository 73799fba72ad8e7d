// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_copy_on_present.c - UFFDIO_COPY over a page that is there gives EEXIST and changes nothing.
 *
 * Two threads may bring the same page back, or a guest may have got a new page meanwhile: the
 * second COPY must lose. Also when the page is only in the page cache and has no PTE.
 */
#include "platform.h"

int main(void)
{
	static char src[4 * EBB_PAGE_SIZE] __attribute__((aligned(4096)));
	struct area a = area_new(8);
	int64_t done;
	int rc;

	plat_start("UFFDIO_COPY over a present page gives EEXIST and changes nothing.");
	memset(src, 'n', sizeof(src));
	area_register(&a);
	must(uf_copy_char(&a, 0, 'o') == 0);
	must(uf_copy_char(&a, 3, 'o') == 0);

	rc = uf_copy(&a, 0, src, 1, 0, &done);
	check(rc == -EEXIST, "COPY over a mapped page gives %d", rc);
	check(done == -EEXIST, "the copy field says %lld", (long long)done);
	check(area_pread(&a, 0) == 'o', "COPY overwrote a page that was there");
	finding("mapped page: EEXIST, content kept");

	must(area_zap(&a, 0, 1) == 0);
	rc = uf_copy(&a, 0, src, 1, 0, NULL);
	check(rc == -EEXIST, "COPY over a page without a PTE gives %d", rc);
	check(area_pread(&a, 0) == 'o', "COPY overwrote a page that was there");
	finding("page in the page cache only: EEXIST, content kept");

	rc = uf_copy(&a, 1, src, 4, 0, &done);
	check(rc == -EAGAIN && done == (int64_t)(2 * PG),
	      "COPY of four pages over a present third: %d, %lld bytes", rc, (long long)done);
	check(area_pread(&a, 1) == 'n' && area_pread(&a, 2) == 'n' && area_pread(&a, 3) == 'o',
	      "a run that met a present page left the wrong content");
	check(cached_pages(a.memfd) == 4, "the page behind the present one was installed too");
	finding("run of four, third present: two installed, EAGAIN, rest untouched");
	return 0;
}
