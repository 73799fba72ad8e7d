/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rundir.h - the private directory of one run: QEMU's monitor, and a private daemon's files.
 */
#ifndef RUN_RUNDIR_H
#define RUN_RUNDIR_H

#include <ebb/types.h>

/** struct rundir - @path is ours alone (0700) and locked for as long as this process lives */
struct rundir {
	char *path;
	char *swap; /* made by rundir_make_swap(), NULL otherwise */
	int fd;
};

/**
 * rundir_open() - make one, and remove those that dead runs left behind
 *
 * In /run/ebb/run for root, else in $XDG_RUNTIME_DIR/ebb, else in /tmp/ebb-UID.
 */
int rundir_open(struct rundir *ret, struct ebb_err *err);

/** rundir_make_swap() - a directory on disk, for a private daemon that was given none */
int rundir_make_swap(struct rundir *rd, struct ebb_err *err);

/** rundir_close() - remove both with what is in them */
void rundir_close(struct rundir *rd);

#endif
