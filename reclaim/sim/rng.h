/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rng.h - repeatable chance: xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's
 * xorshift generators, scrambled", ACM TOMS 42(4), 2016), and draws from a discrete distribution.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdint.h>

static inline uint64_t rng_next(uint64_t *rng)
{
	uint64_t x = *rng;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*rng = x;
	return x * 0x2545F4914F6CDD1Dull;
}

/** rng_unit() - evenly in [0, 1) */
static inline double rng_unit(uint64_t *rng)
{
	return (double)(rng_next(rng) >> 11) * (1.0 / 9007199254740992.0);
}

/** rng_below() - evenly in 0..@n - 1 */
static inline uint32_t rng_below(uint64_t *rng, uint32_t n)
{
	return (uint32_t)(((rng_next(rng) >> 32) * (uint64_t)n) >> 32);
}

static inline void rng_shuffle(uint64_t *rng, uint32_t *a, uint32_t n)
{
	for (uint32_t i = n; i-- > 1;) {
		uint32_t j = rng_below(rng, i + 1), tmp = a[i];

		a[i] = a[j];
		a[j] = tmp;
	}
}

/** struct alias - Walker's alias table: an index with given weights in constant time */
struct alias {
	uint32_t n;
	float *keep; /* probability that the index drawn is the answer */
	uint32_t *other;
};

void alias_init(struct alias *alias, const double *weights, uint32_t n);
void alias_free(struct alias *alias);

static inline uint32_t alias_draw(const struct alias *alias, uint64_t *rng)
{
	uint32_t i = rng_below(rng, alias->n);

	return rng_unit(rng) < (double)alias->keep[i] ? i : alias->other[i];
}

#endif
