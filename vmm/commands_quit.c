// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * commands_quit.c - quit: the daemon ends, by one of the ways of ending.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <ebb/log.h>
#include "commands.h"
#include "ending.h"

const struct control_arg commands_args_quit[] = {
	{"mode", ARG_STRING, true, "auto, bring-back or hand-over; default as SIGTERM does"},
	{"state-dir", ARG_STRING, true, "only if this is the daemon's state directory"},
	{0},
};

static bool is_same_dir(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int commands_quit(void *daemon, json_t *args, struct control_reply *reply)
{
	const char *name = json_string_value(json_object_get(args, "mode"));
	const char *dir = json_string_value(json_object_get(args, "state-dir"));
	struct daemon *d = daemon;
	enum end_mode mode = d->conf.on_term;

	if (name && ending_parse(name, &mode))
		return ebb_err_set(&reply->err, -EINVAL, "'%.40s' is no way to end: auto, bring-back, "
				   "hand-over", name);
	if (dir && !is_same_dir(dir, d->conf.state_dir))
		return ebb_err_set(&reply->err, -EINVAL, "the daemon that answers here works on another "
				   "state directory, %s", d->conf.state_dir);
	d->quit = true;
	d->quit_mode = mode;
	return 0;
}
