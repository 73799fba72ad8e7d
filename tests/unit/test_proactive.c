// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_proactive.c - reclaim with nobody asking: its rules one by one, and what is true of any
 * facts. The closed loop is in test_proactive_loop.c.
 */
#include <errno.h>
#include "proactive_fixture.h"

/* A guest with @cold of 100000 pages that is in the mode of taking. */
static void begin_taking(uint32_t cold)
{
	struct proactive_conf conf = proactive_conf_default();

	proactive_init(&p, &conf, 0);
	facts = (struct proactive_facts) {.working_set = 100000 - cold, .cold = cold};
	while (proactive_step(&p, &facts).reason != PROACTIVE_RECLAIM || p.ramp)
		facts.now_ns += conf.step_ns;
}

static struct proactive_step next_step(void)
{
	facts.now_ns += p.conf.step_ns;
	return proactive_step(&p, &facts);
}

static void test_watches_first(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	struct proactive_step step;

	proactive_init(&p, &conf, 0);
	facts = (struct proactive_facts) {.working_set = 90000, .cold = 10000};
	step = proactive_step(&p, &facts);
	assert_int_equal(step.reason, PROACTIVE_WATCH);
	assert_int_equal(step.pages, 0);
	assert_true(step.interval_ns == 160 * SEC); /* the rung not below 120 s */
	assert_true(step.next_ns == 10 * SEC);
	/* Twice a cold age of 320 s. */
	while (facts.now_ns < 640 * SEC) {
		assert_int_equal(step.reason, PROACTIVE_WATCH);
		step = next_step();
	}
	assert_int_equal(step.reason, PROACTIVE_RECLAIM);
	assert_int_equal(step.pages, 500 >> 3); /* half a percent, and an eighth of it first */
	assert_int_equal(next_step().pages, 500 >> 2);
	assert_int_equal(next_step().pages, 500 >> 1);
	assert_int_equal(next_step().pages, 500);
	assert_int_equal(next_step().pages, 500);
	assert_int_equal(p.pages, 62 + 125 + 250 + 1000);
}

static void test_other_reasons(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	struct proactive_step step;

	begin_taking(10000);
	step = proactive_step(&p, &facts);
	assert_int_equal(step.reason, PROACTIVE_EARLY);
	assert_true(step.next_ns == facts.now_ns + conf.step_ns);
	facts.outstanding = 1;
	assert_int_equal(next_step().reason, PROACTIVE_BUSY);
	facts.outstanding = 0;
	facts.cold = 0;
	assert_int_equal(next_step().reason, PROACTIVE_WAIT_COLD);
	facts.cold = 3;
	assert_int_equal(next_step().pages, 3);
	facts.cold = facts.working_set = 1;
	assert_int_equal(next_step().pages, 1);
	conf.enabled = false;
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns), 0);
	step = next_step();
	assert_int_equal(step.reason, PROACTIVE_OFF);
	assert_true(step.interval_ns == 0 && step.next_ns == UINT64_MAX);
	conf.enabled = true;
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns), 0);
	assert_int_equal(proactive_step(&p, &facts).reason, PROACTIVE_WATCH);
	conf.daily_bytes = 1 << 20; /* the bucket is empty at first */
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns), 0);
	do
		step = next_step();
	while (step.reason == PROACTIVE_WATCH);
	assert_int_equal(step.reason, PROACTIVE_RECLAIM); /* it filled while watching: one page */
	facts.written += step.pages * EBB_PAGE_SIZE;
	facts.cold = 100;
	do {
		step = next_step();
		facts.written += step.pages * EBB_PAGE_SIZE;
	} while (step.reason == PROACTIVE_RECLAIM);
	assert_int_equal(step.reason, PROACTIVE_BUDGET);
}

/* 0.2 % of 90000 pages are 180 a minute, 30 a step. */
static void test_backs_off(void **state)
{
	begin_taking(10000);
	for (uint32_t i = 0; i < 600; i++) {
		facts.refaults += 20;
		facts.promotions += 9;
		assert_int_equal(next_step().reason, PROACTIVE_RECLAIM);
	}
	assert_int_equal(p.longer, 0);
	for (uint32_t i = 0; p.longer == 0; i++) {
		assert_true(i < 120); /* a tenth more than may be, and it is noticed in time */
		facts.refaults += 33;
		next_step();
	}
	assert_int_equal(p.mode, PROACTIVE_SETTLING);
	assert_int_equal(next_step().reason, PROACTIVE_BACKOFF_PROMOTIONS);
	assert_int_equal(interval_s(), 320);

	begin_taking(10000);
	facts.refaults += 721; /* four minutes' worth in one step */
	assert_int_equal(next_step().reason, PROACTIVE_BACKOFF_PROMOTIONS);
	facts.refaults += 1 << 20; /* what is coming back now was taken before: it does not count */
	for (uint32_t i = 0; i < 60; i++)
		assert_int_equal(next_step().reason, PROACTIVE_BACKOFF_PROMOTIONS);
	assert_int_equal(p.longer, 1);
}

