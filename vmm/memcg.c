// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * memcg.c - read the memory cgroups of a process.
 *
 * What a group can still take is its limit less its use, and its inactive page cache on top: the kernel drops that
 * first. Everything else that might be reclaimed is left out, for beyond the limit a process is killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "memcg.h"

struct hierarchy {
	const char *mount, *max, *used, *cache;
};

static const struct hierarchy v1 = {
	"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
};
static const struct hierarchy v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
static const struct hierarchy hybrid = {
	"/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file",
};

/* A number; UINT64_MAX for "max", an unlimited v1 value, or no such file. */
static uint64_t read_number(const char *dir, const char *file)
{
	unsigned long long v;
	char path[4400];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	n = fscanf(f, "%llu", &v);
	fclose(f);
	return n == 1 && v < INT64_MAX - (1 << 20) ? v : UINT64_MAX;
}

/* A line of memory.stat, 0 where there is none. */
static uint64_t read_stat(const char *dir, const char *key)
{
	unsigned long long v, found = 0;
	char path[4400], name[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	f = fopen(path, "re");
	while (f && fscanf(f, "%63s %llu", name, &v) == 2)
		if (!strcmp(name, key))
			found = v;
	if (f)
		fclose(f);
	return found;
}

void memcg_add_group(struct memcg *m, uint64_t max, uint64_t used, uint64_t cache, const char *path)
{
	uint64_t held = used > cache ? used - cache : 0, room = max > held ? max - held : 0;

	if (max == UINT64_MAX)
		return;
	m->max = MIN(m->max, max);
	if (room >= m->room)
		return;
	m->room = room;
	snprintf(m->path, sizeof(m->path), "%.255s", path);
}

/* @group and all above it. */
static void add_groups(struct memcg *m, const struct hierarchy *h, const char *group)
{
	char name[4096], dir[4200], *slash;

	snprintf(name, sizeof(name), "%s", strcmp(group, "/") ? group : "");
	for (;;) {
		uint64_t max, used;

		snprintf(dir, sizeof(dir), "%s%s", h->mount, name);
		max = read_number(dir, h->max);
		if (max != UINT64_MAX) {
			used = read_number(dir, h->used);
			memcg_add_group(m, max, used == UINT64_MAX ? 0 : used, read_stat(dir, h->cache),
					dir);
		}
		slash = strrchr(name, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* One line of /proc/PID/cgroup: "0::/a/b" (v2) or "4:memory:/a/b" (v1). */
static void add_line(struct memcg *m, char *line)
{
	char *controllers = strchr(line, ':'),
	     *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!group)
		return;
	*group++ = '\0';
	controllers++;
	group[strcspn(group, "\n")] = '\0';
	if (controllers[0] && strstr(controllers, "memory")) {
		add_groups(m, &v1, group);
	} else if (!controllers[0]) {
		add_groups(m, &v2, group);
		add_groups(m, &hybrid, group);
	}
}

void memcg_find(pid_t pid, struct memcg *ret)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	char path[32];
	FILE *f;

	*ret = (struct memcg){.max = UINT64_MAX, .room = UINT64_MAX};
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0)
		add_line(ret, line);
	if (f)
		fclose(f);
}
