// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_probation.c - the queue of pages on probation, and how long it should be.
 */
#include "lru_fixture.h"
#include <reclaim/probation.h>

static struct probation pr;
static void *ring;

static void make(uint32_t nr_pages)
{
	free(ring);
	ring = malloc(probation_size(nr_pages));
	assert_non_null(ring);
	probation_init(&pr, ring, nr_pages);
}

static int drop(void **state)
{
	free(ring);
	ring = NULL;
	return 0;
}

static void test_first_in_first_out(void **state)
{
	uint32_t in = 0, out = 0;

	make(1000);
	assert_true(probation_is_empty(&pr));
	for (uint32_t i = 0; i < 20000; i++) {
		if (rand_below(2) && !probation_is_full(&pr))
			probation_push(&pr, in++);
		if (rand_below(2) && !probation_is_empty(&pr))
			assert_int_equal(probation_pop(&pr), out++);
		assert_int_equal(probation_is_empty(&pr), in == out);
	}
	while (!probation_is_full(&pr))
		probation_push(&pr, in++);
	assert_int_equal((in - out) * sizeof(uint32_t), probation_size(1000));
	while (out < in)
		assert_int_equal(probation_pop(&pr), out++);
	assert_true(probation_is_empty(&pr));
}

/* As many as the queue may hold when it is longest, whatever of the guest may be resident. */
static void test_ring_has_room(void **state)
{
	static const uint32_t sizes[] = {1, 100, 4096, 100000, 1u << 20};

	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make(sizes[i]);
		for (uint32_t n = 0; n < 100000; n++)
			probation_missed(&pr, sizes[i]);
		assert_true(probation_room(&pr, sizes[i]) < pr.room);
	}
}

static void test_floor(void **state)
{
	static const struct {
		uint32_t capacity, floor;
	} rows[] = {
		{1, 4},      {128, 4},      {320, 10},       {4096, 128},
		{12800, 128}, {20000, 200}, {1u << 20, (1u << 20) / 100},
	};

	make(100000);
	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(probation_floor(rows[i].capacity), rows[i].floor);
		assert_int_equal(probation_room(&pr, rows[i].capacity), rows[i].floor);
	}
}

static void test_grows_and_relaxes(void **state)
{
	const uint32_t capacity = 100000;

	make(capacity);
	probation_missed(&pr, capacity);
	assert_int_equal(probation_room(&pr, capacity), 1004);
	for (uint32_t i = 0; i < 1000; i++)
		probation_missed(&pr, capacity);
	assert_int_equal(probation_room(&pr, capacity), 3000); /* 3 % */
	probation_relax(&pr, capacity, 2);
	assert_in_range(probation_room(&pr, capacity), 1995, 2005); /* half of what it grew by */
	probation_relax(&pr, capacity, 0);
	assert_in_range(probation_room(&pr, capacity), 1995, 2005);
	probation_relax(&pr, capacity, 1000);
	assert_int_equal(probation_room(&pr, capacity), 1000);
	probation_relax(&pr, capacity, 1000);
	assert_int_equal(probation_room(&pr, capacity), 1000);
}

/* A limit that moves takes the bounds along at once. */
static void test_follows_the_limit(void **state)
{
	make(1u << 20);
	for (uint32_t i = 0; i < 1000; i++)
		probation_missed(&pr, 20000);
	assert_int_equal(probation_room(&pr, 20000), 600);
	assert_int_equal(probation_room(&pr, 1u << 20), (1u << 20) / 100);
	probation_missed(&pr, 8000);
	assert_true(probation_room(&pr, 8000) <= 8000 * 3 / 100 + 1);
	/* In a guest so small that 3 % are nothing, the floor is the ceiling too. */
	make(64);
	probation_missed(&pr, 64);
	assert_int_equal(probation_room(&pr, 64), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_first_in_first_out, drop),
		cmocka_unit_test_teardown(test_ring_has_room, drop),
		cmocka_unit_test_teardown(test_floor, drop),
		cmocka_unit_test_teardown(test_grows_and_relaxes, drop),
		cmocka_unit_test_teardown(test_follows_the_limit, drop),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
