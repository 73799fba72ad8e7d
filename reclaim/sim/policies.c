// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policies.c - the list of policies, and what the ebb core is run with unless told otherwise.
 */
#include "sim.h"

const struct sim_policy *const sim_policies[] = {
	&sim_ebb,   &sim_mglru, &sim_lru, &sim_clock, &sim_two_list, &sim_arc, &sim_s3fifo,
	&sim_sieve, &sim_lirs,	&sim_lfu, &sim_a0,    &sim_min,	     NULL,
};

struct sim_knobs sim_knobs_default(void)
{
	struct reclaim_policy policy = reclaim_policy_default();

	return (struct sim_knobs) {
		.order = policy.order,
		.features = policy.features,
		.min_period = 1.0 / 16,
	};
}
