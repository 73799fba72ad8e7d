/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * child.h - signals, the terminal and child processes, so that QEMU runs as if the shell had
 * started it.
 */
#ifndef RUN_CHILD_H
#define RUN_CHILD_H

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <termios.h>
#include <ebb/types.h>

/** struct child_env - how this process was before it changed signals and QEMU the terminal */
struct child_env {
	sigset_t mask;	    /* blocked for the children */
	sigset_t defaults;  /* to be reset to their default action in the children */
	int signal_fd;	    /* every signal that is forwarded, and SIGCHLD */
	struct termios tty; /* of standard input */
	bool has_tty;
	int stdio_flags[3]; /* O_NONBLOCK and such; -1: not open */
};

/** child_env_init() - block the signals, remember the rest; before any thread */
int child_env_init(struct child_env *env, struct ebb_err *err);

/** child_next_signal() - false when none is pending */
bool child_next_signal(struct child_env *env, struct signalfd_siginfo *ret);

/**
 * child_signal_is_shared() - did the terminal send it, and so send it to QEMU as well?
 *
 * QEMU is in our process group; a key such as ^C reaches all of the group.
 */
bool child_signal_is_shared(const struct signalfd_siginfo *si);

/** child_stop_self() - stop as SIGTSTP would have stopped us; returns when continued */
void child_stop_self(void);

/** child_restore_terminal() - put back what a killed QEMU left changed */
void child_restore_terminal(const struct child_env *env);

/**
 * child_spawn() - start @argv as a child in our process group, with our terminal and descriptors
 *
 * Returns 0 or a negative errno of the exec (-ENOENT, -EACCES, ...).
 */
int child_spawn(const struct child_env *env, char *const argv[], pid_t *ret_pid);

/**
 * child_spawn_service() - the same in a session of its own, without terminal and descriptors
 * @log_fd: becomes its standard output and error
 */
int child_spawn_service(const struct child_env *env, char *const argv[], int log_fd,
			pid_t *ret_pid);

#endif
