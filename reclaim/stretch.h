/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stretch.h - which stretches of memory a pass looks at, and which it takes for what they were.
 */
#ifndef RECLAIM_STRETCH_H
#define RECLAIM_STRETCH_H

#include <ebb/reclaim.h>

/** struct stretches - one byte for each: how many looks in a row gave the answer that allows skipping */
struct stretches {
	uint8_t *streak;
	uint32_t nr;
	uint32_t pass;
	uint32_t next; /* of this pass */
	enum reclaim_scan_cost cost;
	bool full;
};

size_t stretches_size(uint32_t nr_pages);
void stretches_init(struct stretches *st, void *mem, uint32_t nr_pages, enum reclaim_scan_cost cost);

/** stretches_begin_pass() - @full: nothing is skipped in this pass */
void stretches_begin_pass(struct stretches *st, bool full);

/** stretches_is_due() - is stretch @s looked at in this pass? */
bool stretches_is_due(const struct stretches *st, uint32_t s);

/** stretches_note_look() - of @resident pages in stretch @s, @young were young */
void stretches_note_look(struct stretches *st, uint32_t s, uint32_t resident, uint32_t young);

/** stretches_note_change() - something happened in stretch @s: look again soon */
static inline void stretches_note_change(struct stretches *st, uint32_t s)
{
	if (st->streak[s])
		st->streak[s] = 0;
}

#endif
