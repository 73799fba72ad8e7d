// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main.c - ebbctl: the command line of a running ebbd.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ctl.h"

struct ctl {
	const char *socket;
	bool json;
	const char *name, *limit, *monitor; /* options of attach */
	bool force, detach;		    /* of drain; the first of detach, too */
	char **args;
	int nr_args;
};

enum takes { TAKES_NOTHING, TAKES_ATTACH, TAKES_FORCE, TAKES_DRAIN };

struct command {
	const char *name;
	int nr_args, max_args;
	enum takes takes; /* which options */
	const char *usage;
	enum ctl_exit (*run)(const struct ctl *ctl, struct ebb_err *err);
};

/** print_json() - --json: what the daemon returned, indented */
static void print_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
	putchar('\n');
}

/** print_answer() - as JSON, or by @show for people; consumes @value */
static enum ctl_exit print_answer(const struct ctl *ctl, json_t *value,
				  void (*show)(const json_t *value))
{
	if (ctl->json)
		print_json(value);
	else
		show(value);
	json_decref(value);
	return CTL_OK;
}

static enum ctl_exit cmd_list(const struct ctl *ctl, struct ebb_err *err)
{
	enum ctl_exit status;
	json_t *guests;

	status = client_call(ctl->socket, "query-guests", NULL, CTL_TIMEOUT_MS, &guests, err);
	return status == CTL_OK ? print_answer(ctl, guests, show_guests) : status;
}

static enum ctl_exit cmd_show(const struct ctl *ctl, struct ebb_err *err)
{
	enum ctl_exit status;
	json_t *guest;

	status = client_guest(ctl->socket, ctl->args[0], &guest, err);
	return status == CTL_OK ? print_answer(ctl, guest, show_guest) : status;
}

static enum ctl_exit cmd_stats(const struct ctl *ctl, struct ebb_err *err)
{
	enum ctl_exit status;
	json_t *stats;

	status = client_call(ctl->socket, "query-stats", json_pack("{s:s}", "name", ctl->args[0]),
			     CTL_TIMEOUT_MS, &stats, err);
	return status == CTL_OK ? print_answer(ctl, stats, show_stats) : status;
}

/** apply_limit() - set-limit; a share is of @guest (may be NULL: ask) */
static enum ctl_exit apply_limit(const struct ctl *ctl, const char *name, const struct limit *limit,
				 const json_t *guest, json_t **ret, struct ebb_err *err)
{
	json_int_t size = json_integer_value(json_object_get(guest, "size"));
	enum ctl_exit status;
	json_t *asked;

	if (limit->kind == LIMIT_PERCENT && size <= 0) {
		status = client_guest(ctl->socket, name, &asked, err);
		if (status != CTL_OK)
			return status;
		size = json_integer_value(json_object_get(asked, "size"));
		json_decref(asked);
		if (size <= 0) {
			ebb_err_set(err, 0,
				    "the daemon does not say how large %s is: give the limit as a "
				    "size, such as 512M",
				    name);
			return CTL_FAILED;
		}
	}
	return client_call(ctl->socket, "set-limit",
			   json_pack("{s:s, s:o}", "name", name, "limit",
				     limit_json(limit, (uint64_t)MAX(size, 0))),
			   CTL_TIMEOUT_MS, ret, err);
}

static enum ctl_exit cmd_limit(const struct ctl *ctl, struct ebb_err *err)
{
	const char *name = ctl->args[0];
	enum ctl_exit status;
	struct limit limit;
	json_t *value, *guest;
	char buf[32], now[32];

	if (limit_parse(ctl->args[1], &limit, err))
		return CTL_USAGE;
	status = apply_limit(ctl, name, &limit, NULL, &value, err);
	if (status != CTL_OK)
		return status;
	if (ctl->json) {
		print_json(value);
	} else if (client_guest(ctl->socket, name, &guest, NULL) == CTL_OK) {
		printf("%s: limit %s, resident %s\n", show_text(guest, "name"),
		       show_bytes(guest, "limit", buf, sizeof(buf)),
		       show_bytes(guest, "resident", now, sizeof(now)));
		show_warnings(guest);
		json_decref(guest);
	}
	json_decref(value);
	return CTL_OK;
}

