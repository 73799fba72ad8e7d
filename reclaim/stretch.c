// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stretch.c - which stretches of memory a pass looks at, and which it takes for what they were.
 *
 * DOC: scan economy
 *
 * A pass over everything pays most where it learns least. Where each page looked at costs, that is
 * cold memory: the multi-gen LRU skips it with Bloom filters over page tables. Where each page found
 * young costs, since it is unmapped to see whether it comes back, it is memory that is hot all the
 * time, and the guest pays. In both cases the answer of the last looks is the best guess for the
 * next one. So a stretch of 2 MiB keeps a streak, the number of looks in a row that gave the dear
 * answer (no page young, or nearly all); after two of them it is looked at in every 2nd pass, then
 * every 4th, and is taken to be as it was in between. Its accessed bits stay set until they are
 * read, so nothing is lost, only learned up to three passes later; a page that enters the
 * stretch, or one of it seen young just before its eviction, ends the streak at once.
 *
 * Which of its passes a stretch waits for depends on its number, so that the looks spread evenly.
 */
#include "stretch.h"

#define STREAK_MAX 8u
#define MAX_SKIP   2u /* log2 of the passes between looks, at most */
#define HOT_SHARE  8u /* hot: at most 1/8 of the pages not young */

static uint32_t nr_stretches(uint32_t nr_pages)
{
	return (nr_pages - 1) / RECLAIM_STRETCH + 1;
}

size_t stretches_size(uint32_t nr_pages)
{
	return nr_stretches(nr_pages);
}

void stretches_init(struct stretches *st, void *mem, uint32_t nr_pages, enum reclaim_scan_cost cost)
{
	*st = (struct stretches) {.streak = mem, .nr = nr_stretches(nr_pages), .cost = cost};
}

void stretches_begin_pass(struct stretches *st, bool full)
{
	st->pass++;
	st->next = 0;
	st->full = full;
}

bool stretches_is_due(const struct stretches *st, uint32_t s)
{
	uint32_t skip = MIN(st->streak[s] / 2u, MAX_SKIP);

	return st->full || (st->pass + s) % (1u << skip) == 0;
}

void stretches_note_look(struct stretches *st, uint32_t s, uint32_t resident, uint32_t young)
{
	bool dear = st->cost == RECLAIM_SCAN_PER_PAGE ?
			    !young :
			    resident && (resident - young) * HOT_SHARE <= resident;

	if (!dear)
		st->streak[s] = 0;
	else if (st->streak[s] < STREAK_MAX)
		st->streak[s]++;
}
