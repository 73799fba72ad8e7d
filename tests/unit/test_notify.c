// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_notify.c - what the service manager is told, over a socket with a path and one without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>
#include "vmm/notify.h"

/* A manager that listens at @name ('@': abstract). */
static int listen_at(const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	size_t len = strlen(name);

	memcpy(addr.sun_path, name, len);
	if (name[0] == '@')
		addr.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&addr,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)), 0);
	return fd;
}

static void assert_hears(const char *name)
{
	int fd = listen_at(name);
	char buf[64] = "";

	setenv("NOTIFY_SOCKET", name, 1);
	notify_send("READY=1");
	assert_int_equal(recv(fd, buf, sizeof(buf) - 1, 0), 7);
	assert_string_equal(buf, "READY=1");
	close(fd);
}

static void test_path(void **state)
{
	char dir[] = "/tmp/ebb-notify.XXXXXX", name[64];

	assert_non_null(mkdtemp(dir));
	snprintf(name, sizeof(name), "%s/socket", dir);
	assert_hears(name);
	unlink(name);
	notify_send("READY=1"); /* nobody there any more: a line in the log */
	rmdir(dir);
}

static void test_abstract(void **state)
{
	char name[64];

	snprintf(name, sizeof(name), "@ebb-notify-%d", getpid());
	assert_hears(name);
}

static void test_nobody(void **state)
{
	char name[200];

	unsetenv("NOTIFY_SOCKET");
	notify_send("READY=1");
	setenv("NOTIFY_SOCKET", "relative", 1);
	notify_send("READY=1");
	snprintf(name, sizeof(name), "/%0150d", 1);
	setenv("NOTIFY_SOCKET", name, 1);
	notify_send("READY=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_abstract),
		cmocka_unit_test(test_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
