// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_trace.c - traces in memory: there and back, cut, garbled.
 *
 * EBB_SEED repeats a run.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ebb/trace.h>
#include <reclaim/sim/rng.h>

#define PAGES 1000u

static uint8_t buf[1 << 16];
static struct trace_writer w;
static uint64_t rnd;

static const struct trace_header head = {
	.version = TRACE_VERSION,
	.page_shift = 12,
	.nr_pages = PAGES,
	.start_ns = 0x0123456789abcdefull,
	.name = "guest",
};

static void begin(void)
{
	memset(buf, 0xee, sizeof(buf));
	assert_int_equal(trace_begin(&w, buf, sizeof(buf), &head), 0);
}

/* --- there and back ------------------------------------------------------------------------- */

static void test_header(void **state)
{
	static const uint8_t bytes[] = {'E',  'B',  'B',  'T',	'R', 'A', 'C',	'E',  1,    0,
					12,   5,    0xe8, 0x03, 0,   0,	  0xef, 0xcd, 0xab, 0x89,
					0x67, 0x45, 0x23, 0x01, 'g', 'u', 'e',	's',  't'};
	struct trace_header got;
	struct trace_reader r;

	begin();
	assert_int_equal(w.used, sizeof(bytes));
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(trace_open(&r, buf, w.used, &got), 0);
	assert_memory_equal(&got, &head, sizeof(head));
}

/* The bytes are the format: a reader of a later version has to find them so. */
static void test_bytes(void **state)
{
	static const struct page_run runs[] = {{3, 1}, {4, 200}, {999, 1}};
	static const uint8_t bytes[] = {
		0x01, 0xe8, 0x07,				/* 1000 ns */
		0x12, 0x14,					/* refault of page 10 */
		0x32, 0x05,					/* write kept, 3 below it */
		0x03, 0x03, 3,	  0,	0, 0xc7, 1, 0x9b, 6, 0, /* young: 3 runs */
		0x04, 0x05,					/* end of the pass */
		0x05, 0x03, 3,	  0,	0, 0xc7, 1, 0x9b, 6, 0, /* evicted */
		0x06, 0x03, 3,	  0,	0, 0xc7, 1, 0x9b, 6, 0, /* discarded */
		0x07, 0x00, 0x07, 0x01,				/* no limit, limit of 0 pages */
	};
	size_t header;

	begin();
	header = w.used;
	assert_int_equal(trace_put_time(&w, 1000), 0);
	assert_int_equal(trace_put_fault(&w, TRACE_FAULT_REFAULT, 10), 0);
	assert_int_equal(trace_put_fault(&w, TRACE_FAULT_WRITE_KEPT, 7), 0);
	assert_int_equal(trace_put_runs(&w, TRACE_YOUNG, runs, 3), 0);
	assert_int_equal(trace_put_pass_end(&w, 5), 0);
	assert_int_equal(trace_put_runs(&w, TRACE_EVICT, runs, 3), 0);
	assert_int_equal(trace_put_runs(&w, TRACE_DISCARD, runs, 3), 0);
	assert_int_equal(trace_put_limit(&w, TRACE_NO_LIMIT), 0);
	assert_int_equal(trace_put_limit(&w, 0), 0);
	assert_int_equal(w.used - header, sizeof(bytes));
	assert_memory_equal(buf + header, bytes, sizeof(bytes));
}

/* What the writer was told, to be compared with what the reader says. */
struct told {
	enum trace_type type;
	uint64_t ns, value;
	uint8_t pages[PAGES];
};

static struct told told[512];
static uint32_t nr_told;
static uint64_t now;

static struct told *tell(enum trace_type type, uint64_t value)
{
	struct told *t = &told[nr_told++];

	assert_true(nr_told <= ARRAY_SIZE(told));
	memset(t, 0, sizeof(*t));
	t->type = type;
	t->ns = now;
	t->value = value;
	return t;
}

/* Random bits, set in stretches; at least one. */
static void random_pages(uint64_t *bits, uint8_t *pages)
{
	memset(bits, 0, (PAGES + 63) / 64 * sizeof(*bits));
	for (uint32_t i = 0; i <= rng_below(&rnd, 5); i++) {
		uint32_t first = rng_below(&rnd, PAGES), nr = 1 + rng_below(&rnd, 90);

		for (uint32_t page = first; page < MIN(first + nr, PAGES); page++) {
			bits[page / 64] |= 1ull << page % 64;
			pages[page] = 1;
		}
	}
}

static uint32_t runs_of(const uint8_t *pages, struct page_run *runs)
{
	uint32_t nr = 0;

	for (uint32_t page = 0; page < PAGES; page++) {
		if (!pages[page])
			continue;
		if (page && pages[page - 1])
			runs[nr - 1].nr++;
		else
			runs[nr++] = (struct page_run) {page, 1};
	}
	return nr;
}

