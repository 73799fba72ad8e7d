/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control_fixture.h - a control socket served by a thread, commands to try it with, clients to try.
 *
 * Included once by a test program. Clients are plain blocking sockets; they give up after 30 s,
 * so that a reply that never comes is a failure and not a hang.
 */
#ifndef TESTS_CONTROL_FIXTURE_H
#define TESTS_CONTROL_FIXTURE_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>
#include "control_internal.h"

#define BIG_LEN 30000 /* of the text the command "big" returns */

struct fixture {
	char dir[32], path[64];
	struct control *c;
	pthread_t thread;
	pthread_mutex_t lock; /* held while the socket is served: hold it to look inside */
	int stop_fd;
	atomic_int runs;   /* handlers run */
	sem_t started, go; /* the slow command: has begun, may end */
};

static struct fixture *fix;

/* A program with commands of its own defines this before. */
#ifndef FIXTURE_COMMANDS
#define FIXTURE_COMMANDS commands

/* --- commands --------------------------------------------------------------------------------- */

static int run_echo(void *daemon, json_t *args, struct control_reply *reply)
{
	struct fixture *f = daemon;

	atomic_fetch_add(&f->runs, 1);
	reply->value = json_incref(args);
	return 0;
}

static int run_fail(void *daemon, json_t *args, struct control_reply *reply)
{
	reply->class = CONTROL_DEVICE_NOT_FOUND;
	reply->value = json_object();					 /* must not leak */
	return ebb_err_set(&reply->err, -ENOENT, "no guest \xc3( here"); /* not UTF-8 */
}

static int run_mute_fail(void *daemon, json_t *args, struct control_reply *reply)
{
	return -EIO;
}

static int run_raise(void *daemon, json_t *args, struct control_reply *reply)
{
	struct fixture *f = daemon;

	control_event(f->c, "RAISED", json_pack("{s:i}", "n", 1));
	return 0;
}

static int run_big(void *daemon, json_t *args, struct control_reply *reply)
{
	char *text = malloc(BIG_LEN + 1);

	assert_non_null(text);
	memset(text, 'x', BIG_LEN);
	text[BIG_LEN] = '\0';
	reply->value = json_string(text);
	free(text);
	return 0;
}

static int run_slow(void *daemon, json_t *args, struct control_reply *reply)
{
	struct fixture *f = daemon;

	sem_post(&f->started);
	while (sem_wait(&f->go))
		;
	control_event(f->c, "SLOW_DONE", NULL);
	atomic_fetch_add(&f->runs, 1);
	reply->value = json_string("slept");
	return 0;
}

static const struct control_arg echo_args[] = {
	{"name", ARG_STRING, false, "any text"},
	{"limit", ARG_SIZE, true, "any size"},
	{"n", ARG_INT, true, "any integer"},
	{"flag", ARG_BOOL, true, "yes or no"},
	{0},
};

static const struct control_command commands[] = {
	{.name = "echo", .help = "the arguments", .args = echo_args, .run = run_echo},
	{.name = "fail", .run = run_fail},
	{.name = "mute-fail", .run = run_mute_fail},
	{.name = "raise", .run = run_raise},
	{.name = "big", .run = run_big},
	{.name = "slow", .slow = true, .run = run_slow},
	{0},
};

#endif

