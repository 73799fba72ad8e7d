// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control_qmp.c - one client's messages: greeting, negotiation, commands, replies, errors.
 *
 * DOC: the dialect
 *
 * QEMU's monitor protocol, so that what speaks to a QEMU speaks to ebb: a greeting,
 * qmp_capabilities first, ids of any kind echoed, QEMU's error classes and, where the fault is
 * the same, its words. Clients look for version.qemu in the greeting and some refuse to go on
 * without it; the numbers there say which dialect this is, "package" says who speaks it.
 *
 * Differences from QEMU 7.2, on purpose or known: several clients at a time; no out-of-band
 * commands; one error, not several, for one burst of garbage; integers beyond 2^63 - 1 are
 * refused; the parser's own words after "JSON parse error, ".
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include "control_internal.h"

#define DIALECT_MAJOR 7
#define DIALECT_MINOR 2
#define DIALECT_MICRO 0

#define CLASS_GENERIC	"GenericError"
#define CLASS_NOT_FOUND "CommandNotFound"

static const char *const class_names[] = {
	[CONTROL_GENERIC_ERROR] = CLASS_GENERIC,
	[CONTROL_DEVICE_NOT_FOUND] = "DeviceNotFound",
};

/** struct request - a command whose envelope was found good */
struct request {
	const char *execute;
	json_t *arguments; /* borrowed, NULL: none given */
	json_t *id;	   /* borrowed, NULL: none given */
};

static json_t *dialect_version(void)
{
	return json_pack("{s:{s:i, s:i, s:i}, s:s}", "qemu", "micro", DIALECT_MICRO, "minor",
			 DIALECT_MINOR, "major", DIALECT_MAJOR, "package", "ebb " EBB_VERSION);
}

json_t *control_greeting(void)
{
	return json_pack("{s:{s:o, s:[]}}", "QMP", "version", dialect_version(), "capabilities");
}

json_t *control_event_message(const char *name, json_t *data)
{
	struct timeval tv;
	json_t *msg;

	gettimeofday(&tv, NULL);
	msg = json_pack("{s:{s:I, s:I}, s:s}", "timestamp", "seconds", (json_int_t)tv.tv_sec,
			"microseconds", (json_int_t)tv.tv_usec, "event", name);
	if (msg && json_object_size(data))
		json_object_set(msg, "data", data);
	json_decref(data);
	return msg;
}

