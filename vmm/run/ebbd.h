/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ebbd.h - the daemon this run talks to: the host's, or a private one that lives as long as QEMU.
 */
#ifndef RUN_EBBD_H
#define RUN_EBBD_H

#include "child.h"
#include "rundir.h"

struct ebbd_conf {
	const char *socket; /* NULL: the host's; a private one's is in the run's directory */
	const char *state_dir, *swap_dir; /* of a private daemon; NULL: private ones */
	bool verbose;			  /* a private daemon writes to our standard error */
};

struct ebbd {
	char *socket;
	char *log;   /* of a private daemon, NULL when it writes to our standard error */
	char **argv; /* of a private daemon, NULL: it is the host's */
	pid_t pid;   /* of a private daemon, 0 while it does not run */
};

/**
 * ebbd_find() - does the host's daemon answer?
 *
 * Returns 0; -ENOENT: nobody is there; another error with a sentence: somebody is, but not for us.
 */
int ebbd_find(const struct ebbd_conf *conf, struct ebbd *ret, struct ebb_err *err);

/** ebbd_prepare() - directories and command line of a private daemon, not started yet */
int ebbd_prepare(const struct ebbd_conf *conf, struct rundir *rd, struct ebbd *ret,
		 struct ebb_err *err);

/** ebbd_start() - start (or, after a crash, start again) the private daemon; it is not ready yet */
int ebbd_start(struct ebbd *e, const struct child_env *env, struct ebb_err *err);

/** ebbd_answers() - can its socket be connected to? 0, or a negative errno */
int ebbd_answers(const struct ebbd *e);

/** ebbd_last_words() - last line of a private daemon's log, "" if there is none; returns @buf */
char *ebbd_last_words(const struct ebbd *e, char *buf, size_t size);
void ebbd_free(struct ebbd *e);

#endif
