/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mtree.h - read QEMU's `info mtree -f` and place regions by it; for qmp.c and its tests.
 */
#ifndef VMM_MTREE_H
#define VMM_MTREE_H

#include <ebb/types.h>
#include "region.h"

#define MTREE_MAX 512

/** struct mtree_range - one line of the flat view that is RAM */
struct mtree_range {
	uint64_t gpa, len;
	uint64_t offset; /* in the RAM block */
	char name[64];	 /* of the RAM block */
};

struct mtree {
	struct mtree_range r[MTREE_MAX];
	unsigned int nr;
};

/**
 * mtree_parse() - the RAM of the flat view that holds the address space "memory"
 *
 * -EINVAL with a sentence when the text has no such view, or a line in it that is not understood.
 */
int mtree_parse(const char *text, struct mtree *ret, struct ebb_err *err);

/**
 * mtree_place() - set gpa and name of @t's regions, splitting them where the guest sees them in
 * pieces
 * @hva_of: where in the VMM the RAM at a guest-physical address is; 0 when unknown. NULL: match RAM
 *          blocks and memfds by size, and those of equal size in order of creation (the order of
 *          their descriptors).
 *
 * What is not in the view (memory plugged but not enabled yet) keeps REGION_GPA_UNKNOWN.
 * -ENOENT when nothing could be placed; @t is unchanged then.
 */
int mtree_place(const struct mtree *mt, uint64_t (*hva_of)(void *arg, uint64_t gpa), void *arg,
		struct region_table *t, struct ebb_err *err);

#endif
