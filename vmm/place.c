// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * place.c - the directories a daemon works in, and the lock by which one at a time does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ebb/log.h>
#include "place.h"

int place_make_dir(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST) {
		log_err("cannot make the directory %s: %s", path, strerror(errno));
		return -errno;
	}
	if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
		log_err("%s: not a directory", path);
		return -ENOTDIR;
	}
	if (st.st_uid != geteuid() || st.st_mode & 022) {
		log_err("%s must belong to uid %u and not be writable by others%s", path, geteuid(),
			geteuid() ? "; run ebbd as root" : "");
		return -EPERM;
	}
	(void)chmod(path, 0700); /* ebb-run may have made it, as a parent of its own */
	return 0;
}

int place_lock(const char *dir, int wait_ms)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		log_err("%s: %s", path, strerror(errno));
		return -errno;
	}
	for (int ms = 0; flock(fd, LOCK_EX | LOCK_NB); ms += 10) {
		if (ms == 1000)
			log_info("%s: waiting for another ebbd to end", dir);
		if (ms >= wait_ms) {
			log_err("%s: another ebbd works there (running, or stopped by a signal): end it, or "
				"give this one its own --state-dir and --socket", dir);
			close(fd);
			return -EBUSY;
		}
		usleep(10000);
	}
	return fd;
}