/* With a measurement that failed, the next interval is tried at once; there is an end to it. */
static void test_backs_off_to_the_end(void **state)
{
	begin_taking(10000);
	for (uint32_t i = 0; i < DAY; i++) {
		facts.promotions += 100;
		if (i > 100)
			assert_int_equal(next_step().reason, PROACTIVE_BACKOFF_PROMOTIONS);
		else
			next_step();
	}
	assert_int_equal(interval_s(), 3600);
	assert_int_equal(p.longer, PROACTIVE_NR_RUNGS - 1 - 5);
}

/* Tries that fail come at longer and longer times. */
static void test_tries_become_rare(void **state)
{
	uint64_t last = 0, gaps[6];
	uint32_t nr = 0;

	begin_taking(10000);
	while (nr < 6) {
		uint64_t failed = p.failed;

		/* At 160 s all is well, at 80 s it is not. */
		if (interval_s() < 160 && p.mode == PROACTIVE_MEASURING)
			facts.promotions += 1000;
		next_step();
		if (p.failed == failed)
			continue;
		gaps[nr++] = facts.now_ns - last;
		last = facts.now_ns;
		assert_int_equal(p.fails, MIN(nr, 4));
	}
	for (uint32_t i = 2; i < 5; i++)
		assert_true(gaps[i] > gaps[i - 1] * 3 / 2);
	assert_true(gaps[5] < gaps[4] * 3 / 2); /* sixteen times is the most */
	/* Once 80 s are right after all, and have been for ten minutes, what was before is forgotten. */
	while (p.shorter == p.failed)
		next_step();
	assert_int_equal(p.fails, 4);
	last = facts.now_ns;
	while (p.fails)
		next_step();
	assert_true(facts.now_ns - last == 600 * SEC);
	assert_int_equal(p.mode, PROACTIVE_SETTLING); /* on to 40 s at once */
	assert_int_equal(interval_s(), 40);
}

/* A guest that has changed has no old mistakes. */
static void test_change_forgets_fails(void **state)
{
	begin_taking(10000);
	while (!p.failed) {
		if (interval_s() < 160 && p.mode == PROACTIVE_MEASURING)
			facts.promotions += 1000;
		next_step();
	}
	while (p.mode != PROACTIVE_TAKING)
		next_step();
	assert_int_equal(interval_s(), 160);
	assert_int_equal(p.fails, 1);
	facts.refaults += 721;
	assert_int_equal(next_step().reason, PROACTIVE_BACKOFF_PROMOTIONS);
	assert_int_equal(p.fails, 0);
	assert_int_equal(p.failed, 1); /* that was no try */
	assert_int_equal(interval_s(), 320);
}

/* While bytes are what is lacking, no shorter interval is tried; once pages are, it is. */
static void test_no_try_when_short_of_bytes(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	struct proactive_step step;

	begin_taking(10000);
	conf.daily_bytes = 1 << 30;
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns), 0);
	for (uint32_t i = 0; i < DAY; i++) {
		step = next_step();
		facts.written += (uint64_t)step.pages * EBB_PAGE_SIZE;
	}
	assert_int_equal(interval_s(), 160);
	assert_int_equal(p.shorter, 0);
	facts.cold = 0;
	for (uint32_t i = 0; i < 3 * HOUR && !p.shorter; i++)
		assert_int_equal(next_step().pages, 0);
	assert_int_equal(p.shorter, 1);
}

