// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pinguard.bpf.c - counts the references to pages of a memfd, inside the kernel.
 *
 * DOC: how it finds and judges a page
 *
 * The program is never attached: BPF_PROG_TEST_RUN runs it once, in the calling task and under
 * rcu_read_lock(), which keeps the task's descriptor table and the nodes of the page cache from
 * being freed under it. It goes descriptor -> file -> f_mapping -> i_pages and looks each index up
 * in the xarray itself. Page tables and PFNs are not used: a zapped page has no PTE, and a PFN read
 * earlier may belong to somebody else by now.
 *
 * The look-up goes by aligned groups of 64 indexes, which is what one bottom node holds. An entry
 * found higher up (a large folio, or nothing) stands for the whole group.
 *
 * A folio itself is not protected by RCU. So its head is copied first and judged afterwards, and
 * only if the copy names our mapping and our index; what does not fit is PG_UNKNOWN. Of a small
 * folio, _mapcount and _refcount share one aligned 8-byte word that is copied at once, so the two
 * belong together. Mapping a page takes the reference before it counts the mapping and unmapping
 * gives it back after, so a surplus can be seen where there is none, never the reverse:
 *
 *	surplus = _refcount - 1 (page cache) - (_mapcount + 1)
 *
 * Whoever pins for I/O with FOLL_PIN adds 1024 (GUP_PIN_COUNTING_BIAS) to a small folio. A large
 * folio is only named as such: one reference stands for any of its pages, and it must not be
 * punched in part.
 *
 * Offsets come from the running kernel's BTF (CO-RE); what differs between 6.1 and 6.18 is marked.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "pinguard.h"

#define TMPFS_MAGIC  0x01021994
#define PIN_BIAS     1024
#define FOLIO_HEAD   64 /* bytes copied of a folio: all that is asked for lies within */
#define XA_BITS	     6	/* log2(PG_SLOTS) */
#define XA_MAX_DEPTH 11 /* 64-bit indexes */
#define BAD_ENTRY    (~0ULL)

/* Only the fields used, in any order: the loader puts the real offsets in. */
#define __core __attribute__((preserve_access_index))

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	__s64 counter;
} atomic_long_t;

typedef struct {
	unsigned long f;
} memdesc_flags_t;

typedef struct {
	atomic_long_t refcnt;
} file_ref_t;

struct xarray {
	void *xa_head;
} __core;

struct xa_node {
	unsigned char shift;
	void *slots[PG_SLOTS];
} __core;

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
} __core;

struct rb_root {
	struct rb_node *rb_node;
} __core;

struct rb_root_cached {
	struct rb_root rb_root;
} __core;

struct address_space {
	struct xarray i_pages;
	atomic_t i_mmap_writable;
	struct rb_root_cached i_mmap;
	unsigned long nrpages;
} __core;

struct super_block {
	unsigned long s_magic;
} __core;

struct inode {
	struct super_block *i_sb;
} __core;

struct lockref {
	int count;
} __core;

struct dentry {
	struct lockref d_lockref;
} __core;

struct path {
	struct dentry *dentry;
} __core;

struct file {
	struct address_space *f_mapping;
	struct inode *f_inode;
	struct path f_path;
	file_ref_t f_ref; /* from 6.13: one less than the references */
} __core;

struct file___old {
	atomic_long_t f_count; /* to 6.12 */
} __core;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} __core;

struct files_struct {
	struct fdtable *fdt;
} __core;

struct task_struct {
	struct files_struct *files;
} __core;

struct folio {
	memdesc_flags_t flags; /* from 6.18 */
	struct address_space *mapping;
	unsigned long index;
	atomic_t _mapcount;
	atomic_t _refcount;
} __core;

struct folio___old {
	unsigned long flags; /* to 6.17 */
} __core;

enum pageflags {
	PG_head = 6, /* 16 in 6.1 */
};

#define offset_of(type, field)                                                                     \
	__builtin_preserve_field_info(((struct type *)0)->field, BPF_FIELD_BYTE_OFFSET)

