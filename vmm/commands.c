// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * commands.c - the commands of the control socket: each checks, acts on a guest, answers in JSON.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <ebb/log.h>
#include "commands.h"

static json_t *pages_json(uint32_t pages)
{
	return json_integer((json_int_t)pages_to_bytes(pages));
}

json_t *commands_limit_json(uint32_t pages)
{
	return pages == RECLAIM_NO_LIMIT ? json_null() : pages_json(pages);
}

static json_int_t counter(const _Atomic uint64_t *c)
{
	return (json_int_t)atomic_load_explicit(c, memory_order_relaxed);
}

static json_t *generations_json(struct guest *g)
{
	struct reclaim_stats st;
	uint64_t now = guest_now_ns();
	json_t *list = json_array();

	guest_lock_lru(g);
	reclaim_get_stats(g->lru, &st);
	guest_unlock_lru(g);
	for (uint32_t i = 0; i < st.nr_gens; i++)
		json_array_append_new(
			list, json_pack("{s:I,s:I,s:I}", "seq", (json_int_t)st.gens[i].seq, "age-ms",
					(json_int_t)((now - st.gens[i].birth_ns) / 1000000), "pages",
					(json_int_t)st.gens[i].pages));
	return list;
}

static json_t *regions_json(const struct guest *g)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		json_t *o = json_pack("{s:s,s:I,s:I}", "name", r->name, "pages", (json_int_t)r->nr,
				      "hva", (json_int_t)r->hva);

		if (r->gpa != REGION_GPA_UNKNOWN)
			json_object_set_new(o, "gpa", json_integer((json_int_t)r->gpa));
		json_array_append_new(list, o);
	}
	return list;
}

static const char *phase_name(const struct guest *g)
{
	switch (atomic_load(&g->phase)) {
	case GUEST_MANAGED:
		return "managed";
	case GUEST_DRAINING:
		return "draining";
	case GUEST_FAILED:
		return "failed";
	default:
		return "gone";
	}
}

static json_t *cancels_json(const struct guest *g)
{
	const struct guest_counters *c = &g->c;

	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "touched", counter(&c->cancel_touched), "young",
			 counter(&c->cancel_young), "pinned",
			 counter(&c->cancel_pinned), "busy", counter(&c->cancel_busy), "large",
			 counter(&c->cancel_large), "error", counter(&c->cancel_error), "unprotected",
			 counter(&c->cancel_unprotected));
}

static json_t *latency_json(const struct guest *g)
{
	const struct hist *h = &g->fault_hist;

	return json_pack("{s:I,s:I,s:I,s:I}", "count", counter(&h->total), "p50-us",
			 (json_int_t)(hist_quantile(h, 0.5) / 1000), "p99-us",
			 (json_int_t)(hist_quantile(h, 0.99) / 1000), "max-us",
			 counter(&h->max_ns) / 1000);
}

/* Pages the guest itself has touched meanwhile count as done, too. */
static json_t *drain_json(const struct guest *g)
{
	uint32_t total = atomic_load(&g->drain.total), left = atomic_load(&g->evicted_pages);
	uint32_t done = total > left ? total - left : 0;
	uint64_t ms = (guest_now_ns() - atomic_load(&g->drain.begun_ns)) / 1000000;

	return json_pack("{s:o,s:o,s:I}", "done", pages_json(done), "left", pages_json(left), "rate",
			 (json_int_t)(pages_to_bytes(done) * 1000 / MAX(ms, 1u)));
}

static json_t *guest_json(struct guest *g)
{
	json_t *o = json_pack(
		"{s:s,s:i,s:s,s:o,s:o,s:o,s:o,s:o}", "name", g->name, "pid", (int)g->id.pid, "state",
		phase_name(g), "size", pages_json(g->pt.nr), "limit", commands_limit_json(atomic_load(&g->limit)),
		"resident", pages_json(atomic_load(&g->resident)), "evicted",
		pages_json(atomic_load(&g->evicted_pages)), "zero",
		pages_json(atomic_load(&g->zero_pages)));

	json_object_set_new(o, "store",
			    json_pack("{s:s,s:o,s:o}", "path", g->store.path, "used",
				      pages_json(store_nr_used(&g->store)), "size",
				      pages_json(g->store.nr_slots)));
	json_object_set_new(o, "sampler",
			    json_pack("{s:s,s:s}", "name",
				      g->policy.order == RECLAIM_ORDER_RANDOM ? "none" : "zap", "reason",
				      g->policy.order == RECLAIM_ORDER_RANDOM ?
					      "eviction order is random (debugging)" :
				      g->rem.ring_fd >= 0 ? "madvise through a ring in the VMM" :
							    "madvise by injection: no io_uring in the VMM"));
	json_object_set_new(o, "pin-guard", json_string(g->guard ? "bpf" : "delay"));
	json_object_set_new(o, "vm-stopped-us", json_integer((json_int_t)(g->rem.stopped_ns / 1000)));
	json_object_set_new(o, "refaults", json_integer(counter(&g->c.refaults)));
	json_object_set_new(o, "evictions", json_integer(counter(&g->c.evicted)));
	json_object_set_new(o, "cancels", cancels_json(g));
	json_object_set_new(o, "generations", generations_json(g));
	json_object_set_new(o, "fault-latency", latency_json(g));
	json_object_set_new(o, "regions", regions_json(g));
	if (atomic_load(&g->drain.runs))
		json_object_set_new(o, "drain", drain_json(g));
	json_object_set_new(o, "warnings", json_array());
	if (atomic_load(&g->phase) == GUEST_FAILED) {
		pthread_mutex_lock(&g->fail_lock);
		json_object_set_new(o, "failure", json_string(g->failure));
		pthread_mutex_unlock(&g->fail_lock);
	}
	return o;
}

