/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pacer.h - when to look at accessed bits, and how long a unit of reuse is.
 */
#ifndef RECLAIM_PACER_H
#define RECLAIM_PACER_H

#include <ebb/reclaim.h>

/**
 * struct pacer - times in ns
 * @pass_ns: end of the last pass
 * @regular_ns: end of the last one that was not extra
 * @round_ns: when the present round began
 * @rounds: passes of this round so far
 * @unit_ns: the time in which most of what is resident is touched once
 * @faults: since the last pass
 * @fault_rate: usual faults per ns
 * @extra: extra passes since the last regular one
 * @idle: regular passes in a row in which nothing happened
 * @cost_ns: average cost of a pass
 * @asked: a pass is wanted now, whatever for
 */
struct pacer {
	uint64_t pass_ns;
	uint64_t regular_ns;
	uint64_t round_ns;
	uint32_t rounds;
	double unit_ns;
	uint64_t faults;
	double fault_rate;
	uint32_t extra;
	uint32_t idle;
	double cost_ns;
	bool asked;
	uint32_t first; /* passes since the start, up to PACER_FIRST ... */
	uint32_t warm;	/* ... and after those, up to a few */
};

void pacer_init(struct pacer *p, uint64_t now_ns, uint64_t period_ns);

/** pacer_is_due() - is a pass worth its cost? @ret_reason: why, if so */
bool pacer_is_due(const struct pacer *p, const struct reclaim_policy *policy, uint32_t capacity,
		  uint64_t now_ns, enum reclaim_reason *ret_reason);

#define PACER_FIRST 2u /* passes until anything is known of pages that were there before */

/** pacer_is_warm() - have there been enough passes for rates to mean something? */
bool pacer_is_warm(const struct pacer *p);

/** pacer_end_pass() - a pass has ended that was made for @reason and cost @cost_ns */
void pacer_end_pass(struct pacer *p, enum reclaim_reason reason, uint32_t capacity,
		    uint64_t now_ns, uint64_t cost_ns);

/**
 * pacer_round_ends() - is this pass the last of its round?
 * @counted: of the @resident pages, those touched in it
 */
bool pacer_round_ends(struct pacer *p, const struct reclaim_policy *policy, uint32_t counted,
		      uint32_t resident, uint64_t now_ns);

#endif
