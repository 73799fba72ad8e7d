// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_host_random.c - shares of one budget: what is true of any host.
 *
 * Each division is compared with a reference that shares no code with it (taking, it sorts; all
 * is in long double, without rounding), and checked for what must hold whatever the method.
 */
#include <errno.h>
#include "host_fixture.h"

#define ROUND 1.001L /* a page, and what doubles lose on the way */

/* --- reference ---------------------------------------------------------------------- */

struct ref {
	long double hold; /* so far */
	long double cap, rate, base, ceiling;
};

static int compare_ratio(const void *a, const void *b)
{
	const struct ref *x = *(struct ref *const *)a, *y = *(struct ref *const *)b;
	long double rx = x->cap / x->rate, ry = y->cap / y->rate;

	return (rx > ry) - (rx < ry);
}

/* Give or take (@sign) @amount by level; those that have all they can go first, in sorted order. */
static long double ref_divide(struct ref *refs, uint32_t nr, long double amount, int sign)
{
	struct ref *order[ROOM];
	long double rate = 0, left = amount, level;
	uint32_t n = 0;

	for (uint32_t i = 0; i < nr; i++) {
		if (refs[i].cap <= 0)
			continue;
		order[n++] = &refs[i];
		rate += refs[i].rate;
	}
	qsort(order, n, sizeof(*order), compare_ratio); /* NOLINT(bugprone-sizeof-expression): pointers are sorted */
	for (uint32_t i = 0; i < n; i++) {
		level = left / rate;
		if (order[i]->cap > level * order[i]->rate) {
			for (; i < n; i++)
				order[i]->hold += sign * level * order[i]->rate;
			return amount;
		}
		left -= order[i]->cap;
		rate -= order[i]->rate;
		order[i]->hold += sign * order[i]->cap;
	}
	return amount - left;
}

static long double at_least_0(long double x)
{
	return x > 0 ? x : 0;
}

static void ref_take(struct ref *refs, const struct host_share *g, uint32_t nr, long double over)
{
	for (int stage = 0; stage < 4 && over > 0.5L; stage++) {
		for (uint32_t i = 0; i < nr; i++) {
			struct ref *r = &refs[i];
			long double idle = MIN(g[i].idle, g[i].resident);
			long double above = at_least_0(r->hold - r->base);

			idle = at_least_0(idle - at_least_0(g[i].resident - r->hold));
			r->cap = stage == 0 ? at_least_0(r->hold - MAX(r->base, g[i].high)) :
				 stage == 1 ? MIN(idle, above) :
				 stage == 2 ? above :
					      r->hold;
			r->rate = stage == 3 ? r->cap : r->cap / g[i].weight;
		}
		over -= ref_divide(refs, nr, over, -1);
	}
}

/* Above its start (@base) each has the larger of what it had and min(cap, level * rate). */
static long double ref_sum_at(const struct ref *refs, uint32_t nr, long double level)
{
	long double sum = 0;

	for (uint32_t i = 0; i < nr; i++)
		sum += MAX(refs[i].hold - refs[i].base, MIN(refs[i].cap, level * refs[i].rate));
	return sum;
}

static void ref_give(struct ref *refs, const struct host_share *g, uint32_t nr, long double room)
{
	for (uint32_t i = 0; i < nr; i++)
		refs[i].base = refs[i].hold;
	for (int stage = 0; stage < 3; stage++) {
		long double low = 0, high = 1e12L;

		for (uint32_t i = 0; i < nr; i++) {
			struct ref *r = &refs[i];
			long double most = stage == 0 ? r->base + g[i].wanted :
					   stage == 1 ? g[i].high :
							r->ceiling;

			r->cap = at_least_0(MIN(most, r->ceiling) - r->base);
			r->rate = g[i].weight;
		}
		for (int halving = 0; halving < 200; halving++) {
			if (ref_sum_at(refs, nr, (low + high) / 2) <= room)
				low = (low + high) / 2;
			else
				high = (low + high) / 2;
		}
		for (uint32_t i = 0; i < nr; i++) {
			struct ref *r = &refs[i];

			r->hold = r->base + MAX(r->hold - r->base, MIN(r->cap, low * r->rate));
		}
	}
}

