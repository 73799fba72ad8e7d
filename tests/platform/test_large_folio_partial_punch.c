// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_large_folio_partial_punch.c - a part punched out of a busy large folio stays, zeroed.
 *
 * It reports success, but there is no hole and no message: the guest would read zeros where its
 * page was. One reference to any page of the folio does it. So ebb punches whole small folios only.
 */
#include <sched.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include "platform.h"

#define HUGE_PG 512u

/* A file whose pages are one large folio, in a tmpfs only this process sees. */
static struct area large_area(void)
{
	struct area a = {.uffd = -1, .pages = HUGE_PG};
	char *room;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip_test("no mount namespace: %s", strerror(errno));
	if (mount("tmpfs", "/mnt", "tmpfs", 0, "huge=always,size=64m") < 0)
		skip_test("no tmpfs with huge=always: %s", strerror(errno));
	a.memfd = open("/mnt/large", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	must(a.memfd >= 0 && ftruncate(a.memfd, HUGE_PG * PG) == 0);
	/* Aligned, so that a fault may map and allocate all of it. */
	room = mmap(NULL, 2 * HUGE_PG * PG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(room != MAP_FAILED);
	room += (HUGE_PG * PG - (uintptr_t)room % (HUGE_PG * PG)) % (HUGE_PG * PG);
	a.p = mmap(room, HUGE_PG * PG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a.memfd, 0);
	must(a.p != MAP_FAILED);
	*(volatile char *)a.p = 'o';
	if (cached_pages(a.memfd) != HUGE_PG)
		skip_test("no large folio to be had (%llu pages for one touch)",
			  (unsigned long long)cached_pages(a.memfd));
	area_fill(&a, 0, HUGE_PG, 'o');
	return a;
}

static bool is_hole(const struct area *a, size_t page)
{
	return lseek(a->memfd, (off_t)(page * PG), SEEK_HOLE) == (off_t)(page * PG);
}

int main(void)
{
	struct area a;
	struct iovec iov;
	char sink[PG];
	int p[2];

	plat_start(
		"A punch of part of a large folio that somebody references only zeroes that part.");
	a = large_area();
	must(pipe(p) == 0);

	iov = (struct iovec) {area_page(&a, 20), PG};
	must(vmsplice(p[1], &iov, 1, 0) == (ssize_t)PG);
	check(area_punch(&a, 10, 1) == 0, "the punch is refused");
	check(area_pread(&a, 10) == 0, "the punch did not even zero the page");
	check(!is_hole(&a, 10) && cached_pages(a.memfd) == HUGE_PG,
	      "the page is a hole: partial punches are safe here");
	finding("page 20 in a pipe, page 10 punched: rc 0, zeroed, no hole, still %u pages",
		HUGE_PG);

	must(read(p[0], sink, PG) == (ssize_t)PG);
	must(area_punch(&a, 100, 1) == 0);
	finding("no reference, page 100 punched: %s",
		is_hole(&a, 100) ? "a hole" : "still no hole");
	check(area_pread(&a, 99) == 'o' && area_pread(&a, 101) == 'o', "the neighbours changed");
	return 0;
}
