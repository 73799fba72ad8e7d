// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_sim_policies.c - the simulator's baselines against slow likenesses written from the papers.
 *
 * The likenesses keep plain arrays in the order of the lists and look through all of them at every
 * access; of short random workloads each single access must be a hit or a miss on both sides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim_fixture.h"

#define ROUNDS 400u

/* --- arrays as lists ------------------------------------------------------------------------ */

struct array {
	uint32_t page[2 * PAGES];
	uint32_t nr; /* page[0] is the newest */
};

static int array_find(const struct array *a, uint32_t page)
{
	for (uint32_t i = 0; i < a->nr; i++)
		if (a->page[i] == page)
			return (int)i;
	return -1;
}

static bool array_has(const struct array *a, uint32_t page)
{
	return array_find(a, page) >= 0;
}

static bool array_take(struct array *a, uint32_t page)
{
	int i = array_find(a, page);

	if (i < 0)
		return false;
	a->nr--;
	memmove(&a->page[i], &a->page[i + 1], (a->nr - (uint32_t)i) * sizeof(*a->page));
	return true;
}

static void array_push(struct array *a, uint32_t page)
{
	memmove(&a->page[1], &a->page[0], a->nr * sizeof(*a->page));
	a->page[0] = page;
	a->nr++;
}

static uint32_t array_pop(struct array *a)
{
	assert_true(a->nr > 0);
	return a->page[--a->nr];
}

/* --- likenesses ----------------------------------------------------------------------------- */

struct likeness {
	uint32_t limit;
	struct array a, b, c, d; /* what they are for is each policy's own */
	uint32_t hand;
	double target;
	uint32_t clock;
	uint32_t stamp[PAGES];
	uint8_t flag[PAGES], flag2[PAGES];
};

static bool like_lru(struct likeness *l, uint32_t page)
{
	bool hit = array_take(&l->a, page);

	if (!hit && l->a.nr == l->limit)
		array_pop(&l->a);
	array_push(&l->a, page);
	return hit;
}

/* The queue of second chance: the same pages as a circle with a hand. flag: referenced */
static bool like_clock(struct likeness *l, uint32_t page)
{
	if (array_has(&l->a, page)) {
		l->flag[page] = 1;
		return true;
	}
	while (l->a.nr == l->limit) {
		uint32_t old = array_pop(&l->a);

		if (l->flag[old])
			array_push(&l->a, old);
		l->flag[old] = 0;
	}
	array_push(&l->a, page);
	l->flag[page] = 0;
	return false;
}

/* flag: visited; hand: the page it is at, SIM_NEVER: begin at the oldest */
static bool like_sieve(struct likeness *l, uint32_t page)
{
	if (array_has(&l->a, page)) {
		l->flag[page] = 1;
		return true;
	}
	if (l->a.nr == l->limit) {
		int at = array_find(&l->a, l->hand);
		uint32_t i = at >= 0 ? (uint32_t)at : l->a.nr - 1;

		while (l->flag[l->a.page[i]]) {
			l->flag[l->a.page[i]] = 0;
			i = i ? i - 1 : l->a.nr - 1;
		}
		l->hand = i ? l->a.page[i - 1] : SIM_NEVER;
		array_take(&l->a, l->a.page[i]);
	}
	array_push(&l->a, page);
	l->flag[page] = 0;
	return false;
}

/* a: small, b: main, c: ghosts, flag: touches */
static bool like_s3fifo(struct likeness *l, uint32_t page)
{
	if (array_has(&l->a, page) || array_has(&l->b, page)) {
		l->flag[page] = (uint8_t)MIN(l->flag[page] + 1, 3);
		return true;
	}
	while (l->a.nr + l->b.nr == l->limit) {
		if (l->a.nr && l->a.nr >= l->limit / 10) {
			uint32_t old = array_pop(&l->a);

			if (l->flag[old] > 1) {
				array_push(&l->b, old);
				l->flag[old] = 0;
				continue;
			}
			array_push(&l->c, old);
			if (l->c.nr > l->limit)
				array_pop(&l->c);
		} else {
			uint32_t old = array_pop(&l->b);

			if (l->flag[old]) {
				l->flag[old]--;
				array_push(&l->b, old);
			}
		}
	}
	l->flag[page] = 0;
	array_push(array_take(&l->c, page) ? &l->b : &l->a, page);
	return false;
}

/* a: T1, b: T2, c: B1, d: B2 */
static void like_arc_replace(struct likeness *l, bool in_b2)
{
	if (l->a.nr && (l->a.nr > l->target || (in_b2 && l->a.nr == (uint32_t)l->target)))
		array_push(&l->c, array_pop(&l->a));
	else if (l->b.nr)
		array_push(&l->d, array_pop(&l->b));
	else
		array_push(&l->c, array_pop(&l->a));
}

static void like_arc_ghost(struct likeness *l, uint32_t page, bool in_b2)
{
	double b1 = l->c.nr, b2 = l->d.nr;

	if (in_b2)
		l->target = MAX(0, l->target - MAX(1, b1 / b2));
	else
		l->target = MIN(l->limit, l->target + MAX(1, b2 / b1));
	if (l->a.nr + l->b.nr == l->limit)
		like_arc_replace(l, in_b2);
	array_take(in_b2 ? &l->d : &l->c, page);
	array_push(&l->b, page);
}

