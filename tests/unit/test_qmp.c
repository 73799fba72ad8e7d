// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_qmp.c - the monitor client against a server that is polite, slow, rude or silent.
 *
 * The server is a thread with a script: each step says something, or reads one request, or
 * stalls.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "vmm/qmp.h"

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\r\n"
#define OK(id)	 "{\"return\": {}, \"id\": " id "}\r\n"
#define EVENT	 "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"RESUME\"}\r\n"
#define LONG	 20000 /* a time-out that no passing test waits for */
#define SHORT	 100

/** struct step - one thing the server does */
struct step {
	enum { SAY, READ, DRIBBLE, STALL, FLOOD } what;
	const char *text; /* SAY, DRIBBLE: what; READ: what the request must contain */
};

static struct server {
	char dir[32], path[64];
	int listener;
	const struct step *steps;
	size_t nr;
	pthread_t thread;
	bool wrong;
} srv;

static void say(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

static bool read_request(int fd, const char *wanted)
{
	char buf[512];
	size_t len = 0;

	while (len < sizeof(buf) - 1 && read(fd, buf + len, 1) == 1 && buf[len] != '\n')
		len++;
	buf[len] = '\0';
	return strstr(buf, wanted);
}

static void stall(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};

	poll(&p, 1, 30000);
}

static void play(int fd, const struct step *s)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	switch (s->what) {
	case SAY:
		say(fd, s->text, strlen(s->text));
		break;
	case READ:
		srv.wrong |= !read_request(fd, s->text);
		break;
	case DRIBBLE:
		for (const char *p = s->text; *p; p++) {
			say(fd, p, 1);
			nanosleep(&nap, NULL);
		}
		break;
	case STALL:
		stall(fd);
		break;
	case FLOOD:
		for (int i = 0; i < 200000; i++)
			say(fd, s->text, strlen(s->text));
		break;
	}
}