/** text_of_any() - a json string of any bytes: a name out of /proc need not be UTF-8 */
static json_t *text_of_any(const char *text)
{
	json_t *string = json_string(text);
	char *plain, *p;

	if (string)
		return string;
	plain = strdup(text);
	for (p = plain; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	string = json_string(plain ? plain : "Out of memory");
	free(plain);
	return string;
}

json_t *control_error_message(json_t *id, const char *class, const char *desc)
{
	json_t *msg = json_object();

	if (id)
		json_object_set(msg, "id", id);
	json_object_set_new(msg, "error",
			    json_pack("{s:s, s:o}", "class", class, "desc", text_of_any(desc)));
	return msg;
}

void control_send_reply(struct session *s, json_t *id, int rc, struct control_reply *reply)
{
	json_t *value = reply->value;

	reply->value = NULL;
	if (rc < 0) {
		const char *desc = reply->err.msg[0] ? reply->err.msg : strerror(-rc);

		json_decref(value);
		session_send(s, control_error_message(id, class_names[reply->class], desc));
		return;
	}
	value = json_pack("{s:o}", "return", value ? value : json_object());
	if (id)
		json_object_set(value, "id", id);
	session_send(s, value);
}

/* --- the built-in commands ------------------------------------------------------------------- */

static int run_query_version(void *daemon, json_t *args, struct control_reply *reply)
{
	reply->value = dialect_version();
	return 0;
}

static int run_query_commands(void *daemon, json_t *args, struct control_reply *reply);

/* Their daemon is the struct control. */
static const struct control_command builtin[] = {
	{ .name = "query-version",
	  .help = "the protocol's and the daemon's version",
	  .run = run_query_version },
	{ .name = "query-commands",
	  .help = "the commands, what they do and what they take",
	  .run = run_query_commands },
	{ 0 },
};

static void describe_commands(const struct control_command *cmd, json_t *list)
{
	for (; cmd && cmd->name; cmd++)
		json_array_append_new(list, json_pack("{s:s, s:s*, s:o}", "name", cmd->name, "help",
						      cmd->help, "arguments",
						      control_args_describe(cmd->args)));
}

static int run_query_commands(void *daemon, json_t *args, struct control_reply *reply)
{
	const struct control *c = daemon;

	reply->value = json_array();
	json_array_append_new(reply->value,
			      json_pack("{s:s, s:s, s:[]}", "name", "qmp_capabilities", "help",
					"end the negotiation; comes first", "arguments"));
	describe_commands(builtin, reply->value);
	describe_commands(c->commands, reply->value);
	return 0;
}

static const struct control_command *find_in(const struct control_command *cmd, const char *name)
{
	for (; cmd && cmd->name; cmd++)
		if (!strcmp(cmd->name, name))
			return cmd;
	return NULL;
}

static const struct control_command *find_command(struct control *c, const char *name,
						  void **ret_daemon)
{
	const struct control_command *cmd = find_in(builtin, name);

	*ret_daemon = cmd ? c : c->daemon;
	return cmd ? cmd : find_in(c->commands, name);
}

/* --- one request ------------------------------------------------------------------------------ */

static int check_string(json_t *value, const char *name, const char **ret, struct ebb_err *err)
{
	if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
		return ebb_err_set(err, -EINVAL, "QMP input member '%s' must be a string", name);
	*ret = json_string_value(value);
	return 0;
}

/** check_envelope() - the members of a request; @req->id is set even when another is wrong */
static int check_envelope(json_t *root, struct request *req, struct ebb_err *err)
{
	const char *key;
	json_t *value;
	int rc = 0;

	if (!json_is_object(root)) {
		ebb_err_set(err, 0, "QMP input must be a JSON object");
		return -EINVAL;
	}
	req->id = json_object_get(root, "id");
	json_object_foreach(root, key, value) {
		if (!strcmp(key, "execute"))
			rc = check_string(value, key, &req->execute, err);
		else if (!strcmp(key, "arguments") && json_is_object(value))
			req->arguments = value;
		else if (!strcmp(key, "arguments"))
			rc = ebb_err_set(err, -EINVAL,
					 "QMP input member 'arguments' must be an object");
		else if (strcmp(key, "id"))
			rc = ebb_err_set(err, -EINVAL, "QMP input member '%s' is unexpected", key);
		if (rc)
			return rc;
	}
	if (req->execute)
		return 0;
	ebb_err_set(err, 0, "QMP input lacks member 'execute'");
	return -EINVAL;
}

/** check_capabilities() - the arguments of qmp_capabilities: nothing can be enabled */
static int check_capabilities(json_t *args, struct ebb_err *err)
{
	json_t *value, *wanted;
	const char *key;
	size_t i;

	json_object_foreach(args, key, value) {
		if (strcmp(key, "enable"))
			return ebb_err_set(err, -EINVAL, "Parameter '%s' is unexpected", key);
		if (!json_is_array(value))
			return ebb_err_set(err, -EINVAL,
					   "Invalid parameter type for 'enable', expected: array");
		json_array_foreach(value, i, wanted) {
			if (!json_is_string(wanted))
				return ebb_err_set(err, -EINVAL,
						   "Invalid parameter type for 'enable[%zu]', "
						   "expected: string",
						   i);
			return ebb_err_set(err, -EINVAL,
					   "Parameter 'enable' does not accept value '%s'",
					   json_string_value(wanted));
		}
	}
	return 0;
}

static void refuse(struct session *s, const struct request *req, const char *class,
		   const struct ebb_err *err)
{
	session_send(s, control_error_message(req->id, class, err->msg));
}

static void run_capabilities(struct session *s, const struct request *req)
{
	struct control_reply reply = { 0 };
	int rc = check_capabilities(req->arguments, &reply.err);

	if (!rc)
		s->negotiated = true;
	control_send_reply(s, req->id, rc, &reply);
}

static void run_command(struct session *s, const struct request *req)
{
	struct control_reply reply = { 0 };
	const struct control_command *cmd;
	json_t *args;
	void *daemon;
	int rc;

	cmd = find_command(s->c, req->execute, &daemon);
	if (!cmd) {
		ebb_err_set(&reply.err, 0, "The command %.200s has not been found", req->execute);
		refuse(s, req, CLASS_NOT_FOUND, &reply.err);
		return;
	}
	rc = control_args_check(cmd->args, req->arguments, &args, &reply.err);
	if (rc) {
		refuse(s, req, CLASS_GENERIC, &reply.err);
		return;
	}
	if (cmd->slow) {
		rc = control_job_start(s, cmd, args, &reply.err);
		s->busy = !rc;
		s->busy_id = rc ? NULL : json_incref(req->id);
	} else {
		rc = cmd->run(daemon, args, &reply);
	}
	json_decref(args);
	if (s->busy)
		return;
	control_event_flush(s->c); /* what the handler raised comes before its reply */
	control_send_reply(s, req->id, rc, &reply);
}

static void run_request(struct session *s, const struct request *req)
{
	bool negotiates = !strcmp(req->execute, "qmp_capabilities");
	struct ebb_err err;

	if (negotiates && !s->negotiated) {
		run_capabilities(s, req);
	} else if (negotiates) {
		ebb_err_set(&err, 0,
			    "Capabilities negotiation is already complete, command ignored");
		refuse(s, req, CLASS_NOT_FOUND, &err);
	} else if (!s->negotiated) {
		ebb_err_set(&err, 0,
			    "Expecting capabilities negotiation with 'qmp_capabilities'");
		refuse(s, req, CLASS_NOT_FOUND, &err);
	} else {
		run_command(s, req);
	}
}

void control_handle(struct session *s, const char *text, size_t len)
{
	struct request req = { 0 };
	struct ebb_err err;
	json_error_t why;
	json_t *root;

	root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
			  &why);
	if (!root) {
		ebb_err_set(&err, 0, "JSON parse error, %s", why.text);
		refuse(s, &req, CLASS_GENERIC, &err);
	} else if (check_envelope(root, &req, &err)) {
		refuse(s, &req, CLASS_GENERIC, &err);
	} else {
		run_request(s, &req);
	}
	json_decref(root);
}
