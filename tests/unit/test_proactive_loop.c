// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_proactive_loop.c - reclaim with nobody asking, in closed loop with a guest for hours and
 * days; and its write budget over restarts.
 */
#include "proactive_fixture.h"

#define TARGET 0.002

static void test_converges(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	double first, later;

	begin(&conf);
	first = live(HOUR);
	later = live(HOUR);
	print_message(
		"          first hour %.3f %%/min, second %.3f, interval %u s, %u of 2000 out\n",
		100 * first, 100 * later, (unsigned)interval_s(), nr_out(NR * 8 / 10, NR));
	assert_true(first < TARGET && later < TARGET);
	assert_true(nr_out(NR * 8 / 10, NR) > NR * 18 / 100);
	assert_true(nr_out(0, NR * 4 / 10) == 0);
	assert_true(nr_out(NR * 4 / 10, NR * 8 / 10) < NR / 100);
	/* Ten minutes and a fifth must not be cold, more than twice that need not be warm. */
	assert_true(2 * interval_s() >= 600 && 2 * interval_s() <= 2560);
	later = live(22 * HOUR);
	print_message("          to the end of the day %.3f %%/min, %u tries failed\n", 100 * later,
		      (unsigned)p.failed);
	assert_true(later < TARGET);
	assert_true(p.failed <= 24); /* it does not try again and again */
	assert_true(nr_out(NR * 8 / 10, NR) > NR * 19 / 100);
}

static void test_phase_change(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	double before, after;
	uint32_t out;

	begin(&conf);
	live(3 * HOUR);
	out = nr_out(0, NR);
	/* What was never touched is in use now, and half of what was in use is not. */
	set_pace(NR * 8 / 10, NR, 1);
	set_pace(0, NR * 2 / 10, NEVER);
	before = live(6); /* the burst itself */
	assert_int_equal(nr_out(NR * 8 / 10, NR), 0);
	assert_true(p.mode == PROACTIVE_SETTLING);
	live(2 * HOUR);
	after = live(HOUR);
	print_message("          %u out, burst %.1f %%/min, three hours later %.3f and %u out\n",
		      out, 100 * before, 100 * after, nr_out(0, NR * 2 / 10));
	assert_true(after < TARGET);
	assert_true(nr_out(0, NR * 2 / 10) > NR * 18 / 100);
}

static void test_idle_guest_is_emptied(void **state)
{
	struct proactive_conf conf = proactive_conf_default();

	begin(&conf);
	set_pace(0, NR, NEVER);
	live(3 * HOUR);
	assert_true(nr_out(0, NR) > NR * 99 / 100);
	live(21 * HOUR);
	assert_int_equal(interval_s(), 5);
	conf.min_interval_ns = 60 * SEC;
	begin(&conf);
	set_pace(0, NR, NEVER);
	live(DAY);
	assert_int_equal(interval_s(), 80);
	assert_int_equal(p.shorter, 1); /* and no more is tried */
}

/*
 * Paces from ten seconds to two days, as many in each doubling: no age is without returns, and
 * some are within the target. By the pages' paces it could be computed which; here it is to be
 * found.
 */
static void test_wide_range_of_paces(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	double rate;
	uint32_t out;

	begin(&conf);
	for (uint32_t i = 0; i < NR; i++)
		set_pace(i, i + 1, (1u << rand_below(14)) + (uint32_t)rand_below(2));
	for (uint32_t day = 1; day <= 3; day++) {
		rate = live(DAY);
		out = nr_out(0, NR);
		print_message("          day %u: %.3f %%/min, %u out, interval %u s\n", day,
			      100 * rate, out, (unsigned)interval_s());
		assert_true(rate < TARGET);
	}
	assert_true(out > NR / 20);
}

/* A guest in which every age is wrong is left alone. */
static void test_nothing_is_cold_enough(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	double rate;

	begin(&conf);
	for (uint32_t i = 0; i < NR; i++)
		set_pace(i, i + 1, 1 + (uint32_t)rand_below(6 * HOUR));
	live(DAY);
	rate = live(DAY);
	print_message("          %.3f %%/min, %u out, interval %u s\n", 100 * rate, nr_out(0, NR),
		      (unsigned)interval_s());
	assert_true(rate < TARGET);
}

/* --- pressure ------------------------------------------------------------------------------- */

static void test_pressure_stops_at_once(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	struct proactive_step step;
	uint32_t before, full;

	begin(&conf);
	set_pace(0, NR * 5 / 10, 1); /* what is not in use never is */
	set_pace(NR * 5 / 10, NR, NEVER);
	do
		step = live_tick();
	while (step.reason != PROACTIVE_RECLAIM);
	full = live_tick().pages;
	before = taken;
	facts.some = conf.some_stop;
	assert_int_equal(live_tick().reason, PROACTIVE_RECLAIM); /* at the threshold is not above */
	before = taken;
	facts.some = conf.some_stop + 1;
	for (uint32_t i = 0; i < 30; i++)
		assert_int_equal(live_tick().reason, PROACTIVE_BACKOFF_PSI);
	facts.some = conf.some_resume + 1; /* between the two: as it was */
	assert_int_equal(live_tick().reason, PROACTIVE_BACKOFF_PSI);
	facts.some = conf.some_resume;
	facts.full = conf.full_stop + 1;
	assert_int_equal(live_tick().reason, PROACTIVE_BACKOFF_PSI);
	assert_int_equal(taken, before);
	facts.full = conf.full_resume;
	step = live_tick();
	assert_int_equal(step.reason, PROACTIVE_RECLAIM);
	assert_true(step.pages > 0 && step.pages <= full); /* it begins small */
	facts.full = conf.full_stop + 1;		   /* either is enough */
	assert_int_equal(live_tick().reason, PROACTIVE_BACKOFF_PSI);
	facts.full = 0;
	assert_int_equal(live_tick().reason, PROACTIVE_RECLAIM);
	/* An early step says so too. */
	facts.some = 10000;
	step = proactive_step(&p, &facts);
	assert_int_equal(step.reason, PROACTIVE_BACKOFF_PSI);
	assert_int_equal(step.pages, 0);
}

