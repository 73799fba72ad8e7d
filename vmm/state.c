// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * state.c - create, open and close a guest's state file; the theory is in state.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ebb/page.h>
#include <ebb/reclaim.h>
#include "state.h"

#define STATE_MAGIC   "ebbstate"
#define STATE_VERSION 2

static size_t page_round(size_t n)
{
	return (n + EBB_PAGE_SIZE - 1) & ~(EBB_PAGE_SIZE - 1);
}

static size_t words_offset(void)
{
	return page_round(sizeof(struct state_header));
}

static size_t sums_offset(uint32_t nr_pages)
{
	return words_offset() + page_round((size_t)nr_pages * sizeof(uint32_t));
}

static size_t file_size(uint32_t nr_pages, uint32_t nr_slots)
{
	return sums_offset(nr_pages) + page_round((size_t)nr_slots * sizeof(struct store_sum));
}

static int state_map(struct state *st, uint32_t nr_pages, uint32_t nr_slots)
{
	char *base;

	st->size = file_size(nr_pages, nr_slots);
	base = mmap(NULL, st->size, PROT_READ | PROT_WRITE, MAP_SHARED, st->fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	st->h = (struct state_header *)base;
	st->words = (_Atomic uint32_t *)(base + words_offset());
	st->sums = (struct store_sum *)(base + sums_offset(nr_pages));
	st->sums_offset = sums_offset(nr_pages);
	return 0;
}

int state_get_place(struct state_place *ret)
{
	struct state_place here = {0};
	struct stat sb;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, here.boot_id, sizeof(here.boot_id) - 1) : -1;
	int rc = n < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (!rc && stat("/proc/self/ns/pid", &sb))
		rc = -errno;
	if (rc)
		return rc;
	here.pid_ns = sb.st_ino;
	*ret = here;
	return 0;
}

static void fill_header(struct state_header *h, const struct proc_id *id,
			const struct region_table *t, uint32_t nr_slots)
{
	memcpy(h->magic, STATE_MAGIC, sizeof(h->magic));
	h->version = STATE_VERSION;
	h->header_size = sizeof(*h);
	h->pid = id->pid;
	h->start_time = id->start_time;
	h->nr_pages = t->nr_pages;
	h->nr_slots = nr_slots;
	h->remote_uffd = h->remote_ring = -1;
	h->nr_regions = t->nr;
	for (unsigned int i = 0; i < t->nr; i++) {
		const struct region *r = &t->r[i];

		h->regions[i] = (struct state_region){
			.hva = r->hva, .file_off = r->file_off, .gpa = r->gpa, .dev = r->dev,
			.ino = r->ino, .first = r->first, .nr = r->nr, .remote_fd = r->remote_fd,
		};
		memcpy(h->regions[i].name, r->name, sizeof(r->name));
	}
	atomic_store(&h->limit, RECLAIM_NO_LIMIT);
	atomic_store(&h->phase, STATE_ATTACHING);
}

