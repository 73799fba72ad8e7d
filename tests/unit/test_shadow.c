// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_shadow.c - refault distances: how exact, how far back, and what time it was.
 */
#include "lru_fixture.h"
#include <reclaim/shadow.h>

static struct shadow sh;
static void *shadow_mem;

static void make(uint32_t nr_pages, uint64_t now_ns)
{
	free(shadow_mem);
	shadow_mem = calloc(1, shadow_size(nr_pages));
	assert_non_null(shadow_mem);
	shadow_init(&sh, shadow_mem, nr_pages, now_ns);
}

static int drop(void **state)
{
	free(shadow_mem);
	shadow_mem = NULL;
	return 0;
}

/* @nr other pages go, at one time. */
static void evict_others(uint64_t nr, uint64_t now_ns)
{
	while (nr--)
		shadow_note(&sh, 1, now_ns);
}

static bool distance(uint32_t idx, uint64_t now_ns, uint32_t *ret, uint64_t *ret_ago)
{
	*ret = 0;
	*ret_ago = 0;
	return shadow_distance(&sh, idx, now_ns, ret, ret_ago);
}

static void test_never_evicted(void **state)
{
	uint32_t d;
	uint64_t ago;

	make(1000, 5);
	assert_false(distance(0, 10, &d, &ago));
	assert_false(shadow_is_since(&sh, 0, 0));
	shadow_note(&sh, 0, 10);
	assert_true(distance(0, 10, &d, &ago));
	assert_true(shadow_is_since(&sh, 0, 0));
	assert_false(distance(1, 10, &d, &ago));
}

/* Guests below 4096 pages have a tick for each eviction. */
static void test_exact_when_small(void **state)
{
	uint32_t d;
	uint64_t ago;

	make(1000, 0);
	shadow_note(&sh, 0, 0);
	for (uint32_t i = 1; i < 1890; i++) { /* nearly two a page */
		assert_true(distance(0, i, &d, &ago));
		assert_int_equal(d, i); /* its own eviction included */
		evict_others(1, i);
	}
}

/* A tick is so many evictions: within one and a half of them, whatever they are. */
static void test_near_enough_when_large(void **state)
{
	const uint32_t nr_pages = 1u << 18, quantum = nr_pages / 2048;
	uint32_t d;
	uint64_t ago;

	make(nr_pages, 0);
	for (uint32_t round = 0; round < 20; round++) {
		uint64_t since = 1;

		evict_others(rand_below(3 * quantum), 0);
		shadow_note(&sh, 0, 0);
		while (since < nr_pages) {
			uint32_t nr = rand_below(nr_pages / 8);

			assert_true(distance(0, 0, &d, &ago));
			assert_true(d <= since + quantum * 3 / 2 && since <= d + quantum * 3 / 2);
			evict_others(nr, 0);
			since += nr;
		}
	}
}

static void test_too_long_ago(void **state)
{
	uint32_t d;
	uint64_t ago;

	make(4096, 0);
	shadow_note(&sh, 0, 0);
	evict_others(4096 * 3 / 2, 0);
	assert_true(distance(0, 0, &d, &ago));
	evict_others(4096, 0);
	assert_false(distance(0, 0, &d, &ago));
	evict_others(20 * 4096, 0); /* not yet round the clock */
	assert_false(distance(0, 0, &d, &ago));
}

/* The clock wraps after 65535 ticks, and a page evicted just before is still told apart. */
static void test_wrap(void **state)
{
	static const uint32_t sizes[] = {1000, 1u << 14};
	uint32_t d;
	uint64_t ago;

	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make(sizes[i], 0);
		evict_others((uint64_t)sh.quantum * 65535 - 100, 0);
		for (uint32_t n = 0; n < 200; n++) {
			shadow_note(&sh, 0, 0);
			assert_true(sh.entries[0]);
			evict_others(3, 0);
			assert_true(distance(0, 0, &d, &ago));
			assert_true(d <= 4 + sh.quantum * 3 / 2 && 4 <= d + sh.quantum * 3 / 2);
		}
	}
}

/* 1 ms for each eviction: how long ago it was is what the distance says, to 1/64 of the guest. */
static void test_time_is_interpolated(void **state)
{
	const uint32_t nr_pages = 6400, grain = nr_pages / 64;
	const uint64_t ms = 1000000;
	uint64_t now = 77 * ms;

	make(nr_pages, now);
	for (uint32_t i = 0; i < 3 * nr_pages; i++) {
		shadow_note(&sh, i % nr_pages, now);
		now += ms;
		for (uint32_t n = 0; n < 4; n++) {
			uint32_t idx = rand_below(MIN(i + 1, nr_pages)), d;
			uint64_t ago, true_ago = (i - idx) % nr_pages + 1;

			assert_true(distance(idx, now, &d, &ago));
			assert_true(ago <= now - 77 * ms);
			assert_in_range(ago / ms + 1, true_ago > 2 * grain ? true_ago - 2 * grain : 0,
					true_ago + 2 * grain);
		}
	}
}

/* However uneven the times: who was evicted earlier was not evicted less long ago. */
static void test_time_is_monotone(void **state)
{
	const uint32_t nr_pages = 3000;
	uint64_t now = 0, ago, before;
	uint32_t d;

	make(nr_pages, now);
	for (uint32_t i = 0; i < 20; i++) {
		for (uint32_t p = 0; p < nr_pages; p++) {
			now += rand_below(50) ? rand_below(10) : rand_below(1000000);
			shadow_note(&sh, p, now);
		}
		now += rand_below(10000);
		before = UINT64_MAX;
		for (uint32_t p = 0; p < nr_pages; p++) {
			assert_true(distance(p, now, &d, &ago));
			assert_true(ago <= before && ago <= now);
			before = ago;
		}
	}
}

static void test_is_since(void **state)
{
	uint64_t mark;

	make(1u << 14, 0); /* a tick is 8 evictions */
	for (uint32_t i = 0; i < 50; i++) {
		shadow_note(&sh, 0, 0);
		evict_others(8 + rand_below(100), 0);
		mark = sh.evictions;
		assert_false(shadow_is_since(&sh, 0, mark));
		shadow_note(&sh, 2, 0);
		assert_true(shadow_is_since(&sh, 2, mark));
		evict_others(rand_below(20000), 0);
		assert_true(shadow_is_since(&sh, 2, mark));
		assert_false(shadow_is_since(&sh, 0, mark));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_never_evicted, drop),
		cmocka_unit_test_teardown(test_exact_when_small, drop),
		cmocka_unit_test_teardown(test_near_enough_when_large, drop),
		cmocka_unit_test_teardown(test_too_long_ago, drop),
		cmocka_unit_test_teardown(test_wrap, drop),
		cmocka_unit_test_teardown(test_time_is_interpolated, drop),
		cmocka_unit_test_teardown(test_time_is_monotone, drop),
		cmocka_unit_test_teardown(test_is_since, drop),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
