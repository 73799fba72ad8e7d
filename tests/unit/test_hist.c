// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_hist.c - histogram: quantiles are within a bucket of the truth.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "hist.h"

static void test_quantiles(void **state)
{
	static struct hist h;

	(void)state;
	assert_int_equal(hist_quantile(&h, 0.5), 0);
	for (uint64_t ns = 1; ns <= 100000; ns++)
		hist_add(&h, ns);
	for (int q = 1; q <= 100; q++) {
		uint64_t truth = 1000u * (unsigned int)q, got = hist_quantile(&h, q / 100.0);

		assert_true(got >= truth && got <= truth + truth / 8 + 1);
	}
	assert_int_equal(h.max_ns, 100000);
	assert_int_equal(h.total, 100000);
}

static void test_extremes(void **state)
{
	static struct hist h;

	(void)state;
	hist_add(&h, 0);
	assert_int_equal(hist_quantile(&h, 1.0), 0);
	hist_add(&h, UINT64_MAX);
	assert_true(hist_quantile(&h, 1.0) >= UINT64_MAX / 8 * 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
