// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * commands_policy.c - query-policy and set-policy: the knobs of a guest, and what the policy makes of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <ebb/log.h>
#include "commands.h"
#include "policy.h"

const struct control_arg commands_args_set_policy[] = {
	{"name", ARG_STRING, false, "the guest"},
	{"order", ARG_STRING, true, "auto, generations or frequency"},
	{"aging", ARG_BOOL, true, "passes of the sampler and new generations"},
	{"eviction", ARG_BOOL, true, "evict pages"},
	{"tiers", ARG_BOOL, true, "protect kinds of pages that come back more than others"},
	{"readahead", ARG_BOOL, true, "read neighbours of a page that comes back"},
	{"period-ms", ARG_INT, true, "between passes near the limit"},
	{"min-period-ms", ARG_INT, true, "shortest time between passes"},
	{"scan-permille", ARG_INT, true, "what passes may cost, of one CPU; 0 = any"},
	{"min-ttl-ms", ARG_INT, true, "protect pages touched less than this ago"},
	{"readahead-max", ARG_INT, true, "pages of a read-ahead window"},
	{0},
};

static json_t *knobs_json(const struct reclaim_policy *policy)
{
	json_t *o = json_object();

	for (const struct policy_knob *k = policy_knobs; k->name; k++) {
		uint64_t value = k->kind == POLICY_ORDER ? 0 : policy_get_number(policy, k);
		json_t *v = k->kind == POLICY_ORDER  ? json_string(policy_order_name(policy->order)) :
			    k->kind == POLICY_SWITCH ? json_boolean(value) :
						       json_integer((json_int_t)value);

		json_object_set_new(o, k->name, v);
	}
	return o;
}

static json_t *tiers_json(const struct reclaim_stats *st)
{
	static const char *const hints[RECLAIM_NR_HINTS] = {"none", "file", "anon", "kernel"};
	json_t *list = json_array();

	for (uint32_t i = 0; i < RECLAIM_NR_TIERS; i++)
		json_array_append_new(
			list, json_pack("{s:s,s:b,s:f,s:f,s:b}", "hint", hints[i % RECLAIM_NR_HINTS],
					"refaulted-near", i >= RECLAIM_NR_HINTS, "evicted",
					st->tiers[i].evicted, "refaulted", st->tiers[i].refaulted,
					"protected", st->tiers[i].is_protected));
	return list;
}

static json_int_t number(uint64_t value)
{
	return (json_int_t)value;
}

static json_t *state_json(const struct reclaim_stats *st)
{
	json_t *o = json_pack("{s:s,s:b,s:b,s:I,s:I,s:I,s:f,s:f}", "order", policy_order_name(st->order),
			      "emergency", st->emergency, "thrashing", st->thrashing, "unit-ms",
			      number(st->unit_ns / 1000000), "probation", number(st->probation),
			      "probation-target", number(st->probation_target), "loss-generations",
			      st->loss_generations, "loss-frequency", st->loss_frequency);

	json_object_set_new(o, "passes",
			    json_pack("{s:I,s:I,s:I,s:I}", "period", number(st->passes[RECLAIM_PASS_PERIOD]),
				      "surge", number(st->passes[RECLAIM_PASS_SURGE]), "emergency",
				      number(st->passes[RECLAIM_PASS_EMERGENCY]), "asked",
				      number(st->passes[RECLAIM_PASS_ASKED])));
	json_object_set_new(o, "counters",
			    json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "agings",
				      number(st->agings), "promoted", number(st->promoted), "refaults",
				      number(st->refaults), "refaults-near", number(st->refaults_near),
				      "emergencies", number(st->emergencies), "graduated",
				      number(st->graduated), "tier-protected", number(st->tier_protected),
				      "young-spared", number(st->young_skipped), "readahead-used",
				      number(st->ahead_used), "readahead-wasted", number(st->ahead_wasted),
				      "stretches-skipped", number(st->stretches_skipped)));
	json_object_set_new(o, "tiers", tiers_json(st));
	return o;
}

static int query(struct guest *g, json_t *args, struct control_reply *reply)
{
	struct reclaim_stats st;
	struct reclaim_policy policy;

	(void)args;
	guest_lock_lru(g);
	reclaim_get_stats(g->lru, &st);
	policy = g->policy;
	guest_unlock_lru(g);
	reply->value = json_pack("{s:o,s:o}", "knobs", knobs_json(&policy), "state", state_json(&st));
	return 0;
}

int commands_query_policy(void *daemon, json_t *args, struct control_reply *reply)
{
	return commands_with_guest(daemon, args, reply, query);
}

/* All knobs that @args names, into @policy. */
static int take_knobs(struct reclaim_policy *policy, json_t *args, struct ebb_err *err)
{
	char text[32];
	int rc = 0;

	for (const struct policy_knob *k = policy_knobs; k->name && !rc; k++) {
		json_t *v = json_object_get(args, k->name);

		if (!v)
			continue;
		if (json_is_boolean(v))
			snprintf(text, sizeof(text), "%s", json_is_true(v) ? "on" : "off");
		else
			snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		rc = policy_set_knob(policy, k->name, json_is_string(v) ? json_string_value(v) : text, err);
	}
	return rc ? rc : policy_check(policy, err);
}

static int set(struct guest *g, json_t *args, struct control_reply *reply)
{
	struct reclaim_policy policy;
	int rc;

	if (g->busy)
		return commands_busy(reply, g->name);
	guest_lock_lru(g);
	policy = g->policy;
	guest_unlock_lru(g);
	rc = take_knobs(&policy, args, &reply->err);
	if (rc)
		return rc;
	guest_lock_lru(g);
	rc = reclaim_set_policy(g->lru, &policy);
	if (!rc)
		g->policy = policy;
	guest_unlock_lru(g);
	if (rc)
		return ebb_err_set(&reply->err, rc, "the reclaim core refused these values");
	log_info("%s: policy changed", g->name);
	guest_kick(g->evictor_kick);
	guest_kick(g->fault_kick);
	reply->value = json_pack("{s:o}", "knobs", knobs_json(&policy));
	return 0;
}

int commands_set_policy(void *daemon, json_t *args, struct control_reply *reply)
{
	return commands_with_guest(daemon, args, reply, set);
}
