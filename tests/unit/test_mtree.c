// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_mtree.c - guest-physical addresses from the text of `info mtree -f`, and from the
 * machine rule.
 *
 * The fixtures were recorded from QEMU 7.2.22 after its firmware had set up the chipset (parts
 * of low RAM are read-only then), with -vga std, so that there is RAM that is not the guest's
 * main memory.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "vmm/mtree.h"
#include "vmm/procmem.h"
#include "vmm/qmp.h"

#define FIXTURE(sym, file)                                                                         \
	__asm__(".pushsection .rodata\n" #sym ": .incbin \"tests/unit/fixtures/" file "\"\n"       \
		".byte 0\n.popsection\n");                                                         \
	extern const char sym[]

FIXTURE(fix_q35_1024, "mtree-q35-1024.txt");
FIXTURE(fix_q35_4096, "mtree-q35-4096.txt");
FIXTURE(fix_pc_4096, "mtree-pc-4096.txt");
FIXTURE(fix_numa, "mtree-numa.txt");

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define HVA 0x7f0000000000ull

static void add(struct region_table *t, uint64_t hva, uint64_t bytes, ino_t ino, int remote_fd)
{
	struct region *r = &t->r[t->nr++];

	*r = (struct region){
		.first = t->nr_pages,
		.nr = (uint32_t)bytes_to_pages(bytes),
		.hva = hva,
		.gpa = REGION_GPA_UNKNOWN,
		.memfd = -1,
		.remote_fd = remote_fd,
		.ino = ino,
		.name = "memory-backend-memfd",
	};
	t->nr_pages += r->nr;
}

static struct region_table one(uint64_t bytes)
{
	struct region_table t = {.nr = 0};

	add(&t, HVA, bytes, 1, 10);
	return t;
}

static void assert_region(const struct region_table *t, unsigned int i, uint64_t gpa, uint64_t off,
			  uint64_t bytes)
{
	const struct region *r = &t->r[i];

	assert_true(i < t->nr);
	assert_int_equal(r->gpa, gpa);
	assert_int_equal(r->file_off, off);
	assert_int_equal(pages_to_bytes(r->nr), bytes);
	assert_int_equal(r->first, i ? t->r[i - 1].first + t->r[i - 1].nr : 0);
}

static void test_q35_1g(void **state)
{
	struct region_table t = one(GIB);

	assert_int_equal(qmp_parse_mtree(fix_q35_1024, &t, NULL), 0);
	assert_int_equal(t.nr, 1);
	assert_region(&t, 0, 0, 0, GIB);
	assert_string_equal(t.r[0].name, "pc.ram");
	assert_int_equal(t.r[0].hva, HVA);
}

static void test_q35_4g(void **state)
{
	struct region_table t = one(4 * GIB);

	assert_int_equal(qmp_parse_mtree(fix_q35_4096, &t, NULL), 0);
	assert_int_equal(t.nr, 2);
	assert_region(&t, 0, 0, 0, 2 * GIB);
	assert_region(&t, 1, 4 * GIB, 2 * GIB, 2 * GIB);
	assert_int_equal(t.r[1].hva, HVA + 2 * GIB);
	assert_int_equal(t.r[1].remote_fd, 10);
	assert_int_equal(t.nr_pages, bytes_to_pages(4 * GIB));
}

static void test_pc_4g(void **state)
{
	struct region_table t = one(4 * GIB);

	assert_int_equal(qmp_parse_mtree(fix_pc_4096, &t, NULL), 0);
	assert_int_equal(t.nr, 2);
	assert_region(&t, 0, 0, 0, 3 * GIB);
	assert_region(&t, 1, 4 * GIB, 3 * GIB, GIB);
}

/* As /proc shows them: by address, the last made first. Two nodes have the same size. */
static struct region_table numa(void)
{
	struct region_table t = {.nr = 0};

	add(&t, HVA, 256 * MIB, 3, 12);
	add(&t, HVA + GIB, 2 * GIB, 2, 11);
	add(&t, HVA + 4 * GIB, 2 * GIB, 1, 10);
	return t;
}

