// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * s3fifo.c - three FIFO queues: small, main and ghosts.
 *
 * A new page enters the small queue, a tenth of all; it goes on to the main one only if it was
 * touched at least twice meanwhile, else only its name is kept, and coming back it enters the main
 * queue. That one gives a further round for each touch, up to three (J. Yang, Y. Zhang, Z. Qiu,
 * Y. Yue, R. Vinayak, "FIFO queues are all you need for cache eviction", SOSP 2023).
 */
#include <stdlib.h>
#include "list.h"

#define COUNT_MAX   3u
#define SMALL_SHARE 10u

enum s3_list {
	S3_NONE,
	S3_SMALL,
	S3_MAIN,
	S3_GHOST,
	S3_NR_LISTS,
};

struct s3 {
	struct lists lists;
	uint32_t nr_pages, limit, small;
	uint32_t count[S3_NR_LISTS];
	uint8_t *where, *touched;
};

static void *s3_create(const struct sim_setup *setup)
{
	struct s3 *s3 = sim_alloc(1, sizeof(*s3));

	s3->nr_pages = setup->workload->nr_pages;
	s3->limit = setup->limit;
	s3->small = s3->limit / SMALL_SHARE;
	lists_init(&s3->lists, s3->nr_pages, S3_NR_LISTS);
	s3->where = sim_alloc(s3->nr_pages, 1);
	s3->touched = sim_alloc(s3->nr_pages, 1);
	return s3;
}

static void s3_move(struct s3 *s3, uint32_t page, enum s3_list to)
{
	enum s3_list from = s3->where[page];

	if (from != S3_NONE) {
		lists_remove(&s3->lists, page);
		s3->count[from]--;
	}
	if (to != S3_NONE) {
		lists_add_first(&s3->lists, s3->nr_pages + to, page);
		s3->count[to]++;
	}
	s3->where[page] = to;
}

static uint32_t s3_oldest(const struct s3 *s3, enum s3_list list)
{
	return lists_last(&s3->lists, s3->nr_pages + list);
}

static void s3_leave_small(struct s3 *s3)
{
	uint32_t page = s3_oldest(s3, S3_SMALL);

	if (s3->touched[page] > 1) {
		s3->touched[page] = 0;
		s3_move(s3, page, S3_MAIN);
		return;
	}
	s3_move(s3, page, S3_GHOST);
	if (s3->count[S3_GHOST] > s3->limit)
		s3_move(s3, s3_oldest(s3, S3_GHOST), S3_NONE);
}

static void s3_leave_main(struct s3 *s3)
{
	uint32_t page = s3_oldest(s3, S3_MAIN);

	if (!s3->touched[page]) {
		s3_move(s3, page, S3_NONE);
		return;
	}
	s3->touched[page]--;
	s3_move(s3, page, S3_MAIN);
}

static bool s3_access(void *state, uint32_t at, uint32_t page)
{
	struct s3 *s3 = state;
	enum s3_list where = s3->where[page];

	if (where == S3_SMALL || where == S3_MAIN) {
		s3->touched[page] += s3->touched[page] < COUNT_MAX;
		return true;
	}
	while (s3->count[S3_SMALL] + s3->count[S3_MAIN] >= s3->limit) {
		if (s3->count[S3_SMALL] >= s3->small && s3->count[S3_SMALL])
			s3_leave_small(s3);
		else
			s3_leave_main(s3);
	}
	s3->touched[page] = 0;
	/* Making room may have pushed its own name out of the ghosts: that counts. */
	s3_move(s3, page, s3->where[page] == S3_GHOST ? S3_MAIN : S3_SMALL);
	return false;
}

static void s3_forget(void *state, uint32_t page)
{
	s3_move(state, page, S3_NONE);
}

static void s3_destroy(void *state)
{
	struct s3 *s3 = state;

	lists_free(&s3->lists);
	free(s3->where);
	free(s3->touched);
	free(s3);
}

const struct sim_policy sim_s3fifo = {
	.name = "s3fifo",
	.about = "small, main and ghost FIFO",
	.create = s3_create,
	.access = s3_access,
	.forget = s3_forget,
	.destroy = s3_destroy,
};