/* What is written while switched off is written, and the day goes on. */
static void test_budget_while_off(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	struct proactive_stats before, after;

	begin_taking(10000);
	facts.cold = 0;
	conf.daily_bytes = 24 * 8000000;
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns), 0);
	next_step();
	proactive_get_stats(&p, &before);
	conf.enabled = false;
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns), 0);
	facts.now_ns += 3600 * SEC;
	facts.written += 5000000;
	facts.refaults += 1000000;
	assert_int_equal(proactive_step(&p, &facts).reason, PROACTIVE_OFF);
	conf.enabled = true;
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns), 0);
	assert_int_equal(proactive_step(&p, &facts).reason, PROACTIVE_WATCH);
	proactive_get_stats(&p, &after);
	assert_in_range(after.write_bytes - before.write_bytes, 1999999, 2000001);
	while (p.mode == PROACTIVE_SETTLING)
		next_step();
	assert_true(p.lasting.pages == 0); /* what came back meanwhile is not held against it */
}

/* Facts may have been read a moment before the knobs were set, or the clock differ. */
static void test_facts_older_than_conf(void **state)
{
	struct proactive_conf conf = proactive_conf_default();

	begin_taking(10000);
	conf.cold_gens++; /* begins to settle, 2 s after the next facts */
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns + 12 * SEC), 0);
	assert_int_equal(next_step().reason, PROACTIVE_WATCH);
	assert_int_equal(p.mode, PROACTIVE_SETTLING);

	begin_taking(10000);
	conf.cold_gens = p.conf.cold_gens;
	conf.step_ns = SEC;
	assert_int_equal(proactive_set_conf(&p, &conf, facts.now_ns - 100 * SEC), 0);
	facts.now_ns -= 50 * SEC;
	facts.promotions += 30; /* in no time: not in 2^64 ns */
	proactive_step(&p, &facts);
	assert_true(p.brief.minutes < 10 && p.lasting.minutes < 60);
}

static void test_odd_facts(void **state)
{
	struct proactive_step step;

	begin_taking(10000);
	facts.refaults = facts.promotions = 1000000;
	proactive_init(&p, &p.conf, facts.now_ns);
	next_step(); /* the first step knows no difference */
	facts.refaults = facts.promotions = facts.written = 0;
	facts.now_ns = 0; /* neither counters nor clocks go back */
	step = proactive_step(&p, &facts);
	assert_int_equal(step.reason, PROACTIVE_EARLY);
	facts.now_ns = p.next_ns;
	proactive_step(&p, &facts);
	assert_true(p.brief.pages == 0 && p.lasting.pages == 0);
}

static void test_check_conf(void **state)
{
	struct proactive_conf good = proactive_conf_default(), conf;

	assert_int_equal(proactive_check_conf(&good), 0);
#define BAD(member, value, rc)                                                                     \
	do {                                                                                       \
		conf = good;                                                                       \
		conf.member = (value);                                                             \
		assert_int_equal(proactive_check_conf(&conf), rc);                                 \
	} while (0)
	BAD(target_ppm, 0, -ERANGE);
	BAD(target_ppm, 1000001, -ERANGE);
	BAD(cold_gens, 0, -ERANGE);
	BAD(cold_gens, 17, -ERANGE);
	BAD(first_interval_ns, PROACTIVE_MIN_INTERVAL_NS - 1, -ERANGE);
	BAD(first_interval_ns, PROACTIVE_MAX_INTERVAL_NS + 1, -ERANGE);
	BAD(min_interval_ns, PROACTIVE_MAX_INTERVAL_NS + 1, -ERANGE);
	BAD(min_interval_ns, 0, 0);
	BAD(step_ns, SEC - 1, -ERANGE);
	BAD(step_ns, 3601 * SEC, -ERANGE);
	BAD(step_permille, 0, -ERANGE);
	BAD(step_permille, 1001, -ERANGE);
	BAD(some_stop, 10001, -ERANGE);
	BAD(full_stop, 10001, -ERANGE);
	BAD(some_resume, good.some_stop + 1, -EINVAL);
	BAD(full_resume, good.full_stop + 1, -EINVAL);
	BAD(some_stop, 0, 0);
	BAD(daily_bytes, (1ULL << 60) + 1, -ERANGE);
#undef BAD
	proactive_init(&p, &good, 0);
	conf.enabled = false; /* with too many bytes still */
	assert_int_equal(proactive_set_conf(&p, &conf, 0), -ERANGE);
	assert_true(p.conf.enabled);
	conf = good;
	conf.min_interval_ns = 300 * SEC;
	assert_int_equal(proactive_set_conf(&p, &conf, 0), 0);
	assert_int_equal(interval_s(), 320);
}

/* --- anything ------------------------------------------------------------------------------- */