int commands_not_found(struct control_reply *reply, const char *name)
{
	reply->class = CONTROL_DEVICE_NOT_FOUND;
	return ebb_err_set(&reply->err, -ENOENT,
			   "no guest is called '%s'; query-guests (ebbctl list) lists them", name);
}

int commands_busy(struct control_reply *reply, const char *name)
{
	return ebb_err_set(&reply->err, -EBUSY, "'%s' is being attached, drained or let go just now", name);
}

bool commands_arg_true(json_t *args, const char *name)
{
	return json_is_true(json_object_get(args, name));
}

static const char *arg_string(json_t *args, const char *name)
{
	return json_string_value(json_object_get(args, name));
}

/* A size argument; -1 in JSON is "none". */
static uint64_t arg_size(json_t *args, const char *name)
{
	json_t *v = json_object_get(args, name);

	return !v || json_integer_value(v) < 0 ? UINT64_MAX : (uint64_t)json_integer_value(v);
}

static int run_query_guests(void *daemon, json_t *args, struct control_reply *reply)
{
	struct daemon *d = daemon;

	(void)args;
	reply->value = json_array();
	pthread_mutex_lock(&d->lock);
	for (struct guest *g = d->guests; g; g = g->next)
		json_array_append_new(reply->value, guest_json(g));
	pthread_mutex_unlock(&d->lock);
	return 0;
}

