/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * readahead.h - how many neighbours of a faulting page to bring back with it.
 */
#ifndef RECLAIM_READAHEAD_H
#define RECLAIM_READAHEAD_H

#include <stdint.h>

#define READAHEAD_MAX	     64 /* pages, the faulting one included */
#define READAHEAD_NR_STREAMS 8

/**
 * struct readahead_stream - one reader that may be going through memory
 * @first: where the last window began
 * @end: first page after the last window: a fault there, or a little beyond, is the next of it
 * @used: when, in faults; the stream with the smallest is given to the next newcomer
 */
struct readahead_stream {
	uint32_t first;
	uint32_t end;
	uint64_t used;
};

/**
 * struct readahead - all zeros, but for @nr_pages and the bounds, is the state at the start
 * @max: largest window, the faulting page included; 1 = off, up to READAHEAD_MAX
 * @bound: largest window at present, by what became of earlier ones; 2..@max, or 1 = off
 * @score: pages used since @bound changed, minus what was wasted
 */
struct readahead {
	uint32_t nr_pages;
	uint32_t max;
	uint32_t bound;
	int32_t score;
	uint64_t faults;
	struct readahead_stream streams[READAHEAD_NR_STREAMS];
};

/** readahead_set_max() - set the largest window; what was learned is forgotten */
void readahead_set_max(struct readahead *ra, uint32_t max);

/** readahead_note_used(), readahead_note_wasted() - what became of @nr pages read ahead */
void readahead_note_used(struct readahead *ra, uint32_t nr);
void readahead_note_wasted(struct readahead *ra, uint32_t nr);

/**
 * readahead_fault() - a page faulted: how many pages after it to read as well
 * @idx: below nr_pages
 *
 * Returns 0 to max - 1, never past the guest's end. The window counts as read, whether the caller
 * does it or not.
 */
uint32_t readahead_fault(struct readahead *ra, uint32_t idx);

#endif
