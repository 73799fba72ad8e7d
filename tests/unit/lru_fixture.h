/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_fixture.h - pages of a guest without the door before them. EBB_SEED repeats a random run.
 */
#ifndef TEST_LRU_FIXTURE_H
#define TEST_LRU_FIXTURE_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include <reclaim/lru_gen.h>

static struct lru_gen lru;
static void *lru_mem;
static uint64_t rng;

static inline void make_lru(uint32_t nr_pages)
{
	size_t size = (lru_gen_size(nr_pages) + 63) / 64 * 64;

	free(lru_mem);
	lru_mem = aligned_alloc(64, size);
	assert_non_null(lru_mem);
	memset(lru_mem, 0, size);
	lru_gen_init(&lru, lru_mem, nr_pages, 0);
}

static inline int drop_lru(void **state)
{
	free(lru_mem);
	lru_mem = NULL;
	return 0;
}

/** enter_as() - page @idx enters with this youth, after it was touched in @freq rounds */
static inline void enter_as(uint32_t idx, uint32_t youth, uint32_t freq)
{
	struct lru_word *word = lru_gen_word(&lru, idx / WORD_PAGES);

	lru_gen_enter(&lru, idx / WORD_PAGES, word_bit(idx), youth);
	while (freq--)
		word_count_touch(word, word_bit(idx));
}

static inline uint64_t rand64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* 0..n - 1 */
static inline uint32_t rand_below(uint32_t n)
{
	return (uint32_t)((rand64() >> 16) % n);
}

static inline void seed_random(void)
{
	const char *seed = getenv("EBB_SEED");
	uint64_t base = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);

	printf("EBB_SEED=%" PRIu64 "\n", base);
	fflush(stdout);
	rng = (base + 1) * 0x9e3779b97f4a7c15;
	rng = rng ? rng : 1;
}

#endif
