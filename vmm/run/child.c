// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * child.c - starts processes with the signals they would have had, and passes signals on.
 *
 * DOC: QEMU and the terminal
 *
 * QEMU stays in the process group of ebb-run and inherits standard input, output and error and
 * every other descriptor, so it reads the terminal, changes its modes and is stopped and continued
 * with the job as if the shell had started it. What a key sends (^C, ^Z, a hang-up, a new window
 * size) reaches it directly and is not sent again; what is sent to ebb-run alone is forwarded. A
 * private daemon, in contrast, is in a session of its own: ^C must not end it while QEMU still
 * needs its pages, nor ^Z stop it.
 *
 * There is no parent-death signal: when ebb-run is killed QEMU goes on, as any child would.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>
#include "child.h"

static const int handled_signals[] = {SIGCHLD, SIGTERM, SIGINT,	  SIGHUP,  SIGQUIT,
				      SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

/** note_default() - make @sig @ours here; the children get the default back if there was one */
static void note_default(struct child_env *env, int sig, void (*ours)(int))
{
	struct sigaction old, act = {.sa_handler = ours};

	sigaction(sig, &act, &old);
	if (old.sa_handler == SIG_DFL)
		sigaddset(&env->defaults, sig);
}

int child_env_init(struct child_env *env, struct ebb_err *err)
{
	sigset_t set;

	*env = (struct child_env) {.signal_fd = -1};
	sigemptyset(&env->defaults);
	note_default(env, SIGPIPE, SIG_IGN); /* a monitor that hangs up is an error, not our end */
	note_default(env, SIGCHLD, SIG_DFL); /* ignored, children could not be waited for */
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(handled_signals); i++)
		sigaddset(&set, handled_signals[i]);
	pthread_sigmask(SIG_BLOCK, &set, &env->mask);
	env->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (env->signal_fd < 0)
		return ebb_err_set(err, -errno, "cannot watch signals: %s", strerror(errno));
	env->has_tty = !tcgetattr(STDIN_FILENO, &env->tty);
	for (int fd = 0; fd < 3; fd++)
		env->stdio_flags[fd] = fcntl(fd, F_GETFL);
	return 0;
}

bool child_next_signal(struct child_env *env, struct signalfd_siginfo *ret)
{
	return read(env->signal_fd, ret, sizeof(*ret)) == sizeof(*ret);
}

bool child_signal_is_shared(const struct signalfd_siginfo *si)
{
	/* From kill(), sigqueue() and the like it is zero or negative. */
	return si->ssi_code > 0;
}

void child_stop_self(void)
{
	sigset_t set;

	/* Not SIGSTOP: the kernel drops a SIGTSTP where nobody could continue us again. */
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void child_restore_terminal(const struct child_env *env)
{
	sigset_t set, old;

	for (int fd = 0; fd < 3; fd++)
		if (env->stdio_flags[fd] >= 0)
			fcntl(fd, F_SETFL, env->stdio_flags[fd]);
	if (!env->has_tty || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &env->tty);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int spawn(const struct child_env *env, char *const argv[], short flags,
		 const posix_spawn_file_actions_t *files, pid_t *ret_pid)
{
	posix_spawnattr_t attr;
	pid_t pid;
	int rc;

	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &env->mask);
	posix_spawnattr_setsigdefault(&attr, &env->defaults);
	rc = posix_spawnp(&pid, argv[0], files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	if (!rc)
		*ret_pid = pid;
	return -rc;
}

int child_spawn(const struct child_env *env, char *const argv[], pid_t *ret_pid)
{
	return spawn(env, argv, 0, NULL, ret_pid);
}

int child_spawn_service(const struct child_env *env, char *const argv[], int log_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t files;
	int rc;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, log_fd, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, log_fd, STDERR_FILENO);
	posix_spawn_file_actions_addclosefrom_np(&files, 3);
	rc = spawn(env, argv, POSIX_SPAWN_SETSID, &files, ret_pid);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}
