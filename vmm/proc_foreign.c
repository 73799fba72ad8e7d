// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * proc_foreign.c - name a process that maps, or holds open, a memfd that is guest RAM.
 *
 * A second mapper (a vhost-user back end, virtiofsd) has page tables of its own that
 * userfaultfd does not watch: it would read evicted pages as zeros and, by reading, put those
 * zeros into the guest. An open descriptor is where such a mapping comes from.
 *
 * Some processes hide even from root (a container's root meets those with more rights than its
 * own). They are passed over: this scan is what gives a culprit its name, while the counts kept
 * by the kernel (see pinguard.h) miss nobody.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "procmem.h"

static bool is_region_file(const struct region_table *t, dev_t dev, ino_t ino)
{
	for (unsigned int i = 0; i < t->nr; i++) {
		if (t->r[i].dev == dev && t->r[i].ino == ino)
			return true;
	}
	return false;
}

static int match_map(const struct proc_map *map, void *arg)
{
	return is_region_file(arg, map->dev, map->ino);
}

/* 1, 0, or -EMFILE and the like: the look itself failed, which says nothing about the process. */
static int maps_one(pid_t pid, const struct region_table *t)
{
	int rc = proc_for_each_map(pid, match_map, (void *)(uintptr_t)t);

	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM ? rc : rc > 0;
}

static bool holds_one(pid_t pid, const struct region_table *t)
{
	struct dirent *e;
	struct stat st;
	char path[32];
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	if (!d)
		return false;
	while (!found && (e = readdir(d)))
		found = !fstatat(dirfd(d), e->d_name, &st, 0) &&
			is_region_file(t, st.st_dev, st.st_ino);
	closedir(d);
	return found;
}

static int look_at(pid_t pid, pid_t vmm, const struct region_table *t, struct ebb_err *err)
{
	struct proc_id id;
	int maps = maps_one(pid, t);

	if (maps < 0)
		return ebb_err_set(err, maps, "cannot look for other mappers of guest RAM: %s",
				   strerror(-maps));
	if (!maps && !holds_one(pid, t))
		return 0;
	if (proc_identify(pid, &id, NULL))
		return 0; /* it has ended since */
	return ebb_err_set(
		err, -EBUSY,
		"process %d (%s) %s guest RAM of process %d: it would read zeros "
		"where pages are evicted; stop it, or run the guest without what needs it "
		"(vhost-user, virtiofs)",
		pid, id.exe[0] ? id.exe : id.comm, maps ? "maps" : "holds open", vmm);
}

int proc_foreign_mapper(pid_t pid, const struct region_table *t, struct ebb_err *err)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int rc = 0;

	if (!d)
		return ebb_err_set(err, -errno, "cannot list /proc: %s", strerror(errno));
	while (!rc && (e = readdir(d))) {
		pid_t other = atoi(e->d_name);

		if (other > 0 && other != pid && other != getpid())
			rc = look_at(other, pid, t, err);
	}
	closedir(d);
	return rc;
}
