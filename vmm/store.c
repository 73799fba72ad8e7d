// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * store.c - the swap file of one guest; the theory is in store.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>
#include <ebb/page.h>
#include "store.h"

uint64_t store_slots_for(uint32_t nr_pages)
{
	/* An eighth more, so that refaulted pages can keep their clean copy for a while. */
	return (uint64_t)nr_pages + nr_pages / 8 + 1024;
}

static int store_init(struct store *s, uint32_t nr_slots, uint64_t seed,
		      const struct store_sums *sums)
{
	s->nr_slots = nr_slots;
	s->seed = seed;
	s->sums = *sums;
	pthread_mutex_init(&s->lock, NULL);
	s->map = slotmap_new(nr_slots);
	return s->map ? 0 : -ENOMEM;
}

/* A file system may take O_DIRECT at open and refuse it at the first write: try one. */
static int try_direct_write(int fd)
{
	_cleanup_free_ void *page = aligned_alloc(EBB_PAGE_SIZE, EBB_PAGE_SIZE);
	ssize_t n;

	if (!page)
		return -ENOMEM;
	memset(page, 0, EBB_PAGE_SIZE);
	n = pwrite(fd, page, EBB_PAGE_SIZE, 0);
	return n == (ssize_t)EBB_PAGE_SIZE ? 0 : n < 0 ? -errno : -EIO;
}

static int store_fill(struct store *s, struct ebb_err *err)
{
	const char *dir = s->dir;
	uint64_t size = store_offset(s->nr_slots);
	struct statfs fs;
	int rc;

	if (fstatfs(s->fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC))
		return ebb_err_set(err, -EINVAL,
				   "swap directory %s is in memory (tmpfs): evicted pages would free "
				   "nothing; give one on ext4, xfs or btrfs with --swap-dir", dir);

	rc = -posix_fallocate(s->fd, 0, (off_t)size);
	if (rc == -ENOSPC || rc == -EDQUOT)
		return ebb_err_set(err, rc,
				   "swap directory %s: no room for %llu MiB (the guest's RAM and an "
				   "eighth); free some or give another with --swap-dir",
				   dir, (unsigned long long)(size >> 20));
	if (rc)
		return ebb_err_set(err, rc, "swap directory %s: cannot reserve %llu MiB: %s", dir,
				   (unsigned long long)(size >> 20), strerror(-rc));
	rc = try_direct_write(s->fd);
	if (rc)
		return ebb_err_set(err, rc,
				   "swap directory %s: its file system refuses O_DIRECT writes (%s); "
				   "give one on ext4, xfs or btrfs with --swap-dir",
				   dir, strerror(-rc));
	return 0;
}

int store_make_path(char *path, size_t size, const char *dir, int pid, uint64_t start_time,
		    uint64_t pid_ns)
{
	int n = snprintf(path, size, "%s/%d-%llu-%llu.swap", dir, pid, (unsigned long long)start_time,
			 (unsigned long long)pid_ns);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static void sweep_one(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlinkat(dir, name, 0);
	close(fd);
}

void store_sweep(const char *dir, uint64_t pid_ns, bool (*is_dead)(int pid, uint64_t start_time))
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		unsigned long long start, ns;
		int pid, end = 0;

		if (sscanf(e->d_name, "%d-%llu-%llu.swap%n", &pid, &start, &ns, &end) == 3 &&
		    end > 0 && !e->d_name[end] && ns == pid_ns && is_dead(pid, start))
			sweep_one(dirfd(d), e->d_name);
	}
	if (d)
		closedir(d);
}

/* Open a new file at s->path and lock it. */
static int store_open_new(struct store *s, struct ebb_err *err)
{
	int rc;

	s->fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->fd < 0) {
		rc = -errno;
		if (rc == -EINVAL) {
			unlink(s->path);
			return ebb_err_set(err, rc,
					   "swap directory %s: its file system has no O_DIRECT; give "
					   "one on ext4, xfs or btrfs with --swap-dir", s->dir);
		}
		return ebb_err_set(err, rc, "swap directory %s: cannot create a file there: %s",
				   s->dir, strerror(-rc));
	}
	if (flock(s->fd, LOCK_EX | LOCK_NB))
		return ebb_err_set(err, -errno, "%s: cannot lock: %s", s->path, strerror(errno));
	return 0;
}

