// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mtree.c - read QEMU's `info mtree -f` and place regions by it.
 *
 * DOC: a flat view, and what it hides
 *
 * The text is a list of flat views; ours is the one that serves the address space "memory". Its
 * lines say which part of which RAM block is seen at which guest-physical address. Parts of a
 * block are hidden by what lies above them (video memory, firmware, SMRAM), and the memfd has
 * pages there all the same. So a block is not taken line by line: the difference between
 * address and offset is what counts, it holds from the first line that shows it to the first
 * that shows another, and only there a region is split. A part that is seen twice is taken
 * where it is seen first.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mtree.h"

/* --- the text ------------------------------------------------------------------------------- */

struct line {
	uint64_t start, end; /* inclusive */
	uint64_t offset;
	char type[16];
	char name[64];
};

/*
 * "  0000000100000000-000000017fffffff (prio 0, ram): pc.ram @0000000080000000 KVM". The name
 * has no spaces; what may follow it is the offset and, with some accelerators, a mark.
 */
static bool parse_line(const char *text, struct line *ret)
{
	struct line l = {.offset = 0};
	const char *at;
	int n = 0;

	if (sscanf(text, " %" SCNx64 "-%" SCNx64 " (prio %*d, %15[^)]): %63s%n", &l.start, &l.end,
		   l.type, l.name, &n) != 4 ||
	    !n || l.end < l.start)
		return false;
	at = text + n;
	if (!strncmp(at, " @", 2) && sscanf(at + 2, "%" SCNx64, &l.offset) != 1)
		return false;
	*ret = l;
	return true;
}

static bool is_memory(const char *type)
{
	if (!strncmp(type, "nv-", 3))
		type += 3;
	return !strcmp(type, "ram") || !strcmp(type, "rom");
}

static int add_range(struct mtree *mt, const char *text, struct ebb_err *err)
{
	struct mtree_range *r;
	struct line l;

	if (!parse_line(text, &l))
		return ebb_err_set(err, -EINVAL,
				   "the monitor's `info mtree -f` has a line that is not "
				   "understood: %.80s",
				   text);
	/*
	 * A ROM may be guest RAM too: the firmware's copy of itself, made read-only by the
	 * chipset.
	 */
	if (!is_memory(l.type) || l.start % EBB_PAGE_SIZE || (l.end + 1) % EBB_PAGE_SIZE)
		return 0;
	if (mt->nr == MTREE_MAX)
		return ebb_err_set(err, -E2BIG, "the guest's memory is in more than %d pieces",
				   MTREE_MAX);
	r = &mt->r[mt->nr++];
	r->gpa = l.start;
	r->len = l.end - l.start + 1;
	r->offset = l.offset;
	memcpy(r->name, l.name, sizeof(r->name));
	return 0;
}

static bool is_range(const char *line)
{
	return line[0] == ' ' && line[1] == ' ' && strstr(line, "(prio ");
}

/* @line: a copy of one line, without its end */
static int mtree_line(struct mtree *mt, const char *line, bool *ours, bool *seen,
		      struct ebb_err *err)
{
	if (!strncmp(line, "FlatView #", 10)) {
		*ours = false;
	} else if (!strncmp(line, " AS \"memory\",", 13)) {
		*ours = *seen = true;
	} else if (*ours && is_range(line)) {
		return add_range(mt, line, err);
	}
	return 0;
}

int mtree_parse(const char *text, struct mtree *ret, struct ebb_err *err)
{
	_cleanup_free_ struct mtree *mt = calloc(1, sizeof(*mt));
	bool ours = false, seen = false;
	char line[256];

	if (!mt)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	while (*text) {
		size_t len = strcspn(text, "\r\n");
		int rc;

		snprintf(line, sizeof(line), "%.*s", (int)MIN(len, sizeof(line) - 1), text);
		rc = mtree_line(mt, line, &ours, &seen, err);
		if (rc)
			return rc;
		text += len;
		text += strspn(text, "\r\n");
	}
	if (!seen || !mt->nr)
		return ebb_err_set(err, -EINVAL,
				   "the monitor's `info mtree -f` shows no RAM in the "
				   "address space \"memory\"");
	*ret = *mt;
	return 0;
}