/* What each guest should get of the first division, in fractions of a page. */
static void reference(struct ref *refs, const struct host_share *g, uint32_t nr,
		      const struct host_policy *policy)
{
	long double held = 0;

	for (uint32_t i = 0; i < nr; i++) {
		struct ref *r = &refs[i];
		long double used;

		r->ceiling = MIN(g[i].size, g[i].limit);
		used = MIN(g[i].resident, r->ceiling);
		r->base = MIN(g[i].low, r->ceiling);
		if (policy->lend_beyond != NONE)
			r->base = MIN(r->base, used + policy->lend_beyond);
		r->hold = MAX(used, r->base);
		held += r->hold;
	}
	if (held > policy->budget)
		ref_take(refs, g, nr, held - policy->budget);
	else
		ref_give(refs, g, nr, policy->budget - held);
}

static struct ref refs[ROOM];

/* --- properties --------------------------------------------------------------------- */

static void test_random_against_reference(void **state)
{
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		long double most = 0, least = 0;
		uint64_t ceilings = 0;

		rand_host();
		divide_hosts(&sums);
		reference(refs, hosts, nr_guests, &policy_now);
		for (uint32_t i = 0; i < nr_guests; i++) {
			long double off = hosts[i].target - refs[i].hold;

			ceilings += ceiling(&hosts[i]);
			most = MAX(most, off);
			least = MIN(least, off);
			if (off <= -ROUND || off >= ROUND)
				fail_msg("run %u guest %u of %u: %u, reference %.3Lf", run, i,
					 nr_guests, hosts[i].target, refs[i].hold);
		}
		/* Who was rounded up had a larger remainder than who was rounded down. */
		assert_true(most - least < ROUND);
		/* Without a memory, headroom is unused only when nobody can hold it. */
		if (sums.unused)
			assert_int_equal(sums.targets, ceilings);
	}
}

/* As many and as large as may be, where sums need more digits than parts: still to the page. */
static void test_random_largest_hosts(void **state)
{
	struct host_policy policy = host_policy_default();
	uint32_t nr = HOST_GUESTS_MAX;
	struct host_share *g = calloc(nr, sizeof(*g));
	struct host_sums sums;

	assert_non_null(g);
	for (uint32_t run = 0; run < 4; run++) {
		uint64_t held = 0, targets = 0;

		for (uint32_t i = 0; i < nr; i++) {
			g[i] = guest(HOST_PAGES_MAX - (uint32_t)rand_below(1000));
			g[i].size = HOST_PAGES_MAX;
			g[i].weight = 1 + (uint32_t)rand_below(HOST_WEIGHT_MAX);
			held += g[i].resident;
		}
		policy.budget = held - 1 - rand_below(held);
		host_set_targets(g, nr, &policy, &sums);
		assert_true(sums.cut == sums.over && sums.cut == held - policy.budget);
		for (uint32_t i = 0; i < nr; i++) {
			targets += g[i].target;
			g[i].resident = g[i].target;
			g[i].target = NONE;
		}
		assert_true(targets == policy.budget);
		policy.budget += rand_below(held - policy.budget);
		host_set_targets(g, nr, &policy, &sums);
		assert_true(sums.targets == policy.budget && !sums.cut && !sums.unused);
	}
	free(g);
}

/* The stages, by what is true of the result: a later one begins when an earlier one has ended. */
static void test_random_order_of_taking(void **state)
{
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		bool above_high = false, into_rest = false, idle_left = false, below_high = false;

		rand_host();
		divide_hosts(&sums);
		if (!sums.over)
			continue;
		for (uint32_t i = 0; i < nr_guests; i++) {
			const struct host_share *g = &hosts[i];
			uint32_t hold = MAX(MIN(g->resident, ceiling(g)), base(g));
			uint32_t gone = g->resident - MIN(g->resident, g->target);
			uint32_t idle = MIN(g->idle, g->resident);

			above_high |= g->target > MAX(g->high, base(g));
			below_high |= g->target < MIN(hold, MAX(g->high, base(g)));
			idle_left |= gone < idle && g->target > base(g);
			into_rest |= gone > idle && g->target < MIN(hold, MAX(g->high, base(g)));
		}
		assert_false(above_high && below_high);
		assert_false(idle_left && into_rest);
	}
}