int store_create(struct store *s, const char *path, uint32_t nr_slots, uint64_t seed,
		 const struct store_sums *sums, struct ebb_err *err)
{
	const char *slash = strrchr(path, '/');
	int rc;

	memset(s, 0, sizeof(*s));
	snprintf(s->path, sizeof(s->path), "%s", path);
	snprintf(s->dir, sizeof(s->dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	rc = store_open_new(s, err);
	if (!rc && store_init(s, nr_slots, seed, sums))
		rc = ebb_err_set(err, -ENOMEM, "out of memory");
	if (!rc)
		rc = store_fill(s, err);
	if (rc)
		store_close(s, s->fd >= 0);
	return rc;
}

int store_reopen(struct store *s, const char *path, uint32_t nr_slots, uint64_t seed,
		 const struct store_sums *sums, int wait_ms, struct ebb_err *err)
{
	int rc;

	memset(s, 0, sizeof(*s));
	snprintf(s->path, sizeof(s->path), "%s", path);
	s->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
	if (s->fd < 0)
		return ebb_err_set(err, -errno, "%s: %s", path, strerror(errno));
	while (flock(s->fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK || wait_ms <= 0) {
			rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
			ebb_err_set(err, rc, "%s: another ebbd works on it (running or stopped)", path);
			goto fail;
		}
		usleep(1000);
		wait_ms--;
	}
	rc = store_init(s, nr_slots, seed, sums);
	if (rc) {
		ebb_err_set(err, rc, "out of memory");
		goto fail;
	}
	return 0;
fail:
	store_close(s, false);
	return rc;
}

void store_close(struct store *s, bool remove)
{
	if (s->fd >= 0) {
		if (remove)
			unlink(s->path);
		close(s->fd);
	}
	s->fd = -1;
	slotmap_free(s->map);
	s->map = NULL;
}

/*
 * Give the checksums up to @slots memory, 4096 at a time, before one is written: a page fault on a full
 * tmpfs would kill the daemon, a failed reservation only stops the eviction.
 */
static bool reserve_sums(struct store *s, uint32_t slots)
{
	const uint32_t step = 4096;
	uint32_t upto;

	if (slots <= s->sums_reserved)
		return true;
	upto = MIN((slots + step - 1) / step * step, s->nr_slots);
	if (posix_fallocate(s->sums.fd,
			    (off_t)(s->sums.offset + (uint64_t)s->sums_reserved * sizeof(struct store_sum)),
			    (off_t)((uint64_t)(upto - s->sums_reserved) * sizeof(struct store_sum))))
		return false;
	s->sums_reserved = upto;
	return true;
}

uint32_t store_alloc(struct store *s, uint32_t want, uint32_t *ret_len)
{
	uint32_t slot;

	pthread_mutex_lock(&s->lock);
	slot = slotmap_alloc(s->map, want, ret_len);
	if (slot != UINT32_MAX && !reserve_sums(s, slot + *ret_len)) {
		for (uint32_t i = 0; i < *ret_len; i++)
			slotmap_release(s->map, slot + i);
		slot = UINT32_MAX;
	}
	pthread_mutex_unlock(&s->lock);
	return slot;
}

void store_release(struct store *s, uint32_t slot)
{
	if (!page_slot_is_real(slot))
		return;
	pthread_mutex_lock(&s->lock);
	slotmap_release(s->map, slot);
	pthread_mutex_unlock(&s->lock);
}

bool store_claim(struct store *s, uint32_t slot)
{
	return slotmap_take(s->map, slot);
}

uint32_t store_nr_used(struct store *s)
{
	uint32_t n;

	pthread_mutex_lock(&s->lock);
	n = slotmap_nr_used(s->map);
	pthread_mutex_unlock(&s->lock);
	return n;
}

struct store_sum store_sum_page(const struct store *s, const void *page)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(page, EBB_PAGE_SIZE, s->seed);

	return (struct store_sum){.lo = h.low64, .hi = h.high64};
}

bool store_page_is_zero(const void *page)
{
	const uint64_t *p = page;

	if (p[0])
		return false;
	return memcmp(page, (const char *)page + 64, EBB_PAGE_SIZE - 64) == 0 &&
	       !(p[1] | p[2] | p[3] | p[4] | p[5] | p[6] | p[7]);
}