/* --- the server ------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
	struct fixture *f = arg;
	struct pollfd fds[2] = {
		{.fd = control_fd(f->c), .events = POLLIN},
		{.fd = f->stop_fd, .events = POLLIN},
	};

	while (poll(fds, 2, -1) >= 0 && !fds[1].revents) {
		pthread_mutex_lock(&f->lock);
		control_dispatch(f->c);
		pthread_mutex_unlock(&f->lock);
	}
	return NULL;
}

static int fixture_start(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ebb_err err;

	assert_non_null(f);
	strcpy(f->dir, "/tmp/ebb-control-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	if (control_open(f->path, FIXTURE_COMMANDS, f, &f->c, &err))
		fail_msg("%s", err.msg);
	sem_init(&f->started, 0, 0);
	sem_init(&f->go, 0, 0);
	pthread_mutex_init(&f->lock, NULL);
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
	fix = *state = f;
	return 0;
}

static inline void fixture_stop_serving(struct fixture *f)
{
	uint64_t one = 1;

	if (f->stop_fd < 0)
		return;
	assert_int_equal(write(f->stop_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(f->thread, NULL);
	close(f->stop_fd);
	f->stop_fd = -1;
}

static int fixture_end(void **state)
{
	struct fixture *f = *state;

	fixture_stop_serving(f);
	control_close(f->c);
	unlink(f->path);
	assert_int_equal(rmdir(f->dir), 0);
	sem_destroy(&f->started);
	sem_destroy(&f->go);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return 0;
}

/* --- clients ---------------------------------------------------------------------------------- */

struct client {
	int fd;
	char *buf;
	size_t len, cap;
	char *line; /* the last one read */
};

static inline int client_connect(struct client *cl, const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = 30};

	memset(cl, 0, sizeof(*cl));
	strcpy(addr.sun_path, path);
	cl->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(cl->fd >= 0);
	setsockopt(cl->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(cl->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return connect(cl->fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
}

static inline void client_close(struct client *cl)
{
	if (cl->fd >= 0)
		close(cl->fd);
	cl->fd = -1;
	free(cl->buf);
	free(cl->line);
	cl->buf = cl->line = NULL;
}

static inline void client_send(struct client *cl, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(cl->fd, data, len, MSG_NOSIGNAL);

		assert_true(n > 0);
		data += n;
		len -= (size_t)n;
	}
}

static inline void client_say(struct client *cl, const char *text)
{
	client_send(cl, text, strlen(text));
}

/* client_line() - the next line without its CRLF; NULL at the end of the stream */
static inline const char *client_line(struct client *cl)
{
	char *end;
	ssize_t n;

	while (!cl->buf || !(end = memmem(cl->buf, cl->len, "\r\n", 2))) {
		if (cl->cap - cl->len < 4096) {
			cl->cap = cl->cap * 2 + 8192;
			cl->buf = realloc(cl->buf, cl->cap);
			assert_non_null(cl->buf);
		}
		n = recv(cl->fd, cl->buf + cl->len, cl->cap - cl->len, 0);
		if (n < 0)
			fail_msg("no reply: %s", strerror(errno));
		if (n == 0)
			return NULL;
		cl->len += (size_t)n;
	}
	free(cl->line);
	cl->line = strndup(cl->buf, (size_t)(end - cl->buf));
	cl->len -= (size_t)(end + 2 - cl->buf);
	memmove(cl->buf, end + 2, cl->len);
	return cl->line;
}

/* client_expect() - the next line is @want; a '*' at its end stands for anything */
static inline void client_expect(struct client *cl, const char *want)
{
	const char *line = client_line(cl);
	size_t len = strlen(want);

	assert_non_null(line);
	if (len && want[len - 1] == '*' && !strncmp(line, want, len - 1))
		return;
	assert_string_equal(line, want);
}

static inline json_t *client_json(struct client *cl)
{
	const char *line = client_line(cl);
	json_t *msg;

	assert_non_null(line);
	msg = json_loads(line, 0, NULL);
	assert_non_null(msg);
	return msg;
}

/* client_sync() - all that was sent so far is dealt with, and there was no other reply */
static inline void client_sync(struct client *cl)
{
	client_say(cl, "{\"execute\":\"query-version\",\"id\":\"sync\"}");
	client_expect(cl, "{\"return\": {\"qemu\": {\"micro\": 0, \"minor\": 2, \"major\": 7}, "
			  "\"package\": \"ebb *");
}

static inline void client_open(struct client *cl)
{
	assert_int_equal(client_connect(cl, fix->path), 0);
	client_expect(cl, "{\"QMP\": {\"version\": *");
	client_say(cl, "{\"execute\":\"qmp_capabilities\"}");
	client_expect(cl, "{\"return\": {}}");
}

#endif