static void test_random_heavier_keeps_more(void **state)
{
	uint32_t before[ROOM];
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		uint32_t who;

		do
			rand_host();
		while (!nr_guests);
		who = (uint32_t)rand_below(nr_guests);
		divide_hosts(&sums);
		for (uint32_t i = 0; i < nr_guests; i++)
			before[i] = hosts[i].target;
		forget();
		hosts[who].weight += (uint32_t)rand_below(HOST_WEIGHT_MAX - hosts[who].weight + 1);
		divide_hosts(&sums);
		for (uint32_t i = 0; i < nr_guests; i++) {
			if (i == who)
				assert_true(hosts[i].target + 1ULL >= before[i]);
			else
				assert_true(before[i] + 1ULL >= hosts[i].target);
		}
	}
}

/* Of two guests that differ in weight only, the heavier does not get less; equals get the same. */
static void test_random_twins(void **state)
{
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		do
			rand_host();
		while (nr_guests < 2);
		hosts[1] = hosts[0];
		if (run & 1)
			hosts[1].weight = 1 + (uint32_t)rand_below(hosts[0].weight);
		divide_hosts(&sums);
		assert_true(hosts[0].target + 1ULL >= hosts[1].target);
		if (hosts[0].weight == hosts[1].weight)
			assert_true(hosts[1].target + 1ULL >= hosts[0].target);
	}
}

/* More budget is never bad for anybody, but for the rounding. */
static void test_random_more_budget(void **state)
{
	uint32_t before[ROOM];
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		rand_host();
		divide_hosts(&sums);
		for (uint32_t i = 0; i < nr_guests; i++)
			before[i] = hosts[i].target;
		forget();
		policy_now.budget += rand_below(policy_now.budget / 2 + 2);
		divide_hosts(&sums);
		for (uint32_t i = 0; i < nr_guests; i++)
			assert_true(hosts[i].target + 1ULL >= before[i]);
	}
}

static void test_random_same_again(void **state)
{
	struct host_share copy[ROOM];
	struct host_sums sums, again;

	for (uint32_t run = 0; run < RUNS; run++) {
		rand_host();
		memcpy(copy, hosts, sizeof(copy));
		divide_hosts(&sums);
		for (uint32_t i = 0; i < nr_guests; i++) /* scratch has no meaning */
			copy[i].cap = copy[i].part = copy[i].fraction = copy[i].now = 77;
		host_set_targets(copy, nr_guests, &policy_now, &again);
		for (uint32_t i = 0; i < nr_guests; i++)
			assert_int_equal(copy[i].target, hosts[i].target);
		assert_memory_equal(&sums, &again, offsetof(struct host_sums, is_scaled));
		assert_int_equal(sums.is_scaled, again.is_scaled);
		assert_int_equal(sums.changed, again.changed);
	}
}

/* --- admission ------------------------------------------------------------------------------ */

/* Whoever was let in can be given what was promised; whoever was not would have cost somebody. */
static void test_random_admission_keeps_promises(void **state)
{
	struct host_sums sums;

	for (uint32_t run = 0; run < RUNS; run++) {
		struct host_share new;
		int rc;

		do
			rand_host();
		while (nr_guests == ROOM);
		policy_now.lend_beyond = NONE;
		host_set_targets(hosts, nr_guests, &policy_now, &sums);
		rand_guest(&new, 10);
		new.size = MAX(new.size, 1);
		new.low = MIN(new.low, ceiling(&new));
		rc = host_admit(hosts, nr_guests, &policy_now, &new, NULL);
		hosts[nr_guests++] = new;
		divide_hosts(&sums);
		assert_int_equal(rc, sums.is_scaled && new.low ? -ENOSPC : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_against_reference),
		cmocka_unit_test(test_random_largest_hosts),
		cmocka_unit_test(test_random_order_of_taking),
		cmocka_unit_test(test_random_heavier_keeps_more),
		cmocka_unit_test(test_random_twins),
		cmocka_unit_test(test_random_more_budget),
		cmocka_unit_test(test_random_same_again),
		cmocka_unit_test(test_random_admission_keeps_promises),
	};

	seed_random();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
