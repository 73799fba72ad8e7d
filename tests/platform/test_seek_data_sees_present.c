// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_seek_data_sees_present.c - SEEK_DATA and SEEK_HOLE tell page by page what a memfd holds.
 *
 * At a take-over it decides whether a page that was being filled has arrived, and after a punch
 * that the page is really gone.
 */
#include "platform.h"

static long data_from(const struct area *a, size_t page)
{
	off_t at = lseek(a->memfd, (off_t)(page * PG), SEEK_DATA);

	return at < 0 ? -errno : (long)((size_t)at / PG);
}

static long hole_from(const struct area *a, size_t page)
{
	off_t at = lseek(a->memfd, (off_t)(page * PG), SEEK_HOLE);

	return at < 0 ? -errno : (long)((size_t)at / PG);
}

int main(void)
{
	struct area a = area_new(600);

	plat_start("SEEK_DATA and SEEK_HOLE tell exactly which pages a memfd holds.");
	area_register(&a);
	check(data_from(&a, 0) == -ENXIO, "an empty memfd has data");
	must(uf_zeropage(&a, 100, 3, NULL) == 0);
	must(uf_copy_char(&a, 400, 'c') == 0);
	check(data_from(&a, 0) == 100 && hole_from(&a, 100) == 103 && data_from(&a, 103) == 400 &&
		      hole_from(&a, 400) == 401 && data_from(&a, 401) == -ENXIO,
	      "ZEROPAGE and COPY do not show page by page");
	finding("ZEROPAGE and COPY: seen page by page, zeros too");

	must(area_zap(&a, 0, 600) == 0);
	check(data_from(&a, 0) == 100 && data_from(&a, 103) == 400, "a zap made pages holes");
	finding("no PTE: still data");

	must(uf_wp(&a, 101, 1, true) == 0);
	check(data_from(&a, 101) == 101, "a protected page is a hole");
	must(area_punch(&a, 101, 1) == 0);
	check(hole_from(&a, 100) == 101 && data_from(&a, 101) == 102, "a punched page is no hole");
	finding("protected and punched: a hole, whatever marker is left");
	return 0;
}
