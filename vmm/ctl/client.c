// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * client.c - calling the daemon: who is not there, who refused, and why, in one sentence.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "ctl.h"
#include "framer.h"
#include "qmp.h"

static enum ctl_exit no_daemon(const char *path, int rc, struct ebb_err *err)
{
	ebb_err_set(err, rc,
		    "no ebbd answers at %s: start ebbd (as root), or name its socket with --socket",
		    path);
	return CTL_NO_DAEMON;
}

/** take_greeting() - the first message: a greeting, or why we get none */
static enum ctl_exit take_greeting(const char *path, const struct framer *f, struct ebb_err *err)
{
	json_t *msg = json_loadb(f->text, f->len, 0, NULL);
	const json_t *error = json_object_get(msg, "error");
	const char *desc = json_string_value(json_object_get(error, "desc"));
	enum ctl_exit status = CTL_FAILED;

	if (json_object_get(msg, "QMP"))
		status = CTL_OK;
	else if (desc)
		ebb_err_set(err, 0, "%s", desc);
	else
		ebb_err_set(err, 0, "what answers at %s is not ebbd: name its socket with --socket",
			    path);
	json_decref(msg);
	return status;
}

/** await_greeting() - for as long as a command may take */
static enum ctl_exit await_greeting(const char *path, int fd, struct ebb_err *err)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	enum framer_result res = FRAMER_MORE;
	enum ctl_exit status = CTL_FAILED;
	struct framer f;
	char buf[1024];

	framer_init(&f, FRAMER_MAX_BYTES, FRAMER_MAX_TOKENS);
	while (res == FRAMER_MORE) {
		size_t used;
		ssize_t n;

		if (poll(&pfd, 1, CTL_TIMEOUT_MS) <= 0)
			break;
		n = recv(fd, buf, sizeof(buf), 0);
		if (n <= 0)
			break;
		res = framer_push(&f, buf, (size_t)n, &used);
	}
	if (res == FRAMER_VALUE)
		status = take_greeting(path, &f, err);
	else if (res == FRAMER_ERROR)
		ebb_err_set(err, 0, "what answers at %s is not ebbd: name its socket with --socket",
			    path);
	else
		ebb_err_set(err, 0, "what listens at %s stays silent: if that is ebbd, see its log",
			    path);
	framer_free(&f);
	return status;
}

/**
 * client_reach() - is ebbd there, and does it speak to us?
 *
 * A connection of its own: it tells "not running" and "turned away, because" from a command
 * that was refused.
 */
static enum ctl_exit client_reach(const char *path, struct ebb_err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(addr.sun_path)) {
		ebb_err_set(err, 0, "%s is too long for a socket's path (%zu characters at most)",
			    path, sizeof(addr.sun_path) - 1);
		return CTL_FAILED;
	}
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&addr, sizeof(addr)))
		return await_greeting(path, fd, err);
	if (errno == ENOENT || errno == ENOTDIR || errno == ECONNREFUSED)
		return no_daemon(path, -errno, err);
	if (errno == EACCES || errno == EPERM)
		ebb_err_set(err, 0,
			    "you may not use %s: run ebbctl as root (sudo ebbctl ...) or as the "
			    "socket's owner",
			    path);
	else
		ebb_err_set(err, 0, "cannot connect to %s: %s", path, strerror(errno));
	return CTL_FAILED;
}

/** reword() - qmp_execute() speaks of a QEMU's monitor; here it is ebbd that answers, or not */
static void reword(const char *path, const char *command, int rc, struct ebb_err *err)
{
	char refuses[256];
	char *reason;

	switch (rc) {
	case -EREMOTEIO:
		snprintf(refuses, sizeof(refuses), " refuses %s: ", command);
		reason = strstr(err->msg, refuses);
		if (reason)
			memmove(err->msg, reason + strlen(refuses),
				strlen(reason + strlen(refuses)) + 1);
		break;
	case -ETIMEDOUT:
		ebb_err_set(err, rc,
			    "ebbd at %s has not answered %s in time; it may still carry it out: "
			    "see ebbctl list",
			    path, command);
		break;
	case -ECONNRESET:
	case -EPIPE:
		ebb_err_set(err, rc, "ebbd at %s ended before it answered %s: see its log", path,
			    command);
		break;
	default:
		break;
	}
}

enum ctl_exit client_call(const char *socket, const char *command, json_t *args, int timeout_ms,
			  json_t **ret, struct ebb_err *err)
{
	struct ebb_err why = { "" };
	enum ctl_exit status = client_reach(socket, &why);
	int rc;

	if (status == CTL_OK) {
		rc = qmp_execute(socket, command, args, timeout_ms, ret, &why);
		if (rc)
			reword(socket, command, rc, &why);
		status = rc ? CTL_FAILED : CTL_OK;
	}
	if (status != CTL_OK && err)
		*err = why;
	json_decref(args);
	return status;
}

enum ctl_exit client_guest(const char *socket, const char *name, json_t **ret,
			   struct ebb_err *err)
{
	enum ctl_exit status;
	json_t *guest = NULL;

	status = client_call(socket, "query-guest", json_pack("{s:s}", "name", name),
			     CTL_TIMEOUT_MS, &guest, err);
	if (status != CTL_OK)
		return status;
	if (!json_is_object(guest)) {
		json_decref(guest);
		ebb_err_set(err, 0, "the daemon's answer to query-guest is not an object: is %s "
				    "ebbd's socket?",
			    socket);
		return CTL_FAILED;
	}
	*ret = guest;
	return CTL_OK;
}

enum ctl_exit client_guest_of(const char *socket, json_int_t pid, json_t **ret,
			      struct ebb_err *err)
{
	json_t *guests = NULL, *guest;
	enum ctl_exit status;
	size_t i;

	status = client_call(socket, "query-guests", NULL, CTL_TIMEOUT_MS, &guests, err);
	if (status != CTL_OK)
		return status;
	json_array_foreach(guests, i, guest) {
		if (json_integer_value(json_object_get(guest, "pid")) == pid) {
			*ret = json_incref(guest);
			json_decref(guests);
			return CTL_OK;
		}
	}
	json_decref(guests);
	ebb_err_set(err, 0, "the daemon lists no guest of pid %lld", (long long)pid);
	return CTL_FAILED;
}
