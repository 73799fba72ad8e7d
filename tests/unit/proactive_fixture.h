/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proactive_fixture.h - a guest to reclaim from, simulated page by page: each has its own pace.
 *
 * It is aged at the interval that is asked for, evicted from as asked, and its pages come back
 * when touched; so what is measured here is what a guest would feel. EBB_SEED=n repeats a run; the
 * seed is printed first.
 */
#ifndef TEST_PROACTIVE_FIXTURE_H
#define TEST_PROACTIVE_FIXTURE_H

#include <inttypes.h>
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

static uint64_t rng;

static inline uint64_t rand64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* 0..n - 1 */
static inline uint64_t rand_below(uint64_t n)
{
	return (rand64() >> 8) % n;
}

static inline void seed_random(void)
{
	const char *seed = getenv("EBB_SEED");

	if (seed)
		rng = strtoull(seed, NULL, 0);
	else if (getrandom(&rng, sizeof(rng), 0) != sizeof(rng))
		rng = 1;
	rng = rng ? rng : 1;
	printf("EBB_SEED=%#" PRIx64 "\n", rng);
	fflush(stdout);
}

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
static inline void set_pace(uint32_t first, uint32_t end, uint32_t pace)
{
	for (uint32_t i = first; i < end; i++) {
		pages[i].pace = pace;
		pages[i].next = pace == NEVER ? NEVER : tick + (uint32_t)rand_below(pace);
	}
}

/* 40 % in use all the time, 40 % touched every ten minutes, 20 % never. */
static inline void begin(const struct proactive_conf *conf)
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

static inline bool is_cold(const struct page *page)
{
	return !page->is_out && gen - page->gen > p.conf.cold_gens;
}

static inline void touch(struct page *page)
{
	facts.promotions += is_cold(page);
	facts.refaults += page->is_out;
	page->is_out = false;
	page->gen = gen;
}

static inline void run_guest(void)
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

static inline void evict(uint32_t nr)
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

static inline struct proactive_step live_tick(void)
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
static inline double live(uint32_t ticks)
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

static inline uint32_t nr_out(uint32_t first, uint32_t end)
{
	uint32_t count = 0;

	for (uint32_t i = first; i < end; i++)
		count += pages[i].is_out;
	return count;
}

static inline uint64_t interval_s(void)
{
	struct proactive_stats stats;

	proactive_get_stats(&p, &stats);
	return stats.interval_ns / SEC;
}

#endif