static int parse_pid(const char *text, json_int_t *ret, struct ebb_err *err)
{
	char *end;
	long pid;

	errno = 0;
	pid = strtol(text, &end, 10);
	if (end == text || *end || errno || pid <= 0 || pid > 1 << 22)
		return ebb_err_set(err, -EINVAL,
				   "\"%s\" is no process id: give the pid of a running QEMU", text);
	*ret = pid;
	return 0;
}

/** attached_guest() - the guest after attach: what it returned, if that is it, else ask by pid */
static enum ctl_exit attached_guest(const struct ctl *ctl, json_t *value, json_int_t pid,
				    json_t **ret, struct ebb_err *err)
{
	if (json_is_string(json_object_get(value, "name")) && json_object_get(value, "size")) {
		*ret = json_incref(value);
		return CTL_OK;
	}
	return client_guest_of(ctl->socket, pid, ret, err);
}

/** attach_share() - the second half of attach --limit 50%: the size is known only now */
static enum ctl_exit attach_share(const struct ctl *ctl, const struct limit *limit, json_int_t pid,
				  json_t **guest, struct ebb_err *err)
{
	const char *name = json_string_value(json_object_get(*guest, "name"));
	enum ctl_exit status = CTL_FAILED;
	struct ebb_err why = { "it has no name" };
	json_t *value = NULL, *again;

	if (name)
		status = apply_limit(ctl, name, limit, *guest, &value, &why);
	json_decref(value);
	if (status != CTL_OK) {
		ebb_err_set(err, 0, "pid %lld is attached, but without a limit: %.400s",
			    (long long)pid, why.msg);
		return status;
	}
	if (client_guest(ctl->socket, name, &again, NULL) == CTL_OK) {
		json_decref(*guest);
		*guest = again;
	}
	return CTL_OK;
}

static void print_attached(const json_t *guest)
{
	char size[32], limit[32];

	printf("%s: attached, pid %s, size %s, limit %s\n", show_text(guest, "name"),
	       show_text(guest, "pid"), show_bytes(guest, "size", size, sizeof(size)),
	       show_bytes(guest, "limit", limit, sizeof(limit)));
	show_warnings(guest);
}

static enum ctl_exit cmd_attach(const struct ctl *ctl, struct ebb_err *err)
{
	struct limit limit = { .kind = LIMIT_NONE };
	json_t *args, *value = NULL, *guest = NULL;
	enum ctl_exit status;
	json_int_t pid = 0;

	if (parse_pid(ctl->args[0], &pid, err) ||
	    (ctl->limit && limit_parse(ctl->limit, &limit, err)))
		return CTL_USAGE;
	args = json_pack("{s:I, s:s*, s:s*}", "pid", pid, "name", ctl->name, "monitor",
			 ctl->monitor);
	if (limit.kind == LIMIT_BYTES)
		json_object_set_new(args, "limit", limit_json(&limit, 0));
	status = client_call(ctl->socket, "attach", args, CTL_ATTACH_TIMEOUT_MS, &value, err);
	if (status == CTL_OK)
		status = attached_guest(ctl, value, pid, &guest, err);
	if (status == CTL_OK && limit.kind == LIMIT_PERCENT)
		status = attach_share(ctl, &limit, pid, &guest, err);
	if (status == CTL_OK && ctl->json)
		print_json(guest);
	else if (status == CTL_OK)
		print_attached(guest);
	json_decref(guest);
	json_decref(value);
	return status;
}

static bool wants_progress(const struct ctl *ctl)
{
	return !ctl->json && isatty(STDERR_FILENO);
}

static enum ctl_exit cmd_detach(const struct ctl *ctl, struct ebb_err *err)
{
	const char *name = ctl->args[0];
	json_t *args = json_pack("{s:s,s:b}", "name", name, "force", ctl->force), *value = NULL;
	enum ctl_exit status = client_watch(ctl->socket, "detach", name, args, wants_progress(ctl),
					    &value, err);

	if (status == CTL_OK && ctl->json)
		print_json(value);
	else if (status == CTL_OK)
		printf("%s: detached, all its memory is resident\n", name);
	json_decref(value);
	return status;
}

