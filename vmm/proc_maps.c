// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * proc_maps.c - read /proc/PID/stat, status, maps and smaps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "procmem.h"

static FILE *proc_open(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

/* The name in parentheses may hold anything, parentheses too: the last one ends it. */
static int proc_parse_stat(const char *line, struct proc_id *id)
{
	const char *open = strchr(line, '('), *close = strrchr(line, ')');
	unsigned long long start;
	char state;

	if (!open || !close || close < open)
		return -EINVAL;
	if (sscanf(close + 1,
		   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &state, &start) != 2)
		return -EINVAL;
	snprintf(id->comm, sizeof(id->comm), "%.*s", (int)(close - open - 1), open + 1);
	id->state = state;
	id->start_time = start;
	return 0;
}

static void proc_read_exe(int dir, struct proc_id *id)
{
	static const char deleted[] = " (deleted)";
	ssize_t n = readlinkat(dir, "exe", id->exe, sizeof(id->exe) - 1);

	id->exe[n > 0 ? n : 0] = '\0';
	/* A package upgrade removes the program under a running process. */
	n -= (ssize_t)strlen(deleted);
	if (n > 0 && !strcmp(id->exe + n, deleted))
		id->exe[n] = '\0';
}

/*
 * All through one descriptor of the directory: it never turns into a later process with the same
 * pid.
 */
static int proc_read_id(int dir, struct proc_id *id)
{
	_cleanup_close_ int fd = openat(dir, "stat", O_RDONLY | O_CLOEXEC);
	char line[1024];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(dir, &st))
		return -errno;
	n = read(fd, line, sizeof(line) - 1);
	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	line[n] = '\0';
	id->uid = st.st_uid;
	proc_read_exe(dir, id);
	return proc_parse_stat(line, id);
}

int proc_identify(pid_t pid, struct proc_id *ret, struct ebb_err *err)
{
	struct proc_id id = {.pid = pid};
	_cleanup_close_ int dir = -1;
	char path[32];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (pid > 0)
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = pid > 0 ? -errno : -ENOENT;
	if (dir >= 0)
		rc = proc_read_id(dir, &id);
	/* Only what the kernel says of a process that is not there may be taken for its absence. */
	if (rc == -ENOENT || rc == -ESRCH)
		return ebb_err_set(err, -ESRCH, "there is no process %d", pid);
	if (rc)
		return ebb_err_set(err, rc, "cannot look at process %d: %s", pid, strerror(-rc));
	*ret = id;
	return 0;
}

bool proc_is_qemu(const struct proc_id *id)
{
	static const char *const others[] = {"qemu-kvm", "kvm", "qemu"};
	const char *name = strrchr(id->exe, '/');

	name = id->exe[0] ? (name ? name + 1 : id->exe) : id->comm;
	if (!strncmp(name, "qemu-system-", strlen("qemu-system-")))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		if (!strcmp(name, others[i]))
			return true;
	}
	return false;
}

int proc_status_value(pid_t pid, const char *key, long long *ret)
{
	_cleanup_free_ char *line = NULL;
	FILE *f = proc_open(pid, "status");
	const size_t n = strlen(key);
	size_t room = 0;
	int rc = -ENOENT;

	if (!f)
		return -ESRCH;
	while (getline(&line, &room, f) > 0) {
		if (strncmp(line, key, n) || line[n] != ':')
			continue;
		rc = sscanf(line + n + 1, "%lld", ret) == 1 ? 0 : -ENOENT;
		break;
	}
	fclose(f);
	return rc;
}

/* start-end perms offset major:minor inode   path */
static bool proc_parse_map(const char *line, struct proc_map *map)
{
	unsigned long long start, end, offset, ino;
	unsigned int maj, min;
	int at = 0;
	size_t len;

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, map->perms, &offset,
		   &maj, &min, &ino, &at) < 7 ||
	    !at)
		return false;
	map->start = start;
	map->end = end;
	map->offset = offset;
	map->dev = makedev(maj, min);
	map->ino = ino;
	len = strcspn(line + at, "\n");
	snprintf(map->path, sizeof(map->path), "%.*s", (int)MIN(len, sizeof(map->path) - 1),
		 line + at);
	return true;
}

int proc_for_each_map(pid_t pid, int (*fn)(const struct proc_map *map, void *arg), void *arg)
{
	_cleanup_free_ char *line = NULL;
	FILE *f = proc_open(pid, "maps");
	struct proc_map map;
	size_t room = 0;
	int rc = 0;

	if (!f)
		return -errno;
	while (!rc && getline(&line, &room, f) > 0) {
		if (proc_parse_map(line, &map))
			rc = fn(&map, arg);
	}
	if (!rc && ferror(f))
		rc = -EIO;
	fclose(f);
	return rc;
}

/* --- VmFlags -------------------------------------------------------------------------------- */

uint64_t proc_overlap(const struct proc_map *map, const struct region_table *t)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < t->nr; i++) {
		const struct region *r = &t->r[i];
		uint64_t start = MAX(map->start, r->hva);
		uint64_t end = MIN(map->end, r->hva + pages_to_bytes(r->nr));

		sum += end > start ? end - start : 0;
	}
	return sum;
}

bool proc_vmflag(const char *flags, const char *flag)
{
	for (const char *p = flags; (p = strstr(p, flag)); p++) {
		if ((p == flags || p[-1] == ' ') && (p[2] == ' ' || p[2] == '\n' || !p[2]))
			return true;
	}
	return false;
}

int proc_for_each_region_flags(pid_t pid, const struct region_table *t,
			       int (*fn)(const struct proc_map *map, const char *flags, void *arg),
			       void *arg)
{
	_cleanup_free_ char *line = NULL;
	FILE *f = proc_open(pid, "smaps");
	uint64_t overlap = 0, covered = 0;
	struct proc_map map;
	size_t room = 0;
	int rc = 0;

	if (!f)
		return -errno;
	while (!rc && getline(&line, &room, f) > 0) {
		if (!strncmp(line, "VmFlags:", 8)) {
			if (overlap)
				rc = fn(&map, line + 8, arg);
		} else if (proc_parse_map(line, &map)) {
			overlap = proc_overlap(&map, t);
			covered += overlap;
		}
	}
	fclose(f);
	return rc || covered == pages_to_bytes(t->nr_pages) ? rc : -ENOENT;
}

static int check_flags(const struct proc_map *map, const char *flags, void *arg)
{
	static const struct {
		const char *flag, *meaning;
	} wanted[] = {
		{"dc", "is inherited by fork"},
		{"um", "is not registered for missing pages"},
		{"uw", "is not registered for write protection"},
	};
	struct ebb_err *err = arg;

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (!proc_vmflag(flags, wanted[i].flag))
			return ebb_err_set(err, -EINVAL,
					   "guest memory at %#llx-%#llx %s (VmFlags lacks "
					   "\"%s\"): the VMM mapped it anew",
					   (unsigned long long)map->start,
					   (unsigned long long)map->end, wanted[i].meaning,
					   wanted[i].flag);
	}
	return 0;
}

int proc_check_vmflags(pid_t pid, const struct region_table *t, struct ebb_err *err)
{
	int rc = proc_for_each_region_flags(pid, t, check_flags, err);

	if (rc == -ENOENT)
		return ebb_err_set(err, -EINVAL,
				   "a part of the guest memory of process %d is no longer "
				   "mapped where it was",
				   pid);
	if (rc && rc != -EINVAL)
		return ebb_err_set(err, rc, "cannot read /proc/%d/smaps: %s", pid, strerror(-rc));
	return rc;
}