struct pg_area area;

static __always_inline int read_kernel(void *dst, __u32 size, __u64 addr)
{
	return (int)bpf_probe_read_kernel(dst, size, (const void *)addr);
}

/* Internal entries of the xarray have 10 in their low bits; small ones are not nodes. */
static __always_inline int entry_is_internal(__u64 e)
{
	return (e & 3) == 2;
}

static __always_inline int entry_is_node(__u64 e)
{
	return entry_is_internal(e) && e > 4096;
}

static __always_inline int entry_is_sibling(__u64 e)
{
	return entry_is_internal(e) && e < (PG_SLOTS << 2);
}

/* Not inlined, not unrolled: it is called from six places. */
static __noinline void group_fill(__u64 entry)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PG_SLOTS; i++)
		area.slot[i] = entry;
}

static __always_inline __u64 group_entry(__u64 n)
{
	/* Keeps the compiler from dropping a mask that the verifier wants to see. */
	barrier_var(n);
	return area.slot[n & (PG_SLOTS - 1)];
}

/* Entry of @node that @index falls under; siblings point at the slot that holds the real one. */
static __always_inline __u64 node_entry(__u64 node, __u8 shift, __u64 index)
{
	__u64 slots = node + offset_of(xa_node, slots);
	__u64 entry;

	if (read_kernel(&entry, sizeof(entry), slots + ((index >> shift) & (PG_SLOTS - 1)) * 8))
		return BAD_ENTRY;
	if (entry_is_sibling(entry) && read_kernel(&entry, sizeof(entry), slots + (entry >> 2) * 8))
		return BAD_ENTRY;
	return entry;
}

/* group_load() - fill area.slot with the entries of the 64 indexes from @base */
static __always_inline void group_load(__u64 base)
{
	__u64 entry = area.root;
	__u8 shift;

	area.base = base;
	area.loaded = 1;
	if (!entry_is_node(entry)) {
		/* A tree without a node has nothing but index 0. */
		group_fill(0);
		if (base == 0)
			area.slot[0] = entry;
		return;
	}
	for (int depth = 0; depth < XA_MAX_DEPTH; depth++) {
		__u64 node = entry - 2;

		if (read_kernel(&shift, sizeof(shift), node + offset_of(xa_node, shift)) ||
		    shift >= 64) {
			group_fill(BAD_ENTRY);
			return;
		}
		if (depth == 0 && shift < 64 - XA_BITS && base >> (shift + XA_BITS)) {
			group_fill(0); /* beyond the end of the tree */
			return;
		}
		if (shift == 0) {
			if (read_kernel(area.slot, sizeof(area.slot),
					node + offset_of(xa_node, slots)))
				group_fill(BAD_ENTRY);
			return;
		}
		entry = node_entry(node, shift, base);
		if (!entry_is_node(entry)) {
			group_fill(entry);
			return;
		}
	}
	group_fill(BAD_ENTRY);
}

static __always_inline int folio_is_large(const struct folio *head)
{
	unsigned long flags;

	if (bpf_core_field_exists(head->flags.f))
		flags = head->flags.f;
	else
		flags = ((const struct folio___old *)head)->flags;
	return (flags >> bpf_core_enum_value(enum pageflags, PG_head)) & 1;
}

static __always_inline enum pg_verdict folio_judge(__u64 addr, __u64 index)
{
	__u64 copy[FOLIO_HEAD / 8];
	const struct folio *head = (const struct folio *)copy;
	long refs, maps, surplus;

	if (read_kernel(copy, sizeof(copy), addr))
		return PG_UNKNOWN;
	if ((__u64)head->mapping != area.mapping)
		return PG_UNKNOWN; /* truncated, or another file's by now */
	if (folio_is_large(head))
		return PG_LARGE;
	if (head->index != index)
		return PG_UNKNOWN;
	refs = head->_refcount.counter;
	maps = (long)head->_mapcount.counter + 1;
	if (refs <= 0 || maps < 0)
		return PG_UNKNOWN;
	surplus = refs - 1 - maps;
	if (surplus < 0)
		return PG_UNKNOWN;
	if (surplus == 0)
		return PG_CLEAN;
	return surplus >= PIN_BIAS ? PG_PINNED : PG_BUSY;
}

