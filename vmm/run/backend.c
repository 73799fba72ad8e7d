// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * backend.c - decides whether a memory backend can be, or become, a shared memfd.
 *
 * Only pages of a memfd or of a file on tmpfs can be taken out of a running guest and put back:
 * private memory has no file to punch, a disk file has a store already, and huge pages go back to a
 * pool that others may empty.
 */
#include <errno.h>
#include <libgen.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include "backend.h"
#include "strlist.h"

/** fs_magic() - of the file system @path is on, or would be made on; 0: can't be found out */
static long fs_magic(const char *path)
{
	_cleanup_free_ char *copy = run_strdup(path);
	struct statfs fs;

	if (!statfs(path, &fs))
		return fs.f_type;
	return statfs(dirname(copy), &fs) ? 0 : fs.f_type;
}

int backend_check_path(const char *option, const char *path, struct ebb_err *err)
{
	switch (fs_magic(path)) {
	case TMPFS_MAGIC:
		return 0;
	case HUGETLBFS_MAGIC:
		return ebb_err_set(
			err, -ENOTSUP,
			"%s puts guest RAM on huge pages in %s, which ebb does not reclaim; "
			"remove it, or start this guest without ebb-run",
			option, path);
	case 0:
		return ebb_err_set(err, -ENOTSUP, "%s names %s, which cannot be looked at (%s)",
				   option, path, strerror(errno));
	default:
		return ebb_err_set(
			err, -ENOTSUP,
			"%s puts guest RAM on a disk file in %s; remove it: ebb keeps RAM in "
			"memory and moves only cold pages to disk",
			option, path);
	}
}

static int check_file_backend(const struct optstr *o, struct ebb_err *err)
{
	const char *path = optstr_get(o, "mem-path");

	if (optstr_is_on(o, "pmem"))
		return ebb_err_set(
			err, -ENOTSUP,
			"-object memory-backend-file with pmem=on is persistent memory, which "
			"cannot be moved; remove it");
	if (path && backend_check_path("-object memory-backend-file", path, err))
		return -ENOTSUP;
	if (!optstr_is_on(o, "share"))
		return ebb_err_set(
			err, -ENOTSUP,
			"-object memory-backend-file is private to QEMU (share=off is its "
			"default), and ebb needs shared memory; add share=on, or use "
			"memory-backend-memfd");
	return 0;
}

int backend_check(const char *type, const struct optstr *o, struct ebb_err *err)
{
	const char *kind = type + strlen("memory-backend-");

	if (optstr_is_on(o, "prealloc"))
		return ebb_err_set(
			err, -ENOTSUP,
			"-object %s with prealloc=on fills all of guest RAM at start, which is "
			"what ebb is there to avoid; remove prealloc",
			type);
	if (optstr_is_on(o, "hugetlb"))
		return ebb_err_set(
			err, -ENOTSUP,
			"-object %s with hugetlb=on puts guest RAM on reserved huge pages, "
			"which ebb does not reclaim; remove hugetlb",
			type);
	if (!strcmp(kind, "file"))
		return check_file_backend(o, err);
	if (strcmp(kind, "ram") && strcmp(kind, "memfd") && strcmp(kind, "shm"))
		return ebb_err_set(err, -ENOTSUP,
				   "-object %s is a kind of memory ebb does not know; use "
				   "memory-backend-memfd",
				   type);
	return 0;
}
