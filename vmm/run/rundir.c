// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rundir.c - makes, locks, sweeps and removes the private directories of runs.
 *
 * A run holds a lock on its directory. A directory whose lock is free belonged to an ebb-run that
 * is gone; its QEMU may live on, so the directory is removed only when nobody answers on its
 * sockets either.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "rundir.h"
#include "strlist.h"

#define RUNDIR_TEMPLATE "run-XXXXXX"

/* The longest socket in the directory must fit in sun_path. */
#define RUNDIR_MAX_PATH (sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/ebbd/ebb.sock"))

/** make_dirs() - mkdir -p; the last one must be ours, and nobody else may enter it */
static int make_dirs(const char *path, struct ebb_err *err)
{
	_cleanup_free_ char *copy = run_strdup(path);
	struct stat st;

	for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(copy, 0755) && errno != EEXIST)
			return ebb_err_set(err, -errno, "cannot make the directory %s: %s", copy,
					   strerror(errno));
		*p = '/';
	}
	if (mkdir(path, 0700) && errno != EEXIST)
		return ebb_err_set(err, -errno, "cannot make the directory %s: %s", path,
				   strerror(errno));
	if (lstat(path, &st))
		return ebb_err_set(err, -errno, "cannot look at %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return ebb_err_set(
			err, -EPERM,
			"%s is not a directory only you can enter (mode 0700); remove it", path);
	return 0;
}

static char *base_path(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (!geteuid())
		return run_strdup("/run/ebb/run");
	if (runtime && *runtime == '/')
		return run_asprintf("%s/ebb", runtime);
	return run_asprintf("/tmp/ebb-%u", (unsigned int)geteuid());
}

static char *swap_base_path(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (!geteuid())
		return run_strdup("/var/lib/ebb/run");
	if (state && *state == '/')
		return run_asprintf("%s/ebb", state);
	if (home && *home == '/')
		return run_asprintf("%s/.local/state/ebb", home);
	return run_asprintf("/var/tmp/ebb-%u", (unsigned int)geteuid());
}

/** remove_tree() - a directory with the files in it and in its directories, two levels deep */
static void remove_tree(int parent, const char *name, int depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *d;
	DIR *dir;

	if (fd < 0)
		return;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return;
	}
	while ((d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (unlinkat(fd, d->d_name, 0) && errno == EISDIR && depth > 0)
			remove_tree(fd, d->d_name, depth - 1);
	}
	closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static bool somebody_answers(const char *dir, const char *socket_name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd, rc;

	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", dir, socket_name) >=
	    (int)sizeof(addr.sun_path))
		return true;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return true;
	rc = connect(fd, (struct sockaddr *)&addr, sizeof(addr));
	/* A full backlog (EAGAIN) is somebody, too. */
	if (rc && (errno == ENOENT || errno == ECONNREFUSED)) {
		close(fd);
		return false;
	}
	close(fd);
	return true;
}

/** remove_swap() - the directory on disk that belongs to the run @name */
static void remove_swap(const char *name)
{
	_cleanup_free_ char *base = swap_base_path();
	_cleanup_close_ int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		remove_tree(fd, name, 1);
}

static void sweep_one(int base_fd, const char *base, const char *name)
{
	_cleanup_free_ char *path = run_asprintf("%s/%s", base, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB))
		return;
	if (somebody_answers(path, "qmp.sock") || somebody_answers(path, "ebbd/ebb.sock"))
		return;
	remove_swap(name);
	remove_tree(base_fd, name, 2);
}

static void sweep(const char *base)
{
	DIR *dir = opendir(base);
	struct dirent *d;

	if (!dir)
		return;
	while ((d = readdir(dir)))
		if (!strncmp(d->d_name, "run-", 4))
			sweep_one(dirfd(dir), base, d->d_name);
	closedir(dir);
}

/** make_locked() - a new directory; another run's sweep may get its lock first, then try again */
static int make_locked(struct rundir *rd, const char *base, struct ebb_err *err)
{
	for (int tries = 0; tries < 10; tries++) {
		char *path = run_asprintf("%s/" RUNDIR_TEMPLATE, base);
		struct stat st;
		int fd;

		if (!mkdtemp(path)) {
			int rc = -errno;

			free(path);
			return ebb_err_set(err, rc, "cannot make a directory in %s: %s", base,
					   strerror(-rc));
		}
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_nlink) {
			rd->path = path;
			rd->fd = fd;
			return 0;
		}
		cleanup_close(&fd);
		free(path);
	}
	return ebb_err_set(err, -EAGAIN, "cannot lock a directory in %s", base);
}

int rundir_open(struct rundir *ret, struct ebb_err *err)
{
	_cleanup_free_ char *base = base_path();
	struct rundir rd = {.fd = -1};
	int rc;

	if (strlen(base) + sizeof("/" RUNDIR_TEMPLATE) > RUNDIR_MAX_PATH)
		return ebb_err_set(err, -ENAMETOOLONG,
				   "%s is too long for the sockets in it; set XDG_RUNTIME_DIR to a "
				   "shorter path",
				   base);
	rc = make_dirs(base, err);
	if (rc)
		return rc;
	sweep(base);
	rc = make_locked(&rd, base, err);
	if (!rc)
		*ret = rd;
	return rc;
}

int rundir_make_swap(struct rundir *rd, struct ebb_err *err)
{
	_cleanup_free_ char *base = swap_base_path();
	char *path;
	int rc = make_dirs(base, err);

	if (rc)
		return rc;
	path = run_asprintf("%s%s", base, strrchr(rd->path, '/'));
	if (mkdir(path, 0700)) {
		rc = ebb_err_set(err, -errno, "cannot make the directory %s: %s", path,
				 strerror(errno));
		free(path);
		return rc;
	}
	rd->swap = path;
	return 0;
}

void rundir_close(struct rundir *rd)
{
	if (rd->swap)
		remove_swap(strrchr(rd->swap, '/') + 1);
	if (rd->path)
		remove_tree(AT_FDCWD, rd->path, 2);
	cleanup_close(&rd->fd);
	free(rd->path);
	free(rd->swap);
	*rd = (struct rundir) {.fd = -1};
}
