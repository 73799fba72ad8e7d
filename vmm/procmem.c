// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * procmem.c - find the guest's RAM in a VMM's mappings, and anybody else who has it.
 *
 * DOC: what is taken for guest RAM
 *
 * In a QEMU: shared writable mappings of a memfd that its memory-backend-memfd made (the kernel
 * shows the name), or of a file on tmpfs (memory-backend-file). QEMU's other memfds (a vhost
 * log, TCG's code buffer) have other names and are left alone, as are its private mappings
 * (firmware, video memory). In a program that is not QEMU, which only a debugging option
 * admits: any memfd of 1 MiB or more that is mapped shared and writable.
 *
 * A memfd may be mapped by several adjoining VMAs (madvise and mbind split them): those are one
 * piece. Two pieces that show the same bytes are refused: a page evicted under one would be
 * seen as zeros in the other.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include "procmem.h"

#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif

#define MEMFD_PREFIX "/memfd:"
#define QEMU_NAME    "memory-backend-memfd"
#define QEMU_MEMFD   MEMFD_PREFIX QEMU_NAME
#define ANON_SHARED  "/dev/zero"
#define ANON_HUGE    "/anon_hugepage"
#define SMALLEST     (1UL << 20) /* smaller ones are RAM only if QEMU's name says so */
#define WAY_OUT                                                                                    \
	"restart it with its RAM on -object memory-backend-memfd,share=on (memory-backend= of "    \
	"-machine or memdev= of -numa), or start it with ebb-run"

/* --- collecting mappings -------------------------------------------------------------------- */

struct collect {
	pid_t pid;
	bool qemu;
	struct region_table t;
	uint64_t end;		      /* of the last piece */
	struct proc_map private_ram;  /* a backend mapped private */
	struct proc_map biggest_anon; /* the likeliest private RAM */
	struct proc_map nameless;     /* shared memory without a descriptor */
	uint64_t pages;
	bool too_many;
};

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static uint64_t map_len(const struct proc_map *map)
{
	return map->end - map->start;
}

static void keep_bigger(struct proc_map *best, const struct proc_map *map)
{
	if (map_len(map) > map_len(best))
		*best = *map;
}

static bool is_candidate(const struct collect *c, const struct proc_map *map)
{
	if (!c->qemu)
		return starts_with(map->path, MEMFD_PREFIX);
	if (starts_with(map->path, MEMFD_PREFIX))
		return starts_with(map->path, QEMU_MEMFD);
	/*
	 * A file: what it lives on is known once its descriptor is here. Devices have memory of
	 * their own.
	 */
	if (starts_with(map->path, "/dev/") && !starts_with(map->path, "/dev/shm/") &&
	    !starts_with(map->path, "/dev/hugepages"))
		return false;
	return map->path[0] == '/' && !starts_with(map->path, ANON_HUGE) &&
	       !starts_with(map->path, "/SYSV") && !starts_with(map->path, "/[aio]");
}

static void name_region(struct region *r, const char *path)
{
	const char *name = strrchr(path, '/');
	int len;

	name = name ? name + 1 : path;
	if (starts_with(name, "memfd:"))
		name += strlen("memfd:");
	len = (int)strcspn(name, " ");
	snprintf(r->name, sizeof(r->name), "%.*s", MIN(len, (int)sizeof(r->name) - 1), name);
}

static bool continues(const struct region *r, uint64_t end, const struct proc_map *map)
{
	return r->dev == map->dev && r->ino == map->ino && end == map->start &&
	       r->file_off + (end - r->hva) == map->offset;
}

static void collect_piece(struct collect *c, const struct proc_map *map)
{
	struct region *r = c->t.nr ? &c->t.r[c->t.nr - 1] : NULL;

	if (!r || !continues(r, c->end, map)) {
		if (c->t.nr == REGION_MAX) {
			c->too_many = true;
			return;
		}
		r = &c->t.r[c->t.nr++];
		*r = (struct region) {
			.hva = map->start,
			.file_off = map->offset,
			.gpa = REGION_GPA_UNKNOWN,
			.memfd = -1,
			.remote_fd = -1,
			.dev = map->dev,
			.ino = map->ino,
		};
		name_region(r, map->path);
	}
	c->end = map->end;
	c->pages += bytes_to_pages(map_len(map));
	r->nr = (uint32_t)bytes_to_pages(c->end - r->hva);
}

static void collect_shared(struct collect *c, const struct proc_map *map)
{
	if (is_candidate(c, map))
		collect_piece(c, map);
	else if (starts_with(map->path, ANON_HUGE) || starts_with(map->path, ANON_SHARED))
		keep_bigger(&c->nameless, map);
}

