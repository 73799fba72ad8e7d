// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * hist.c - latency histogram.
 */
#include "hist.h"

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int log;

	if (ns < 8)
		return (unsigned int)ns;
	log = 63 - (unsigned int)__builtin_clzll(ns);
	return (log - 2) * 8 + (unsigned int)(ns >> (log - 3) & 7);
}

static uint64_t bucket_edge(unsigned int b)
{
	unsigned int log;

	if (b < 8)
		return b;
	log = b / 8 + 2;
	return (1ull << log) + ((uint64_t)(b % 8 + 1) << (log - 3)) - 1;
}

static void bump(_Atomic uint64_t *v, uint64_t by)
{
	atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

void hist_add(struct hist *h, uint64_t ns)
{
	bump(&h->count[bucket_of(ns)], 1);
	bump(&h->total, 1);
	bump(&h->sum_ns, ns);
	if (ns > atomic_load_explicit(&h->max_ns, memory_order_relaxed))
		atomic_store_explicit(&h->max_ns, ns, memory_order_relaxed);
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	uint64_t total = atomic_load_explicit(&h->total, memory_order_relaxed), seen = 0;

	for (unsigned int b = 0; b < HIST_BUCKETS; b++) {
		seen += atomic_load_explicit(&h->count[b], memory_order_relaxed);
		if (seen && (double)seen >= q * (double)total)
			return bucket_edge(b);
	}
	return 0;
}