static enum ctl_exit cmd_drain(const struct ctl *ctl, struct ebb_err *err)
{
	const char *name = ctl->nr_args ? ctl->args[0] : NULL;
	json_t *args = json_pack("{s:s*,s:b,s:b}", "name", name, "force", ctl->force, "detach",
				 ctl->detach);
	json_t *value = NULL, *guest;
	enum ctl_exit status;
	char buf[32];
	size_t i;

	status = client_watch(ctl->socket, "drain", name, args, wants_progress(ctl), &value, err);
	if (status != CTL_OK)
		return status;
	if (ctl->json)
		print_json(value);
	else
		json_array_foreach(value, i, guest)
			printf("%s: drained (%s), %s\n", show_text(guest, "name"),
			       show_bytes(guest, "bytes", buf, sizeof(buf)),
			       ctl->detach ? "detached" : "without a limit from now on");
	json_decref(value);
	return CTL_OK;
}

static enum ctl_exit cmd_drain_abort(const struct ctl *ctl, struct ebb_err *err)
{
	return client_call(ctl->socket, "drain-abort", json_pack("{s:s}", "name", ctl->args[0]),
			   CTL_TIMEOUT_MS, NULL, err);
}

static enum ctl_exit cmd_quit(const struct ctl *ctl, struct ebb_err *err)
{
	return client_call(ctl->socket, "quit",
			   json_pack("{s:s*}", "mode", ctl->nr_args ? ctl->args[0] : NULL),
			   CTL_TIMEOUT_MS, NULL, err);
}

/** add_knob() - KNOB=VALUE into @args: on and off, a number, or a word; the daemon knows which are right */
static int add_knob(json_t *args, const char *text, struct ebb_err *err)
{
	const char *value = strchr(text, '=');
	json_t *v;

	if (!value || value == text || !value[1])
		return ebb_err_set(err, -EINVAL, "\"%.80s\" is no KNOB=VALUE, such as period-ms=1000", text);
	value++;
	if (!strcmp(value, "on") || !strcmp(value, "off"))
		v = json_boolean(!strcmp(value, "on"));
	else if (strspn(value, "0123456789") == strlen(value) && strlen(value) < 19)
		v = json_integer(strtoll(value, NULL, 10));
	else
		v = json_string(value);
	if (!v || json_object_setn_new(args, text, (size_t)(value - 1 - text), v))
		return ebb_err_set(err, -EINVAL, "knobs and values must be UTF-8");
	return 0;
}

static enum ctl_exit cmd_policy(const struct ctl *ctl, struct ebb_err *err)
{
	json_t *args = json_pack("{s:s}", "name", ctl->args[0]), *value = NULL;
	enum ctl_exit status;

	for (int i = 1; i < ctl->nr_args; i++) {
		if (add_knob(args, ctl->args[i], err)) {
			json_decref(args);
			return CTL_USAGE;
		}
	}
	status = client_call(ctl->socket, ctl->nr_args > 1 ? "set-policy" : "query-policy", args,
			     CTL_TIMEOUT_MS, &value, err);
	return status == CTL_OK ? print_answer(ctl, value, show_stats) : status;
}

/** parse_raw() - a command as QMP writes it, in two parts; *@ret_args is the caller's or NULL */
static int parse_raw(const char *text, char **ret_command, json_t **ret_args, struct ebb_err *err)
{
	json_error_t why;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &why), *args = NULL;
	const char *command = NULL;
	int rc;

	if (!root)
		return ebb_err_set(err, -EINVAL, "that is not JSON: %s (column %d)", why.text,
				   why.column);
	rc = json_unpack_ex(root, &why, JSON_STRICT, "{s:s, s?o}", "execute", &command, "arguments",
			    &args);
	if (rc || (args && !json_is_object(args))) {
		json_decref(root);
		return ebb_err_set(err, -EINVAL,
				   "write a command as {\"execute\": NAME, \"arguments\": {...}}, "
				   "the arguments where it takes some");
	}
	*ret_command = strdup(command);
	*ret_args = json_incref(args);
	json_decref(root);
	return *ret_command ? 0 : ebb_err_set(err, -ENOMEM, "out of memory");
}

