// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_proactive.c - reclaim with nobody asking: its rules one by one, and in closed loop with a
 * guest.
 *
 * The guest is simulated page by page: each has its own pace. It is aged at the interval that is
 * asked for, evicted from as asked, and its pages come back when touched; so what is measured
 * here is what a guest would feel. EBB_SEED=n repeats a run; the seed is printed first.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <cmocka.h>
#include <ebb/reclaim_proactive.h>

#define SEC   1000000000ULL
#define TICK  (10 * SEC)
#define HOUR  360u /* ticks */
#define DAY   (24 * HOUR)
#define NEVER UINT32_MAX
#define NR    10000u

static uint64_t base_seed, rng;

static uint64_t rand64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* 0..n - 1 */
static uint64_t rand_below(uint64_t n)
{
	return (rand64() >> 8) % n;
}

/* --- a guest -------------------------------------------------------------------------------- */

struct page {
	uint32_t pace; /* ticks from touch to touch; NEVER */
	uint32_t next; /* tick of the next one */
	uint32_t gen;  /* when it was last touched */
	bool is_out;
};

static struct page pages[NR];
static struct proactive p;
static struct proactive_facts facts;
static uint32_t tick, gen, aged, taken;
static uint64_t clock_base;

/* The pages of [first, end) are touched every @pace ticks or so, each at its own time. */
static void set_pace(uint32_t first, uint32_t end, uint32_t pace)
{
	for (uint32_t i = first; i < end; i++) {
		pages[i].pace = pace;
		pages[i].next = pace == NEVER ? NEVER : tick + (uint32_t)rand_below(pace);
	}
}

/* 40 % in use all the time, 40 % touched every ten minutes, 20 % never. */
static void begin(const struct proactive_conf *conf)
{
	assert_int_equal(proactive_check_conf(conf), 0);
	memset(pages, 0, sizeof(pages));
	memset(&facts, 0, sizeof(facts));
	tick = gen = aged = taken = 0;
	clock_base = rand_below(1000) * SEC;
	set_pace(0, NR * 4 / 10, 1);
	set_pace(NR * 4 / 10, NR * 8 / 10, 60);
	set_pace(NR * 8 / 10, NR, NEVER);
	proactive_init(&p, conf, clock_base);
}

static bool is_cold(const struct page *page)
{
	return !page->is_out && gen - page->gen > p.conf.cold_gens;
}

static void touch(struct page *page)
{
	facts.promotions += is_cold(page);
	facts.refaults += page->is_out;
	page->is_out = false;
	page->gen = gen;
}

static void run_guest(void)
{
	facts.cold = facts.working_set = 0;
	for (uint32_t i = 0; i < NR; i++) {
		struct page *page = &pages[i];

		if (page->next <= tick) {
			touch(page);
			/* A fifth more or less each time, so that nobody marches in step. */
			page->next = tick + page->pace;
			if (page->pace >= 5)
				page->next += (uint32_t)rand_below(page->pace * 2 / 5 + 1) -
					      page->pace / 5;
		}
		facts.cold += is_cold(page);
		facts.working_set += !page->is_out && !is_cold(page);
	}
}

static void evict(uint32_t nr)
{
	uint32_t first = (uint32_t)rand_below(NR);

	taken += nr;
	for (uint32_t i = 0; i < NR && nr; i++) {
		struct page *page = &pages[(first + i) % NR];

		if (!is_cold(page))
			continue;
		page->is_out = true;
		facts.written += EBB_PAGE_SIZE;
		nr--;
	}
	assert_int_equal(nr, 0); /* never more than are cold */
}

static struct proactive_step live_tick(void)
{
	struct proactive_step step;

	run_guest();
	facts.now_ns = clock_base + tick * TICK;
	step = proactive_step(&p, &facts);
	evict(step.pages);
	tick++;
	if (step.interval_ns && (tick - aged) * TICK >= step.interval_ns) {
		gen++;
		aged = tick;
	}
	return step;
}

/* Live for @ticks; returns refaults a minute, as a share of the working set. */
static double live(uint32_t ticks)
{
	double share = 0;

	for (uint32_t i = 0; i < ticks; i++) {
		uint64_t last = facts.refaults;

		live_tick();
		if (facts.working_set)
			share += (double)(facts.refaults - last) / facts.working_set;
	}
	return share / (ticks * (double)TICK / (60.0 * SEC));
}

static uint32_t nr_out(uint32_t first, uint32_t end)
{
	uint32_t count = 0;

	for (uint32_t i = first; i < end; i++)
		count += pages[i].is_out;
	return count;
}

static uint64_t interval_s(void)
{
	struct proactive_stats stats;

	proactive_get_stats(&p, &stats);
	return stats.interval_ns / SEC;
}

/* --- closed loop ---------------------------------------------------------------------------- */

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

/* --- single rules --------------------------------------------------------------------------- */

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
		cmocka_unit_test(test_watches_first),
		cmocka_unit_test(test_other_reasons),
		cmocka_unit_test(test_backs_off),
		cmocka_unit_test(test_backs_off_to_the_end),
		cmocka_unit_test(test_tries_become_rare),
		cmocka_unit_test(test_odd_facts),
		cmocka_unit_test(test_check_conf),
		cmocka_unit_test(test_random_facts),
	};
	const char *seed = getenv("EBB_SEED");

	if (seed)
		base_seed = strtoull(seed, NULL, 0);
	else if (getrandom(&base_seed, sizeof(base_seed), 0) != sizeof(base_seed))
		base_seed = 1;
	rng = base_seed ? base_seed : 1;
	printf("EBB_SEED=%#llx\n", (unsigned long long)rng);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
