// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * listen.c - print what ebbd's control socket says for some seconds: its events, a line each.
 *
 * listen SOCKET SECONDS
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const char hello[] = "{\"execute\": \"qmp_capabilities\"}\n";
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char buf[4096];
	time_t end;

	if (argc != 3)
		return 2;
	end = time(NULL) + atoi(argv[2]);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", argv[1]);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    write(fd, hello, strlen(hello)) != (ssize_t)strlen(hello)) {
		perror(argv[1]);
		return 1;
	}
	while (time(NULL) < end) {
		ssize_t n;

		if (poll(&p, 1, 500) <= 0)
			continue;
		n = read(fd, buf, sizeof(buf));
		if (n <= 0 || write(STDOUT_FILENO, buf, (size_t)n) != n)
			break;
	}
	close(fd);
	return 0;
}