int commands_with_guest(struct daemon *d, json_t *args, struct control_reply *reply,
			int (*fn)(struct guest *g, json_t *args, struct control_reply *reply))
{
	const char *name = arg_string(args, "name");
	struct guest *g;
	int rc;

	pthread_mutex_lock(&d->lock);
	g = daemon_find(d, name);
	rc = g ? fn(g, args, reply) : commands_not_found(reply, name);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static int query_guest(struct guest *g, json_t *args, struct control_reply *reply)
{
	(void)args;
	reply->value = guest_json(g);
	return 0;
}

static int run_query_guest(void *daemon, json_t *args, struct control_reply *reply)
{
	return commands_with_guest(daemon, args, reply, query_guest);
}

static int query_stats(struct guest *g, json_t *args, struct control_reply *reply)
{
	const struct guest_counters *c = &g->c;
	const struct {
		const char *name;
		const _Atomic uint64_t *value;
	} rows[] = {
		{"faults", &c->faults}, {"wp-faults", &c->wp_faults}, {"removes", &c->removes},
		{"refaults", &c->refaults}, {"prefetched", &c->prefetched},
		{"zero-filled", &c->zero_filled}, {"evictions", &c->evicted},
		{"evictions-zero", &c->evicted_zero}, {"evictions-clean", &c->evicted_clean},
		{"pages-written", &c->written}, {"throttled", &c->throttled},
		{"over-limit", &c->over_limit}, {"discarded", &c->discarded},
		{"hazards", &c->hazards}, {"ioctl-again", &c->again},
		{"read-errors", &c->read_errors}, {"write-errors", &c->write_errors},
		{"sample-passes", &c->sample_passes}, {"sample-ns", &c->sample_ns},
		{"sample-young", &c->sample_young},
	};

	(void)args;
	reply->value = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		json_object_set_new(reply->value, rows[i].name, json_integer(counter(rows[i].value)));
	json_object_set_new(reply->value, "cancels", cancels_json(g));
	json_object_set_new(reply->value, "fault-latency", latency_json(g));
	return 0;
}

static int run_query_stats(void *daemon, json_t *args, struct control_reply *reply)
{
	return commands_with_guest(daemon, args, reply, query_stats);
}

static int set_limit(struct guest *g, json_t *args, struct control_reply *reply)
{
	uint32_t pages;
	int rc;

	if (g->busy)
		return commands_busy(reply, g->name);
	rc = guest_check_limit(arg_size(args, "limit"), g->pt.nr, &pages, &reply->err);
	if (rc)
		return rc;
	guest_set_limit(g, pages);
	if (pages == RECLAIM_NO_LIMIT)
		log_info("%s: no limit", g->name);
	else
		log_info("%s: limit %u MiB", g->name, pages >> 8);
	guest_event(g, "LIMIT_CHANGED", json_pack("{s:o}", "limit", commands_limit_json(pages)));
	reply->value = json_pack("{s:o}", "limit", commands_limit_json(pages));
	return 0;
}

static int run_set_limit(void *daemon, json_t *args, struct control_reply *reply)
{
	return commands_with_guest(daemon, args, reply, set_limit);
}

/* Neither the process nor the name is a guest's yet. */
static int check_free(struct daemon *d, pid_t pid, const char *name, struct ebb_err *err)
{
	struct guest *g;
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	for (g = d->guests; g && !rc; g = g->next) {
		if (g->id.pid == pid)
			rc = ebb_err_set(err, -EEXIST, "process %d is managed already, as '%s'", pid,
					 g->name);
		else if (name && !strcmp(g->name, name))
			rc = ebb_err_set(err, -EEXIST, "a guest is called '%s' already (process %d): "
					 "choose another name", name, g->id.pid);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static int run_attach(void *daemon, json_t *args, struct control_reply *reply)
{
	struct daemon *d = daemon;
	struct guest_conf conf = daemon_guest_conf(d);
	pid_t pid = (pid_t)json_integer_value(json_object_get(args, "pid"));
	struct guest *g;
	int rc;

	conf.name = arg_string(args, "name");
	conf.monitor = arg_string(args, "monitor");
	conf.limit = arg_size(args, "limit");
	rc = check_free(d, pid, conf.name, &reply->err);
	if (!rc)
		rc = guest_attach(pid, &conf, &g, &reply->err);
	if (rc) {
		log_warn("attach refused: %s", reply->err.msg);
		return rc;
	}
	rc = daemon_add(d, g);
	if (rc) { /* two attaches raced for the name: nothing is lost by letting go again */
		struct ebb_err err;

		ebb_err_set(&reply->err, rc, "'%s': %s", g->name, strerror(-rc));
		if (guest_detach(g, false, &err) == 0)
			guest_free(g, true);
		return rc;
	}
	sampler_kick(d->sampler);
	guest_event(g, "GUEST_ATTACHED", json_pack("{s:i}", "pid", (int)g->id.pid));
	reply->value = guest_json(g);
	daemon_release(d, g);
	return 0;
}

static int run_detach(void *daemon, json_t *args, struct control_reply *reply)
{
	struct daemon *d = daemon;
	const char *name = arg_string(args, "name");
	struct guest *g;
	int rc;

	g = daemon_claim(d, name, &rc);
	if (!g)
		return rc == -ENOENT ? commands_not_found(reply, name) : commands_busy(reply, name);
	rc = daemon_let_go(d, g, "asked to", !commands_arg_true(args, "force"), &reply->err);
	if (rc)
		daemon_release(d, g);
	return rc;
}

static const struct control_arg arg_name[] = {
	{"name", ARG_STRING, false, "the guest"},
	{0},
};

static const struct control_arg args_detach[] = {
	{"name", ARG_STRING, false, "the guest"},
	{"force", ARG_BOOL, true, "also where its pages do not fit into memory"},
	{0},
};

static const struct control_arg args_attach[] = {
	{"pid", ARG_INT, false, "process of the VMM"},
	{"name", ARG_STRING, true, "what to call it; default pid-N"},
	{"limit", ARG_SIZE, true, "resident bytes allowed; default none"},
	{"monitor", ARG_STRING, true, "path of a QMP socket of the VMM"},
	{0},
};

static const struct control_arg args_set_limit[] = {
	{"name", ARG_STRING, false, "the guest"},
	{"limit", ARG_SIZE, false, "resident bytes allowed, or none"},
	{0},
};

const struct control_command daemon_commands[] = {
	{"query-guests", "all guests", false, NULL, run_query_guests},
	{"query-guest", "one guest", false, arg_name, run_query_guest},
	{"query-stats", "counters of a guest", false, arg_name, run_query_stats},
	{"set-limit", "change a guest's limit", false, args_set_limit, run_set_limit},
	{"query-policy", "the knobs of a guest and what its policy does", false, arg_name, commands_query_policy},
	{"set-policy", "change knobs", false, commands_args_set_policy, commands_set_policy},
	{"attach", "manage the memory of a running VM", true, args_attach, run_attach},
	{"detach", "bring every page back and let the VM go", true, args_detach, run_detach},
	{"drain", "bring every page back, and keep the VM managed, without a limit", true,
	 commands_args_drain, commands_drain},
	{"drain-abort", "end a drain early", false, arg_name, commands_drain_abort},
	{"quit", "end the daemon", false, commands_args_quit, commands_quit},
	{0},
};
