// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * replace.c - what a new daemon does before the old one goes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "qmp.h"
#include "replace.h"

#define ASK_MS 10000

static int check_store(const struct state_header *h, struct ebb_err *err)
{
	_cleanup_free_ void *page = aligned_alloc(EBB_PAGE_SIZE, EBB_PAGE_SIZE);
	_cleanup_close_ int fd = -1;

	if (!page)
		return ebb_err_set(err, -ENOMEM, "out of memory");
	fd = open(h->store_path, O_RDWR | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT && atomic_load(&h->phase) != STATE_MANAGED)
		return 0; /* it is being attached, or let go */
	if (fd < 0 || pread(fd, page, EBB_PAGE_SIZE, 0) < 0)
		return ebb_err_set(err, -errno, "%s: the pages of %s can't be read: %s", h->store_path,
				   h->name, strerror(errno));
	return 0;
}

static int check_guest(const char *path, struct ebb_err *err)
{
	struct state st;
	int rc = state_open(&st, path, err);

	if (rc == -ENOENT)
		return 0; /* let go since we looked */
	if (rc)
		return rc;
	rc = check_store(st.h, err);
	state_close(&st, false);
	return rc;
}

int replace_check(const struct daemon_conf *conf, struct ebb_err *err)
{
	DIR *dir = opendir(conf->state_dir);
	struct dirent *e;
	char path[512];
	int rc = 0;

	if (!dir)
		return ebb_err_set(err, -errno, "%s: %s", conf->state_dir, strerror(errno));
	while (!rc && (e = readdir(dir))) {
		const char *dot = strrchr(e->d_name, '.');

		if (!dot || strcmp(dot, ".state"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", conf->state_dir, e->d_name);
		rc = check_guest(path, err);
	}
	closedir(dir);
	return rc;
}

int replace_old(const struct daemon_conf *conf, struct ebb_err *err)
{
	_cleanup_free_ char *dir = realpath(conf->state_dir, NULL);
	json_t *args;
	int rc;

	if (!dir)
		return ebb_err_set(err, -errno, "%s: %s", conf->state_dir, strerror(errno));
	args = json_pack("{s:s,s:s}", "mode", "hand-over", "state-dir", dir);
	rc = qmp_execute(conf->socket, "quit", args, ASK_MS, NULL, err);
	json_decref(args);
	return rc == -ECONNREFUSED ? -ENOENT : rc;
}
