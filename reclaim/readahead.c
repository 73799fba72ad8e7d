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
 *
 * The maximum itself is earned too. A stream that looks sequential may be one that reads every other
 * page, or memory so short that what is read ahead is evicted before it is used. Each page that was
 * used is a point for, each that left unused two against; 64 points either way double or halve the
 * bound. It does not fall below two, for without any reading ahead nobody would learn better.
 */
#include <assert.h>
#include <ebb/types.h>
#include "readahead.h"

#define VERDICT	    64
#define WASTE_WEIGHT 2
#define BOUND_LEAST  2u

void readahead_set_max(struct readahead *ra, uint32_t max)
{
	assert(max >= 1 && max <= READAHEAD_MAX);
	ra->max = max;
	ra->bound = max;
	ra->score = 0;
}

void readahead_note_used(struct readahead *ra, uint32_t nr)
{
	ra->score += (int32_t)nr;
	if (ra->score < VERDICT)
		return;
	ra->bound = MIN(2 * ra->bound, ra->max);
	ra->score = 0;
}

void readahead_note_wasted(struct readahead *ra, uint32_t nr)
{
	ra->score -= (int32_t)nr * WASTE_WEIGHT;
	if (ra->score > -VERDICT)
		return;
	ra->bound = MIN(MAX(ra->bound / 2, BOUND_LEAST), ra->max);
	ra->score = 0;
}

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

	assert(idx < ra->nr_pages && ra->bound >= 1);
	if (s)
		window = MIN(2 * (s->end - s->first), ra->bound);
	else
		s = find_victim(ra, idx);
	window = MIN(window, ra->nr_pages - idx);
	s->first = idx;
	s->end = idx + window;
	s->used = ++ra->faults;
	return window - 1;
}
