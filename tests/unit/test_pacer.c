// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_pacer.c - when a pass is due, by period, faults, cost and idleness; and what a unit of reuse is.
 */
#include "lru_fixture.h"
#include <reclaim/pacer.h>

#define SEC	 1000000000ULL
#define CAPACITY 10000u

static struct pacer pacer;
static struct reclaim_policy policy;
static uint64_t now;
static enum reclaim_reason reason;

static void make(void)
{
	policy = reclaim_policy_default();
	policy.period_ns = 2 * SEC;
	policy.min_period_ns = SEC / 5;
	policy.scan_permille = 0;
	now = 7 * SEC;
	pacer_init(&pacer, now, policy.period_ns);
}

static bool is_due(void)
{
	return pacer_is_due(&pacer, &policy, CAPACITY, now, &reason);
}

static void end_pass(enum reclaim_reason why, uint64_t cost_ns)
{
	pacer_end_pass(&pacer, why, CAPACITY, now, cost_ns);
}

/* A period later a pass is due, with @faults in between; it is made. */
static void period(uint64_t faults)
{
	pacer.faults = faults;
	now += policy.period_ns;
	assert_true(is_due());
	end_pass(RECLAIM_PASS_PERIOD, 0);
}

static void make_warm(uint64_t faults)
{
	make();
	for (uint32_t i = 0; i < 6; i++)
		period(faults);
	assert_true(pacer_is_warm(&pacer));
}

/* When is the next pass due, to 10 ms, if nothing happens? */
static uint64_t next_after(void)
{
	uint64_t begin = now, after;

	while (!is_due())
		now += SEC / 100;
	after = now - begin;
	now = begin;
	return after;
}

static void test_first_passes_come_early(void **state)
{
	make();
	assert_false(is_due());
	for (uint32_t i = 0; i < PACER_FIRST; i++) {
		assert_int_equal(next_after(), policy.min_period_ns);
		now += policy.min_period_ns;
		assert_true(is_due());
		assert_int_equal(reason, RECLAIM_PASS_PERIOD);
		pacer.faults = 1000;
		end_pass(reason, 0);
	}
	pacer.faults = 1000;
	assert_int_equal(next_after(), policy.period_ns);
	assert_false(pacer_is_warm(&pacer));
}

static void test_idle_guest_waits_longer(void **state)
{
	make_warm(1000);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(next_after(), policy.period_ns << MIN(i, 4u));
		now += next_after();
		end_pass(RECLAIM_PASS_PERIOD, 0);
		pacer.faults = 10; /* a fault here and there is none */
	}
	pacer.faults = 11;
	assert_int_equal(next_after(), policy.period_ns); /* at once */
	now += policy.period_ns;
	end_pass(RECLAIM_PASS_PERIOD, 0);
	assert_int_equal(next_after(), policy.period_ns);
}

/* However long the period: sixteen of it are not less than one. */
static void test_long_periods_do_not_overflow(void **state)
{
	for (uint32_t shift = 50; shift < 64; shift++) {
		make();
		policy.period_ns = 1ULL << shift;
		for (uint32_t i = 0; i < PACER_FIRST + 6; i++)
			end_pass(RECLAIM_PASS_PERIOD, 0);
		now += SEC;
		assert_false(is_due());
	}
}

static void test_surge(void **state)
{
	static const uint32_t wanted[] = {300, 800, 2000}; /* of 10000 pages, above the usual */

	make_warm(100);
	for (uint32_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		now += policy.min_period_ns + SEC / 100;
		pacer.fault_rate = 100.0 / SEC;
		pacer.faults = wanted[i] + 31; /* half as much again as usual, in a fifth of a second */
		assert_false(is_due());
		pacer.faults += 2;
		assert_true(is_due());
		assert_int_equal(reason, RECLAIM_PASS_SURGE);
		end_pass(reason, 0);
	}
	now += policy.min_period_ns + SEC / 100;
	pacer.faults = 100000;
	assert_false(is_due()); /* three times is enough */
	now = pacer.regular_ns + policy.period_ns;
	assert_true(is_due());
	assert_int_equal(reason, RECLAIM_PASS_PERIOD);
	end_pass(reason, 0);
	now += policy.min_period_ns;
	pacer.fault_rate = 0;
	pacer.faults = 301;
	assert_true(is_due());
}

