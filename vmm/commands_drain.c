// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * commands_drain.c - drain and drain-abort: every page of a guest, or of all guests one after the other, comes back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <ebb/log.h>
#include "commands.h"

const struct control_arg commands_args_drain[] = {
	{"name", ARG_STRING, true, "the guest; default all, one after the other"},
	{"force", ARG_BOOL, true, "also where its pages do not fit into memory"},
	{"detach", ARG_BOOL, true, "then let it go"},
	{0},
};

/* @g is claimed, and is not any more (or not there) afterwards. */
static int drain_one(struct daemon *d, struct guest *g, json_t *args, json_t *list,
		     struct ebb_err *err)
{
	bool watch = !commands_arg_true(args, "force");
	uint32_t out = atomic_load(&g->evicted_pages), limit = atomic_load(&g->limit);
	char name[sizeof(g->name)];
	int rc;

	memcpy(name, g->name, sizeof(name));
	log_info("%s: draining: %u MiB are to be brought back", name, out >> 8);
	if (commands_arg_true(args, "detach")) {
		rc = daemon_let_go(d, g, "asked to", watch, err);
		if (rc)
			daemon_release(d, g);
	} else {
		daemon_keep_sampler_off(d, g);
		rc = guest_bring_back(g, watch, err);
		if (atomic_load(&g->limit) != limit)
			guest_event(g, "LIMIT_CHANGED",
				    json_pack("{s:o}", "limit",
					      commands_limit_json(atomic_load(&g->limit))));
		daemon_release(d, g);
	}
	if (rc)
		log_warn("%s: not drained: %s", name, err->msg);
	else
		log_info("%s: drained", name);
	if (!rc)
		json_array_append_new(list, json_pack("{s:s,s:I}", "name", name, "bytes",
						      (json_int_t)pages_to_bytes(out)));
	return rc;
}

/* The guest that comes after @last in the order of their names. */
static struct guest *claim_after(struct daemon *d, const char *last, char *ret_name, size_t size)
{
	struct guest *next = NULL;
	int rc;

	pthread_mutex_lock(&d->lock);
	for (struct guest *g = d->guests; g; g = g->next)
		if (strcmp(g->name, last) > 0 && (!next || strcmp(g->name, next->name) < 0))
			next = g;
	if (next)
		snprintf(ret_name, size, "%s", next->name);
	else
		ret_name[0] = '\0';
	pthread_mutex_unlock(&d->lock);
	return next ? daemon_claim(d, ret_name, &rc) : NULL;
}

/* One that cannot be drained is told, and does not keep the others from it; but an abort is meant for all. */
static int drain_all(struct daemon *d, json_t *args, json_t *list, struct ebb_err *err)
{
	char name[sizeof(((struct guest *)0)->name)] = "";
	int first = 0, rc;

	do {
		struct guest *g = claim_after(d, name, name, sizeof(name));
		struct ebb_err why;

		if (!name[0])
			break;
		rc = g ? drain_one(d, g, args, list, &why) :
			 ebb_err_set(&why, -EBUSY, "'%s' is being worked on, or is gone", name);
		if (rc && !first) {
			first = rc;
			*err = why;
		}
	} while (first != -ECANCELED);
	return first;
}

int commands_drain(void *daemon, json_t *args, struct control_reply *reply)
{
	const char *name = json_string_value(json_object_get(args, "name"));
	struct daemon *d = daemon;
	struct guest *g;
	int rc;

	reply->value = json_array();
	if (!name)
		return drain_all(d, args, reply->value, &reply->err);
	g = daemon_claim(d, name, &rc);
	if (!g)
		return rc == -ENOENT ? commands_not_found(reply, name) : commands_busy(reply, name);
	return drain_one(d, g, args, reply->value, &reply->err);
}

static int abort_drain(struct guest *g, json_t *args, struct control_reply *reply)
{
	(void)args;
	if (!atomic_load(&g->drain.runs))
		return ebb_err_set(&reply->err, -EINVAL, "'%s' is not being drained", g->name);
	atomic_store(&g->drain.abort, true);
	return 0;
}

int commands_drain_abort(void *daemon, json_t *args, struct control_reply *reply)
{
	return commands_with_guest(daemon, args, reply, abort_drain);
}
