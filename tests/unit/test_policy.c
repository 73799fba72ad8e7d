// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_policy.c - knobs by name: what is taken, what is refused by name, and that nothing else changes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "policy.h"

static struct reclaim_policy p;
static struct ebb_err err;

static void refused(const char *name, const char *value, const char *says)
{
	struct reclaim_policy before = p;

	err.msg[0] = '\0';
	assert_int_equal(policy_set_knob(&p, name, value, &err), -EINVAL);
	assert_memory_equal(&before, &p, sizeof(p));
	assert_non_null(strstr(err.msg, says));
}

static void test_sets_what_it_names(void **state)
{
	p = reclaim_policy_default();
	assert_int_equal(policy_set_knob(&p, "order", "frequency", &err), 0);
	assert_int_equal(p.order, RECLAIM_ORDER_FREQUENCY);
	assert_int_equal(policy_set_knob(&p, "eviction", "off", &err), 0);
	assert_int_equal(policy_set_knob(&p, "readahead", "off", &err), 0);
	assert_int_equal(p.features, RECLAIM_AGING | RECLAIM_TIERS);
	assert_int_equal(policy_set_knob(&p, "eviction", "on", &err), 0);
	assert_int_equal(p.features, RECLAIM_AGING | RECLAIM_TIERS | RECLAIM_EVICTION);
	assert_int_equal(policy_set_knob(&p, "period-ms", "1500", &err), 0);
	assert_int_equal(p.period_ns, 1500000000);
	assert_int_equal(policy_set_knob(&p, "min-period-ms", "0", &err), 0);
	assert_int_equal(p.min_period_ns, 0);
	assert_int_equal(policy_set_knob(&p, "min-ttl-ms", "250", &err), 0);
	assert_int_equal(p.min_ttl_ns, 250000000);
	assert_int_equal(policy_set_knob(&p, "scan-permille", "1000", &err), 0);
	assert_int_equal(p.scan_permille, 1000);
	assert_int_equal(policy_set_knob(&p, "readahead-max", "64", &err), 0);
	assert_int_equal(p.ahead_max, 64);
}

static void test_refuses_by_name(void **state)
{
	p = reclaim_policy_default();
	refused("speed", "1", "speed");
	refused("", "1", "ebb-policy");
	refused("order", "random", "order is");
	refused("order", "", "order is");
	refused("aging", "yes", "aging is on or off");
	refused("aging", "1", "aging is on or off");
	refused("period-ms", "0", "period-ms");
	refused("period-ms", "-1", "period-ms");
	refused("period-ms", "1.5", "period-ms");
	refused("period-ms", "18446744073709551617", "period-ms");
	refused("scan-permille", "1001", "0 to 1000");
	refused("readahead-max", "0", "1 to 64");
	refused("readahead-max", "65", "1 to 64");
	refused("min-ttl-ms", "", "min-ttl-ms");
}

static void test_checks_what_lies_between(void **state)
{
	p = reclaim_policy_default();
	assert_int_equal(policy_check(&p, &err), 0);
	p.min_period_ns = p.period_ns + 1;
	assert_int_equal(policy_check(&p, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "min-period-ms"));
}

/* What is shown can be set again, and is the same. */
static void test_shows_what_it_takes(void **state)
{
	p = reclaim_policy_default();
	for (const struct policy_knob *k = policy_knobs; k->name; k++) {
		struct reclaim_policy before = p;
		char text[32];

		if (k->kind == POLICY_ORDER)
			snprintf(text, sizeof(text), "%s", policy_order_name(p.order));
		else if (k->kind == POLICY_SWITCH)
			snprintf(text, sizeof(text), "%s", policy_get_number(&p, k) ? "on" : "off");
		else
			snprintf(text, sizeof(text), "%llu", (unsigned long long)policy_get_number(&p, k));
		assert_int_equal(policy_set_knob(&p, k->name, text, &err), 0);
		assert_memory_equal(&before, &p, sizeof(p));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets_what_it_names),
		cmocka_unit_test(test_refuses_by_name),
		cmocka_unit_test(test_checks_what_lies_between),
		cmocka_unit_test(test_shows_what_it_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
