// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * qmp.c - a small client of a QEMU monitor: connect, negotiate, commands, under one deadline.
 *
 * DOC: framing and trust
 *
 * QEMU ends each message with a line break and never puts one inside, so lines are the frames
 * here. What comes back is bounded (QMP_MAX) and the whole exchange ends at a deadline, because
 * a VMM that hangs, or a monitor that serves somebody else first and stays silent, must not
 * hang the daemon. Events that come between are dropped; an answer is told by its id.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "mtree.h"
#include "qmp.h"

#define QMP_MAX                                                                                    \
	(8U << 20) /* bytes of one answer; `info mtree -f` of a large guest has some 100 KiB */

struct qmp {
	int fd;
	const char *path;
	uint64_t deadline; /* ms */
	int next_id;
	char *buf;
	size_t len, room, scanned;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int refuse_late(const struct qmp *q, bool greeted, struct ebb_err *err)
{
	if (greeted)
		return ebb_err_set(err, -ETIMEDOUT,
				   "the monitor at %s does not answer: the VMM hangs, or "
				   "is very busy",
				   q->path);
	return ebb_err_set(
		err, -ETIMEDOUT,
		"the monitor at %s does not greet: it serves one client at a "
		"time, and perhaps another (libvirt?) has it; give the VMM a second one (-qmp "
		"unix:PATH,server=on,wait=off)",
		q->path);
}

/* Waits for @events; 0, -ETIMEDOUT, or what poll() says. */
static int qmp_wait(const struct qmp *q, short events)
{
	struct pollfd p = {.fd = q->fd, .events = events};

	for (;;) {
		uint64_t now = now_ms();
		int n;

		if (now >= q->deadline)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)MIN(q->deadline - now, 60000));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* --- messages ------------------------------------------------------------------------------- */

static int qmp_send(struct qmp *q, json_t *msg)
{
	_cleanup_free_ char *text = json_dumps(msg, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0, done = 0;

	if (!text)
		return -ENOMEM;
	text[len++] = '\n'; /* in place of the NUL: what is sent has a length */
	while (done < len) {
		ssize_t n = send(q->fd, text + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		int rc;

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = qmp_wait(q, POLLOUT);
		if (rc)
			return rc;
	}
	return 0;
}

static int qmp_fill(struct qmp *q)
{
	ssize_t n;
	int rc;

	if (q->len == q->room) {
		size_t room = q->room ? q->room * 2 : 16384;
		char *buf = q->room < QMP_MAX ? realloc(q->buf, room) : NULL;

		if (!buf)
			return q->room < QMP_MAX ? -ENOMEM : -EMSGSIZE;
		q->buf = buf;
		q->room = room;
	}
	rc = qmp_wait(q, POLLIN);
	if (rc)
		return rc;
	n = recv(q->fd, q->buf + q->len, q->room - q->len, MSG_DONTWAIT);
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	q->len += (size_t)n;
	return 0;
}

/* The next message, an object; -EBADMSG for anything else. */
static int qmp_receive(struct qmp *q, json_t **ret)
{
	json_t *msg;
	char *end;

	for (;;) {
		size_t used;
		int rc;

		end = q->len > q->scanned ? memchr(q->buf + q->scanned, '\n', q->len - q->scanned) :
					    NULL;
		if (!end) {
			q->scanned = q->len;
			rc = qmp_fill(q);
			if (rc)
				return rc;
			continue;
		}
		used = (size_t)(end - q->buf) + 1;
		msg = json_loadb(q->buf, used, 0, NULL);
		memmove(q->buf, q->buf + used, q->len - used);
		q->len -= used;
		q->scanned = 0;
		if (json_is_object(msg)) {
			*ret = msg;
			return 0;
		}
		json_decref(msg);
		return -EBADMSG;
	}
}

static int refuse_message(const struct qmp *q, int rc, bool greeted, struct ebb_err *err)
{
	switch (rc) {
	case -ETIMEDOUT:
		return refuse_late(q, greeted, err);
	case -EBADMSG:
	case -EMSGSIZE:
		return ebb_err_set(err, rc,
				   "what answers at %s does not speak QMP: is it a human monitor, "
				   "or another program's socket?",
				   q->path);
	case -ECONNRESET:
	case -EPIPE:
		return ebb_err_set(err, rc, "the monitor at %s closed the connection", q->path);
	default:
		return ebb_err_set(err, rc, "the monitor at %s: %s", q->path, strerror(-rc));
	}
}

/* --- a session ------------------------------------------------------------------------------ */

/* An event has no id, which is not the same as id 0. */
static bool is_answer(const json_t *msg, int id)
{
	const json_t *its = json_object_get(msg, "id");

	return json_is_integer(its) && json_integer_value(its) == id;
}

static int qmp_command(struct qmp *q, const char *command, json_t *args, json_t **ret_value,
		       struct ebb_err *err)
{
	const int id = q->next_id++;
	json_t *msg = json_pack("{s:s, s:i}", "execute", command, "id", id), *answer, *value;
	int rc;

	if (msg && args)
		json_object_set(msg, "arguments", args);
	rc = msg ? qmp_send(q, msg) : -ENOMEM;
	json_decref(msg);
	while (!rc) {
		rc = qmp_receive(q, &answer);
		if (rc || is_answer(answer, id))
			break;
		json_decref(answer);
	}
	if (rc)
		return refuse_message(q, rc, true, err);
	value = json_object_get(answer, "return");
	if (value) {
		if (ret_value)
			*ret_value = json_incref(value);
	} else {
		const char *desc = json_string_value(
			json_object_get(json_object_get(answer, "error"), "desc"));

		rc = ebb_err_set(err, -EREMOTEIO, "the monitor at %s refuses %s: %s", q->path,
				 command, desc ? desc : "no reason given");
	}
	json_decref(answer);
	return rc;
}

static int qmp_connect(struct qmp *q, struct ebb_err *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	if (strlen(q->path) >= sizeof(addr.sun_path))
		return ebb_err_set(err, -ENAMETOOLONG,
				   "the path of the monitor is longer than %zu bytes: "
				   "%s",
				   sizeof(addr.sun_path) - 1, q->path);
	memcpy(addr.sun_path, q->path, strlen(q->path) + 1);
	q->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->fd < 0)
		return ebb_err_set(err, -errno, "socket: %s", strerror(errno));
	if (!connect(q->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return 0;
	/* A listener whose queue is full: others wait already. */
	if (errno == EAGAIN)
		return refuse_late(q, false, err);
	return ebb_err_set(err, -errno, "cannot connect to the monitor at %s: %s", q->path,
			   strerror(errno));
}

static void qmp_close(struct qmp *q)
{
	if (q->fd >= 0)
		close(q->fd);
	free(q->buf);
}

static int qmp_open(struct qmp *q, const char *path, int timeout_ms, struct ebb_err *err)
{
	json_t *greeting = NULL;
	int rc;

	*q = (struct qmp) {
		.fd = -1, .path = path, .deadline = now_ms() + (uint64_t)MAX(timeout_ms, 0)};
	rc = qmp_connect(q, err);
	if (!rc) {
		rc = qmp_receive(q, &greeting);
		if (!rc && !json_object_get(greeting, "QMP"))
			rc = -EBADMSG;
		json_decref(greeting);
		if (rc)
			refuse_message(q, rc, false, err);
	}
	if (!rc)
		rc = qmp_command(q, "qmp_capabilities", NULL, NULL, err);
	if (rc)
		qmp_close(q);
	return rc;
}

static int qmp_human(struct qmp *q, const char *line, char **ret_text, struct ebb_err *err)
{
	json_t *args = json_pack("{s:s}", "command-line", line), *value = NULL;
	int rc = args ? qmp_command(q, "human-monitor-command", args, &value, err) :
			ebb_err_set(err, -ENOMEM, "out of memory");

	json_decref(args);
	if (rc)
		return rc;
	if (json_is_string(value))
		*ret_text = strdup(json_string_value(value));
	else
		rc = ebb_err_set(err, -EBADMSG, "the monitor at %s answers %s with no text",
				 q->path, line);
	json_decref(value);
	return rc || *ret_text ? rc : ebb_err_set(err, -ENOMEM, "out of memory");
}

int qmp_execute(const char *path, const char *command, json_t *args, int timeout_ms,
		json_t **ret_value, struct ebb_err *err)
{
	struct qmp q;
	int rc = qmp_open(&q, path, timeout_ms, err);

	if (rc)
		return rc;
	rc = qmp_command(&q, command, args, ret_value, err);
	qmp_close(&q);
	return rc;
}

int qmp_hmp(const char *path, const char *line, int timeout_ms, char **ret_text,
	    struct ebb_err *err)
{
	char *text = NULL;
	struct qmp q;
	int rc = qmp_open(&q, path, timeout_ms, err);

	if (rc)
		return rc;
	rc = qmp_human(&q, line, &text, err);
	qmp_close(&q);
	if (!rc)
		*ret_text = text;
	return rc;
}

/* --- placing regions ------------------------------------------------------------------------ */

/*
 * "Host virtual address for 0x100000000 (pc.ram) is 0x7f74cbfff000", or a sentence that says no.
 */
static uint64_t ask_hva(void *arg, uint64_t gpa)
{
	_cleanup_free_ char *text = NULL;
	const char *is;
	uint64_t hva;
	char line[64];

	snprintf(line, sizeof(line), "gpa2hva 0x%" PRIx64, gpa);
	if (qmp_human(arg, line, &text, NULL))
		return 0;
	is = strstr(text, " is 0x");
	return is && sscanf(is, " is 0x%" SCNx64, &hva) == 1 ? hva : 0;
}

static int place(const char *text, struct qmp *q, struct region_table *t, struct ebb_err *err)
{
	_cleanup_free_ struct mtree *mt = calloc(1, sizeof(*mt));
	int rc;

	if (!mt)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	rc = mtree_parse(text, mt, err);
	if (!rc)
		rc = mtree_place(mt, q ? ask_hva : NULL, q, t, err);
	return rc;
}

int qmp_parse_mtree(const char *text, struct region_table *t, struct ebb_err *err)
{
	return place(text, NULL, t, err);
}

int qmp_place_regions(const char *path, struct region_table *t, int timeout_ms, struct ebb_err *err)
{
	_cleanup_free_ char *text = NULL;
	struct qmp q;
	int rc = qmp_open(&q, path, timeout_ms, err);

	if (rc)
		return rc;
	rc = qmp_human(&q, "info mtree -f", &text, err);
	if (!rc)
		rc = place(text, &q, t, err);
	qmp_close(&q);
	return rc;
}
