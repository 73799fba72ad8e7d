// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy.c - the knobs of the reclaim policy by name: one table for the socket, the command line and what is shown.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "policy.h"

#define MS	    ((uint64_t)1000000)
#define MS_MOST	    (24 * 3600 * (uint64_t)1000)
#define AHEAD_MOST  64

const struct policy_knob policy_knobs[] = {
	{"order", POLICY_ORDER, 0, 0},
	{"aging", POLICY_SWITCH, 0, 1},
	{"eviction", POLICY_SWITCH, 0, 1},
	{"tiers", POLICY_SWITCH, 0, 1},
	{"readahead", POLICY_SWITCH, 0, 1},
	{"period-ms", POLICY_NUMBER, 1, MS_MOST},
	{"min-period-ms", POLICY_NUMBER, 0, MS_MOST},
	{"scan-permille", POLICY_NUMBER, 0, 1000},
	{"min-ttl-ms", POLICY_NUMBER, 0, MS_MOST},
	{"readahead-max", POLICY_NUMBER, 1, AHEAD_MOST},
	{0},
};

static const char *const order_names[RECLAIM_NR_ORDERS] = {
	[RECLAIM_ORDER_AUTO] = "auto",
	[RECLAIM_ORDER_GENERATIONS] = "generations",
	[RECLAIM_ORDER_FREQUENCY] = "frequency",
	[RECLAIM_ORDER_RANDOM] = "random",
};

const char *policy_order_name(enum reclaim_order order)
{
	return order_names[order];
}

static uint32_t feature_of(const char *name)
{
	if (!strcmp(name, "aging"))
		return RECLAIM_AGING;
	if (!strcmp(name, "eviction"))
		return RECLAIM_EVICTION;
	return !strcmp(name, "tiers") ? RECLAIM_TIERS : RECLAIM_AHEAD;
}

uint64_t policy_get_number(const struct reclaim_policy *p, const struct policy_knob *knob)
{
	if (knob->kind == POLICY_SWITCH)
		return !!(p->features & feature_of(knob->name));
	if (!strcmp(knob->name, "period-ms"))
		return p->period_ns / MS;
	if (!strcmp(knob->name, "min-period-ms"))
		return p->min_period_ns / MS;
	if (!strcmp(knob->name, "scan-permille"))
		return p->scan_permille;
	return !strcmp(knob->name, "min-ttl-ms") ? p->min_ttl_ns / MS : p->ahead_max;
}

static void set_number(struct reclaim_policy *p, const char *name, uint64_t value)
{
	if (!strcmp(name, "period-ms"))
		p->period_ns = value * MS;
	else if (!strcmp(name, "min-period-ms"))
		p->min_period_ns = value * MS;
	else if (!strcmp(name, "scan-permille"))
		p->scan_permille = (uint32_t)value;
	else if (!strcmp(name, "min-ttl-ms"))
		p->min_ttl_ns = value * MS;
	else
		p->ahead_max = (uint32_t)value;
}

static int set_order(struct reclaim_policy *p, const char *value, struct ebb_err *err)
{
	/* Random order is for debugging, and is ebbd's option. */
	for (uint32_t i = 0; i < RECLAIM_ORDER_RANDOM; i++) {
		if (strcmp(value, order_names[i]))
			continue;
		p->order = (enum reclaim_order)i;
		return 0;
	}
	return ebb_err_set(err, -EINVAL, "order is auto, generations or frequency, not '%.40s'", value);
}

static int parse_number(const struct policy_knob *knob, const char *value, uint64_t *ret,
			struct ebb_err *err)
{
	char *end;

	errno = 0;
	*ret = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || *ret < knob->min || *ret > knob->max)
		return ebb_err_set(err, -EINVAL, "%s is a number from %" PRIu64 " to %" PRIu64 ", not '%.40s'",
				   knob->name, knob->min, knob->max, value);
	return 0;
}

static int set_switch(struct reclaim_policy *p, const char *name, const char *value, struct ebb_err *err)
{
	if (!strcmp(value, "on"))
		p->features |= feature_of(name);
	else if (!strcmp(value, "off"))
		p->features &= ~feature_of(name);
	else
		return ebb_err_set(err, -EINVAL, "%s is on or off, not '%.40s'", name, value);
	return 0;
}

int policy_set_knob(struct reclaim_policy *policy, const char *name, const char *value, struct ebb_err *err)
{
	const struct policy_knob *knob = policy_knobs;
	uint64_t number;
	int rc;

	while (knob->name && strcmp(knob->name, name))
		knob++;
	if (!knob->name)
		return ebb_err_set(err, -EINVAL, "there is no knob '%.40s'; ebb-policy(7) lists them", name);
	if (knob->kind == POLICY_ORDER)
		return set_order(policy, value, err);
	if (knob->kind == POLICY_SWITCH)
		return set_switch(policy, name, value, err);
	rc = parse_number(knob, value, &number, err);
	if (!rc)
		set_number(policy, name, number);
	return rc;
}

int policy_check(const struct reclaim_policy *policy, struct ebb_err *err)
{
	if (policy->min_period_ns > policy->period_ns)
		return ebb_err_set(err, -EINVAL,
				   "min-period-ms (%" PRIu64 ") is above period-ms (%" PRIu64 "): no pass could come in time",
				   policy->min_period_ns / MS, policy->period_ns / MS);
	return 0;
}