static int collect_map(const struct proc_map *map, void *arg)
{
	struct collect *c = arg;

	if (map->perms[1] != 'w')
		return 0;
	if (map->perms[3] == 's')
		collect_shared(c, map);
	else if (starts_with(map->path, QEMU_MEMFD))
		keep_bigger(&c->private_ram, map);
	else if (!map->path[0])
		keep_bigger(&c->biggest_anon, map);
	return 0;
}

/* --- descriptors ---------------------------------------------------------------------------- */

/*
 * The VMM's descriptor of the file: by inode, as names prove nothing; writable, as a hole needs
 * that.
 */
static int find_remote_fd(pid_t pid, dev_t dev, ino_t ino)
{
	char path[300];
	struct dirent *e;
	struct stat st;
	int found = -ENOENT;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	if (!d)
		return -errno;
	while (found < 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (!fstatat(dirfd(d), e->d_name, &st, 0) && st.st_dev == dev && st.st_ino == ino &&
		    !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && st.st_mode & S_IWUSR)
			found = atoi(e->d_name);
	}
	closedir(d);
	return found;
}

static int fetch_memfd(struct region_table *t, struct region *r, pid_t pid, int pidfd,
		       struct ebb_err *err)
{
	for (const struct region *o = t->r; o < r; o++) {
		if (o->dev == r->dev && o->ino == r->ino) {
			r->memfd = o->memfd;
			r->remote_fd = o->remote_fd;
			return 0;
		}
	}
	r->remote_fd = find_remote_fd(pid, r->dev, r->ino);
	if (r->remote_fd == -ENOENT)
		return ebb_err_set(err, -ENOENT,
				   "process %d keeps no writable descriptor of the memory "
				   "at %#" PRIx64 " (%s)",
				   pid, r->hva, r->name);
	if (r->remote_fd < 0)
		return ebb_err_set(err, r->remote_fd,
				   "cannot list the descriptors of process %d: %s", pid,
				   strerror(-r->remote_fd));
	r->memfd = sys_pidfd_getfd(pidfd, r->remote_fd);
	if (r->memfd < 0)
		return ebb_err_set(err, -errno, "cannot fetch descriptor %d of process %d: %s",
				   r->remote_fd, pid, strerror(errno));
	return 0;
}

static int check_backing(const struct region *r, pid_t pid, struct ebb_err *err)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(r->memfd, &fs) || fstat(r->memfd, &st))
		return ebb_err_set(err, -errno, "cannot look at the memory of process %d: %s", pid,
				   strerror(errno));
	if (fs.f_type == HUGETLBFS_MAGIC)
		return ebb_err_set(
			err, -EOPNOTSUPP,
			"guest RAM of process %d (%s) is on huge pages "
			"(hugetlb), which cannot be evicted: restart it without hugetlb=on "
			"or <hugepages/>",
			pid, r->name);
	if (fs.f_type != TMPFS_MAGIC)
		return ebb_err_set(err, -EOPNOTSUPP,
				   "guest RAM of process %d (%s) is a file on a disk, "
				   "not shared memory: " WAY_OUT,
				   pid, r->name);
	if (st.st_dev != r->dev || st.st_ino != r->ino)
		return ebb_err_set(err, -EAGAIN,
				   "the memory of process %d changed while it was looked "
				   "at: try again",
				   pid);
	if ((uint64_t)st.st_size < r->file_off + pages_to_bytes(r->nr))
		return ebb_err_set(err, -EINVAL,
				   "process %d maps more of its memory (%s) than there is", pid,
				   r->name);
	return 0;
}

void proc_close_regions(struct region_table *t)
{
	for (unsigned int i = 0; i < t->nr; i++) {
		int fd = t->r[i].memfd;

		if (fd < 0)
			continue;
		for (unsigned int j = i; j < t->nr; j++) {
			if (t->r[j].memfd == fd)
				t->r[j].memfd = -1;
		}
		close(fd);
	}
}

/* --- refusals ------------------------------------------------------------------------------- */

static int refuse_none(const struct collect *c, struct ebb_err *err)
{
	if (c->private_ram.end)
		return ebb_err_set(err, -EOPNOTSUPP,
				   "guest RAM of process %d is a memfd mapped privately "
				   "(share=off): " WAY_OUT,
				   c->pid);
	if (starts_with(c->nameless.path, ANON_HUGE))
		return ebb_err_set(err, -EOPNOTSUPP,
				   "guest RAM of process %d is on huge pages (hugetlb), "
				   "which cannot be evicted: " WAY_OUT,
				   c->pid);
	if (c->nameless.end)
		return ebb_err_set(err, -EOPNOTSUPP,
				   "guest RAM of process %d is shared anonymous memory "
				   "without a descriptor (memory-backend-ram,share=on): " WAY_OUT,
				   c->pid);
	if (c->qemu && c->biggest_anon.end)
		return ebb_err_set(err, -EOPNOTSUPP,
				   "guest RAM of process %d is private memory (%" PRIu64
				   " MiB at %#" PRIx64 "), which cannot be taken over: " WAY_OUT,
				   c->pid, map_len(&c->biggest_anon) >> 20, c->biggest_anon.start);
	return ebb_err_set(err, -ENOENT,
			   "process %d maps no shared memory that could be guest RAM: " WAY_OUT,
			   c->pid);
}