static void assert_numa(const struct region_table *t)
{
	assert_int_equal(t->nr, 3);
	assert_region(t, 0, 0x180000000, 0, 256 * MIB);
	assert_string_equal(t->r[0].name, "memdimm0");
	assert_region(t, 1, 4 * GIB, 0, 2 * GIB);
	assert_string_equal(t->r[1].name, "ram-node1");
	assert_region(t, 2, 0, 0, 2 * GIB);
	assert_string_equal(t->r[2].name, "ram-node0");
}

static void test_numa_by_order(void **state)
{
	struct region_table t = numa();

	assert_int_equal(qmp_parse_mtree(fix_numa, &t, NULL), 0);
	assert_numa(&t);
}

static uint64_t hva_of(void *arg, uint64_t gpa)
{
	if (gpa < 2 * GIB)
		return HVA + 4 * GIB + gpa;
	if (gpa >= 4 * GIB && gpa < 6 * GIB)
		return HVA + GIB + gpa - 4 * GIB;
	if (gpa >= 6 * GIB && gpa < 6 * GIB + 256 * MIB)
		return HVA + gpa - 6 * GIB;
	return gpa == 0xfd000000 ? 0x600000000000 : 0;
}

/* The VMM's word counts, whatever the order of descriptors. */
static void test_numa_by_address(void **state)
{
	struct mtree *mt = calloc(1, sizeof(*mt));
	struct region_table t = numa();

	t.r[1].remote_fd = 5;
	assert_int_equal(mtree_parse(fix_numa, mt, NULL), 0);
	assert_int_equal(mtree_place(mt, hva_of, NULL, &t, NULL), 0);
	assert_numa(&t);
	free(mt);
}

/* Placed by the machine rule first: joined, then cut anew. */
static void test_replaces_machine_rule(void **state)
{
	struct region_table t = one(4 * GIB);

	proc_place_one("pc", &t);
	assert_int_equal(t.nr, 2);
	assert_int_equal(qmp_parse_mtree(fix_q35_4096, &t, NULL), 0);
	assert_int_equal(t.nr, 2);
	assert_region(&t, 0, 0, 0, 2 * GIB);
	assert_region(&t, 1, 4 * GIB, 2 * GIB, 2 * GIB);
}

static void test_unplugged_memory_stays_unknown(void **state)
{
	struct region_table t = one(GIB);

	add(&t, HVA + 8 * GIB, 512 * MIB, 2, 11);
	assert_int_equal(qmp_parse_mtree(fix_q35_1024, &t, NULL), 0);
	assert_region(&t, 0, 0, 0, GIB);
	assert_region(&t, 1, REGION_GPA_UNKNOWN, 0, 512 * MIB);
}

static void test_another_vmms_monitor(void **state)
{
	struct region_table t = one(3 * GIB), before = t;
	struct ebb_err err;

	assert_int_equal(qmp_parse_mtree(fix_q35_1024, &t, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "same VMM"));
	assert_memory_equal(&t, &before, sizeof(t));
}

static void refused(const char *text)
{
	struct region_table t = one(GIB), before = t;
	struct ebb_err err = {""};

	assert_true(qmp_parse_mtree(text, &t, &err) < 0);
	assert_true(err.msg[0]);
	assert_memory_equal(&t, &before, sizeof(t));
}

static void test_garbage(void **state)
{
	refused("");
	refused("unknown command: 'info mtree -f'\n");
	refused("FlatView #0\n AS \"I/O\", root: io\n Root memory region: io\n"
		"  0000000000000000-000000003fffffff (prio 0, ram): pc.ram\n");
	refused("FlatView #0\n AS \"memory\", root: system\n  No rendered FlatView\n");
	refused("FlatView #0\n AS \"memory\", root: system\n  zzz-3fffffff (prio 0, ram): x\n");
	refused("FlatView #0\n AS \"memory\", root: system\n  2000-1fff (prio 0, ram): x\n");
}

/*
 * KVM's mark behind the line; non-volatile RAM; CRLF; a part hidden at the end; a part seen
 * twice.
 */
