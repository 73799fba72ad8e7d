/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * region.h - the RAM blocks of a guest: page index <-> address in the VMM <-> offset in the memfd <-> gpa.
 */
#ifndef VMM_REGION_H
#define VMM_REGION_H

#include <sys/types.h>
#include <ebb/types.h>

#define REGION_MAX 32

/**
 * struct region - one stretch of guest RAM, contiguous in all four address spaces
 *
 * A memfd that appears in guest-physical space in two pieces (around the PCI hole) makes two regions
 * that share it.
 */
struct region {
	uint32_t first;	   /* page index of its first page */
	uint32_t nr;	   /* pages */
	uint64_t hva;	   /* address in the VMM */
	uint64_t file_off; /* offset in the memfd */
	uint64_t gpa;	   /* guest-physical address, REGION_GPA_UNKNOWN where nobody said */
	int memfd;	   /* our descriptor of the memfd; borrowed from struct memfd_ref */
	int remote_fd;	   /* its number in the VMM */
	dev_t dev;
	ino_t ino;
	char name[64];
};

#define REGION_GPA_UNKNOWN UINT64_MAX

struct region_table {
	struct region r[REGION_MAX];
	unsigned int nr;
	uint32_t nr_pages; /* of all regions */
};

/** region_find_hva() - the region that holds @hva, NULL if none */
const struct region *region_find_hva(const struct region_table *t, uint64_t hva);

/** region_find_index() - the region that holds page index @idx; it exists for every idx < nr_pages */
const struct region *region_find_index(const struct region_table *t, uint32_t idx);

static inline uint64_t region_hva(const struct region *r, uint32_t idx)
{
	return r->hva + ((uint64_t)(idx - r->first) << EBB_PAGE_SHIFT);
}

static inline uint64_t region_offset(const struct region *r, uint32_t idx)
{
	return r->file_off + ((uint64_t)(idx - r->first) << EBB_PAGE_SHIFT);
}

static inline uint32_t region_index(const struct region *r, uint64_t hva)
{
	return r->first + (uint32_t)((hva - r->hva) >> EBB_PAGE_SHIFT);
}

/** region_holds() - does the memfd hold page @idx? Allocates nothing; any thread */
bool region_holds(const struct region *r, uint32_t idx);

#endif
