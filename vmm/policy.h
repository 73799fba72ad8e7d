/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy.h - the knobs of the reclaim policy by name: ebb-policy(7).
 */
#ifndef VMM_POLICY_H
#define VMM_POLICY_H

#include <ebb/reclaim.h>

enum policy_kind { POLICY_ORDER, POLICY_SWITCH, POLICY_NUMBER };

/** struct policy_knob - the table ends with a name of NULL */
struct policy_knob {
	const char *name;
	enum policy_kind kind;
	uint64_t min, max; /* of a number */
};

extern const struct policy_knob policy_knobs[];

/**
 * policy_set_knob() - set one, as people write it: on and off, a number, the name of an order
 *
 * -EINVAL and a sentence that names the knob and what it takes; @policy is then as it was. Whether all
 * knobs together make sense is policy_check()'s question.
 */
int policy_set_knob(struct reclaim_policy *policy, const char *name, const char *value,
		    struct ebb_err *err);

/** policy_check() - the conditions between knobs */
int policy_check(const struct reclaim_policy *policy, struct ebb_err *err);

/** policy_get_number() - the value of a switch (0, 1) or number */
uint64_t policy_get_number(const struct reclaim_policy *policy, const struct policy_knob *knob);

/** policy_order_name() - "auto", "generations", "frequency" or "random" */
const char *policy_order_name(enum reclaim_order order);

#endif
