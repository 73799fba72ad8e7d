/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hist.h - latency histogram: 8 buckets for each power of two of nanoseconds, good to 12 %.
 *
 * One writer; readers see counts that are at most a moment old.
 */
#ifndef VMM_HIST_H
#define VMM_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define HIST_BUCKETS (62 * 8)

struct hist {
	_Atomic uint64_t count[HIST_BUCKETS];
	_Atomic uint64_t total;
	_Atomic uint64_t sum_ns;
	_Atomic uint64_t max_ns;
};

void hist_add(struct hist *h, uint64_t ns);

/** hist_quantile() - upper edge, in ns, of the bucket holding quantile @q (0..1); 0 when empty */
uint64_t hist_quantile(const struct hist *h, double q);

#endif