static enum ctl_exit cmd_raw(const struct ctl *ctl, struct ebb_err *err)
{
	_cleanup_free_ char *command = NULL;
	json_t *args = NULL, *value = NULL;
	enum ctl_exit status;

	if (parse_raw(ctl->args[0], &command, &args, err))
		return CTL_USAGE;
	status = client_call(ctl->socket, command, args, CTL_DRAIN_TIMEOUT_MS, &value, err);
	if (status == CTL_OK)
		print_json(value);
	json_decref(value);
	return status;
}

/* --- the command line ------------------------------------------------------------------------- */

#define ANY_NUMBER INT_MAX

static const struct command command_table[] = {
	{ "list", 0, 0, TAKES_NOTHING, "list", cmd_list },
	{ "show", 1, 1, TAKES_NOTHING, "show NAME", cmd_show },
	{ "limit", 2, 2, TAKES_NOTHING, "limit NAME SIZE|PERCENT|none", cmd_limit },
	{ "attach", 1, 1, TAKES_ATTACH,
	  "attach PID [--name NAME] [--limit LIMIT] [--monitor SOCKET]", cmd_attach },
	{ "detach", 1, 1, TAKES_FORCE, "detach NAME [--force]", cmd_detach },
	{ "drain", 0, 1, TAKES_DRAIN, "drain [NAME] [--force] [--detach]", cmd_drain },
	{ "drain-abort", 1, 1, TAKES_NOTHING, "drain-abort NAME", cmd_drain_abort },
	{ "stats", 1, 1, TAKES_NOTHING, "stats NAME", cmd_stats },
	{ "policy", 1, ANY_NUMBER, TAKES_NOTHING, "policy NAME [KNOB=VALUE ...]", cmd_policy },
	{ "quit", 0, 1, TAKES_NOTHING, "quit [auto|bring-back|hand-over]", cmd_quit },
	{ "raw", 1, 1, TAKES_NOTHING, "raw JSON", cmd_raw },
};

static const char help_text[] =
	"usage: ebbctl [--socket PATH] [--json] COMMAND ...\n"
	"\n"
	"Speaks to ebbd, which keeps the cold memory of guests on disk.\n"
	"\n"
	"Look\n"
	"  list                         all guests: size, limit, what is resident and evicted\n"
	"  show NAME                    one guest: memory, generations, latency, store, warnings\n"
	"  stats NAME                   its counters\n"
	"\n"
	"Act\n"
	"  attach PID                   begin to manage the guest of a running QEMU\n"
	"      --name NAME              what to call it (default: pid-N)\n"
	"      --limit LIMIT            its limit from the start (default: none)\n"
	"      --monitor SOCKET         its QMP socket, for the exact layout of its memory\n"
	"  limit NAME LIMIT             change the limit; LIMIT is a size (512M, 1.5G), a share\n"
	"                               of the guest (50%), or none\n"
	"  policy NAME [KNOB=VALUE ...] show or change how it is chosen what to evict: ebb-policy(7)\n"
	"  drain [NAME]                 bring all memory of the guest (of all guests) back; it stays\n"
	"                               managed, without a limit\n"
	"      --detach                 then let it go\n"
	"      --force                  also where it does not fit into the host's memory\n"
	"  drain-abort NAME             end that early; what has come back stays\n"
	"  detach NAME [--force]        bring all its memory back and let it go\n"
	"  quit [MODE]                  end ebbd: bring-back all pages, hand-over the guests to the\n"
	"                               next ebbd, or auto: what SIGTERM does if not told otherwise\n"
	"  raw JSON                     any command of the socket, as {\"execute\": ...}\n"
	"\n"
	"Options, anywhere on the line\n"
	"  --socket PATH                ebbd's socket (default: " CTL_DEFAULT_SOCKET ")\n"
	"  --json                       print what ebbd returned, as JSON\n"
	"  --help, --version\n"
	"\n"
	"A first try, with the pid of a QEMU whose RAM is a shared memfd (ebb-run starts such):\n"
	"  ebbctl attach 4711 --name vm1 --limit 50%\n"
	"  ebbctl list\n"
	"  ebbctl limit vm1 none\n"
	"\n"
	"Exit status: 0 done; 1 refused or failed; 2 a mistake on the command line; 3 no ebbd\n"
	"answers. The manual is ebbctl(1).\n";

