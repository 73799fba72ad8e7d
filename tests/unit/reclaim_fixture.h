/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reclaim_fixture.h - a core behind its door, its time, its passes, and an evictor that always succeeds.
 */
#ifndef TEST_RECLAIM_FIXTURE_H
#define TEST_RECLAIM_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ebb/reclaim.h>

#define ROOM 64
#define SEC  1000000000ULL

static void *mem;
static struct reclaim *r;
static struct page_run runs[ROOM];
static struct reclaim_conf conf;
static uint64_t now;

static inline void make(uint32_t nr_pages, enum reclaim_order order, enum reclaim_scan_cost cost)
{
	size_t size = (reclaim_size(nr_pages) + 63) / 64 * 64;

	free(mem);
	mem = aligned_alloc(64, size);
	assert_non_null(mem);
	memset(mem, 0, size);
	conf = (struct reclaim_conf) {
		.nr_pages = nr_pages,
		.seed = 1,
		.scan_cost = cost,
		.policy = reclaim_policy_default(),
	};
	conf.policy.order = order;
	conf.policy.scan_permille = 0;
	now = SEC;
	r = reclaim_init(mem, size, &conf, now);
	assert_non_null(r);
}

static inline int teardown(void **state)
{
	free(mem);
	mem = NULL;
	return 0;
}

static inline void after(uint64_t ns)
{
	now += ns;
	reclaim_tick(r, now);
}

static inline struct reclaim_stats stats(void)
{
	struct reclaim_stats s;

	assert_true(reclaim_verify(r));
	reclaim_get_stats(r, &s);
	return s;
}

static inline struct reclaim_page page(uint32_t idx)
{
	struct reclaim_page p;

	reclaim_get_page(r, idx, &p);
	return p;
}

/* A full pass a period later that finds pages @first..@first + @nr - 1 young. */
static inline void pass(uint32_t first, uint32_t nr)
{
	uint64_t word;

	after(conf.policy.period_ns);
	reclaim_begin_pass(r, true);
	for (uint32_t w = 0; w < (conf.nr_pages + 63) / 64; w++) {
		word = 0;
		for (uint32_t b = 0; b < 64; b++)
			if (w * 64 + b >= first && w * 64 + b < first + nr)
				word |= 1ull << b;
		reclaim_note_young(r, w * 64, &word, 1);
	}
	reclaim_end_pass(r, 0);
}

static inline void evict_run(uint32_t first, uint32_t nr)
{
	for (uint32_t p = first; p < first + nr; p++)
		reclaim_note_evicted(r, p);
}

/* Pick and evict until nothing is left that may go; returns how many pages of @first.. went. */
static inline uint32_t evict_all(uint32_t max, bool urgent, uint32_t first, uint32_t nr)
{
	uint32_t found = 0, n;

	while (max && ((n = reclaim_pick(r, runs, ROOM, max, urgent)) || reclaim_is_searching(r)))
		for (uint32_t i = 0; i < n; i++) {
			for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++)
				found += p >= first && p < first + nr;
			evict_run(runs[i].first, runs[i].nr);
			max -= runs[i].nr;
		}
	return found;
}

#endif
