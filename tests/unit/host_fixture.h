/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host_fixture.h - hosts made by chance, and what is true of any division of their budgets.
 *
 * EBB_SEED=n repeats a run; the seed is printed first.
 */
#ifndef TEST_HOST_FIXTURE_H
#define TEST_HOST_FIXTURE_H

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
#include <ebb/reclaim_host.h>

#define NONE RECLAIM_NO_LIMIT
#define ROOM 48
#define RUNS 20000

static struct host_share hosts[ROOM];
static uint32_t nr_guests;
static struct host_policy policy_now;
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

static inline struct host_share guest(uint32_t resident)
{
	return (struct host_share) {
		.size = 1 << 20,
		.limit = NONE,
		.high = NONE,
		.weight = HOST_WEIGHT_DEFAULT,
		.resident = resident,
		.target = NONE,
	};
}

/* Sizes of one host are alike in magnitude, or not at all. */
static inline uint32_t rand_pages(uint32_t magnitude)
{
	uint32_t bits = rand_below(4) ? magnitude : (uint32_t)rand_below(29);

	return (uint32_t)rand_below((2ULL << bits) - 1);
}

static inline void rand_guest(struct host_share *g, uint32_t magnitude)
{
	*g = guest(rand_pages(magnitude));
	g->size = rand_pages(magnitude);
	if (rand_below(3))
		g->size = MIN(g->size + g->resident, HOST_PAGES_MAX);
	g->limit = rand_below(3) ? NONE : rand_pages(magnitude);
	g->high = rand_below(3) ? NONE : rand_pages(magnitude);
	g->low = rand_below(2) ? 0 : rand_pages(magnitude) / (1 + (uint32_t)rand_below(8));
	g->weight = rand_below(2) ? 100 : 1 + (uint32_t)rand_below(HOST_WEIGHT_MAX);
	g->idle = rand_below(2) ? 0 : rand_pages(magnitude);
	g->wanted = rand_below(2) ? 0 : rand_pages(magnitude);
}

static inline void rand_host(void)
{
	uint32_t magnitude = (uint32_t)rand_below(29);
	uint64_t held = 0, low = 0;

	nr_guests = (uint32_t)rand_below(rand_below(2) ? 6 : ROOM);
	policy_now = host_policy_default();
	if (!rand_below(3))
		policy_now.lend_beyond = rand_pages(magnitude);
	for (uint32_t i = 0; i < nr_guests; i++) {
		rand_guest(&hosts[i], magnitude);
		held += hosts[i].resident;
		low += hosts[i].low;
	}
	switch (rand_below(5)) {
	case 0: /* protections too many, often */
		policy_now.budget = rand_below(low + 1);
		break;
	case 1: /* near the edge */
		policy_now.budget = held + rand_below(5) - MIN(held, 2);
		break;
	default:
		policy_now.budget = rand_below(2 * held + 2);
	}
}

static inline uint32_t ceiling(const struct host_share *g)
{
	return MIN(g->size, g->limit);
}

static inline uint32_t base(const struct host_share *g)
{
	uint64_t promise = MIN(g->low, ceiling(g));
	uint64_t used = MIN(g->resident, ceiling(g));

	return (uint32_t)(policy_now.lend_beyond == NONE ?
				  promise :
				  MIN(promise, used + policy_now.lend_beyond));
}

/* What must be true after any division, with a memory of earlier ones or without. */
static inline void check_always(const struct host_sums *sums)
{
	uint64_t targets = 0, cut = 0, beyond_limits = 0;
	bool above = false, below = false;

	for (uint32_t i = 0; i < nr_guests; i++) {
		const struct host_share *g = &hosts[i];

		targets += g->target;
		cut += g->cut;
		beyond_limits += g->resident - MIN(g->resident, ceiling(g));
		assert_true(g->target <= ceiling(g));
		assert_int_equal(g->cut, g->resident - MIN(g->resident, g->target));
		above |= g->target > base(g);
		below |= g->target < base(g);
	}
	assert_int_equal(targets, sums->targets);
	assert_int_equal(cut, sums->cut);
	assert_true(targets <= policy_now.budget);
	assert_false(above && below); /* nobody below low while somebody is above theirs */
	assert_int_equal(below, sums->is_scaled);
	/* No overshoot: what is taken is what is over, and no page is asked for without need. */
	assert_true(cut <= sums->over + beyond_limits);
	assert_int_equal(sums->over,
			 sums->cut_high + sums->cut_idle + sums->cut_rest + sums->cut_low);
	if (sums->over) {
		assert_int_equal(targets, policy_now.budget);
	} else {
		assert_int_equal(cut, beyond_limits);
		/* Nothing is kept back but what small rises came to. */
		assert_int_equal(policy_now.budget - targets, sums->unused);
	}
	assert_true(targets + sums->unused == policy_now.budget);
}

static inline void divide_hosts(struct host_sums *sums)
{
	host_set_targets(hosts, nr_guests, &policy_now, sums);
	check_always(sums);
}

static inline void forget(void)
{
	for (uint32_t i = 0; i < nr_guests; i++)
		hosts[i].target = NONE;
}

#endif