static void put_random(void)
{
	uint64_t bits[(PAGES + 63) / 64], value = rng_next(&rnd) >> rng_below(&rnd, 64);
	struct page_run runs[PAGES];
	uint32_t page = rng_below(&rnd, PAGES), kind = rng_below(&rnd, TRACE_NR_FAULTS);
	enum trace_type type = 1 + rng_below(&rnd, TRACE_NR_TYPES - 1);
	struct told *t;

	switch (type) {
	case TRACE_TIME:
		value >>= 24;
		if (!value)
			return;
		now += value;
		assert_int_equal(trace_put_time(&w, now), 0);
		tell(type, 0);
		return;
	case TRACE_FAULT:
		assert_int_equal(trace_put_fault(&w, kind, page), 0);
		tell(type, page << 4 | kind);
		return;
	case TRACE_PASS_END:
		assert_int_equal(trace_put_pass_end(&w, value), 0);
		tell(type, value);
		return;
	case TRACE_LIMIT:
		assert_int_equal(trace_put_limit(&w, (uint32_t)value), 0);
		tell(type, (uint32_t)value);
		return;
	default:
		t = tell(type, 0);
		random_pages(bits, t->pages);
		if (type == TRACE_YOUNG)
			assert_int_equal(trace_put_young(&w, 0, bits, ARRAY_SIZE(bits)), 0);
		else
			assert_int_equal(trace_put_runs(&w, type, runs, runs_of(t->pages, runs)),
					 0);
	}
}

static void put_random_trace(uint32_t records)
{
	begin();
	nr_told = 0;
	now = 0;
	while (nr_told < records)
		put_random();
}

static void assert_as_told(struct trace_record *record, const struct told *t)
{
	uint8_t pages[PAGES] = {0};
	struct page_run run;

	assert_int_equal(record->type, t->type);
	assert_true(record->time_ns == t->ns);
	switch (record->type) {
	case TRACE_FAULT:
		assert_int_equal(record->fault.page << 4 | record->fault.kind, t->value);
		break;
	case TRACE_PASS_END:
		assert_true(record->cost_ns == t->value);
		break;
	case TRACE_LIMIT:
		assert_int_equal(record->limit, t->value);
		break;
	case TRACE_TIME:
		break;
	default:
		while (trace_next_run(record, &run)) {
			assert_true(run.nr > 0 && run.first < PAGES && run.nr <= PAGES - run.first);
			memset(pages + run.first, 1, run.nr);
		}
		assert_memory_equal(pages, t->pages, PAGES);
	}
}

static void test_there_and_back(void **state)
{
	for (uint32_t round = 0; round < 50; round++) {
		struct trace_header got;
		struct trace_record record;
		struct trace_reader r;

		put_random_trace(300);
		assert_int_equal(trace_open(&r, buf, w.used, &got), 0);
		for (uint32_t i = 0; i < nr_told; i++) {
			assert_int_equal(trace_read(&r, &record), 1);
			assert_as_told(&record, &told[i]);
		}
		assert_int_equal(trace_read(&r, &record), 0);
	}
}

/* --- writing -------------------------------------------------------------------------------- */

static void test_writer_refuses(void **state)
{
	static const struct page_run bad[][2] = {
		{{5, 0}, {9, 1}},   /* empty */
		{{5, 3}, {7, 1}},   /* overlap */
		{{9, 1}, {5, 1}},   /* backwards */
		{{5, 1}, {999, 2}}, /* beyond the guest */
		{{5, 1}, {1000, 1}}, {{5, 1}, {7, UINT32_MAX}},
	};
	struct trace_header wrong = head;
	size_t used;

	begin();
	used = w.used;
	for (uint32_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(trace_put_runs(&w, TRACE_YOUNG, bad[i], 2), -EINVAL);
		assert_int_equal(w.used, used);
	}
	wrong.nr_pages = 0;
	assert_int_equal(trace_begin(&w, buf, sizeof(buf), &wrong), -EINVAL);
	wrong.nr_pages = TRACE_PAGES_MAX + 1;
	assert_int_equal(trace_begin(&w, buf, sizeof(buf), &wrong), -EINVAL);
	wrong = head;
	wrong.version = 2;
	assert_int_equal(trace_begin(&w, buf, sizeof(buf), &wrong), -EINVAL);
	wrong = head;
	memset(wrong.name, 'x', sizeof(wrong.name)); /* no end */
	assert_int_equal(trace_begin(&w, buf, sizeof(buf), &wrong), -EINVAL);
}