static void test_odd_lines(void **state)
{
	static const char text[] =
		"FlatView #3\r\n AS \"memory\", root: system\r\n"
		" AS \"cpu-memory-0\", root: system\r\n"
		" Root memory region: system\r\n"
		"  0000000000000000-000000000fffffff (prio 0, nv-ram): pc.ram KVM\r\n"
		"  0000000010000000-000000001effffff (prio 0, ram): pc.ram @10000000 KVM\r\n"
		"  0000000040000000-000000004000ffff (prio 1, ram): pc.ram @00000000 KVM\r\n"
		"  0000000100000000-000000011fffffff (prio 0, ram): pc.ram @20000000 KVM\r\n"
		"FlatView #4\r\n AS \"other\", root: x\r\n"
		"  0000000000000000-000000003fffffff (prio 0, ram): pc.ram\r\n";
	struct region_table t = one(GIB);

	assert_int_equal(qmp_parse_mtree(text, &t, NULL), 0);
	assert_int_equal(t.nr, 2);
	assert_region(&t, 0, 0, 0, 512 * MIB);
	assert_region(&t, 1, 4 * GIB, 512 * MIB, 512 * MIB);
}

static void test_too_many_pieces(void **state)
{
	struct region_table t = one(GIB);
	char *text = malloc(1 << 20);
	int n = sprintf(text, "FlatView #0\n AS \"memory\", root: system\n");
	struct ebb_err err;

	/* every piece with a difference of its own */
	for (uint64_t i = 0; i < REGION_MAX + 1; i++)
		n += sprintf(text + n, "  %016llx-%016llx (prio 0, ram): m @%016llx\n",
			     (unsigned long long)(i * 4 * MIB),
			     (unsigned long long)(i * 4 * MIB + MIB - 1),
			     (unsigned long long)(i * MIB));
	n += sprintf(text + n, "  %016llx-%016llx (prio 0, ram): m @%016llx\n", 4 * GIB,
		     5 * GIB - 64 * MIB - 1, 64 * MIB);
	assert_int_equal(qmp_parse_mtree(text, &t, &err), -E2BIG);
	assert_int_equal(t.nr, 1);
	free(text);
}

static void assert_rule(const char *machine, uint64_t mib, uint64_t low_mib)
{
	struct region_table t = one(mib * MIB);

	proc_place_one(machine, &t);
	assert_region(&t, 0, 0, 0, low_mib * MIB);
	assert_int_equal(t.nr, low_mib == mib ? 1 : 2);
	if (t.nr == 2)
		assert_region(&t, 1, 4 * GIB, low_mib * MIB, (mib - low_mib) * MIB);
}

/* The sizes at the edges, as QEMU 7.2.22 itself placed them. */
static void test_machine_rule(void **state)
{
	assert_rule("pc", 1024, 1024);
	assert_rule("pc", 3583, 3583);
	assert_rule("pc", 3584, 3072);
	assert_rule("pc-i440fx-7.2", 4096, 3072);
	assert_rule("q35", 1024, 1024);
	assert_rule("q35", 2815, 2815);
	assert_rule("q35", 2816, 2048);
	assert_rule("pc-q35-7.2", 4096, 2048);
}

static void assert_no_rule(const char *machine, struct region_table t)
{
	unsigned int nr = t.nr;

	proc_place_one(machine, &t);
	assert_int_equal(t.nr, nr);
	for (unsigned int i = 0; i < nr; i++)
		assert_int_equal(t.r[i].gpa, REGION_GPA_UNKNOWN);
}

static void test_machine_rule_does_not_guess(void **state)
{
	struct region_table part = one(GIB);

	part.r[0].file_off = MIB;
	assert_no_rule("pc", part);
	assert_no_rule("microvm", one(GIB));
	assert_no_rule("", one(GIB));
	assert_no_rule("pcx", one(GIB));
	assert_no_rule("pc-i440fx-1.7", one(4 * GIB));
	assert_no_rule("pc", one(1024 * GIB));
	assert_no_rule("q35", numa());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_q35_1g),
		cmocka_unit_test(test_q35_4g),
		cmocka_unit_test(test_pc_4g),
		cmocka_unit_test(test_numa_by_order),
		cmocka_unit_test(test_numa_by_address),
		cmocka_unit_test(test_replaces_machine_rule),
		cmocka_unit_test(test_unplugged_memory_stays_unknown),
		cmocka_unit_test(test_another_vmms_monitor),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_odd_lines),
		cmocka_unit_test(test_too_many_pieces),
		cmocka_unit_test(test_machine_rule),
		cmocka_unit_test(test_machine_rule_does_not_guess),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
