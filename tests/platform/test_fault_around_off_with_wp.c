// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_fault_around_off_with_wp.c - with MISSING|WP only touched pages get their PTE back after a
 * zap.
 *
 * The sampler that zaps PTEs and looks which came back is exact only if a fault maps one page. With
 * MISSING alone the kernel maps the neighbours that are in the page cache as well.
 */
#include "platform.h"

#define PAGES 256u

static size_t present(const struct area *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->pages; i++)
		n += (pagemap(area_page(a, i)) & PAGEMAP_PRESENT) != 0;
	return n;
}

static size_t present_after_touching(struct area *a, const size_t *touch, size_t nr)
{
	must(area_zap(a, 0, PAGES) == 0);
	check(present(a) == 0, "the zap left PTEs");
	for (size_t i = 0; i < nr; i++)
		(void)*(volatile char *)area_page(a, touch[i]);
	return present(a);
}

int main(void)
{
	static const size_t touch[] = {3, 50, 100, 101, 255};
	struct area plain = area_new(PAGES), a = area_new(PAGES);
	size_t n;

	plat_start("With MISSING|WP a zapped page comes back alone; with MISSING it brings "
		   "neighbours.");
	area_fill(&plain, 0, PAGES, 'x');
	area_register_fd(&plain, uf_open(0, UFFD_FEATURE_MISSING_SHMEM),
			 UFFDIO_REGISTER_MODE_MISSING);
	n = present_after_touching(&plain, touch, ARRAY_SIZE(touch));
	finding("MISSING: %zu touched, %zu mapped%s", ARRAY_SIZE(touch), n,
		n == ARRAY_SIZE(touch) ? " (fault-around is switched off on this machine)" : "");

	area_fill(&a, 0, PAGES, 'x');
	area_register(&a);
	n = present_after_touching(&a, touch, ARRAY_SIZE(touch));
	check(n == ARRAY_SIZE(touch), "MISSING|WP: %zu touched, %zu mapped", ARRAY_SIZE(touch), n);
	for (size_t i = 0; i < ARRAY_SIZE(touch); i++)
		check(pagemap(area_page(&a, touch[i])) & PAGEMAP_PRESENT,
		      "the wrong pages came back");
	check(uf_fault(&a, 0, 0) == FAULT_NONE, "a re-touch gave a message");
	finding("MISSING|WP: %zu touched, the same %zu mapped, no message", ARRAY_SIZE(touch), n);
	return 0;
}
