// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sieve.c - one FIFO queue and a hand that moves from its oldest to its newest page.
 *
 * Like CLOCK, but a page that is kept stays where it is, and new ones enter at the young end, not
 * where the hand is: what came in after the last round is looked at soon (Y. Zhang, J. Yang, Y. Yue,
 * Y. Vigfusson, R. Vinayak, "SIEVE is simpler than LRU", NSDI 2024).
 */
#include <stdlib.h>
#include "list.h"

enum {
	SIEVE_OUT,
	SIEVE_IN,
	SIEVE_VISITED,
};

struct sieve {
	struct lists lists;
	uint32_t head, hand; /* the hand at the head: begin at the oldest */
	uint32_t limit, resident;
	uint8_t *pages; /* SIEVE_* */
};

static void *sieve_create(const struct sim_setup *setup)
{
	uint32_t nr_pages = setup->workload->nr_pages;
	struct sieve *sieve = sim_alloc(1, sizeof(*sieve));

	lists_init(&sieve->lists, nr_pages, 1);
	sieve->head = sieve->hand = nr_pages;
	sieve->limit = setup->limit;
	sieve->pages = sim_alloc(nr_pages, 1);
	return sieve;
}

static void sieve_forget(void *state, uint32_t page)
{
	struct sieve *sieve = state;

	if (sieve->pages[page] == SIEVE_OUT)
		return;
	if (sieve->hand == page)
		sieve->hand = sieve->lists.prev[page];
	lists_remove(&sieve->lists, page);
	sieve->pages[page] = SIEVE_OUT;
	sieve->resident--;
}

static void sieve_evict(struct sieve *sieve)
{
	for (;;) {
		if (sieve->hand == sieve->head)
			sieve->hand = lists_last(&sieve->lists, sieve->head);
		if (sieve->pages[sieve->hand] != SIEVE_VISITED)
			break;
		sieve->pages[sieve->hand] = SIEVE_IN;
		sieve->hand = sieve->lists.prev[sieve->hand];
	}
	sieve_forget(sieve, sieve->hand);
}

static bool sieve_access(void *state, uint32_t at, uint32_t page)
{
	struct sieve *sieve = state;

	if (sieve->pages[page] != SIEVE_OUT) {
		sieve->pages[page] = SIEVE_VISITED;
		return true;
	}
	if (sieve->resident == sieve->limit)
		sieve_evict(sieve);
	lists_add_first(&sieve->lists, sieve->head, page);
	sieve->pages[page] = SIEVE_IN;
	sieve->resident++;
	return false;
}

static void sieve_destroy(void *state)
{
	struct sieve *sieve = state;

	lists_free(&sieve->lists);
	free(sieve->pages);
	free(sieve);
}

const struct sim_policy sim_sieve = {
	.name = "sieve",
	.about = "FIFO with a hand that leaves pages where they are",
	.create = sieve_create,
	.access = sieve_access,
	.forget = sieve_forget,
	.destroy = sieve_destroy,
};
