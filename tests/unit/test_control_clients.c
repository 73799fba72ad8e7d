// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_control_clients.c - many clients, slow commands, clients that do not read or leave, the
 * socket file.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "control_fixture.h"

/* --- events ----------------------------------------------------------------------------------- */

static void test_event_to_all(void **state)
{
	struct client a, b, raw;
	json_t *msg, *stamp;

	client_open(&a);
	client_open(&b);
	assert_int_equal(client_connect(&raw, fix->path), 0);
	client_expect(&raw, "{\"QMP\": *");

	control_event(fix->c, "LIMIT_REACHED", json_pack("{s:s}", "name", "vm1"));
	msg = client_json(&a);
	stamp = json_object_get(msg, "timestamp");
	assert_true(json_integer_value(json_object_get(stamp, "seconds")) > 1600000000);
	assert_true(json_is_integer(json_object_get(stamp, "microseconds")));
	assert_string_equal(json_string_value(json_object_get(msg, "event")), "LIMIT_REACHED");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(msg, "data"), "name")), "vm1");
	json_decref(msg);
	client_expect(&b, "{\"timestamp\": *");

	/* No data, no member; and who has not negotiated gets none. */
	control_event(fix->c, "EMPTY", json_object());
	msg = client_json(&a);
	assert_null(json_object_get(msg, "data"));
	json_decref(msg);
	client_say(&raw, "{\"execute\":\"qmp_capabilities\"}");
	client_expect(&raw, "{\"return\": {}}");
	client_close(&a);
	client_close(&b);
	client_close(&raw);
}

/* An event raised by a handler comes before the handler's reply, slow or not. */
static void test_event_before_reply(void **state)
{
	struct client cl;

	client_open(&cl);
	client_say(&cl, "{\"execute\":\"raise\",\"id\":1}");
	client_expect(&cl, "{\"timestamp\": *");
	client_expect(&cl, "{\"return\": {}, \"id\": 1}");
	sem_post(&fix->go);
	client_say(&cl, "{\"execute\":\"slow\",\"id\":2}");
	client_expect(&cl, "{\"timestamp\": *");
	client_expect(&cl, "{\"return\": \"slept\", \"id\": 2}");
	client_close(&cl);
}

static void *raise_many(void *arg)
{
	int i;

	for (i = 0; i < 200; i++)
		control_event(fix->c, "MANY", json_pack("{s:i}", "n", i));
	return NULL;
}

static void test_event_from_threads(void **state)
{
	pthread_t threads[4];
	struct client cl;
	size_t i;

	client_open(&cl);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, raise_many, NULL), 0);
	for (i = 0; i < ARRAY_SIZE(threads) * 200; i++)
		client_expect(&cl, "{\"timestamp\": *");
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	client_sync(&cl);
	client_close(&cl);
}

/* most_held() - bytes of output the server holds for its greediest client */
static size_t most_held(void)
{
	struct session *s;
	size_t most = 0;

	pthread_mutex_lock(&fix->lock);
	for (s = fix->c->sessions; s; s = s->next)
		most = MAX(most, s->out_cap);
	pthread_mutex_unlock(&fix->lock);
	return most;
}

/* any_lost() - has some client missed events it was not yet told of? */
static bool any_lost(void)
{
	struct session *s;
	bool lost = false;

	pthread_mutex_lock(&fix->lock);
	for (s = fix->c->sessions; s; s = s->next)
		lost |= s->events_lost > 0;
	pthread_mutex_unlock(&fix->lock);
	return lost;
}

/* raise_ticks() - until a client has missed some, and more; @keen reads each. Returns how many. */
static int raise_ticks(struct client *keen)
{
	static char pad[1000];
	int nr = 0, stop = 1000000;

	memset(pad, 'x', sizeof(pad) - 1);
	while (nr < stop) {
		control_event(fix->c, "TICK", json_pack("{s:i, s:s}", "n", nr++, "pad", pad));
		client_expect(keen, "{\"timestamp\": *");
		if (stop == 1000000 && any_lost())
			stop = nr + 1000;
	}
	return nr;
}

