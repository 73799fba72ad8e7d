// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_readahead.c - windows open for sequential faults, several at a time, and close for others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <reclaim/readahead.h>

static struct readahead ra;

static void make(uint32_t nr_pages, uint32_t max)
{
	ra = (struct readahead) {.nr_pages = nr_pages};
	readahead_set_max(&ra, max);
}

/* Fault at *@at, step over the page and what is read with it, and say what that was. */
static uint32_t follow(uint32_t *at)
{
	uint32_t more = readahead_fault(&ra, *at);

	*at += 1 + more;
	return more;
}

static void test_doubles_up_to_max(void **state)
{
	static const uint32_t want[] = {0, 1, 3, 7, 15, 15, 15};
	uint32_t at = 0;

	make(1000, 16);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(follow(&at), want[i]);
}

static void test_max_needs_no_power_of_two(void **state)
{
	static const uint32_t want[] = {0, 1, 3, 6, 6};
	uint32_t at = 500;

	make(1000, 7);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(follow(&at), want[i]);
}

static void test_one_is_off(void **state)
{
	make(1000, 1);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(readahead_fault(&ra, i), 0);
}

static void test_strangers_get_one_page(void **state)
{
	make(100000, 64);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(readahead_fault(&ra, i * 7919 % 100000), 0);
	for (uint32_t i = 1000; i > 0; i--) /* backwards is not sequential */
		assert_int_equal(readahead_fault(&ra, i), 0);
}

static void test_jump_ahead(void **state)
{
	uint32_t at = 0;

	make(1000, 64);
	for (uint32_t i = 0; i < 4; i++)
		follow(&at); /* the last window was 8 pages */
	at += 7;
	assert_int_equal(follow(&at), 15);
	at += 16; /* as long as the window: somebody else */
	assert_int_equal(follow(&at), 0);
}

static void test_fault_inside_the_window_closes_it(void **state)
{
	uint32_t at = 0;

	make(1000, 64);
	for (uint32_t i = 0; i < 5; i++)
		follow(&at);
	assert_int_equal(readahead_fault(&ra, at - 3), 0);
	assert_int_equal(readahead_fault(&ra, at), 0);
}

static void test_streams_side_by_side(void **state)
{
	uint32_t at[READAHEAD_NR_STREAMS];
	uint32_t more = 0;

	make(1 << 20, 32);
	for (uint32_t s = 0; s < READAHEAD_NR_STREAMS; s++)
		at[s] = s * 10000;
	for (uint32_t round = 0; round < 10; round++)
		for (uint32_t s = 0; s < READAHEAD_NR_STREAMS; s++) {
			more = follow(&at[s]);
			assert_int_equal(more, (round < 5 ? 1u << round : 32) - 1);
		}
}

/* Strangers take the places not used for long, so a stream lives as long as it is heard of. */
static void test_stream_outlives_strangers(void **state)
{
	uint32_t at = 0;

	make(1 << 20, 32);
	for (uint32_t round = 0; round < 100; round++) {
		uint32_t more = follow(&at);

		if (round >= 5)
			assert_int_equal(more, 31);
		for (uint32_t i = 1; i < READAHEAD_NR_STREAMS; i++)
			assert_int_equal(readahead_fault(&ra, 500000 + round * 3000 + i * 300), 0);
	}
}

static void test_stops_at_the_end(void **state)
{
	uint32_t at = 80;

	make(100, 64);
	while (at < 100)
		follow(&at);
	assert_int_equal(at, 100);
	assert_int_equal(readahead_fault(&ra, 99), 0);
	make(UINT32_MAX, 64);
	at = UINT32_MAX - 10;
	while (at < UINT32_MAX)
		follow(&at);
	assert_int_equal(at, UINT32_MAX);
}

/* Pages after the fourth fault of a stream that is read one by one. */
static uint32_t window_of_a_stream(uint32_t from)
{
	uint32_t nr = 0;

	for (uint32_t i = 0, at = from; i < 8; i++, at += nr + 1)
		nr = readahead_fault(&ra, at);
	return nr + 1;
}

static void test_waste_halves_the_bound(void **state)
{
	make(1000000, 32);
	assert_int_equal(window_of_a_stream(0), 32);
	readahead_note_wasted(&ra, 31);
	assert_int_equal(window_of_a_stream(10000), 32);
	readahead_note_wasted(&ra, 1);
	assert_int_equal(window_of_a_stream(20000), 16);
	for (uint32_t i = 0; i < 1000; i++)
		readahead_note_wasted(&ra, 1);
	assert_int_equal(window_of_a_stream(30000), 2); /* never off */
}

static void test_use_doubles_the_bound(void **state)
{
	make(1000000, 32);
	readahead_note_wasted(&ra, 10000);
	readahead_note_wasted(&ra, 10000);
	assert_int_equal(window_of_a_stream(0), 8);
	readahead_note_used(&ra, 63);
	assert_int_equal(window_of_a_stream(10000), 8);
	readahead_note_used(&ra, 1);
	assert_int_equal(window_of_a_stream(20000), 16);
	readahead_note_used(&ra, 64);
	readahead_note_used(&ra, 64);
	assert_int_equal(window_of_a_stream(30000), 32); /* no further */
}

static void test_use_and_waste_balance(void **state)
{
	make(1000000, 32);
	for (uint32_t i = 0; i < 10000; i++) {
		readahead_note_used(&ra, 2);
		readahead_note_wasted(&ra, 1);
	}
	assert_int_equal(window_of_a_stream(0), 32);
}

static void test_off_stays_off(void **state)
{
	make(1000, 1);
	readahead_note_used(&ra, 1000);
	readahead_note_wasted(&ra, 1000);
	assert_int_equal(window_of_a_stream(0), 1);
}

/* Whatever becomes of the pages: two at least, and no more than asked for, power of two or not. */
static void test_bound_stays_within(void **state)
{
	static const uint32_t down[] = {7, 3, 2, 2}, up[] = {2, 4, 7, 7};

	make(1000000, 7);
	for (uint32_t i = 0; i < 4; i++, readahead_note_wasted(&ra, 32))
		assert_int_equal(window_of_a_stream(i * 10000), down[i]);
	for (uint32_t i = 0; i < 4; i++, readahead_note_used(&ra, 64))
		assert_int_equal(window_of_a_stream(500000 + i * 10000), up[i]);
	readahead_note_wasted(&ra, 32);
	readahead_set_max(&ra, 16); /* begins anew */
	assert_int_equal(window_of_a_stream(700000), 16);
	make(1000000, 2);
	readahead_note_wasted(&ra, 1000);
	assert_int_equal(window_of_a_stream(0), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_doubles_up_to_max),
		cmocka_unit_test(test_max_needs_no_power_of_two),
		cmocka_unit_test(test_waste_halves_the_bound),
		cmocka_unit_test(test_use_doubles_the_bound),
		cmocka_unit_test(test_use_and_waste_balance),
		cmocka_unit_test(test_bound_stays_within),
		cmocka_unit_test(test_off_stays_off),
		cmocka_unit_test(test_one_is_off),
		cmocka_unit_test(test_strangers_get_one_page),
		cmocka_unit_test(test_jump_ahead),
		cmocka_unit_test(test_fault_inside_the_window_closes_it),
		cmocka_unit_test(test_streams_side_by_side),
		cmocka_unit_test(test_stream_outlives_strangers),
		cmocka_unit_test(test_stops_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
