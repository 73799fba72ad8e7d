// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * readahead.c - how many neighbours of a faulting page to bring back with it.
 *
 * DOC: windows
 *
 * A read of 16 pages takes hardly longer than a read of one, but each page brought back for
 * nothing pushes out another. So the window is earned: it starts at one page, doubles with each
 * fault where the last window ended, up to a maximum, and a fault anywhere else starts again at
 * one.
 *
 * A guest has several CPUs and each may be going through memory on its own, among others that jump
 * about. One window would be closed by the first stranger; there are a few, each a *stream*, and a
 * fault that goes on with none of them takes over the one used least recently.
 *
 * The pages after a window need not all be evicted: those still resident raise no fault, and the
 * next one is raised a little further on. A jump ahead shorter than the last window still counts
 * as sequential. A fault inside the last window does not: those pages were brought in, so either
 * they are gone again already, which speaks against reading ahead, or this is another pass.
 */
#include <assert.h>
#include <ebb/types.h>
#include "readahead.h"

/* The stream that @idx goes on with, or NULL. A stream never used has an empty window. */
static struct readahead_stream *find_sequential(struct readahead *ra, uint32_t idx)
{
	for (uint32_t i = 0; i < READAHEAD_NR_STREAMS; i++) {
		struct readahead_stream *s = &ra->streams[i];

		if (idx >= s->end && idx - s->end < s->end - s->first)
			return s;
	}
	return NULL;
}

/* The stream that read @idx before, else the one used least recently. */
static struct readahead_stream *find_victim(struct readahead *ra, uint32_t idx)
{
	struct readahead_stream *victim = &ra->streams[0];

	for (uint32_t i = 0; i < READAHEAD_NR_STREAMS; i++) {
		struct readahead_stream *s = &ra->streams[i];

		if (idx >= s->first && idx < s->end)
			return s;
		if (s->used < victim->used)
			victim = s;
	}
	return victim;
}

uint32_t readahead_fault(struct readahead *ra, uint32_t idx)
{
	struct readahead_stream *s = find_sequential(ra, idx);
	uint32_t window = 1;

	assert(idx < ra->nr_pages && ra->max >= 1 && ra->max <= READAHEAD_MAX);
	if (s)
		window = MIN(2 * (s->end - s->first), ra->max);
	else
		s = find_victim(ra, idx);
	window = MIN(window, ra->nr_pages - idx);
	s->first = idx;
	s->end = idx + window;
	s->used = ++ra->faults;
	return window - 1;
}