static void *serve(void *arg)
{
	int fd = accept4(srv.listener, NULL, NULL, SOCK_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < srv.nr; i++)
		play(fd, &srv.steps[i]);
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void listen_at(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	strcpy(addr.sun_path, path);
	srv.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(srv.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(srv.listener, 1), 0);
}

static void start(const struct step *steps, size_t nr)
{
	memset(&srv, 0, sizeof(srv));
	strcpy(srv.dir, "/tmp/ebb-test.XXXXXX");
	assert_non_null(mkdtemp(srv.dir));
	snprintf(srv.path, sizeof(srv.path), "%s/qmp", srv.dir);
	listen_at(srv.path);
	srv.steps = steps;
	srv.nr = nr;
	assert_int_equal(pthread_create(&srv.thread, NULL, serve, NULL), 0);
}

static void finish(void)
{
	pthread_join(srv.thread, NULL);
	close(srv.listener);
	unlink(srv.path);
	rmdir(srv.dir);
	assert_false(srv.wrong);
}

#define START(...)                                                                                 \
	const struct step steps_[] = {__VA_ARGS__};                                                \
	start(steps_, ARRAY_SIZE(steps_))

static void test_command(void **state)
{
	json_t *value = NULL, *args = json_pack("{s:i}", "x", 7);

	START({SAY, GREETING}, {READ, "\"qmp_capabilities\""}, {SAY, OK("0")},
	      {READ, "\"arguments\":{\"x\":7}"},
	      {SAY, "{\"return\": {\"status\": \"running\"}, \"id\": 1}\r\n"});
	assert_int_equal(qmp_execute(srv.path, "query-status", args, LONG, &value, NULL), 0);
	assert_string_equal(json_string_value(json_object_get(value, "status")), "running");
	json_decref(value);
	json_decref(args);
	finish();
}

static void test_events_and_pieces(void **state)
{
	json_t *value = NULL;

	START({DRIBBLE, GREETING}, {READ, "qmp_capabilities"}, {SAY, EVENT EVENT OK("0") EVENT},
	      {READ, "query-name"}, {SAY, EVENT},
	      {DRIBBLE, "{\"return\": {\"name\": \"x\"}, \"id\": 1}\n"});
	assert_int_equal(qmp_execute(srv.path, "query-name", NULL, LONG, &value, NULL), 0);
	assert_string_equal(json_string_value(json_object_get(value, "name")), "x");
	json_decref(value);
	finish();
}

static void test_human_command(void **state)
{
	char *text = NULL;

	START({SAY, GREETING}, {READ, "qmp_capabilities"}, {SAY, OK("0")},
	      {READ, "{\"command-line\":\"info mtree -f\"}"},
	      {SAY, "{\"return\": \"FlatView #0\\r\\n\", \"id\": 1}\r\n"});
	assert_int_equal(qmp_hmp(srv.path, "info mtree -f", LONG, &text, NULL), 0);
	assert_string_equal(text, "FlatView #0\r\n");
	free(text);
	finish();
}

static void test_error_is_passed_on(void **state)
{
	struct ebb_err err;

	START({SAY, GREETING}, {READ, "qmp_capabilities"}, {SAY, OK("0")}, {READ, "stop"},
	      {SAY,
	       "{\"id\": 1, \"error\": {\"class\": \"GenericError\", \"desc\": \"not now\"}}\r\n"});
	assert_int_equal(qmp_execute(srv.path, "stop", NULL, LONG, NULL, &err), -EREMOTEIO);
	assert_non_null(strstr(err.msg, "not now"));
	finish();
}

static void test_silent_from_the_start(void **state)
{
	json_t *value = NULL;
	struct ebb_err err;

	START({STALL, ""});
	assert_int_equal(qmp_execute(srv.path, "stop", NULL, SHORT, &value, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.msg, "one client at a time"));
	assert_null(value);
	finish();
}

static void test_silent_later(void **state)
{
	struct ebb_err err;

	START({SAY, GREETING}, {READ, "qmp_capabilities"}, {SAY, OK("0")}, {READ, "stop"},
	      {SAY, EVENT}, {STALL, ""});
	assert_int_equal(qmp_execute(srv.path, "stop", NULL, SHORT, NULL, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.msg, "hangs"));
	finish();
}

static void test_half_a_message(void **state)
{
	START({SAY, GREETING}, {READ, "qmp_capabilities"}, {SAY, "{\"return\": {}, \"id\""},
	      {STALL, ""});
	assert_int_equal(qmp_execute(srv.path, "stop", NULL, SHORT, NULL, NULL), -ETIMEDOUT);
	finish();
}

static void garbage(const char *text)
{
	struct ebb_err err;

	START({SAY, text}, {STALL, ""});
	assert_int_equal(qmp_execute(srv.path, "stop", NULL, LONG, NULL, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "does not speak QMP"));
	finish();
}

static void test_garbage(void **state)
{
	garbage("QEMU 7.2.22 monitor - type 'help' for more information\r\n(qemu) ");
	garbage("[1, 2]\n");
	garbage("\n");
	garbage("{\"return\": {}}\n");
	garbage("{\"QMP\": {}, \"QMP\n");
}

static void test_endless_answer(void **state)
{
	START({SAY, GREETING}, {READ, "qmp_capabilities"},
	      {FLOOD, "0123456789012345678901234567890123456789012345678901234567890123456789"});
	assert_int_equal(qmp_execute(srv.path, "stop", NULL, LONG, NULL, NULL), -EMSGSIZE);
	finish();
}

static void test_hangs_up(void **state)
{
	struct ebb_err err;

	START({SAY, GREETING}, {READ, "qmp_capabilities"}, {SAY, OK("0")}, {READ, "stop"});
	assert_int_equal(qmp_execute(srv.path, "stop", NULL, LONG, NULL, &err), -ECONNRESET);
	assert_non_null(strstr(err.msg, "closed"));
	finish();
}

static void test_nobody_there(void **state)
{
	char path[200];
	struct ebb_err err;

	assert_int_equal(qmp_execute("/nonexistent/qmp", "stop", NULL, LONG, NULL, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/nonexistent/qmp"));
	memset(path, 'a', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(qmp_execute(path, "stop", NULL, LONG, NULL, &err), -ENAMETOOLONG);
}

/* Accepted by the kernel, never by the server; then not even by the kernel. */
static void test_full_queue(void **state)
{
	char dir[] = "/tmp/ebb-test.XXXXXX", path[64];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int waiting[8], n = 0;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/qmp", dir);
	strcpy(addr.sun_path, path);
	listen_at(path);
	for (; n < 8; n++) {
		waiting[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(waiting[n], (struct sockaddr *)&addr, sizeof(addr)))
			break;
	}
	assert_true(n < 8);
	assert_int_equal(qmp_execute(path, "stop", NULL, SHORT, NULL, NULL), -ETIMEDOUT);
	for (; n >= 0; n--)
		close(waiting[n]);
	close(srv.listener);
	unlink(path);
	rmdir(dir);
}

static void test_places_regions(void **state)
{
	struct region_table t = {.nr = 1, .nr_pages = 256};

	t.r[0] = (struct region) {.nr = 256, .hva = 0x7f0000000000, .gpa = REGION_GPA_UNKNOWN};
	START({SAY, GREETING}, {READ, "qmp_capabilities"}, {SAY, OK("0")}, {READ, "info mtree -f"},
	      {SAY,
	       "{\"return\": \"FlatView #0\\r\\n AS \\\"memory\\\", root: system\\r\\n"
	       "  0000000040000000-00000000400fffff (prio 0, ram): mach-virt.ram\\r\\n"
	       "  0000000080000000-00000000800fffff (prio 0, ram): other\\r\\n\", \"id\": 1}\r\n"},
	      {READ, "gpa2hva 0x40000000"},
	      {SAY, "{\"return\": \"Host virtual address for 0x40000000 (mach-virt.ram) is "
		    "0x7f0000000000\\r\\n\", \"id\": 2}\r\n"},
	      {READ, "gpa2hva 0x80000000"},
	      {SAY,
	       "{\"return\": \"No memory is mapped at address 0x80000000\\r\\n\", \"id\": 3}\r\n"});
	assert_int_equal(qmp_place_regions(srv.path, &t, LONG, NULL), 0);
	assert_int_equal(t.nr, 1);
	assert_int_equal(t.r[0].gpa, 0x40000000);
	assert_string_equal(t.r[0].name, "mach-virt.ram");
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_events_and_pieces),
		cmocka_unit_test(test_human_command),
		cmocka_unit_test(test_error_is_passed_on),
		cmocka_unit_test(test_silent_from_the_start),
		cmocka_unit_test(test_silent_later),
		cmocka_unit_test(test_half_a_message),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_endless_answer),
		cmocka_unit_test(test_hangs_up),
		cmocka_unit_test(test_nobody_there),
		cmocka_unit_test(test_full_queue),
		cmocka_unit_test(test_places_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
