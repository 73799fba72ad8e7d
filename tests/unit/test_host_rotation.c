// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_host_rotation.c - whose turn it is: rounds, delays and parking, by hand and at random.
 *
 * EBB_SEED=n repeats a run; the seed is printed first.
 */
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

#define RUNS 20000

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

#define NODES 200

static struct host_rotation rot;
static struct host_node nodes[NODES];

static uint32_t begin_rotation(uint32_t nr)
{
	host_rotation_init(&rot);
	memset(nodes, 0, sizeof(nodes));
	for (uint32_t i = 0; i < nr; i++)
		host_rotation_enter(&rot, &nodes[i]);
	assert_true(host_rotation_verify(&rot));
	assert_null(host_rotation_next(&rot)); /* whoever enters is in the next round */
	return nr;
}

static void assert_next(int i)
{
	if (i < 0)
		assert_null(host_rotation_next(&rot));
	else
		assert_ptr_equal(host_rotation_next(&rot), &nodes[i]);
	assert_true(host_rotation_verify(&rot));
}

static void test_rotation_rounds(void **state)
{
	begin_rotation(3);
	for (uint32_t round = 0; round < 5; round++) {
		for (int i = 0; i < 3; i++)
			assert_next(i);
		assert_next(-1);
	}
	assert_next(0);
	host_rotation_enter(&rot, &nodes[3]); /* not in this round */
	host_rotation_leave(&rot, &nodes[1]);
	host_rotation_leave(&rot, &nodes[1]);
	assert_next(2);
	assert_next(-1);
	/* Node 0 was in line for this round before node 3 came. */
	assert_next(0);
	assert_next(3);
	assert_next(2);
	assert_next(-1);
}

static void test_rotation_outcomes(void **state)
{
	begin_rotation(3);
	assert_next(0);
	host_rotation_note(&rot, &nodes[0], HOST_FRUITLESS);
	host_rotation_note(&rot, &nodes[2], HOST_EXCESS); /* overtakes in this round */
	assert_next(2);
	host_rotation_note(&rot, &nodes[2], HOST_EXCESS); /* had its turn: first in the next */
	assert_next(1);
	host_rotation_note(&rot, &nodes[1], HOST_IDLE);
	host_rotation_note(&rot, &nodes[1], HOST_IDLE);
	assert_next(-1);
	assert_int_equal(rot.nr_parked, 1);
	assert_next(2);
	assert_next(0); /* last, after one round */
	host_rotation_note(&rot, &nodes[0], HOST_FRUITLESS);
	assert_next(-1);
	assert_next(2);
	host_rotation_wake(&rot, &nodes[1]);
	host_rotation_wake(&rot, &nodes[2]); /* not parked: nothing */
	assert_next(-1);
	assert_next(2);
	assert_next(1);
	assert_next(0); /* after two */
	host_rotation_note(&rot, &nodes[0], HOST_WORKED);
	assert_next(-1);
	assert_next(2);
	assert_next(1);
	assert_next(0);
	host_rotation_note(&rot, &nodes[0], HOST_FRUITLESS); /* and from one again */
	assert_next(-1);
	assert_next(2);
	assert_next(1);
	assert_next(0);
}

static void test_rotation_empty(void **state)
{
	begin_rotation(0);
	assert_next(-1);
	host_rotation_leave(&rot, &nodes[0]);
	host_rotation_enter(&rot, &nodes[0]);
	host_rotation_note(&rot, &nodes[0], HOST_IDLE);
	for (uint32_t i = 0; i < 20; i++)
		assert_next(-1);
	host_rotation_note(&rot, &nodes[0], HOST_EXCESS);
	assert_next(0);
	host_rotation_leave(&rot, &nodes[0]);
	assert_next(-1);
	assert_int_equal(rot.nr_guests, 0);
}

/* A thousand idle guests beside three busy ones cost no visit. */
static void test_rotation_idle_guests_cost_nothing(void **state)
{
	uint64_t visits;

	begin_rotation(NODES);
	for (uint32_t round = 0; round < 20; round++) {
		struct host_node *node;

		visits = rot.visits;
		while ((node = host_rotation_next(&rot)))
			host_rotation_note(&rot, node, node < &nodes[3] ? HOST_WORKED : HOST_IDLE);
		if (round > 0)
			assert_int_equal(rot.visits - visits, 3);
	}
	/* Fruitless ones cost a quarter of a visit a round in the end. */
	begin_rotation(NODES);
	for (uint32_t round = 0; round < 40; round++) {
		struct host_node *node;

		if (round == 20)
			visits = rot.visits;
		while ((node = host_rotation_next(&rot)))
			host_rotation_note(&rot, node, HOST_FRUITLESS);
	}
	assert_int_equal(rot.visits - visits, 20 / HOST_DELAY_MAX * NODES);
}

static bool is_in(const struct host_node *node)
{
	return node->next || node->is_parked;
}

static void rand_event(struct host_node *node)
{
	switch (is_in(node) ? rand_below(8) : 0) {
	case 0:
		if (is_in(node))
			host_rotation_leave(&rot, node);
		else
			host_rotation_enter(&rot, node);
		break;
	case 1:
		host_rotation_wake(&rot, node);
		break;
	default:
		host_rotation_note(&rot, node, (enum host_outcome)rand_below(4));
	}
}

/*
 * Whatever happens between turns: a guest has one turn a round at most, and waits for
 * HOST_DELAY_MAX rounds at most since its last one, or since it entered, was woken, or was last
 * told to wait.
 */
static void test_random_rotation(void **state)
{
	uint64_t visited[NODES] = {0}, since[NODES] = {0};
	uint32_t turns = 0;

	begin_rotation(NODES / 2);
	for (uint32_t run = 0; run < 10 * RUNS; run++) {
		struct host_node *node;
		uint32_t i = (uint32_t)rand_below(NODES);

		if (rand_below(3) == 0) {
			bool waited = is_in(&nodes[i]) && !nodes[i].is_parked;

			rand_event(&nodes[i]);
			if (!waited || nodes[i].bin == HOST_BIN_TAIL)
				since[i] = rot.rounds;
			if (!is_in(&nodes[i]))
				visited[i] = 0; /* should it come again, it is a new guest */
			continue;
		}
		if (run % 16 == 0)
			assert_true(host_rotation_verify(&rot));
		if (nodes[i].next)
			assert_true(rot.rounds - since[i] <= HOST_DELAY_MAX);
		node = host_rotation_next(&rot);
		if (!node)
			continue;
		i = (uint32_t)(node - nodes);
		assert_true(is_in(node) && visited[i] != rot.rounds + 1);
		visited[i] = rot.rounds + 1;
		since[i] = rot.rounds;
		turns++;
	}
	assert_true(rot.rounds > 100 && turns > RUNS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rotation_rounds),
		cmocka_unit_test(test_rotation_outcomes),
		cmocka_unit_test(test_rotation_empty),
		cmocka_unit_test(test_rotation_idle_guests_cost_nothing),
		cmocka_unit_test(test_random_rotation),
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
