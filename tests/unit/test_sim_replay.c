// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_replay.c - the accesses that the simulator makes of a trace, and traces it writes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <ebb/trace.h>
#include <reclaim/sim/tracefile.h>

#define PAGES 1000u

static uint8_t buf[1 << 16];
static struct trace_writer w;

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

static struct sim_workload loaded;

static int replay(uint64_t seed, bool *ret_cut)
{
	struct ebb_err err;

	sim_workload_free(&loaded);
	return tracefile_replay(buf, w.used, seed, &loaded, ret_cut, &err);
}

static void put_bits(const uint64_t *bits, uint64_t ns)
{
	assert_int_equal(trace_put_time(&w, ns), 0);
	assert_int_equal(trace_put_young(&w, 0, bits, 1), 0);
	assert_int_equal(trace_put_pass_end(&w, 0), 0);
}

static uint32_t times_accessed(uint32_t page)
{
	uint32_t times = 0;

	for (uint32_t at = 0; at < loaded.nr_accesses; at++)
		times += loaded.accesses[at] == page;
	return times;
}

static void test_replay_of_faults(void **state)
{
	uint64_t young[] = {1 << 1 | 1 << 2 | 1 << 3 | 1 << 4};
	bool cut;

	begin();
	trace_put_time(&w, 500);
	trace_put_fault(&w, TRACE_FAULT_NEW, 1);      /* and young: once */
	trace_put_fault(&w, TRACE_FAULT_PREFETCH, 2); /* young: once */
	trace_put_fault(&w, TRACE_FAULT_PREFETCH, 5); /* not young: never */
	trace_put_fault(&w, TRACE_FAULT_REFAULT, 3);  /* twice */
	trace_put_time(&w, 600);
	trace_put_fault(&w, TRACE_FAULT_REFAULT, 3);
	trace_put_fault(&w, TRACE_FAULT_WRITE_KEPT, 6); /* not young any more: once */
	put_bits(young, 1000);
	put_bits(young, 2000); /* the next interval: once more each */
	assert_int_equal(replay(1, &cut), 0);
	assert_false(cut);
	assert_int_equal(times_accessed(1), 2);
	assert_int_equal(times_accessed(2), 2);
	assert_int_equal(times_accessed(3), 3);
	assert_int_equal(times_accessed(4), 2);
	assert_int_equal(times_accessed(5), 0);
	assert_int_equal(times_accessed(6), 1);
	assert_int_equal(loaded.nr_accesses, 10);
	assert_int_equal(loaded.nr_pages, PAGES);
	assert_int_equal(loaded.footprint, 5);
}

/* Four young pages at 125, 375, 625 and 875 of 1000 ns; a fault comes where its time is. */
static void test_replay_spreads(void **state)
{
	uint64_t young[] = {0xf00};
	uint64_t orders = 0;
	bool cut;

	for (uint64_t seed = 0; seed < 50; seed++) {
		begin();
		trace_put_time(&w, 130);
		trace_put_fault(&w, TRACE_FAULT_REFAULT, 1);
		trace_put_time(&w, 870);
		trace_put_fault(&w, TRACE_FAULT_REFAULT, 2);
		put_bits(young, 1000);
		assert_int_equal(replay(seed, &cut), 0);
		assert_int_equal(loaded.nr_accesses, 6);
		assert_int_equal(loaded.accesses[1], 1);
		assert_int_equal(loaded.accesses[4], 2);
		orders |= 1ull << (loaded.accesses[0] - 8) | 16ull << (loaded.accesses[5] - 8);
	}
	assert_int_equal(orders, 0xff); /* each of the four was first, and last */
}

static void test_replay_of_discards(void **state)
{
	static const struct page_run run = {10, 3};
	uint64_t young[] = {1 << 11};
	bool cut;

	begin();
	put_bits(young, 1000);
	put_bits(young, 2000);
	trace_put_time(&w, 2500);
	trace_put_runs(&w, TRACE_DISCARD, &run, 1);
	trace_put_fault(&w, TRACE_FAULT_NEW, 11);
	put_bits(young, 3000);
	assert_int_equal(replay(1, &cut), 0);
	assert_int_equal(loaded.nr_accesses, 3);
	assert_int_equal(loaded.nr_forgets, 1);
	assert_int_equal(loaded.forgets[0].at, 2);
	assert_int_equal(loaded.forgets[0].run.first, 10);
	assert_int_equal(loaded.forgets[0].run.nr, 3);
}

static void test_replay_of_half_a_trace(void **state)
{
	uint64_t young[] = {0xff};
	bool cut = false;

	begin();
	put_bits(young, 1000);
	trace_put_time(&w, 1500);
	trace_put_fault(&w, TRACE_FAULT_REFAULT, 900);
	buf[w.used++] = 0x03;
	assert_int_equal(replay(1, &cut), 0);
	assert_true(cut);
	assert_int_equal(loaded.nr_accesses, 9);
	buf[w.used - 1] = 0x0f;
	buf[w.used++] = 0;
	assert_int_equal(replay(1, &cut), -EBADMSG);
	begin();
	assert_int_equal(replay(1, &cut), -ENODATA);
}

static char path[] = "/tmp/test_sim_replay.XXXXXX";

/* A generator, written and replayed with a pass at each access, is itself. */
static void test_written_generator(void **state)
{
	struct sim_workload made;
	struct ebb_err err;
	int fd = mkstemp(path);
	bool cut;

	assert_true(fd >= 0);
	close(fd);
	gen_make(gen_find("mixed"), 256, 5000, 1, &made);
	assert_int_equal(tracefile_write(path, &made, 1.0 / 256, &err), 0);
	sim_workload_free(&loaded);
	assert_int_equal(tracefile_load(path, 1, &loaded, &cut, &err), 0);
	assert_false(cut);
	assert_int_equal(loaded.nr_accesses, made.nr_accesses);
	assert_memory_equal(loaded.accesses, made.accesses, 5000 * sizeof(*made.accesses));
	assert_int_equal(loaded.marks[loaded.nr_marks - 1].ns, 5000 * SIM_NS_PER_ACCESS);
	/* With rarer passes only repeats are lost. */
	assert_int_equal(tracefile_write(path, &made, .5, &err), 0);
	sim_workload_free(&loaded);
	assert_int_equal(tracefile_load(path, 1, &loaded, &cut, &err), 0);
	assert_in_range(loaded.nr_accesses, 2000, 4900);
	assert_int_equal(loaded.footprint, made.footprint);
	sim_workload_free(&made);
	unlink(path);
	assert_int_equal(tracefile_load(path, 1, &made, &cut, &err), -EIO);
	assert_non_null(strstr(err.msg, path));
	assert_int_equal(tracefile_load("/dev/null", 1, &made, &cut, &err), -EIO);
}

static int teardown(void **state)
{
	unlink(path); /* if a test failed half way */
	sim_workload_free(&loaded);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay_of_faults),
		cmocka_unit_test(test_replay_spreads),
		cmocka_unit_test(test_replay_of_discards),
		cmocka_unit_test(test_replay_of_half_a_trace),
		cmocka_unit_test(test_written_generator),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