static int check_aliases(const struct region_table *t, pid_t pid, struct ebb_err *err)
{
	for (unsigned int i = 0; i < t->nr; i++) {
		for (unsigned int j = 0; j < i; j++) {
			const struct region *a = &t->r[i], *b = &t->r[j];

			if (a->dev == b->dev && a->ino == b->ino &&
			    a->file_off < b->file_off + pages_to_bytes(b->nr) &&
			    b->file_off < a->file_off + pages_to_bytes(a->nr))
				return ebb_err_set(
					err, -EOPNOTSUPP,
					"process %d maps the same memory "
					"twice (%#" PRIx64 " and %#" PRIx64 "): evicting "
					"it under one mapping would show zeros in the other",
					pid, b->hva, a->hva);
		}
	}
	return 0;
}

static int refuse_parts(const struct collect *c, struct ebb_err *err)
{
	if (c->too_many)
		return ebb_err_set(err, -E2BIG, "process %d has more than %d pieces of guest RAM",
				   c->pid, REGION_MAX);
	if (c->pages > UINT32_MAX)
		return ebb_err_set(err, -E2BIG, "process %d has more than 16 TiB of guest RAM",
				   c->pid);
	if (c->private_ram.end)
		return ebb_err_set(err, -EOPNOTSUPP,
				   "a part of the guest RAM of process %d is mapped "
				   "privately (share=off, at %#" PRIx64 "): " WAY_OUT,
				   c->pid, c->private_ram.start);
	return check_aliases(&c->t, c->pid, err);
}

/* Any further mapping of the same files, of whatever kind, in the VMM itself. */
static int check_stray_map(const struct proc_map *map, void *arg)
{
	const struct collect *c = arg;

	for (unsigned int i = 0; i < c->t.nr; i++) {
		if (c->t.r[i].dev == map->dev && c->t.r[i].ino == map->ino &&
		    proc_overlap(map, &c->t) != map_len(map))
			return -EEXIST;
	}
	return 0;
}

/*
 * Whole pieces are measured, not VMAs: a piece may have a VMA of one page. A file that QEMU
 * keeps no descriptor of is not one of its memory backends (graphics drivers map some).
 */
static bool is_ram(const struct collect *c, const struct region *r)
{
	if (c->qemu && !strcmp(r->name, QEMU_NAME))
		return true;
	if (pages_to_bytes(r->nr) < SMALLEST)
		return false;
	return !c->qemu || find_remote_fd(c->pid, r->dev, r->ino) != -ENOENT;
}

static void drop_others(struct collect *c)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < c->t.nr; i++) {
		if (is_ram(c, &c->t.r[i]))
			c->t.r[kept++] = c->t.r[i];
	}
	c->t.nr = kept;
}

static void number_pages(struct region_table *t)
{
	for (unsigned int i = 0; i < t->nr; i++) {
		t->r[i].first = t->nr_pages;
		t->nr_pages += t->r[i].nr;
	}
}

static int collect_regions(struct collect *c, struct ebb_err *err)
{
	int rc = proc_for_each_map(c->pid, collect_map, c);

	if (rc)
		return ebb_err_set(err, rc, "cannot read /proc/%d/maps: %s", c->pid, strerror(-rc));
	drop_others(c);
	if (!c->t.nr)
		return refuse_none(c, err);
	rc = refuse_parts(c, err);
	if (rc)
		return rc;
	number_pages(&c->t);
	rc = proc_for_each_map(c->pid, check_stray_map, c);
	if (rc == -EEXIST)
		return ebb_err_set(err, -EOPNOTSUPP,
				   "process %d maps its guest RAM a second time: "
				   "evicted pages would read as zeros there",
				   c->pid);
	return rc;
}

int proc_find_regions(pid_t pid, int pidfd, struct region_table *ret, struct ebb_err *err)
{
	struct collect c = {.pid = pid};
	struct proc_id id;
	int rc = proc_identify(pid, &id, err);

	if (rc)
		return rc;
	c.qemu = proc_is_qemu(&id);
	rc = collect_regions(&c, err);
	for (unsigned int i = 0; !rc && i < c.t.nr; i++) {
		rc = fetch_memfd(&c.t, &c.t.r[i], pid, pidfd, err);
		if (!rc)
			rc = check_backing(&c.t.r[i], pid, err);
	}
	if (rc) {
		proc_close_regions(&c.t);
		return rc;
	}
	proc_place_by_machine(pid, &c.t);
	*ret = c.t;
	return 0;
}