static bool like_arc(struct likeness *l, uint32_t page)
{
	uint32_t total = l->a.nr + l->b.nr + l->c.nr + l->d.nr;
	bool full = l->a.nr + l->b.nr == l->limit;

	if (array_take(&l->a, page) || array_take(&l->b, page)) {
		array_push(&l->b, page);
		return true;
	}
	if (array_has(&l->c, page) || array_has(&l->d, page)) {
		like_arc_ghost(l, page, array_has(&l->d, page));
		return false;
	}
	if (l->a.nr + l->c.nr == l->limit && l->a.nr == l->limit) {
		array_pop(&l->a);
	} else if (l->a.nr + l->c.nr == l->limit) {
		array_pop(&l->c);
		if (full)
			like_arc_replace(l, false);
	} else if (total >= l->limit) {
		if (total >= 2 * l->limit && l->d.nr)
			array_pop(&l->d);
		if (full)
			like_arc_replace(l, false);
	}
	array_push(&l->a, page);
	return false;
}

/* a: the stack, b: the queue of resident HIR pages, flag: LIR, flag2: resident */
static void like_lirs_prune(struct likeness *l)
{
	while (l->a.nr && !l->flag[l->a.page[l->a.nr - 1]])
		l->a.nr--;
}

static void like_lirs_make_lir(struct likeness *l, uint32_t page, uint32_t lir_max)
{
	uint32_t nr_lir = 0, bottom;

	array_take(&l->a, page);
	array_take(&l->b, page);
	array_push(&l->a, page);
	l->flag[page] = l->flag2[page] = 1;
	for (uint32_t i = 0; i < PAGES; i++)
		nr_lir += l->flag[i];
	if (nr_lir <= lir_max)
		return;
	bottom = array_pop(&l->a);
	l->flag[bottom] = 0;
	array_push(&l->b, bottom);
	like_lirs_prune(l);
}

static bool like_lirs(struct likeness *l, uint32_t page)
{
	uint32_t lir_max = l->limit - MAX(2, l->limit / 100);
	uint32_t nr_lir = 0;
	bool hit = l->flag2[page];

	for (uint32_t i = 0; i < PAGES; i++)
		nr_lir += l->flag[i];
	if (l->flag[page]) {
		array_take(&l->a, page);
		array_push(&l->a, page);
		like_lirs_prune(l);
		return true;
	}
	if (!hit && nr_lir + l->b.nr == l->limit)
		l->flag2[array_pop(&l->b)] = 0;
	if (array_has(&l->a, page) || (!hit && nr_lir < lir_max)) {
		like_lirs_make_lir(l, page, lir_max);
		return hit;
	}
	array_push(&l->a, page);
	array_take(&l->b, page);
	array_push(&l->b, page);
	l->flag2[page] = 1;
	return hit;
}

/* a: active, b: inactive, flag: accessed bit, flag2: referenced, stamp: 0 or eviction + 1 */
static void like_two_list_evict(struct likeness *l)
{
	for (;;) {
		uint32_t old;

		if (l->b.nr < l->a.nr || !l->b.nr) {
			old = array_pop(&l->a);
			l->flag[old] = l->flag2[old] = 0;
			array_push(&l->b, old);
			continue;
		}
		old = array_pop(&l->b);
		if (!l->flag[old]) {
			l->stamp[old] = ++l->clock;
			return;
		}
		l->flag[old] = 0;
		if (l->flag2[old]) {
			l->flag2[old] = 0;
			l->clock++;
			array_push(&l->a, old);
		} else {
			l->flag2[old] = 1;
			array_push(&l->b, old);
		}
	}
}

static bool like_two_list(struct likeness *l, uint32_t page)
{
	if (array_has(&l->a, page) || array_has(&l->b, page)) {
		l->flag[page] = 1;
		return true;
	}
	if (l->a.nr + l->b.nr == l->limit)
		like_two_list_evict(l);
	l->flag[page] = 1;
	l->flag2[page] = 0;
	if (l->stamp[page] && l->clock - (l->stamp[page] - 1) <= l->a.nr) {
		array_push(&l->a, page);
		l->clock++;
	} else {
		array_push(&l->b, page);
	}
	return false;
}

static void compare(const struct sim_policy *policy,
		    bool (*like)(struct likeness *l, uint32_t page), uint32_t limit_min)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t limit = limit_min + below(PAGES - 2 - limit_min);
		struct likeness l = {.limit = limit, .hand = SIM_NEVER};
		struct sim_workload w;
		struct sim_setup setup;
		void *state;

		make_workload(&w, PAGES, LENGTH);
		setup = make_setup(&w, limit);
		state = policy->create(&setup);
		for (uint32_t at = 0; at < w.nr_accesses; at++) {
			bool hit = policy->access(state, at, w.accesses[at]);

			if (hit != like(&l, w.accesses[at]))
				fail_msg("%s: limit %u, access %u of page %u: %s", policy->name,
					 limit, at, w.accesses[at], hit ? "hit" : "miss");
		}
		policy->destroy(state);
		sim_workload_free(&w);
	}
}

static void test_lru(void **state)
{
	compare(&sim_lru, like_lru, 1);
}

static void test_clock(void **state)
{
	compare(&sim_clock, like_clock, 1);
}

static void test_sieve(void **state)
{
	compare(&sim_sieve, like_sieve, 1);
}

static void test_s3fifo(void **state)
{
	compare(&sim_s3fifo, like_s3fifo, 1);
}

static void test_arc(void **state)
{
	compare(&sim_arc, like_arc, 1);
}

static void test_lirs(void **state)
{
	compare(&sim_lirs, like_lirs, 3);
}

static void test_two_list(void **state)
{
	compare(&sim_two_list, like_two_list, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lru),	 cmocka_unit_test(test_clock),
		cmocka_unit_test(test_sieve),	 cmocka_unit_test(test_s3fifo),
		cmocka_unit_test(test_arc),	 cmocka_unit_test(test_lirs),
		cmocka_unit_test(test_two_list),
	};

	seed_fixture();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