/* A client that does not read costs a bounded buffer, and learns how many events it missed. */
static void test_slow_reader(void **state)
{
	struct client lazy, keen;
	json_int_t got = 0, lost = 0, next = 0;
	json_t *msg, *data, *n;
	int raised;

	client_open(&lazy);
	client_open(&keen);
	raised = raise_ticks(&keen);
	assert_true(most_held() <= 2 * SESSION_OUT_EVENTS);
	while (got + lost < raised) {
		msg = client_json(&lazy);
		data = json_object_get(msg, "data");
		n = json_object_get(data, "n");
		if (n) {
			/* in order, and the gap is where EVENTS_LOST stands */
			assert_int_equal(json_integer_value(n), next++);
			got++;
		} else {
			json_int_t count = json_integer_value(json_object_get(data, "count"));

			assert_true(count > 0);
			lost += count;
			next += count;
		}
		json_decref(msg);
	}
	assert_int_equal(got + lost, raised);
	assert_true(lost >= 1000);
	control_event(fix->c, "AGAIN", NULL);
	client_expect(&lazy, "{\"timestamp\": *");
	client_sync(&lazy);
	client_close(&lazy);
	client_close(&keen);
}

/* A client that asks and does not read is not heard: its replies do not pile up. */
static void test_slow_asker(void **state)
{
	const char *ask = "{\"execute\":\"big\"}";
	struct client cl, other;
	int asked = 0, i;

	client_open(&cl);
	client_open(&other);
	/* Far more than the buffers take in replies, far less than they take in requests. */
	for (i = 0; i < 200; i++) {
		client_say(&cl, ask);
		asked++;
		client_sync(&other);
	}
	assert_true(most_held() <= 2 * (SESSION_OUT_PAUSE + BIG_LEN));
	for (i = 0; i < asked; i++)
		client_expect(&cl, "{\"return\": \"xxxx*");
	client_sync(&cl);
	client_close(&cl);
	client_close(&other);
}

/* --- slow commands ---------------------------------------------------------------------------- */

static void test_slow_command(void **state)
{
	struct client slow, other;

	client_open(&slow);
	client_open(&other);
	client_say(&slow,
		   "{\"execute\":\"slow\",\"id\":\"s\"}{\"execute\":\"mute-fail\",\"id\":\"f\"}");
	sem_wait(&fix->started);
	client_sync(&other);
	client_sync(&other);
	sem_post(&fix->go);
	/* In order: what was piped after the slow one waited for it. */
	client_expect(&slow, "{\"timestamp\": *");
	client_expect(&slow, "{\"return\": \"slept\", \"id\": \"s\"}");
	client_expect(&slow, "{\"id\": \"f\", \"error\": *");
	client_sync(&slow);
	client_close(&slow);
	client_close(&other);
}

static unsigned int nr_sessions(void)
{
	unsigned int nr;

	pthread_mutex_lock(&fix->lock);
	nr = fix->c->nr_sessions;
	pthread_mutex_unlock(&fix->lock);
	return nr;
}

/* assert_quiet() - the descriptor comes to rest: a client that left keeps no loop spinning */
static void assert_quiet(struct client *other)
{
	struct pollfd pfd = {.fd = control_fd(fix->c), .events = POLLIN};
	int tries, ready = 1;

	for (tries = 0; tries < 1000 && ready; tries++) {
		client_sync(other);
		pthread_mutex_lock(&fix->lock);
		control_dispatch(fix->c);
		ready = poll(&pfd, 1, 0);
		pthread_mutex_unlock(&fix->lock);
	}
	assert_int_equal(ready, 0);
}

static void test_slow_leaver(void **state)
{
	struct client slow, other;

	client_open(&slow);
	client_open(&other);
	client_say(&slow, "{\"execute\":\"slow\"}"
			  "{\"execute\":\"echo\",\"arguments\":{\"name\":\"\"}}");
	sem_wait(&fix->started);
	client_close(&slow);
	client_sync(&other);
	assert_quiet(&other);
	control_event(fix->c, "NEWS", NULL);
	client_expect(&other, "{\"timestamp\": *");
	client_sync(&other);
	sem_post(&fix->go);
	client_expect(&other, "{\"timestamp\": *"); /* SLOW_DONE */
	/* Both run, though nobody waits: they were sent before the client left. */
	while (nr_sessions() > 1)
		client_sync(&other);
	assert_int_equal(atomic_load(&fix->runs), 2);
	pthread_mutex_lock(&fix->lock);
	assert_int_equal(fix->c->nr_jobs, 0);
	pthread_mutex_unlock(&fix->lock);
	client_close(&other);
}