static void test_pressure_not_looked_at(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	struct proactive_step step;

	conf.some_stop = conf.full_stop = 0;
	begin(&conf);
	facts.some = facts.full = 10000;
	for (uint32_t i = 0; i < 2 * HOUR; i++) {
		step = live_tick();
		assert_true(step.reason != PROACTIVE_BACKOFF_PSI);
	}
	assert_true(taken > 0);
}

/* --- writing -------------------------------------------------------------------------------- */

/* Everything is touched and goes cold again all day long: only the budget is in the way. */
static void begin_writer(uint64_t daily_bytes)
{
	struct proactive_conf conf = proactive_conf_default();

	conf.daily_bytes = daily_bytes;
	conf.target_ppm = 1000000;
	conf.first_interval_ns = 10 * SEC;
	begin(&conf);
	set_pace(0, NR, 30);
}

static void test_write_budget_over_days(void **state)
{
	static uint64_t at[5 * DAY + 1];
	uint64_t daily = 5000 * EBB_PAGE_SIZE, most = 0, waited = 0;
	struct proactive_saved saved;

	begin_writer(0);
	live(DAY);
	assert_true(facts.written > 4 * daily); /* it would be more, if it could */
	begin_writer(daily);
	for (uint32_t i = 0; i < 5 * DAY; i++) {
		at[i] = facts.written;
		waited += live_tick().reason == PROACTIVE_BUDGET;
		if (rand_below(DAY / 4) == 0) { /* a restart, which takes an hour */
			struct proactive_conf conf = p.conf;

			proactive_save(&p, i * 10, &saved);
			for (uint32_t gap = 0; gap < HOUR && i + 1 < 5 * DAY; gap++) {
				at[++i] = facts.written;
				tick++;
			}
			proactive_init(&p, &conf, clock_base + tick * TICK);
			proactive_restore(&p, &saved, i * 10);
		}
	}
	at[5 * DAY] = facts.written;
	for (uint32_t i = DAY; i <= 5 * DAY; i++)
		most = MAX(most, at[i] - at[i - DAY]);
	print_message("          most in 24 hours %.1f %% of the budget, on average %.1f\n",
		      100.0 * most / daily, 20.0 * facts.written / daily);
	assert_true(most <= daily);
	assert_true(facts.written > daily * 5 * 6 / 10);
	assert_true(waited > 0);
}

static void test_budget_counts_what_others_write(void **state)
{
	uint64_t daily = 8000 * EBB_PAGE_SIZE;
	struct proactive_stats stats;

	begin_writer(daily);
	live(6 * HOUR);
	facts.written += 100 * daily; /* a limit was lowered, say */
	live_tick();
	proactive_get_stats(&p, &stats);
	assert_true(stats.write_bytes < 0 && stats.write_bytes >= -(int64_t)daily);
	taken = 0;
	live(23 * HOUR);
	assert_int_equal(taken, 0);
	live(DAY);
	assert_true(taken > 0); /* but not for ever */
}

static void test_restore_damaged(void **state)
{
	struct proactive_conf conf = proactive_conf_default();
	struct proactive_saved saved = {.tokens = INT64_MAX, .interval_ns = UINT64_MAX};
	struct proactive_stats stats;

	conf.daily_bytes = 8000;
	proactive_init(&p, &conf, 5);
	proactive_get_stats(&p, &stats);
	assert_int_equal(stats.write_bytes, 0);
	proactive_restore(&p, &saved, 0);
	proactive_get_stats(&p, &stats);
	assert_int_equal(stats.write_bytes, 1000);
	assert_int_equal(stats.interval_ns, PROACTIVE_MAX_INTERVAL_NS);
	saved = (struct proactive_saved) {.tokens = INT64_MIN, .wall_s = 1000};
	proactive_restore(&p, &saved, 999); /* the clock was set back */
	proactive_get_stats(&p, &stats);
	assert_int_equal(stats.write_bytes, -8000);
	assert_int_equal(stats.interval_ns, PROACTIVE_MIN_INTERVAL_NS);
	saved.tokens = 500;
	proactive_restore(&p, &saved, 1000 + 3600);
	proactive_get_stats(&p, &stats);
	assert_int_equal(stats.write_bytes, 500 + 7000 / 24);
	proactive_save(&p, 77, &saved);
	assert_int_equal(saved.tokens, 500 + 7000 / 24);
	assert_int_equal(saved.wall_s, 77);
	assert_int_equal(saved.interval_ns, PROACTIVE_MIN_INTERVAL_NS);
	saved.tokens = 0;
	proactive_restore(&p, &saved, UINT64_MAX);
	proactive_get_stats(&p, &stats);
	assert_int_equal(stats.write_bytes, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_converges),
		cmocka_unit_test(test_phase_change),
		cmocka_unit_test(test_idle_guest_is_emptied),
		cmocka_unit_test(test_wide_range_of_paces),
		cmocka_unit_test(test_nothing_is_cold_enough),
		cmocka_unit_test(test_pressure_stops_at_once),
		cmocka_unit_test(test_pressure_not_looked_at),
		cmocka_unit_test(test_write_budget_over_days),
		cmocka_unit_test(test_budget_counts_what_others_write),
		cmocka_unit_test(test_restore_damaged),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