static __always_inline enum pg_verdict entry_judge(__u64 entry, __u64 index)
{
	if (entry == 0)
		return PG_ABSENT;
	if (entry == BAD_ENTRY)
		return PG_UNKNOWN;
	if (entry_is_sibling(entry)) {
		entry = group_entry(entry >> 2);
		if (entry == 0)
			return PG_UNKNOWN;
	}
	if (entry_is_internal(entry))
		return PG_UNKNOWN; /* being changed this moment */
	if (entry & 1)
		return PG_SWAPPED;
	return folio_judge(entry, index);
}

static long judge_one(__u32 i, void *unused)
{
	__u64 index = area.first + i;
	__u64 base = index & ~(__u64)(PG_SLOTS - 1);

	if (i >= PG_MAX)
		return 1;
	if (!area.loaded || area.base != base)
		group_load(base);
	area.verdict[i] = entry_judge(group_entry(index), index);
	return 0;
}

static __always_inline int layout_known(void)
{
	/* One copied word must hold both counts. */
	if ((offset_of(folio, _mapcount) ^ offset_of(folio, _refcount)) >= 8)
		return 0;
	if (offset_of(folio, _refcount) > FOLIO_HEAD - 4 ||
	    offset_of(folio, mapping) > FOLIO_HEAD - 8 || offset_of(folio, index) > FOLIO_HEAD - 8)
		return 0;
	return bpf_core_field_size(((struct xa_node *)0)->slots) == PG_SLOTS * sizeof(__u64);
}

static __always_inline struct file *file_by_fd(__u32 fd)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = 0;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	if (read_kernel(&file, sizeof(file), (__u64)(BPF_CORE_READ(table, fd) + fd)))
		return 0;
	return file;
}

static __always_inline void report_mappers(struct file *file, struct address_space *mapping)
{
	struct rb_node *node = BPF_CORE_READ(mapping, i_mmap.rb_root.rb_node);

	area.mmap_writable = BPF_CORE_READ(mapping, i_mmap_writable.counter);
	area.nr_pages = BPF_CORE_READ(mapping, nrpages);
	area.dentry_count = BPF_CORE_READ(file, f_path.dentry, d_lockref.count);
	if (bpf_core_field_exists(file->f_ref.refcnt.counter))
		area.file_count = BPF_CORE_READ(file, f_ref.refcnt.counter) + 1;
	else
		area.file_count = BPF_CORE_READ((struct file___old *)file, f_count.counter);
	/* Read without the lock: the root alone says none, one or several. */
	if (!node)
		area.mmap_tree = 0;
	else if (BPF_CORE_READ(node, rb_left) || BPF_CORE_READ(node, rb_right))
		area.mmap_tree = 2;
	else
		area.mmap_tree = 1;
}

SEC("raw_tp")
int pinguard_look(void *ctx)
{
	struct address_space *mapping;
	struct file *file;
	__u32 nr = area.nr;

	if (!layout_known() || nr > PG_MAX)
		return PG_E_LAYOUT;
	file = file_by_fd(area.fd);
	if (!file)
		return PG_E_FD;
	if (BPF_CORE_READ(file, f_inode, i_sb, s_magic) != TMPFS_MAGIC)
		return PG_E_FS;
	mapping = BPF_CORE_READ(file, f_mapping);
	if (!mapping)
		return PG_E_READ;
	report_mappers(file, mapping);
	area.mapping = (__u64)mapping;
	area.root = (__u64)BPF_CORE_READ(mapping, i_pages.xa_head);
	area.loaded = 0;
	if (bpf_loop(nr, judge_one, 0, 0) != nr)
		return PG_E_READ;
	area.done = area.ticket;
	return PG_OK;
}

char LICENSE[] SEC("license") = "GPL";