static void test_no_surge_while_cold(void **state)
{
	make();
	for (uint32_t i = 0; i < PACER_FIRST; i++)
		end_pass(RECLAIM_PASS_PERIOD, 0);
	now += policy.min_period_ns;
	pacer.faults = CAPACITY;
	assert_false(is_due());
}

static void test_asked_for(void **state)
{
	make_warm(100);
	pacer.asked = true;
	assert_false(is_due()); /* no sooner than it may */
	now += policy.min_period_ns - 1;
	assert_false(is_due());
	now++;
	assert_true(is_due());
	assert_int_equal(reason, RECLAIM_PASS_EMERGENCY);
	end_pass(reason, 0);
	assert_false(pacer.asked);
	/* The regular one comes when it would have come. */
	pacer.faults = 100;
	assert_int_equal(next_after(), policy.period_ns - policy.min_period_ns);
}

static void test_budget(void **state)
{
	make_warm(100);
	for (uint32_t i = 0; i < 60; i++) {
		now += policy.period_ns;
		pacer.faults = 100;
		end_pass(RECLAIM_PASS_PERIOD, SEC / 10);
	}
	pacer.faults = 100;
	assert_int_equal(next_after(), policy.period_ns); /* any cost */
	policy.scan_permille = 50;
	assert_int_equal(next_after(), policy.period_ns); /* 100 ms in 2 s is just that */
	policy.scan_permille = 10;
	assert_in_range(next_after(), 10 * SEC - SEC / 50, 10 * SEC);
	pacer.asked = true; /* whatever for */
	assert_in_range(next_after(), 10 * SEC - SEC / 50, 10 * SEC);
	policy.scan_permille = 1000;
	assert_int_equal(next_after(), policy.min_period_ns);
}

/* Passes of some cost, as often as they may: their share of the CPU is what was allowed. */
static void test_budget_is_kept(void **state)
{
	uint64_t begin, cost = 0;

	make_warm(100);
	policy.scan_permille = 20;
	begin = now;
	for (uint32_t i = 0; i < 300; i++) {
		uint64_t this = SEC / 100 + rand_below(SEC / 10);

		pacer.asked = true;
		now += next_after();
		end_pass(RECLAIM_PASS_EMERGENCY, this);
		cost += this;
	}
	assert_in_range(cost * 1000 / (now - begin), 17, 23);
}

static void test_cost_is_averaged(void **state)
{
	make();
	end_pass(RECLAIM_PASS_PERIOD, 1000);
	assert_true(pacer.cost_ns == 1000); /* the first one is all that is known */
	end_pass(RECLAIM_PASS_PERIOD, 2000);
	assert_true(pacer.cost_ns == 1250);
}

static bool round_ends(uint32_t counted)
{
	return pacer_round_ends(&pacer, &policy, counted, 1000, now);
}

static void test_rounds(void **state)
{
	make();
	for (uint32_t i = 0; i < 3; i++) {
		assert_false(round_ends(599));
		assert_true(round_ends(600));
		for (uint32_t n = 1; n < 16; n++)
			assert_false(round_ends(0));
		assert_true(round_ends(0)); /* the sixteenth pass */
	}
}

/* The unit goes towards how long rounds take, between one period and eight. */
static void test_unit(void **state)
{
	static const struct {
		uint64_t round, unit;
	} rows[] = {{SEC, 2 * SEC}, {6 * SEC, 6 * SEC}, {100 * SEC, 16 * SEC}, {0, 2 * SEC}};

	make();
	assert_true(pacer.unit_ns == 2.0 * SEC);
	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		double before = pacer.unit_ns, step = 0.3 * ((double)rows[i].unit - before);

		now += rows[i].round;
		assert_true(round_ends(1000));
		assert_true(pacer.unit_ns - before - step < 1 && before + step - pacer.unit_ns < 1);
		for (uint32_t n = 0; n < 100; n++) {
			now += rows[i].round;
			round_ends(1000);
		}
		assert_in_range((uint64_t)pacer.unit_ns, rows[i].unit - 1, rows[i].unit + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_passes_come_early),
		cmocka_unit_test(test_idle_guest_waits_longer),
		cmocka_unit_test(test_long_periods_do_not_overflow),
		cmocka_unit_test(test_surge),
		cmocka_unit_test(test_no_surge_while_cold),
		cmocka_unit_test(test_asked_for),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_budget_is_kept),
		cmocka_unit_test(test_cost_is_averaged),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_unit),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
