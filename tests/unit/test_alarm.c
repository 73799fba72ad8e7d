// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_alarm.c - when near refaults make an emergency, how long it lasts, and what it costs to be wrong.
 */
#include "lru_fixture.h"
#include <reclaim/alarm.h>

#define UNIT	 1000000000.0
#define CAPACITY 10000u /* a thousandth of it: 10 */

static struct alarm alarm;
static struct alarm_scene scene;

/* Two passes a unit without a near refault; then it is quiet. */
static void make(void)
{
	memset(&alarm, 0, sizeof(alarm));
	scene = (struct alarm_scene) {.now_ns = 5000000000, .unit_ns = UNIT, .capacity = CAPACITY};
	scene.last_pass_ns = scene.now_ns;
}

static void after(double units)
{
	scene.now_ns += (uint64_t)(units * UNIT);
}

static void pass(bool regular)
{
	alarm_end_pass(&alarm, &scene, regular);
	scene.last_pass_ns = scene.now_ns;
}

static enum alarm_call faults(uint32_t nr, bool near)
{
	enum alarm_call call = ALARM_QUIET;

	while (nr-- && call == ALARM_QUIET)
		call = alarm_note_fault(&alarm, &scene, near);
	return call;
}

static void test_far_faults_are_nothing(void **state)
{
	make();
	assert_int_equal(faults(100000, false), ALARM_QUIET);
	assert_false(alarm_is_on(&alarm, scene.now_ns));
	assert_false(alarm_is_unusual(&alarm, &scene));
}

static void test_surge_begins_an_emergency(void **state)
{
	make();
	assert_int_equal(faults(10, true), ALARM_QUIET); /* a thousandth is chance */
	assert_int_equal(faults(1, true), ALARM_EMERGENCY);
	assert_int_equal(alarm.emergencies, 1);
	assert_true(alarm_is_on(&alarm, scene.now_ns));
	assert_int_equal(faults(1000, true), ALARM_QUIET); /* it is one already */
	after(0.99);
	assert_true(alarm_is_on(&alarm, scene.now_ns));
	after(0.02);
	assert_false(alarm_is_on(&alarm, scene.now_ns));
}

/* What is usual is no surge, but twice as much is; and the usual rate follows slowly. */
static void test_usual_rate(void **state)
{
	make();
	for (uint32_t i = 0; i < 50; i++) {
		after(0.5);
		alarm.near = 100; /* in each half unit */
		pass(true);
	}
	after(0.5);
	assert_int_equal(faults(150, true), ALARM_QUIET);
	assert_false(alarm_is_unusual(&alarm, &scene));
	assert_int_equal(faults(50, true), ALARM_QUIET);
	assert_true(alarm_is_unusual(&alarm, &scene));
	assert_int_equal(faults(20, true), ALARM_EMERGENCY);
	make();
	for (uint32_t i = 0; i < 32; i++) { /* eight units are half of the way */
		after(0.5);
		alarm.near = i < 16 ? 100 : 0;
		pass(true);
	}
	assert_true(alarm.normal * UNIT / 2 > 48 && alarm.normal * UNIT / 2 < 52);
}

static void test_a_pass_begins_counting_anew(void **state)
{
	make();
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(faults(10, true), ALARM_QUIET);
		after(0.0001);
		pass(false);
		alarm.normal = 0;
	}
}

/* An emergency with @late faults in its last quarter for 100 in its first, up to its review. */
static void emergency(uint32_t late)
{
	assert_int_equal(faults(CAPACITY, true), ALARM_EMERGENCY);
	pass(false);
	after(0.1);
	faults(99, false);
	after(0.3);
	faults(1000, false); /* in between: of no interest */
	after(0.5);
	faults(late, false);
	after(0.2);
	faults(1, false);
	assert_int_equal(alarm.begun, 0);
	alarm.normal = 0;
	alarm.near = 0;
}

static void test_one_that_helped_costs_nothing(void **state)
{
	make();
	for (uint32_t i = 0; i < 5; i++)
		emergency(70);
	assert_int_equal(alarm.emergencies, 5);
	assert_true(alarm.gap == 0);
}

/* After each that did not help the next one waits four times as long: at most 256 units. */
static void test_backs_off_when_it_does_not_help(void **state)
{
	static const double gaps[] = {4, 16, 64, 256, 256};

	make();
	for (uint32_t i = 0; i < ARRAY_SIZE(gaps); i++) {
		emergency(71);
		assert_true(alarm.gap == gaps[i]);
		after(gaps[i] - 0.1);
		assert_true(faults(1000, true) != ALARM_EMERGENCY);
		pass(true);
		alarm.normal = 0;
		after(0.2);
	}
	emergency(0); /* one that helped takes a failure back */
	assert_true(alarm.gap == 64);
	assert_int_equal(alarm.emergencies, ARRAY_SIZE(gaps) + 1);
}

/* The surge that would begin the next one is also what ends the last: that is reviewed first. */
static void test_the_next_waits_for_the_review(void **state)
{
	make();
	assert_int_equal(faults(CAPACITY, true), ALARM_EMERGENCY);
	pass(false);
	alarm.normal = 0;
	after(0.1);
	faults(99, false);
	after(0.8);
	faults(99, false);
	after(0.2);
	assert_true(faults(CAPACITY, true) != ALARM_EMERGENCY);
	assert_int_equal(alarm.emergencies, 1);
	assert_true(alarm.gap == 4);
}

/* Meanwhile a surge is a reason to look, three times between two regular passes, and not at once. */
static void test_looks_while_backing_off(void **state)
{
	make();
	emergency(100);
	for (uint32_t round = 0; round < 2; round++) {
		pass(true);
		alarm.normal = 0;
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(faults(100, true), ALARM_QUIET);
			after(0.25);
			assert_int_equal(faults(1, true), ALARM_LOOK);
			pass(false);
			alarm.normal = 0;
		}
		after(0.3);
		assert_int_equal(faults(100, true), ALARM_QUIET);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_far_faults_are_nothing),
		cmocka_unit_test(test_surge_begins_an_emergency),
		cmocka_unit_test(test_usual_rate),
		cmocka_unit_test(test_a_pass_begins_counting_anew),
		cmocka_unit_test(test_one_that_helped_costs_nothing),
		cmocka_unit_test(test_backs_off_when_it_does_not_help),
		cmocka_unit_test(test_the_next_waits_for_the_review),
		cmocka_unit_test(test_looks_while_backing_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
