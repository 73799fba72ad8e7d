// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * notify.c - one datagram to the socket that $NOTIFY_SOCKET names; '@' begins an abstract name.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <ebb/log.h>
#include <ebb/types.h>
#include "notify.h"

void notify_send(const char *text)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	_cleanup_close_ int fd = -1;

	if (!len)
		return;
	if (len >= sizeof(addr.sun_path) || (path[0] != '/' && path[0] != '@')) {
		log_warn("NOTIFY_SOCKET=%s: not a socket's path", path);
		return;
	}
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_warn("cannot tell the service manager: %m");
}
