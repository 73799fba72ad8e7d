/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decay.h - half-lives and logarithms, good to three digits, without a maths library.
 */
#ifndef RECLAIM_DECAY_H
#define RECLAIM_DECAY_H

#include <stdint.h>

/** decay_exp2() - 2^-@x for @x >= 0 */
static inline double decay_exp2(double x)
{
	uint32_t whole;
	double f;

	if (x >= 60)
		return 0;
	whole = (uint32_t)x;
	f = x - whole;
	f = 1 - f * (0.693147 - f * (0.240227 - f * (0.0555 - f * 0.00876)));
	return f / (double)(1ULL << whole);
}

/** decay_log2() - the logarithm to base 2 of @x, 0 < @x <= 1; not below -64 */
static inline double decay_log2(double x)
{
	double n = 0, z;

	while (x < 0.70710678 && n > -64) {
		x *= 2;
		n--;
	}
	z = (x - 1) / (x + 1);
	return n + 2.885390 * z * (1 + z * z * (1.0 / 3 + z * z * (1.0 / 5 + z * z / 7)));
}

/** decay_factor() - what is left after @dt of something with this half-life (not 0) */
static inline double decay_factor(uint64_t dt, double half_life)
{
	return decay_exp2((double)dt / half_life);
}

#endif
