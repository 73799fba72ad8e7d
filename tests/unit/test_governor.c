// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_governor.c - watermarks below the limit: their size, and what is due at each level.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <reclaim/governor.h>

#define MIB(n) ((n) << (20 - EBB_PAGE_SHIFT))

static void test_gap(void **state)
{
	static const struct {
		uint32_t limit;
		uint32_t gap;
	} rows[] = {
		{0, 0},
		{3, 0},
		{4, 1},
		{MIB(2), MIB(1) / 2}, /* a quarter of it */
		{MIB(4), MIB(1)},     /* where a quarter reaches the least gap */
		{MIB(64), MIB(1)},    /* where a 64th does */
		{MIB(512), MIB(8)},
		{MIB(1024), MIB(16)},
		{MIB(1024 * 1024), MIB(16)},
		{RECLAIM_NO_LIMIT - 1, MIB(16)},
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct governor gov = {.limit = rows[i].limit};

		assert_int_equal(governor_gap(&gov), rows[i].gap);
	}
}

static void test_excess_at_the_watermarks(void **state)
{
	struct governor gov = {.limit = MIB(512)};
	uint32_t gap = MIB(8);

	assert_int_equal(governor_excess(&gov, 0), 0);
	assert_int_equal(governor_excess(&gov, gov.limit - 2 * gap), 0);
	assert_int_equal(governor_excess(&gov, gov.limit - gap), 0);
	assert_int_equal(governor_excess(&gov, gov.limit - gap + 1), gap + 1);
	assert_int_equal(governor_excess(&gov, gov.limit), 2 * gap);
	assert_int_equal(governor_excess(&gov, UINT32_MAX), UINT32_MAX - gov.limit + 2 * gap);
}

static void test_excess_of_odd_limits(void **state)
{
	struct governor none = {.limit = RECLAIM_NO_LIMIT};
	struct governor zero = {.limit = 0};
	struct governor one = {.limit = 1};

	assert_int_equal(governor_excess(&none, UINT32_MAX), 0);
	assert_int_equal(governor_excess(&zero, 0), 0);
	assert_int_equal(governor_excess(&zero, 7), 7);
	assert_int_equal(governor_excess(&one, 1), 0);
	assert_int_equal(governor_excess(&one, 2), 1);
}

/* The daemon compares with the high watermark without asking for the excess: they must agree. */
static void test_high_is_where_excess_begins(void **state)
{
	static const uint32_t limits[] = {0, 1, 7, MIB(2), MIB(512), RECLAIM_NO_LIMIT - 1};
	struct governor none = {.limit = RECLAIM_NO_LIMIT};

	for (uint32_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct governor gov = {.limit = limits[i]};
		uint32_t high = governor_high(&gov);

		assert_int_equal(high, gov.limit - governor_gap(&gov));
		assert_int_equal(governor_excess(&gov, high), 0);
		assert_true(governor_excess(&gov, high + 1) > 0);
	}
	assert_int_equal(governor_high(&none), UINT32_MAX);
}

/* What is due, once done, is enough; and never is more due than there is. */
static void test_excess_is_enough_once(void **state)
{
	for (uint32_t limit = 0; limit < MIB(3); limit += 7) {
		struct governor gov = {.limit = limit};

		for (uint32_t resident = 0; resident < 2 * limit + 10; resident += 13) {
			uint32_t due = governor_excess(&gov, resident);

			assert_true(due <= resident);
			assert_int_equal(governor_excess(&gov, resident - due), 0);
			if (resident > limit)
				assert_true(resident - due <= limit);
		}
	}
}

static void test_idle(void **state)
{
	struct governor gov = {.limit = 4000};
	struct governor none = {.limit = RECLAIM_NO_LIMIT};
	struct governor zero = {.limit = 0};

	assert_true(governor_is_idle(&gov, 2999));
	assert_false(governor_is_idle(&gov, 3000));
	assert_false(governor_is_idle(&gov, 5000));
	assert_true(governor_is_idle(&none, UINT32_MAX));
	assert_true(governor_is_idle(&zero, 0));
	assert_false(governor_is_idle(&zero, 1));
	gov.limit = 2; /* three quarters of it are more than one page */
	assert_true(governor_is_idle(&gov, 1));
	gov.limit = RECLAIM_NO_LIMIT - 1; /* three times this does not fit 32 bits */
	assert_true(governor_is_idle(&gov, UINT32_MAX / 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_excess_at_the_watermarks),
		cmocka_unit_test(test_excess_of_odd_limits),
		cmocka_unit_test(test_high_is_where_excess_begins),
		cmocka_unit_test(test_excess_is_enough_once),
		cmocka_unit_test(test_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
