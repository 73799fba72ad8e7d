/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_hist.h - latency histogram of the benchmarks: 64 buckets for each power of two, good to 1.6 %.
 *
 * Finer than the daemon's own (vmm/hist.h), because two medians a few microseconds apart are compared.
 */
#ifndef TESTS_BENCH_HIST_H
#define TESTS_BENCH_HIST_H

#include <stdint.h>

#define BENCH_HIST_SUB	   64u
#define BENCH_HIST_SHIFT   6
#define BENCH_HIST_BUCKETS (40u * BENCH_HIST_SUB) /* up to 2^45 ns: ten hours */

struct bench_hist {
	uint64_t count[BENCH_HIST_BUCKETS];
	uint64_t total, sum_ns, max_ns;
};

static inline unsigned int bench_hist_bucket(uint64_t ns)
{
	unsigned int log, bucket;

	if (ns < BENCH_HIST_SUB)
		return (unsigned int)ns;
	log = 63 - (unsigned int)__builtin_clzll(ns);
	bucket = (log - BENCH_HIST_SHIFT + 1) * BENCH_HIST_SUB +
		 (unsigned int)(ns >> (log - BENCH_HIST_SHIFT)) - BENCH_HIST_SUB;
	return bucket < BENCH_HIST_BUCKETS ? bucket : BENCH_HIST_BUCKETS - 1;
}

/* The middle of a bucket. */
static inline double bench_hist_value(unsigned int bucket)
{
	unsigned int group = bucket / BENCH_HIST_SUB, sub = bucket % BENCH_HIST_SUB;

	if (group == 0)
		return bucket;
	return ((double)(BENCH_HIST_SUB + sub) + 0.5) * (double)(1ull << (group - 1));
}

static inline void bench_hist_add(struct bench_hist *h, uint64_t ns)
{
	h->count[bench_hist_bucket(ns)]++;
	h->total++;
	h->sum_ns += ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

static inline void bench_hist_merge(struct bench_hist *to, const struct bench_hist *from)
{
	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++)
		to->count[i] += from->count[i];
	to->total += from->total;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
}

/** bench_hist_quantile() - in microseconds; 0 when empty */
static inline double bench_hist_quantile(const struct bench_hist *h, double q)
{
	double want = q * (double)h->total;
	uint64_t seen = 0;

	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++) {
		seen += h->count[i];
		if (h->count[i] && (double)seen >= want)
			return bench_hist_value(i) / 1e3;
	}
	return 0;
}

#endif
