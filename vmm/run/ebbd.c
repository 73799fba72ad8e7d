// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ebbd.c - finds the daemon of the host, or prepares and starts a private one.
 *
 * A private daemon that dies is started again on the same directories: it takes its guest over, and
 * the guest's faults wait meanwhile. Its output goes to a file, because QEMU may have the terminal
 * in raw mode.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "ebbd.h"
#include "strlist.h"

#define HOST_SOCKET "/run/ebb/ebb.sock"

static int try_connect(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* A full backlog is somebody who is busy. */
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) && errno != EAGAIN ? -errno : 0;
}

int ebbd_find(const struct ebbd_conf *conf, struct ebbd *ret, struct ebb_err *err)
{
	const char *path = conf->socket ? conf->socket : HOST_SOCKET;
	int rc = try_connect(path);

	if (rc == -ENOENT || rc == -ECONNREFUSED || rc == -ENOTDIR)
		return -ENOENT;
	if (rc == -EACCES || rc == -EPERM)
		return ebb_err_set(
			err, rc,
			"you may not use the daemon's socket %s: run this as root, or as the "
			"socket's owner",
			path);
	if (rc)
		return ebb_err_set(err, rc, "cannot connect to the daemon's socket %s: %s", path,
				   strerror(-rc));
	*ret = (struct ebbd) {.socket = run_strdup(path)};
	return 0;
}

/** find_program() - beside ourselves, or where it is installed beside us; else by PATH */
static char *find_program(void)
{
	static const char *const places[] = {"ebbd", "../sbin/ebbd"};
	char self[4096], *slash, *path;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len < 0)
		return run_strdup("ebbd");
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		path = run_asprintf("%s/%s", self, places[i]);
		if (!access(path, X_OK))
			return path;
		free(path);
	}
	return run_strdup("ebbd");
}

int ebbd_prepare(const struct ebbd_conf *conf, struct rundir *rd, struct ebbd *ret,
		 struct ebb_err *err)
{
	_cleanup_free_ char *dir = run_asprintf("%s/ebbd", rd->path);
	struct ebbd e = {0};
	struct strlist argv = {0};
	int rc;

	if (mkdir(dir, 0700))
		return ebb_err_set(err, -errno, "cannot make the directory %s: %s", dir,
				   strerror(errno));
	if (!conf->swap_dir) {
		rc = rundir_make_swap(rd, err);
		if (rc)
			return rc;
	}
	e.socket = conf->socket ? run_strdup(conf->socket) : run_asprintf("%s/ebb.sock", dir);
	e.log = conf->verbose ? NULL : run_asprintf("%s/log", dir);
	strlist_add(&argv, find_program());
	strlist_add(&argv, run_strdup("--socket"));
	strlist_add(&argv, run_strdup(e.socket));
	strlist_add(&argv, run_strdup("--state-dir"));
	strlist_add(&argv, run_strdup(conf->state_dir ? conf->state_dir : dir));
	strlist_add(&argv, run_strdup("--swap-dir"));
	strlist_add(&argv, run_strdup(conf->swap_dir ? conf->swap_dir : rd->swap));
	e.argv = argv.v;
	*ret = e;
	return 0;
}

int ebbd_start(struct ebbd *e, const struct child_env *env, struct ebb_err *err)
{
	_cleanup_close_ int log_fd =
		e->log ? open(e->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) :
			 fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int rc;

	if (log_fd < 0)
		return ebb_err_set(err, -errno, "cannot open %s: %s", e->log ? e->log : "stderr",
				   strerror(errno));
	rc = child_spawn_service(env, e->argv, log_fd, &e->pid);
	if (rc)
		return ebb_err_set(err, rc,
				   "no daemon answers, and a private one cannot be started: %s: %s",
				   e->argv[0], strerror(-rc));
	return 0;
}

int ebbd_answers(const struct ebbd *e)
{
	return try_connect(e->socket);
}

char *ebbd_last_words(const struct ebbd *e, char *buf, size_t size)
{
	FILE *f = e->log ? fopen(e->log, "re") : NULL;
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	buf[0] = '\0';
	while (f && getline(&line, &room, f) > 0)
		snprintf(buf, size, "%s", line);
	buf[strcspn(buf, "\n")] = '\0';
	if (f)
		fclose(f);
	return buf;
}

void ebbd_free(struct ebbd *e)
{
	for (char **p = e->argv; p && *p; p++)
		free(*p);
	free(e->argv);
	free(e->socket);
	free(e->log);
	*e = (struct ebbd) {0};
}
