// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_units.c - sizes: every suffix, fractions, the limits, and what is not a size.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <ebb/types.h>
#include "units.h"

#define GIB (UINT64_C(1) << 30)

static void test_parse_good(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} t[] = {
		{"0", 0},
		{"0G", 0},
		{"65536", 65536},
		{"1B", 1},
		{"3k", 3072},
		{"512M", 512u << 20},
		{"512m", 512u << 20},
		{"512MB", 512u << 20},
		{"512MiB", 512u << 20},
		{"512 MiB", 512u << 20},
		{"1.5G", GIB * 3 / 2},
		{"1.50000000000000000000000000000G", GIB * 3 / 2},
		{"0.5k", 512},
		{"1.1G", UINT64_C(1181116006)},
		{"0.1K", 102},
		{"2T", GIB * 2048},
		{"1P", GIB << 20},
		{"7E", GIB * 7 << 30},
		{"8E", UINT64_C(1) << 63},
		{"9223372036854775808", UINT64_C(1) << 63},
		{"007", 7},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		uint64_t got = 1234567;

		print_message("%s\n", t[i].text);
		assert_int_equal(units_parse_bytes(t[i].text, &got), 0);
		assert_int_equal(got, t[i].bytes);
	}
}

static void test_parse_bad(void **state)
{
	static const struct {
		const char *text;
		int rc;
	} t[] = {
		{"", -EINVAL},
		{" 1", -EINVAL},
		{"-1", -EINVAL},
		{"+1", -EINVAL},
		{"M", -EINVAL},
		{"1.5", -EINVAL},
		{"1.5B", -EINVAL},
		{"1.G", -EINVAL},
		{".5G", -EINVAL},
		{"1..5G", -EINVAL},
		{"1X", -EINVAL},
		{"1MM", -EINVAL},
		{"1Mi", -EINVAL},
		{"1M ", -EINVAL},
		{"1M2", -EINVAL},
		{"0x10", -EINVAL},
		{"1e3", -EINVAL},
		{"1,5G", -EINVAL},
		{"50%", -EINVAL},
		{"none", -EINVAL},
		{"9E", -ERANGE},
		{"8.1E", -ERANGE},
		{"9223372036854775809", -ERANGE},
		{"18446744073709551616", -ERANGE},
		{"99999999999999999999999999999999999999999999999999999999", -ERANGE},
		{"99999999999999999999999999999999999999999999999999999x", -EINVAL},
		{"99999999999999999999E", -ERANGE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		uint64_t got = 1234567;

		print_message("%s\n", t[i].text);
		assert_int_equal(units_parse_bytes(t[i].text, &got), t[i].rc);
		assert_int_equal(got, 1234567); /* untouched on failure */
	}
}

static void test_format(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} t[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1 KiB"},
		{1536, "1.5 KiB"},
		{(1u << 20) - 1, "1023.9 KiB"},
		{512u << 20, "512 MiB"},
		{GIB * 3 / 2, "1.5 GiB"},
		{GIB - 1, "1023.9 MiB"},
		{GIB * 1024, "1 TiB"},
		{UINT64_C(1) << 63, "8 EiB"},
		{UINT64_MAX, "15.9 EiB"},
	};
	char buf[32];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_ptr_equal(units_format_bytes(t[i].bytes, buf, sizeof(buf)), buf);
		assert_string_equal(buf, t[i].text);
	}
}

static void test_format_fits(void **state)
{
	char buf[5] = "xxxx";

	units_format_bytes(UINT64_MAX, buf, sizeof(buf));
	assert_int_equal(strlen(buf), 4);
}

/* What is written is read back as the same size wherever the writing did not round. */
static void test_round_trip(void **state)
{
	char buf[32];

	for (int shift = 0; shift < 63; shift++) {
		uint64_t bytes = UINT64_C(3) << shift >> 1, got = 0;

		units_format_bytes(bytes, buf, sizeof(buf));
		assert_int_equal(units_parse_bytes(buf, &got), 0);
		assert_int_equal(got, bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_good), cmocka_unit_test(test_parse_bad),
		cmocka_unit_test(test_format),	   cmocka_unit_test(test_format_fits),
		cmocka_unit_test(test_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
