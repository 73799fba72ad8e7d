// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_host_time.c - shares of one budget, divided again and again: old targets lead to no wrong
 * ones, and nothing flutters.
 */
#include "host_fixture.h"

static uint32_t gap_band(uint32_t target)
{
	uint32_t gap = MIN(MAX(target / 64, 256), 4096); /* as governor.c says */

	return 2 * MIN(gap, target / 4);
}

/* The same facts: the same targets, from the second division on. */
static void test_random_settles(void **state)
{
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		rand_host();
		for (uint32_t i = 0; i < nr_guests; i++)
			hosts[i].wanted = 0; /* who goes on wanting goes on growing */
		divide_hosts(&sums);
		divide_hosts(&sums);
		assert_int_equal(sums.changed, 0);
	}
}

/* Whatever becomes of the guests and whatever is set meanwhile: old targets lead to no wrong ones. */
static void test_random_changes(void **state)
{
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		rand_host();
		divide_hosts(&sums);
		for (uint32_t round = 0; round < 4; round++) {
			for (uint32_t i = 0; i < nr_guests; i++) {
				struct host_share *g = &hosts[i];
				uint32_t target = g->target, near = (uint32_t)rand_below(200);

				if (rand_below(4) == 0)
					rand_guest(g, 14);
				else if (rand_below(2))
					g->resident = target + near;
				else
					g->low = target - MIN(100, target) + near;
				g->target = rand_below(8) ? target : NONE;
			}
			policy_now.budget += rand_below(300) - MIN(policy_now.budget, 150);
			divide_hosts(&sums);
		}
	}
}

/*
 * What the reclaimer does by itself, staying up to two gaps below, moves no target. (Where
 * protections are lent, it does: what is lent depends on what is used.)
 */
static void test_random_no_flutter(void **state)
{
	struct host_sums sums;
	uint32_t moved = 0, rounds = 0;

	for (uint32_t run = 0; run < RUNS / 10; run++) {
		rand_host();
		for (uint32_t i = 0; i < nr_guests; i++)
			hosts[i].idle = hosts[i].wanted = 0;
		policy_now.lend_beyond = NONE;
		divide_hosts(&sums);
		if (sums.is_scaled)
			continue;
		for (uint32_t round = 0; round < 10; round++) {
			for (uint32_t i = 0; i < nr_guests; i++) {
				struct host_share *g = &hosts[i];
				uint32_t band = gap_band(g->target);

				if (g->resident + band >= g->target) /* it fills its target */
					g->resident = g->target - (uint32_t)rand_below(band + 1ULL);
			}
			divide_hosts(&sums);
			moved += sums.changed;
			rounds++;
		}
	}
	assert_true(rounds > 1000);
	assert_int_equal(moved, 0);
}

/* A round of the guest's own doing: it has what it demands, but is kept at or below its target. */
static void live(struct host_share *g, uint32_t demand)
{
	uint32_t band = gap_band(g->target);
	uint32_t most = g->target - (uint32_t)rand_below(band + 1ULL);

	g->resident = MIN(demand, most);
	g->wanted = demand - MIN(demand, g->target);
}

/*
 * A closed loop: guests grow and shrink by themselves, are held at their targets and kept below
 * them. When demands stop changing, pages still go over to those that want them, but no target
 * that rose falls again, or the other way round.
 */
static void test_random_closed_loop(void **state)
{
	uint32_t demand[ROOM], rose[ROOM], fell[ROOM], reversals = 0;
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS / 20; run++) {
		rand_host();
		policy_now.lend_beyond = NONE;
		memset(rose, 0, sizeof(rose));
		memset(fell, 0, sizeof(fell));
		for (uint32_t i = 0; i < nr_guests; i++) {
			hosts[i].idle = 0;
			demand[i] = hosts[i].resident;
		}
		for (uint32_t round = 0; round < 60; round++) {
			for (uint32_t i = 0; i < nr_guests && round; i++) {
				if (round < 20 && !rand_below(4))
					demand[i] = (uint32_t)rand_below(2ULL * hosts[i].size + 1);
				live(&hosts[i], demand[i]);
			}
			divide_hosts(&sums);
			for (uint32_t i = 0; i < nr_guests && round >= 30; i++) {
				rose[i] |= hosts[i].target > hosts[i].before;
				fell[i] |= hosts[i].target < hosts[i].before;
			}
		}
		for (uint32_t i = 0; i < nr_guests; i++)
			reversals += rose[i] && fell[i];
	}
	assert_int_equal(reversals, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_settles),
		cmocka_unit_test(test_random_changes),
		cmocka_unit_test(test_random_no_flutter),
		cmocka_unit_test(test_random_closed_loop),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
