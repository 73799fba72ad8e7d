/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * walk.h - a QEMU command line, option by option.
 */
#ifndef RUN_WALK_H
#define RUN_WALK_H

#include <ebb/types.h>

/** struct walk - start with argc, argv and nr = 1 set: the program's name is skipped */
struct walk {
	int argc, at;
	char *const *argv;
	const char *name; /* of the option, without dashes; NULL: the word is a disk image */
	const char *arg;  /* its argument, NULL if it takes none or there is none */
	int nr;		  /* words the option takes up */
	bool wants_arg;	  /* known to take an argument */
};

/** walk_next() - false at the end */
bool walk_next(struct walk *w);

/** walk_asks_for_help() - will QEMU print something and exit instead of starting a guest? */
bool walk_asks_for_help(int argc, char *const argv[]);

#endif
