/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standin.h - the memory of the stand-in, what each of its pages must hold, and how that is checked.
 *
 * DOC: what a page may hold
 *
 * Each page has a generation outside the memory; the generation gives every word that is written (one in each
 * cache line). A page is in one of three minds:
 *
 *   EXACT   it holds its generation's words
 *   ZERO    it holds zeros: never written, or discarded and seen as zeros since
 *   LOOSE   discarded and not looked at since: its old words or zeros, nothing else, and not a mixture.
 *           The first look settles which, and from then on it must stay so.
 *
 * One thread at a time works on a page, so its mind needs no lock.
 */
#ifndef TESTS_STANDIN_H
#define TESTS_STANDIN_H

#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  4096u
#define WORDS (PAGE / 8)
#define STEP  8u /* words: one in each cache line is written and checked */

enum mind { EXACT, ZERO, LOOSE };

static char *mem;
static int mem_fd = -1;
static int dimm_fd = -1;      /* a second memfd, mapped behind the first: the last nr_dimm pages */
static uint64_t nr_dimm;
static uint64_t nr_pages;   /* all; the threads touch the first nr_touched */
static uint64_t nr_touched;
static uint8_t *gens, *minds;
static _Atomic uint64_t mismatches;

static inline uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ull;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44dull;
	return x ^ x >> 33;
}

static inline uint64_t word_of(uint64_t page, unsigned int gen, unsigned int i)
{
	/* Every 16th page is all zeros in its even generations. */
	if (page % 16 == 0 && gen % 2 == 0)
		return 0;
	return mix(page * 1000003 + gen * 512 + i);
}

static inline char *page_at(uint64_t page)
{
	return mem + page * PAGE;
}

static inline void fill_words(void *at, uint64_t page, unsigned int gen)
{
	volatile uint64_t *w = at;

	for (unsigned int i = 0; i < WORDS; i += STEP)
		w[i] = word_of(page, gen, i);
}

static inline uint8_t next_gen(uint64_t page)
{
	return (uint8_t)(gens[page] + 1);
}

static inline void write_page(uint64_t page, uint8_t gen)
{
	fill_words(page_at(page), page, gen);
	gens[page] = gen;
	minds[page] = EXACT;
}

/* The first word that is not as it must be, WORDS if all are. */
static inline unsigned int differs_from(uint64_t page, bool zero)
{
	const volatile uint64_t *w = (uint64_t *)page_at(page);

	for (unsigned int i = 0; i < WORDS; i += STEP)
		if (w[i] != (zero ? 0 : word_of(page, gens[page], i)))
			return i;
	return WORDS;
}

/* Returns whether the page holds what it must. */
static inline bool check_page(uint64_t page)
{
	bool zero = minds[page] == ZERO;
	unsigned int at = differs_from(page, zero);

	if (at < WORDS && minds[page] == LOOSE) {
		zero = true;
		at = differs_from(page, true);
	}
	if (at == WORDS) {
		minds[page] = zero ? ZERO : EXACT;
		return true;
	}
	if (atomic_fetch_add(&mismatches, 1) < 20) {
		printf("MISMATCH page %llu gen %u mind %u word %u got %llx want %llx\n",
		       (unsigned long long)page, gens[page], minds[page], at,
		       ((unsigned long long *)page_at(page))[at],
		       zero ? 0ull : (unsigned long long)word_of(page, gens[page], at));
		fflush(stdout);
	}
	return false;
}

enum discard {
	DISCARD_BALLOON, /* as QEMU does it: a hole, then madvise */
	DISCARD_PLAIN,	 /* madvise alone; what was evicted may be dropped */
	DISCARD_HARMLESS, /* madvise alone over memory that is all resident: nothing may change */
};

/* All of the pages must be in one memfd. */
static inline int punch_pages(uint64_t first, uint64_t nr)
{
	uint64_t dimm = nr_pages - nr_dimm;
	bool behind = nr_dimm && first >= dimm;

	return fallocate(behind ? dimm_fd : mem_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)((behind ? first - dimm : first) * PAGE), (off_t)(nr * PAGE));
}

static inline int discard_pages(uint64_t first, uint64_t nr, enum discard how)
{
	if (how == DISCARD_BALLOON && punch_pages(first, nr))
		return -1;
	if (madvise(page_at(first), nr * PAGE, MADV_DONTNEED))
		return -1;
	for (uint64_t p = first; how != DISCARD_HARMLESS && p < first + nr; p++)
		if (minds[p] == EXACT)
			minds[p] = LOOSE;
	return 0;
}

#endif
