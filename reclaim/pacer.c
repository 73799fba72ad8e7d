// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pacer.c - when to look at accessed bits, and how long a unit of reuse is.
 *
 * DOC: pacing
 *
 * Passes come at a regular period, and in between, at most three times, when faults since the last
 * one are clearly more than usual: something has changed, and what it changed to is not known yet.
 * The first two come as soon as they may: what was touched before the first one tells nothing.
 * A guest in which nothing is evicted and nothing faults learns nothing from a pass; its period
 * doubles, up to sixteenfold. Never sooner than min_period_ns, and never more often than the CPU
 * budget pays for, by the average cost of a pass.
 *
 * A *round* is a number of passes in which most resident pages (60 %) were touched at least once,
 * or sixteen passes if it takes longer. Frequencies count rounds, not passes: looking more often
 * must not make the same page look more frequent.
 *
 * The unit of reuse. Half-lives and durations of the policy make no sense in seconds: a guest may go
 * through its memory in a second or in an hour. Nobody counts its accesses; what can be seen is how
 * long a round takes, and that is the unit, averaged, between one and eight periods.
 */
#include "decay.h"
#include "pacer.h"

#define ROUND_SHARE    0.6
#define ROUND_PASSES   16u
#define UNIT_MOST      8.0 /* periods */
#define UNIT_STEP      0.3
#define FAULT_HALF     4.0 /* units of reuse */
#define SURGE	       1.5
#define COST_STEP      0.25
#define IDLE_MAX       4u /* log2 of how many periods an idle guest waits */
#define QUIET_SHARE    0.001
#define WARM	       3u


static const double surge_share[] = {0.03, 0.08, 0.2}; /* of memory, for each extra pass */

void pacer_init(struct pacer *p, uint64_t now_ns, uint64_t period_ns)
{
	*p = (struct pacer) {
		.pass_ns = now_ns,
		.regular_ns = now_ns,
		.round_ns = now_ns,
		.unit_ns = (double)period_ns,
	};
}

bool pacer_is_warm(const struct pacer *p)
{
	return p->warm >= WARM;
}

/* A fault here and there does not make a guest busy. */
static bool is_quiet(const struct pacer *p, uint32_t capacity)
{
	return p->faults <= QUIET_SHARE * capacity;
}

static bool is_regular_due(const struct pacer *p, const struct reclaim_policy *policy,
			   uint32_t capacity, uint64_t now_ns)
{
	uint32_t longer = is_quiet(p, capacity) ? p->idle : 0;

	/* The time is shifted, not the period, which may be as long as one likes. */
	return p->first < PACER_FIRST || (now_ns - p->regular_ns) >> longer >= policy->period_ns;
}

static bool is_surge(const struct pacer *p, uint32_t capacity, uint64_t now_ns)
{
	double usual = SURGE * p->fault_rate * (double)(now_ns - p->pass_ns);

	return pacer_is_warm(p) && p->extra < ARRAY_SIZE(surge_share) &&
	       (double)p->faults > usual + surge_share[p->extra] * capacity;
}

bool pacer_is_due(const struct pacer *p, const struct reclaim_policy *policy, uint32_t capacity,
		  uint64_t now_ns, enum reclaim_reason *ret_reason)
{
	uint64_t since = now_ns - p->pass_ns;

	if (since < policy->min_period_ns ||
	    (double)since * policy->scan_permille < p->cost_ns * 1000 * !!policy->scan_permille)
		return false;
	if (p->asked)
		*ret_reason = RECLAIM_PASS_EMERGENCY;
	else if (is_regular_due(p, policy, capacity, now_ns))
		*ret_reason = RECLAIM_PASS_PERIOD;
	else if (is_surge(p, capacity, now_ns))
		*ret_reason = RECLAIM_PASS_SURGE;
	else
		return false;
	return true;
}

void pacer_end_pass(struct pacer *p, enum reclaim_reason reason, uint32_t capacity,
		    uint64_t now_ns, uint64_t cost_ns)
{
	double len = (double)(now_ns - p->pass_ns + 1);
	double rate = (double)p->faults / len;
	double keep = decay_exp2(len / (FAULT_HALF * p->unit_ns));

	if (reason == RECLAIM_PASS_PERIOD) {
		p->idle = is_quiet(p, capacity) ? MIN(p->idle + 1, IDLE_MAX) : 0;
		p->regular_ns = now_ns;
		p->extra = 0;
	} else if (reason == RECLAIM_PASS_SURGE) {
		p->extra++;
	}
	p->fault_rate = pacer_is_warm(p) && p->fault_rate > 0 ?
				p->fault_rate * keep + rate * (1 - keep) :
				rate;
	p->cost_ns = p->first ? p->cost_ns + COST_STEP * ((double)cost_ns - p->cost_ns) :
			       (double)cost_ns;
	if (p->first < PACER_FIRST)
		p->first++;
	else
		p->warm = MIN(p->warm + 1, WARM);
	p->faults = 0;
	p->asked = false;
	p->pass_ns = now_ns;
}

bool pacer_round_ends(struct pacer *p, const struct reclaim_policy *policy, uint32_t counted,
		      uint32_t resident, uint64_t now_ns)
{
	double len = (double)(now_ns - p->round_ns);

	p->rounds++;
	if (counted < ROUND_SHARE * resident && p->rounds < ROUND_PASSES)
		return false;
	len = MIN(MAX(len, (double)policy->period_ns), UNIT_MOST * (double)policy->period_ns);
	p->unit_ns += UNIT_STEP * (len - p->unit_ns);
	p->rounds = 0;
	p->round_ns = now_ns;
	return true;
}