int state_create(struct state *st, const char *dir, const struct proc_id *id,
		 const struct region_table *t, uint32_t nr_slots, struct ebb_err *err)
{
	int rc;

	memset(st, 0, sizeof(*st));
	snprintf(st->path, sizeof(st->path), "%s/%d-%llu.state.tmp", dir, id->pid,
		 (unsigned long long)id->start_time);
	unlink(st->path); /* of an attach that was killed: this daemon is alone in the directory */
	st->fd = open(st->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (st->fd < 0) {
		rc = -errno;
		return ebb_err_set(err, rc, "state directory %s: cannot create a file there: %s",
				   dir, strerror(-rc));
	}
	/*
	 * Reserved, not sparse: a write to a full tmpfs would be a SIGBUS in the fault path. The
	 * checksums are reserved by the store as slots come into use.
	 */
	rc = -posix_fallocate(st->fd, 0, (off_t)sums_offset(t->nr_pages));
	if (!rc && ftruncate(st->fd, (off_t)file_size(t->nr_pages, nr_slots)))
		rc = -errno;
	if (!rc)
		rc = state_map(st, t->nr_pages, nr_slots);
	if (rc) {
		ebb_err_set(err, rc, "state directory %s: no room for %zu KiB: %s", dir,
			    sums_offset(t->nr_pages) >> 10, strerror(-rc));
		state_close(st, true);
		return rc;
	}
	fill_header(st->h, id, t, nr_slots);
	rc = state_get_place(&st->h->place);
	if (rc) {
		ebb_err_set(err, rc, "cannot read the boot id and pid namespace: %s", strerror(-rc));
		state_close(st, true);
		return rc;
	}
	for (uint32_t i = 0; i < t->nr_pages; i++)
		atomic_init(&st->words[i], page_word(PAGE_ABSENT, PAGE_SLOT_NONE));
	return 0;
}

int state_publish(struct state *st, struct ebb_err *err)
{
	char path[sizeof(st->path)];

	snprintf(path, sizeof(path), "%.*s", (int)(strlen(st->path) - strlen(".tmp")), st->path);
	if (renameat2(AT_FDCWD, st->path, AT_FDCWD, path, RENAME_NOREPLACE))
		return ebb_err_set(err, -errno, "%s: %s", path, strerror(errno));
	snprintf(st->path, sizeof(st->path), "%s", path);
	return 0;
}

static bool header_is_sane(const struct state_header *h)
{
	uint32_t pages = 0;

	if (memcmp(h->magic, STATE_MAGIC, sizeof(h->magic)) || h->version != STATE_VERSION ||
	    h->header_size != sizeof(*h) || h->nr_regions == 0 || h->nr_regions > REGION_MAX ||
	    h->nr_slots > PAGE_SLOT_MAX)
		return false;
	for (uint32_t i = 0; i < h->nr_regions; i++) {
		if (h->regions[i].first != pages)
			return false;
		pages += h->regions[i].nr;
	}
	return pages == h->nr_pages;
}

int state_open(struct state *st, const char *path, struct ebb_err *err)
{
	struct state_header h;
	struct stat sb;
	int rc;

	memset(st, 0, sizeof(*st));
	snprintf(st->path, sizeof(st->path), "%s", path);
	st->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (st->fd < 0)
		return ebb_err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (fstat(st->fd, &sb) || sb.st_uid != geteuid() ||
	    pread(st->fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) || !header_is_sane(&h) ||
	    (size_t)sb.st_size != file_size(h.nr_pages, h.nr_slots)) {
		rc = ebb_err_set(err, -EPROTO, "%s: not a state file of this version of ebbd", path);
		goto fail;
	}
	rc = state_map(st, h.nr_pages, h.nr_slots);
	if (rc) {
		ebb_err_set(err, rc, "%s: cannot map: %s", path, strerror(-rc));
		goto fail;
	}
	return 0;
fail:
	state_close(st, false);
	return rc;
}

void state_regions(const struct state *st, struct region_table *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->nr = st->h->nr_regions;
	ret->nr_pages = st->h->nr_pages;
	for (unsigned int i = 0; i < ret->nr; i++) {
		const struct state_region *s = &st->h->regions[i];
		struct region *r = &ret->r[i];

		*r = (struct region){
			.first = s->first, .nr = s->nr, .hva = s->hva, .file_off = s->file_off,
			.gpa = s->gpa, .memfd = -1, .remote_fd = s->remote_fd, .dev = s->dev,
			.ino = s->ino,
		};
		memcpy(r->name, s->name, sizeof(r->name));
	}
}

void state_close(struct state *st, bool remove)
{
	if (st->h)
		munmap(st->h, st->size);
	if (st->fd >= 0) {
		if (remove)
			unlink(st->path);
		close(st->fd);
	}
	st->h = NULL;
	st->fd = -1;
}