/* Nothing to say: no record. */
static void test_writer_is_silent(void **state)
{
	uint64_t none[2] = {0}, beyond[1] = {~0ull << 40};
	size_t used;

	begin();
	used = w.used;
	assert_int_equal(trace_put_time(&w, 0), 0);
	assert_int_equal(trace_put_runs(&w, TRACE_EVICT, NULL, 0), 0);
	assert_int_equal(trace_put_young(&w, 0, none, 2), 0);
	assert_int_equal(trace_put_young(&w, 960, beyond, 1), 0); /* pages 1000.. */
	assert_int_equal(trace_put_young(&w, 1024, beyond, 1), 0);
	assert_int_equal(w.used, used);
}

/* A record is whole or not there; after emptying the buffer the same call goes through. */
static void test_writer_without_room(void **state)
{
	static const struct page_run runs[] = {{3, 1}, {300, 200}};
	uint64_t bits[] = {0x5555555555555555ull, ~0ull};

	for (size_t room = 0; room < 200; room++) {
		struct trace_writer before;

		begin();
		w.size = w.used + room;
		for (uint32_t i = 0; i < 5; i++) {
			int rc;

			before = w;
			rc = i == 0 ? trace_put_time(&w, 1ull << 40) :
			     i == 1 ? trace_put_fault(&w, TRACE_FAULT_NEW, 999) :
			     i == 2 ? trace_put_runs(&w, TRACE_EVICT, runs, 2) :
			     i == 3 ? trace_put_young(&w, 64, bits, 2) :
				      trace_put_limit(&w, 1u << 30);
			assert_true(rc == 0 || rc == -ENOSPC);
			assert_true(w.used <= w.size);
			if (rc)
				assert_memory_equal(&w, &before, sizeof(w));
			else
				assert_true(w.used > before.used);
		}
		/* behind the room nothing was touched */
		assert_int_equal(buf[w.size], 0xee);
	}
	assert_int_equal(trace_begin(&w, buf, 28, &head), -ENOSPC);
	assert_int_equal(trace_begin(&w, buf, 29, &head), 0);
}

/* --- what no writer writes ------------------------------------------------------------------ */

/* Reads to the end or to an error, using every page as an index; returns the error, or 0. */
static int read_all(const uint8_t *mem, size_t size, uint32_t *ret_records)
{
	static uint8_t touched[1 << 16];
	struct trace_header got;
	struct trace_record record;
	struct trace_reader r;
	struct page_run run;
	int rc = trace_open(&r, mem, size, &got);

	*ret_records = 0;
	if (rc)
		return rc;
	while ((rc = trace_read(&r, &record)) > 0) {
		uint32_t page = 0;

		(*ret_records)++;
		if (record.type == TRACE_FAULT) {
			assert_true(record.fault.page < got.nr_pages);
			assert_true(record.fault.kind < TRACE_NR_FAULTS);
		}
		if (record.type != TRACE_YOUNG && record.type != TRACE_EVICT &&
		    record.type != TRACE_DISCARD)
			continue;
		while (trace_next_run(&record, &run)) {
			assert_true(run.first >= page && run.nr > 0);
			assert_true(run.first < got.nr_pages && run.nr <= got.nr_pages - run.first);
			page = run.first + run.nr;
			if (page <= sizeof(touched))
				memset(touched + run.first, 1, run.nr);
		}
	}
	return rc;
}

/* Cut anywhere: either between records, or -ENODATA, and what is before is there. */
static void test_cut(void **state)
{
	size_t size, header;
	uint32_t whole, last = 0;

	put_random_trace(60);
	size = w.used;
	header = 24 + strlen(head.name);
	assert_int_equal(read_all(buf, size, &whole), 0);
	for (size_t cut = 0; cut < size; cut++) {
		uint8_t *copy =
			malloc(cut ? cut : 1); /* exact: a sanitizer sees what is read beyond */
		uint32_t records;
		int rc;

		memcpy(copy, buf, cut);
		rc = read_all(copy, cut, &records);
		free(copy);
		if (cut < header)
			assert_int_equal(rc, -ENODATA);
		else
			assert_true(rc == -ENODATA || rc == 0);
		assert_true(records >= last && records <= last + 1);
		assert_true(rc == -ENODATA || cut == header || records == last + 1 ||
			    records == last);
		last = records;
	}
	assert_int_equal(last, whole - 1);
}

static void test_garbled(void **state)
{
	uint32_t errors = 0, records;

	for (uint32_t round = 0; round < 3000; round++) {
		uint8_t *copy;
		size_t size;

		if (round % 100 == 0)
			put_random_trace(60);
		size = w.used;
		copy = malloc(size);
		memcpy(copy, buf, size);
		for (uint32_t i = 0; i <= rng_below(&rnd, 4); i++)
			copy[rng_below(&rnd, (uint32_t)size)] = (uint8_t)rng_next(&rnd);
		errors += read_all(copy, size, &records) != 0;
		free(copy);
	}
	/* Many changes make another good trace; most of them do not. */
	assert_true(errors > 1000);
}