/* control_close() with a command running waits for it: its handler uses the daemon. */
static void *let_go(void *arg)
{
	sem_wait(&fix->started);
	sem_post(&fix->go);
	return NULL;
}

static void test_slow_at_close(void **state)
{
	struct client cl;
	pthread_t thread;

	client_open(&cl);
	client_say(&cl, "{\"execute\":\"slow\"}");
	sem_wait(&fix->started);
	fixture_stop_serving(fix);
	sem_post(&fix->started);
	assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
	control_close(fix->c);
	assert_int_equal(atomic_load(&fix->runs), 1);
	pthread_join(thread, NULL);
	assert_null(client_line(&cl));
	fix->c = NULL;
	client_close(&cl);
}

static void test_too_many_jobs(void **state)
{
	struct client cl[CONTROL_MAX_JOBS], last;
	int i;

	for (i = 0; i < CONTROL_MAX_JOBS; i++) {
		client_open(&cl[i]);
		client_say(&cl[i], "{\"execute\":\"slow\"}");
		sem_wait(&fix->started);
	}
	client_open(&last);
	client_say(&last, "{\"execute\":\"slow\"}");
	client_expect(&last, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"16 slow *");
	for (i = 0; i < CONTROL_MAX_JOBS; i++)
		sem_post(&fix->go);
	for (i = 0; i < CONTROL_MAX_JOBS; i++)
		client_expect(&last, "{\"timestamp\": *");
	client_sync(&last);
	for (i = 0; i < CONTROL_MAX_JOBS; i++)
		client_close(&cl[i]);
	client_close(&last);
}

/* --- coming and going ------------------------------------------------------------------------- */

/* printf ... | socat: the sending side is closed at once, the replies are still wanted. */
static void test_half_close(void **state)
{
	struct client cl;

	assert_int_equal(client_connect(&cl, fix->path), 0);
	client_say(&cl, "{\"execute\":\"qmp_capabilities\"}{\"execute\":\"slow\"}"
			"{\"execute\":\"big\"}");
	assert_int_equal(shutdown(cl.fd, SHUT_WR), 0);
	sem_post(&fix->go);
	client_expect(&cl, "{\"QMP\": *");
	client_expect(&cl, "{\"return\": {}}");
	client_expect(&cl, "{\"timestamp\": *");
	client_expect(&cl, "{\"return\": \"slept\"}");
	client_expect(&cl, "{\"return\": \"xxx*");
	assert_null(client_line(&cl));
	client_close(&cl);
}

/*
 * The same when the end is seen before all replies are sent. How much the socket holds is the
 * kernel's affair: one of these numbers leaves a little in our own buffer.
 */
static void test_half_close_late(void **state)
{
	struct client cl, other;
	int nr, i;

	client_open(&other);
	for (nr = 1; nr <= 16; nr++) {
		client_open(&cl);
		for (i = 0; i < nr; i++)
			client_say(&cl, "{\"execute\":\"big\"}");
		assert_int_equal(shutdown(cl.fd, SHUT_WR), 0);
		assert_quiet(&other);
		for (i = 0; i < nr; i++)
			client_expect(&cl, "{\"return\": \"xxx*");
		assert_null(client_line(&cl));
		client_close(&cl);
	}
	client_close(&other);
}

/* A client that will not hear the reply has still given its commands. */
static void test_deaf_client(void **state)
{
	struct client cl, other;

	client_open(&other);
	client_open(&cl);
	assert_int_equal(shutdown(cl.fd, SHUT_RD), 0);
	client_say(&cl, "{\"execute\":\"echo\",\"arguments\":{\"name\":\"\"}}"
			"{\"execute\":\"echo\",\"arguments\":{\"name\":\"\"}}");
	while (atomic_load(&fix->runs) < 2)
		client_sync(&other);
	client_close(&cl);
	while (nr_sessions() > 1)
		client_sync(&other);
	client_close(&other);
}

static void test_too_many_clients(void **state)
{
	struct client cl[CONTROL_MAX_SESSIONS], last;
	int i;

	for (i = 0; i < CONTROL_MAX_SESSIONS; i++)
		client_open(&cl[i]);
	assert_int_equal(client_connect(&last, fix->path), 0);
	client_expect(&last, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"64 clients *");
	assert_null(client_line(&last));
	client_close(&last);
	client_close(&cl[5]);
	client_sync(&cl[6]); /* by now the server has noticed */
	client_open(&cl[5]);
	for (i = 0; i < CONTROL_MAX_SESSIONS; i++) {
		client_sync(&cl[i]);
		client_close(&cl[i]);
	}
}

