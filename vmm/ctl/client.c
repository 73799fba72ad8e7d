// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * client.c - calling the daemon: who is not there, who refused, and why, in one sentence.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "ctl.h"
#include "qmp.h"

static enum ctl_exit no_daemon(const char *path, int rc, struct ebb_err *err)
{
	ebb_err_set(err, rc,
		    "no ebbd answers at %s: start ebbd (as root), or name its socket with --socket",
		    path);
	return CTL_NO_DAEMON;
}

/**
 * client_reach() - is somebody listening, and may we speak?
 *
 * A connection of its own, closed at once: it tells "not running" from "refused", which a failed
 * command cannot.
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
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		ebb_err_set(err, 0, "cannot make a socket: %s", strerror(errno));
		return CTL_FAILED;
	}
	if (!connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) || errno == EAGAIN)
		return CTL_OK;
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

enum ctl_exit client_call(const char *socket, const char *command, json_t *args, int timeout_ms,
			  json_t **ret, struct ebb_err *err)
{
	enum ctl_exit status = client_reach(socket, err);
	int rc;

	if (status == CTL_OK) {
		rc = qmp_execute(socket, command, args, timeout_ms, ret, err);
		status = rc ? CTL_FAILED : CTL_OK;
	}
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