static void test_garbage(void **state)
{
	uint32_t records;

	for (uint32_t round = 0; round < 3000; round++) {
		size_t size;

		begin();
		size = w.used + rng_below(&rnd, 100);
		for (size_t i = w.used; i < size; i++)
			buf[i] = (uint8_t)rng_next(&rnd);
		read_all(buf, size, &records);
	}
}

static void test_each_check(void **state)
{
	static const struct {
		const char *what;
		uint8_t bytes[16];
		uint32_t len;
		int rc;
	} rows[] = {
		{"no type", {0x00, 0}, 2, -EBADMSG},
		{"unknown type", {0x08, 0}, 2, -EBADMSG},
		{"argument where none belongs", {0x11, 5}, 2, -EBADMSG},
		{"unknown kind of fault", {0x42, 0}, 2, -EBADMSG},
		{"time that stands still", {0x01, 0}, 2, -EBADMSG},
		{"fault below page 0", {0x02, 1}, 2, -EBADMSG},
		{"fault beyond the guest", {0x02, 0xd0, 0x0f}, 3, -EBADMSG},
		{"fault on the last page", {0x02, 0xce, 0x0f}, 3, 0},
		{"fault far away",
		 {0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		 11,
		 -EBADMSG},
		{"number too long",
		 {0x04, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2},
		 11,
		 -EBADMSG},
		{"number longer than needed", {0x04, 0x85, 0x00}, 3, -EBADMSG},
		{"largest number",
		 {0x04, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		 11,
		 0},
		{"no runs", {0x03, 0}, 2, -EBADMSG},
		{"more runs than pages", {0x03, 0xe9, 0x07, 0, 0}, 5, -EBADMSG},
		{"run to the end", {0x03, 1, 0, 0xe7, 0x07}, 5, 0},
		{"run beyond the end", {0x03, 1, 0, 0xe8, 0x07}, 5, -EBADMSG},
		{"run that begins at the end", {0x03, 1, 0xe8, 0x07, 0}, 5, -EBADMSG},
		{"run after the last page", {0x03, 2, 0, 0xe7, 0x07, 0, 0}, 7, -EBADMSG},
		{"limit too large", {0x07, 0x80, 0x80, 0x80, 0x80, 0x10}, 6, -EBADMSG},
		{"half a number", {0x04, 0x85}, 2, -ENODATA},
		{"half a run", {0x05, 1, 3}, 3, -ENODATA},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t records;
		int rc;

		begin();
		memcpy(buf + w.used, rows[i].bytes, rows[i].len);
		rc = read_all(buf, w.used + rows[i].len, &records);
		if (rc != rows[i].rc || records != !rc)
			fail_msg("%s: %d, %u records", rows[i].what, rc, records);
	}
	/* time that overflows: twice the largest step */
	begin();
	w.time_ns = 0;
	assert_int_equal(trace_put_time(&w, UINT64_MAX), 0);
	w.time_ns = 0;
	assert_int_equal(trace_put_time(&w, 1), 0);
	assert_int_equal(read_all(buf, w.used, &(uint32_t) {0}), -EBADMSG);
}

static void test_header_checks(void **state)
{
	struct trace_header got;
	struct trace_reader r;

	begin();
	buf[8] = 2;
	assert_int_equal(trace_open(&r, buf, w.used, &got), -EPROTONOSUPPORT);
	assert_int_equal(got.version, 2);
	begin();
	buf[3] = 'X';
	assert_int_equal(trace_open(&r, buf, w.used, &got), -EBADMSG);
	assert_int_equal(trace_open(&r, buf, 5, &got), -EBADMSG);
	begin();
	buf[10] = 11;
	assert_int_equal(trace_open(&r, buf, w.used, &got), -EBADMSG);
	begin();
	memset(buf + 12, 0, 4);
	assert_int_equal(trace_open(&r, buf, w.used, &got), -EBADMSG);
	memset(buf + 12, 0xff, 4);
	assert_int_equal(trace_open(&r, buf, w.used, &got), -EBADMSG);
	begin();
	buf[26] = 0; /* within the name */
	assert_int_equal(trace_open(&r, buf, w.used, &got), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_writer_refuses),
		cmocka_unit_test(test_writer_is_silent),
		cmocka_unit_test(test_writer_without_room),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_garbled),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_each_check),
		cmocka_unit_test(test_header_checks),
	};
	const char *seed = getenv("EBB_SEED");

	rnd = (seed ? strtoull(seed, NULL, 0) : 20261201) | 1;
	printf("EBB_SEED=%" PRIu64 "\n", rnd);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