static const struct option options[] = {
	{ "socket", required_argument, NULL, 's' },  { "json", no_argument, NULL, 'j' },
	{ "name", required_argument, NULL, 'n' },    { "limit", required_argument, NULL, 'l' },
	{ "monitor", required_argument, NULL, 'm' }, { "help", no_argument, NULL, 'h' },
	{ "force", no_argument, NULL, 'f' },	     { "detach", no_argument, NULL, 'd' },
	{ "version", no_argument, NULL, 'V' },	     { 0 },
};

/** parse_options() - -1: go on; else the exit status */
static int parse_options(int argc, char **argv, struct ctl *ctl)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "hs:jV", options, NULL)) != -1) {
		switch (opt) {
		case 's':
			ctl->socket = optarg;
			break;
		case 'j':
			ctl->json = true;
			break;
		case 'n':
			ctl->name = optarg;
			break;
		case 'l':
			ctl->limit = optarg;
			break;
		case 'm':
			ctl->monitor = optarg;
			break;
		case 'f':
			ctl->force = true;
			break;
		case 'd':
			ctl->detach = true;
			break;
		case 'h':
			fputs(help_text, stdout);
			return CTL_OK;
		case 'V':
			puts("ebbctl " EBB_VERSION);
			return CTL_OK;
		default:
			fputs("ebbctl: see ebbctl --help\n", stderr);
			return CTL_USAGE;
		}
	}
	return -1;
}

static const struct command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(command_table); i++)
		if (!strcmp(command_table[i].name, name))
			return &command_table[i];
	return NULL;
}

static int usage_error(const struct command *cmd, const char *what)
{
	fprintf(stderr, "ebbctl: %s; usage: ebbctl %s\n", what, cmd->usage);
	return CTL_USAGE;
}

/** is_text() - the daemon takes UTF-8 only */
static bool is_text(const char *arg)
{
	json_t *string = json_string(arg ? arg : "");

	json_decref(string);
	return string != NULL;
}

/** run_command() - the rest of the line, options taken out */
static int run_command(struct ctl *ctl, int argc, char **argv)
{
	const struct command *cmd;
	struct ebb_err err = { "" };
	int status;

	if (!argc) {
		fputs("ebbctl: a command is missing; try ebbctl list, or see ebbctl --help\n",
		      stderr);
		return CTL_USAGE;
	}
	cmd = find_command(argv[0]);
	if (!cmd) {
		fprintf(stderr, "ebbctl: \"%s\" is no command; ebbctl --help lists them\n",
			argv[0]);
		return CTL_USAGE;
	}
	if (argc - 1 < cmd->nr_args)
		return usage_error(cmd, "an argument is missing");
	if (argc - 1 > cmd->max_args)
		return usage_error(cmd, "there is an argument too many");
	if (cmd->takes != TAKES_ATTACH && (ctl->name || ctl->limit || ctl->monitor))
		return usage_error(cmd, "--name, --limit and --monitor belong to attach");
	if ((ctl->force && cmd->takes != TAKES_FORCE && cmd->takes != TAKES_DRAIN) ||
	    (ctl->detach && cmd->takes != TAKES_DRAIN))
		return usage_error(cmd, "--force belongs to drain and detach, --detach to drain");
	if (!is_text(ctl->name) || !is_text(ctl->monitor) || (argc > 1 && !is_text(argv[1])))
		return usage_error(cmd, "names and paths must be UTF-8");
	ctl->args = argv + 1;
	ctl->nr_args = argc - 1;
	status = cmd->run(ctl, &err);
	if (status != CTL_OK)
		fprintf(stderr, "ebbctl: %s\n", err.msg);
	return status;
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .socket = CTL_DEFAULT_SOCKET };
	int status = parse_options(argc, argv, &ctl);

	if (status < 0)
		status = run_command(&ctl, argc - optind, argv + optind);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "ebbctl: cannot write to standard output: %s\n", strerror(errno));
		status = status ? status : CTL_FAILED;
	}
	return status;
}