static void rand_facts(void)
{
	static const uint64_t scales[] = {1, 1000, 1000000, UINT32_MAX};
	uint64_t scale = scales[rand_below(4)];

	facts.now_ns += rand_below(2) ? rand_below(20 * SEC) : rand_below(2000 * SEC);
	if (rand_below(50) == 0)
		facts.now_ns -= MIN(facts.now_ns, 100 * SEC);
	facts.cold = (uint32_t)rand_below(scale + 1);
	facts.working_set = (uint32_t)rand_below(scale + 1);
	facts.promotions += rand_below(4) ? 0 : rand_below(1000);
	facts.refaults += rand_below(4) ? 0 : rand_below(1000);
	facts.outstanding = rand_below(10) == 0;
	facts.some = rand_below(10) ? 0 : (uint32_t)rand_below(300);
	facts.full = rand_below(10) ? 0 : (uint32_t)rand_below(300);
	if (rand_below(100) == 0)
		facts.refaults = facts.promotions = 0;
}

static void check_step(const struct proactive_step *step, uint64_t before_next, bool pressed)
{
	struct proactive_stats stats;
	uint64_t most = ((uint64_t)facts.working_set + facts.cold) * p.conf.step_permille / 1000;

	proactive_get_stats(&p, &stats);
	assert_true((step->pages > 0) == (step->reason == PROACTIVE_RECLAIM));
	assert_true(step->pages <= facts.cold && step->pages <= MAX(most, 256));
	if (step->pages) {
		assert_false(pressed || facts.outstanding);
		assert_true(facts.now_ns >= before_next);
		assert_true(stats.write_bytes >= (int64_t)step->pages * (int64_t)EBB_PAGE_SIZE);
	}
	assert_true(step->next_ns > facts.now_ns || step->reason == PROACTIVE_OFF ||
		    before_next > facts.now_ns);
	assert_true(step->interval_ns <= PROACTIVE_MAX_INTERVAL_NS);
	assert_true(step->interval_ns >= PROACTIVE_MIN_INTERVAL_NS ||
		    step->reason == PROACTIVE_OFF);
	assert_true(stats.rate >= 0 && stats.rate_brief >= 0);
}

static void test_random_facts(void **state)
{
	uint64_t reached = 0;

	for (uint32_t run = 0; run < 300; run++) {
		struct proactive_conf conf = proactive_conf_default();
		struct proactive twin;
		uint64_t steps = 0, total = 0;

		conf.target_ppm = 1 + (uint32_t)rand_below(1000000);
		conf.cold_gens = 1 + (uint32_t)rand_below(4);
		conf.step_permille = 1 + (uint32_t)rand_below(1000);
		conf.daily_bytes = rand_below(2) ? 0 : rand_below(1ULL << 40);
		conf.enabled = rand_below(20) > 0;
		facts = (struct proactive_facts) {.now_ns = rand64() >> 8};
		proactive_init(&p, &conf, facts.now_ns);
		twin = p;
		for (uint32_t i = 0; i < 1000; i++) {
			uint64_t before_next = p.next_ns;
			struct proactive_step step, again;

			rand_facts();
			step = proactive_step(&p, &facts);
			again = proactive_step(&twin, &facts);
			check_step(&step, before_next, p.is_pressed);
			assert_true(step.reason == again.reason && step.pages == again.pages &&
				    step.next_ns == again.next_ns);
			facts.written += rand_below(2 * (uint64_t)step.pages * EBB_PAGE_SIZE + 1);
			steps++;
		}
		for (uint32_t i = 0; i < PROACTIVE_NR_REASONS; i++) {
			total += p.steps[i];
			reached |= (uint64_t)(p.steps[i] > 0) << i;
		}
		assert_int_equal(total, steps); /* each step is explained, once */
	}
	assert_int_equal(reached, (1u << PROACTIVE_NR_REASONS) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watches_first),
		cmocka_unit_test(test_other_reasons),
		cmocka_unit_test(test_backs_off),
		cmocka_unit_test(test_backs_off_to_the_end),
		cmocka_unit_test(test_tries_become_rare),
		cmocka_unit_test(test_change_forgets_fails),
		cmocka_unit_test(test_no_try_when_short_of_bytes),
		cmocka_unit_test(test_budget_while_off),
		cmocka_unit_test(test_facts_older_than_conf),
		cmocka_unit_test(test_odd_facts),
		cmocka_unit_test(test_check_conf),
		cmocka_unit_test(test_random_facts),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
