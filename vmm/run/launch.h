/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * launch.h - start QEMU with its guest held, attach it, let it run, stand in for it until it ends.
 */
#ifndef RUN_LAUNCH_H
#define RUN_LAUNCH_H

#include "cmdline.h"
#include "ebbd.h"

struct launch_conf {
	const char *name; /* NULL: the daemon chooses */
	uint64_t limit;	  /* bytes, UINT64_MAX: none */
	bool verbose;
	struct ebbd_conf ebbd;
};

/** launch_run() - all of it; returns the exit code (exitcode.h), having said what went wrong */
int launch_run(const struct launch_conf *conf, struct cmdline *cl);

#endif