/*
 * --- which block is which memfd --------------------------------------------------------------
 */

/** struct block - a RAM block, and the memfd found for it */
struct block {
	const char *name;
	uint64_t size;		    /* as far as it is seen */
	const struct region *memfd; /* any region of it; NULL: not one of ours */
	uint64_t shift;		    /* offset in the memfd minus offset in the block */
	bool asked;
};

struct placing {
	const struct mtree *mt;
	struct region_table old, new;
	struct block blocks[REGION_MAX * 2];
	unsigned int nr_blocks;
};

static bool same_memfd(const struct region *a, const struct region *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

static struct block *find_block(struct placing *p, const char *name)
{
	for (unsigned int i = 0; i < p->nr_blocks; i++) {
		if (!strcmp(p->blocks[i].name, name))
			return &p->blocks[i];
	}
	if (p->nr_blocks == ARRAY_SIZE(p->blocks))
		return NULL;
	p->blocks[p->nr_blocks] = (struct block) {.name = name};
	return &p->blocks[p->nr_blocks++];
}

static void list_blocks(struct placing *p)
{
	for (unsigned int i = 0; i < p->mt->nr; i++) {
		const struct mtree_range *r = &p->mt->r[i];
		struct block *b = find_block(p, r->name);

		if (b)
			b->size = MAX(b->size, r->offset + r->len);
	}
}

/* Exact: the VMM says where the RAM at an address is. */
static void match_by_hva(struct placing *p, uint64_t (*hva_of)(void *arg, uint64_t gpa), void *arg)
{
	for (unsigned int i = 0; i < p->mt->nr; i++) {
		const struct mtree_range *r = &p->mt->r[i];
		struct block *b = find_block(p, r->name);
		uint64_t hva;

		/* The first line of a block tells where all of it is. */
		if (!b || b->asked)
			continue;
		b->asked = true;
		hva = hva_of(arg, r->gpa);
		b->memfd = hva ? region_find_hva(&p->old, hva) : NULL;
		if (b->memfd)
			b->shift = b->memfd->file_off + (hva - b->memfd->hva) - r->offset;
	}
}

static uint64_t memfd_size(const struct region_table *t, const struct region *of)
{
	uint64_t size = 0;

	for (unsigned int i = 0; i < t->nr; i++) {
		if (same_memfd(&t->r[i], of))
			size = MAX(size, t->r[i].file_off + pages_to_bytes(t->r[i].nr));
	}
	return size;
}

static bool is_taken(const struct placing *p, const struct region *r)
{
	for (unsigned int i = 0; i < p->nr_blocks; i++) {
		if (p->blocks[i].memfd && same_memfd(p->blocks[i].memfd, r))
			return true;
	}
	return false;
}

static void match_by_size(struct placing *p)
{
	for (unsigned int i = 0; i < p->nr_blocks; i++) {
		const struct region *best = NULL;

		for (unsigned int j = 0; j < p->old.nr; j++) {
			const struct region *r = &p->old.r[j];

			if (memfd_size(&p->old, r) == p->blocks[i].size && !is_taken(p, r) &&
			    (!best || r->remote_fd < best->remote_fd))
				best = r;
		}
		p->blocks[i].memfd = best;
	}
}

/* --- cutting regions ------------------------------------------------------------------------ */

/** struct cut - from @from (an offset in the memfd) on, gpa is offset + @delta, modulo 2^64 */
struct cut {
	uint64_t from, end, delta;
	const char *name;
};

static int cut_compare(const void *a, const void *b)
{
	const struct cut *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

static bool cut_overlaps(const struct cut *cuts, unsigned int nr, uint64_t from, uint64_t end)
{
	for (unsigned int i = 0; i < nr; i++) {
		if (from < cuts[i].end && cuts[i].from < end)
			return true;
	}
	return false;
}

/* The lines that show @memfd, by offset. Returns how many. */
static unsigned int collect_cuts(struct placing *p, const struct region *memfd, struct cut *cuts)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < p->mt->nr; i++) {
		const struct mtree_range *r = &p->mt->r[i];
		const struct block *b = find_block(p, r->name);
		uint64_t from;

		if (!b || !b->memfd || !same_memfd(b->memfd, memfd))
			continue;
		from = r->offset + b->shift;
		if (!cut_overlaps(cuts, nr, from, from + r->len))
			cuts[nr++] = (struct cut) {from, from + r->len, r->gpa - from, b->name};
	}
	qsort(cuts, nr, sizeof(*cuts), cut_compare);
	return nr;
}

