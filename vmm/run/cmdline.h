/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cmdline.h - understand a QEMU command line and put its guest's RAM on a shared memfd.
 */
#ifndef RUN_CMDLINE_H
#define RUN_CMDLINE_H

#include "strlist.h"

/** struct cmdline - a converted command line and what was learned on the way */
struct cmdline {
	struct strlist argv;
	struct strlist notes; /* one sentence for each thing that was changed */
	uint64_t ram_bytes;   /* RAM the guest starts with (-m); 0: not known */
	bool paused;	      /* the user gave -S: not ours to continue */
	bool info_only;	      /* QEMU prints help or its version and exits; nothing was converted */
	char name[64];	      /* from -name, "" if not given */
};

/**
 * cmdline_convert() - read the command line @argv of @argc words, the program first
 *
 * Returns 0 and *@ret (free it with cmdline_free()); -EINVAL: not a QEMU command line; -ENOTSUP:
 * something on it cannot be had together with ebb. Both with a sentence.
 */
int cmdline_convert(int argc, char *const argv[], struct cmdline *ret, struct ebb_err *err);
void cmdline_free(struct cmdline *c);

/**
 * cmdline_hold() - have QEMU start with the guest stopped and read the options in @config
 *
 * Called once, after cmdline_convert().
 */
void cmdline_hold(struct cmdline *c, const char *config);

/** cmdline_free_id() - an id that is used nowhere on the command line: @base, @base-1, ... */
char *cmdline_free_id(const struct cmdline *c, const char *base);

#endif