/* as_nobody() - what a client of another uid is told first; NULL: it could not connect */
static const char *as_nobody(char *buf, size_t size)
{
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct client cl;
		const char *line = NULL;

		if (setgid(65534) || setuid(65534))
			_exit(9);
		if (!client_connect(&cl, fix->path))
			line = client_line(&cl);
		if (line && write(fds[1], line, strlen(line)) < 0)
			_exit(9);
		_exit(0);
	}
	close(fds[1]);
	n = read(fds[0], buf, size - 1);
	assert_true(n >= 0);
	buf[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return n ? buf : NULL;
}

static void test_who_may(void **state)
{
	char buf[512];
	struct stat st;
	struct client cl;

	assert_int_equal(stat(fix->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	if (geteuid()) {
		print_message("not root: other users cannot be tried\n");
		skip();
	}
	assert_int_equal(chmod(fix->dir, 0755), 0);
	assert_null(as_nobody(buf, sizeof(buf)));
	/* Even where the file's mode lets somebody in, the credentials do not. */
	assert_int_equal(chmod(fix->path, 0666), 0);
	assert_non_null(as_nobody(buf, sizeof(buf)));
	assert_non_null(strstr(buf, "you are uid 65534"));
	assert_null(strstr(buf, "QMP"));
	/* The owner may, and is who owns the file now. */
	assert_int_equal(chown(fix->path, 65534, 65534), 0);
	assert_non_null(as_nobody(buf, sizeof(buf)));
	assert_non_null(strstr(buf, "QMP"));
	client_open(&cl);
	client_close(&cl);
}

/* --- the socket file -------------------------------------------------------------------------- */

static void test_live_socket(void **state)
{
	struct control *second = NULL;
	struct ebb_err err;
	struct client cl;

	assert_int_equal(control_open(fix->path, commands, fix, &second, &err), -EADDRINUSE);
	assert_null(second);
	assert_non_null(strstr(err.msg, fix->path));
	assert_non_null(strstr(err.msg, "answers"));
	client_open(&cl); /* the first lives on */
	client_close(&cl);
}

static void leave_stale_socket(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
}

static void test_stale_socket(void **state)
{
	struct control *c;
	struct ebb_err err;
	char path[80];

	snprintf(path, sizeof(path), "%s/stale", fix->dir);
	leave_stale_socket(path);
	assert_int_equal(access(path, F_OK), 0);
	if (control_open(path, commands, fix, &c, &err))
		fail_msg("%s", err.msg);
	control_close(c);
	assert_int_equal(access(path, F_OK), -1);
}

static void test_not_ours(void **state)
{
	struct control *c = NULL;
	struct ebb_err err;
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/file", fix->dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "data", 4), 4);
	assert_int_equal(control_open(path, commands, fix, &c, &err), -EEXIST);
	assert_int_equal(lseek(fd, 0, SEEK_END), 4);
	close(fd);
	assert_int_equal(unlink(path), 0); /* it was still there */

	snprintf(path, sizeof(path), "%s/none/sock", fix->dir);
	assert_int_equal(control_open(path, commands, fix, &c, &err), -ENOENT);
	snprintf(path, sizeof(path), "%s/%0120d", fix->dir, 1);
	assert_int_equal(control_open(path, commands, fix, &c, &err), -ENAMETOOLONG);
	assert_null(c);

	/* A file that has taken the place of our socket is not removed with it. */
	snprintf(path, sizeof(path), "%s/other", fix->dir);
	assert_int_equal(control_open(path, commands, fix, &c, &err), 0);
	assert_int_equal(unlink(path), 0);
	leave_stale_socket(path);
	control_close(c);
	assert_int_equal(unlink(path), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_start, fixture_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_event_to_all),	    T(test_event_before_reply),
		T(test_event_from_threads), T(test_slow_reader),
		T(test_slow_asker),	    T(test_slow_command),
		T(test_slow_leaver),	    T(test_slow_at_close),
		T(test_too_many_jobs),	    T(test_half_close),
		T(test_half_close_late),    T(test_deaf_client),
		T(test_too_many_clients),   T(test_who_may),
		T(test_live_socket),	    T(test_stale_socket),
		T(test_not_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