static int add_region(struct placing *p, const struct region *of, uint64_t from, uint64_t end,
		      const struct cut *cut, struct ebb_err *err)
{
	struct region *r = &p->new.r[p->new.nr];

	if (p->new.nr == REGION_MAX)
		return ebb_err_set(err, -E2BIG, "the guest's RAM is in more than %d pieces",
				   REGION_MAX);
	*r = *of;
	r->first = p->new.nr_pages;
	r->nr = (uint32_t)bytes_to_pages(end - from);
	r->hva = of->hva + (from - of->file_off);
	r->file_off = from;
	r->gpa = REGION_GPA_UNKNOWN;
	/* a hidden part in front of address 0 would have none */
	if (cut && (from >= cut->from || from + cut->delta < cut->from + cut->delta))
		r->gpa = from + cut->delta;
	if (cut)
		snprintf(r->name, sizeof(r->name), "%s", cut->name);
	p->new.nr++;
	p->new.nr_pages += r->nr;
	return 0;
}

/* Splits @of where the difference changes; what is before the first line goes with it. */
static int cut_region(struct placing *p, const struct region *of, const struct cut *cuts,
		      unsigned int nr, struct ebb_err *err)
{
	uint64_t from = of->file_off, end = from + pages_to_bytes(of->nr);
	const struct cut *now = nr ? &cuts[0] : NULL;

	for (unsigned int i = 1; i < nr; i++) {
		int rc;

		if (cuts[i].delta == now->delta)
			continue;
		if (cuts[i].from > from && cuts[i].from < end) {
			rc = add_region(p, of, from, cuts[i].from, now, err);
			if (rc)
				return rc;
			from = cuts[i].from;
		}
		if (cuts[i].from <= from)
			now = &cuts[i];
	}
	return add_region(p, of, from, end, now, err);
}

/* What was split before (by the machine rule) is put together again first. */
static void join_regions(const struct region_table *t, struct region_table *ret)
{
	*ret = (struct region_table) {.nr_pages = t->nr_pages};
	for (unsigned int i = 0; i < t->nr; i++) {
		const struct region *r = &t->r[i];
		struct region *last = ret->nr ? &ret->r[ret->nr - 1] : NULL;

		if (last && same_memfd(last, r) && last->hva + pages_to_bytes(last->nr) == r->hva &&
		    last->file_off + pages_to_bytes(last->nr) == r->file_off)
			last->nr += r->nr;
		else
			ret->r[ret->nr++] = *r;
	}
}

static int cut_all(struct placing *p, bool *ret_any, struct ebb_err *err)
{
	struct cut *cuts = calloc(MTREE_MAX, sizeof(*cuts));
	int rc = 0;

	if (!cuts)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	for (unsigned int i = 0; !rc && i < p->old.nr; i++) {
		unsigned int nr = collect_cuts(p, &p->old.r[i], cuts);

		*ret_any |= nr > 0;
		rc = cut_region(p, &p->old.r[i], cuts, nr, err);
	}
	free(cuts);
	return rc;
}

int mtree_place(const struct mtree *mt, uint64_t (*hva_of)(void *arg, uint64_t gpa), void *arg,
		struct region_table *t, struct ebb_err *err)
{
	_cleanup_free_ struct placing *p = calloc(1, sizeof(*p));
	bool any = false;
	int rc;

	if (!p)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	p->mt = mt;
	join_regions(t, &p->old);
	list_blocks(p);
	if (hva_of)
		match_by_hva(p, hva_of, arg);
	else
		match_by_size(p);
	rc = cut_all(p, &any, err);
	if (!rc && !any)
		rc = ebb_err_set(err, -ENOENT,
				 "none of the guest RAM that was found is in the monitor's "
				 "`info mtree -f`: is this the monitor of the same VMM?");
	if (!rc)
		*t = p->new;
	return rc;
}
