// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * launch.c - from a converted command line to a guest that runs attached, and to its end.
 *
 * DOC: the order of things
 *
 *   1. a daemon is found, or a private one started: without one nothing else happens
 *   2. QEMU starts with -S and a monitor of ours in a private directory; the guest does not run
 *   3. once the monitor answers, RAM and devices are there: the daemon is asked to attach
 *   4. refused: QEMU is ended. Accepted: the guest is continued, unless the user wanted it stopped
 *   5. wait for QEMU; forward signals; keep a private daemon alive
 *   6. end a private daemon, remove the private directory, hand on QEMU's exit code
 *
 * The private monitor comes from a file given with -readconfig, not from -qmp: those, unlike an
 * option, leave QEMU's default devices alone, so that -nographic still has its monitor behind ^A c.
 *
 * Talking to a monitor or the daemon may take long, and signals must not wait: each call runs in a
 * thread of its own while this one serves signals and children.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <ebb/log.h>
#include "exitcode.h"
#include "launch.h"
#include "qmp.h"
#include "units.h"

#define POLL_MS		  50
#define MONITOR_CALL_MS	  20000
#define ATTACH_CALL_MS	  120000
#define DAEMON_START_MS	  30000
#define SLOW_START_MS	  20000 /* say that QEMU keeps us waiting */
#define QEMU_TERM_MS	  3000	/* between SIGTERM and SIGKILL */
#define DAEMON_TERM_MS	  10000
#define RESTART_MIN_MS	  100
#define RESTART_MAX_MS	  30000
#define RESTART_STABLE_MS 60000

struct launch {
	const struct launch_conf *conf;
	struct cmdline *cl;
	struct child_env env;
	struct rundir rd;
	struct ebbd ebbd;
	char *monitor; /* path */
	pid_t qemu;    /* 0: not started, or gone */
	int status;    /* of waitpid(), once it is gone */
	bool gone;
	bool attached;
	int stop_signal; /* came before QEMU was there to take it */
	int restart_ms;	 /* pause before a private daemon is started again */
	uint64_t daemon_since_ms;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* --- signals and children --------------------------------------------------------------------- */

static void reap(struct launch *l)
{
	int status;

	if (l->qemu && waitpid(l->qemu, &status, WNOHANG) == l->qemu) {
		/* A QEMU that exits has done it itself. */
		if (WIFSIGNALED(status))
			child_restore_terminal(&l->env);
		l->status = status;
		l->gone = true;
		l->qemu = 0;
	}
	if (l->ebbd.pid && waitpid(l->ebbd.pid, &status, WNOHANG) == l->ebbd.pid)
		l->ebbd.pid = 0;
}

static void serve_signal(struct launch *l, const struct signalfd_siginfo *si)
{
	int sig = (int)si->ssi_signo;
	bool job_control = sig == SIGTSTP || sig == SIGCONT || sig == SIGWINCH;

	if (sig == SIGCHLD) {
		reap(l);
		return;
	}
	if (l->qemu && !child_signal_is_shared(si))
		kill(l->qemu, sig);
	if (!l->qemu && !l->gone && !job_control)
		l->stop_signal = sig;
	if (sig == SIGTSTP)
		child_stop_self();
}

/** serve() - signals and children, until @fd is readable or @timeout_ms have passed; -1: none */
static bool serve(struct launch *l, int fd, int timeout_ms)
{
	struct pollfd p[] = {{.fd = l->env.signal_fd, .events = POLLIN},
			     {.fd = fd, .events = POLLIN}};
	struct signalfd_siginfo si;

	if (poll(p, 2, timeout_ms) > 0 && p[0].revents)
		while (child_next_signal(&l->env, &si))
			serve_signal(l, &si);
	return p[1].revents != 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

struct call {
	char *path;
	const char *command;
	json_t *args;
	int timeout_ms;
	int done_fd;
	int rc;
	struct ebb_err err;
};

/* A call nobody waits for any more; its thread may still write to it. */
static struct call *given_up;

static void call_free(struct call *c)
{
	cleanup_close(&c->done_fd);
	json_decref(c->args);
	free(c->path);
	free(c);
}

static void *call_thread(void *arg)
{
	struct call *c = arg;
	uint64_t one = 1;

	c->rc = qmp_execute(c->path, c->command, c->args, c->timeout_ms, NULL, &c->err);
	while (write(c->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return NULL;
}

/**
 * call() - qmp_execute() while signals are served; @args is consumed
 *
 * -ECHILD: QEMU ended meanwhile. The call is given up then, with its thread and memory: this
 * happens once, and then we end.
 */
static int call(struct launch *l, const char *path, const char *command, json_t *args,
		int timeout_ms, struct ebb_err *err)
{
	struct call *c = run_realloc(NULL, sizeof(*c));
	bool had_qemu = l->qemu != 0;
	pthread_t thread;
	int rc;

	*c = (struct call) {.path = run_strdup(path),
			    .command = command,
			    .args = args,
			    .timeout_ms = timeout_ms,
			    .done_fd = eventfd(0, EFD_CLOEXEC)};
	rc = c->done_fd < 0 ? errno : pthread_create(&thread, NULL, call_thread, c);
	if (rc) {
		call_free(c);
		return ebb_err_set(err, -rc, "cannot start a thread: %s", strerror(rc));
	}
	while (!serve(l, c->done_fd, -1)) {
		if (had_qemu && l->gone) {
			pthread_detach(thread);
			given_up = c;
			return ebb_err_set(err, -ECHILD, "QEMU ended");
		}
	}
	pthread_join(thread, NULL);
	rc = c->rc;
	if (rc)
		*err = c->err;
	call_free(c);
	return rc;
}

/* --- the daemon ------------------------------------------------------------------------------- */

static int start_private_daemon(struct launch *l, struct ebb_err *err)
{
	uint64_t until = now_ms() + DAEMON_START_MS;
	char last[256];
	int rc = ebbd_start(&l->ebbd, &l->env, err);

	if (rc)
		return rc;
	l->daemon_since_ms = now_ms();
	while (ebbd_answers(&l->ebbd)) {
		serve(l, -1, POLL_MS);
		if (!l->ebbd.pid) {
			ebbd_last_words(&l->ebbd, last, sizeof(last));
			return ebb_err_set(err, -ECHILD,
					   "no daemon answers, and a private one ended at once%s%s",
					   *last ? ": " : "", last);
		}
		if (l->stop_signal)
			return ebb_err_set(err, -EINTR, "interrupted");
		if (now_ms() > until)
			return ebb_err_set(err, -ETIMEDOUT,
					   "a private daemon was started but does not answer on %s",
					   l->ebbd.socket);
	}
	return 0;
}

static int get_daemon(struct launch *l, struct ebb_err *err)
{
	int rc = ebbd_find(&l->conf->ebbd, &l->ebbd, err);

	if (rc != -ENOENT)
		return rc;
	rc = ebbd_prepare(&l->conf->ebbd, &l->rd, &l->ebbd, err);
	if (!rc)
		rc = start_private_daemon(l, err);
	if (!rc)
		log_info("no daemon answers: started a private one at %s", l->ebbd.socket);
	return rc;
}

/** keep_daemon() - start a private daemon that died again; returns ms until the next try, or -1 */
static int keep_daemon(struct launch *l)
{
	uint64_t lived, pause;
	struct ebb_err err;

	if (!l->ebbd.argv || l->ebbd.pid)
		return -1;
	lived = now_ms() - l->daemon_since_ms;
	if (lived > RESTART_STABLE_MS || !l->restart_ms)
		l->restart_ms = RESTART_MIN_MS;
	pause = (uint64_t)l->restart_ms;
	if (lived < pause)
		return (int)(pause - lived);
	l->restart_ms = MIN(l->restart_ms * 2, RESTART_MAX_MS);
	l->daemon_since_ms = now_ms();
	if (ebbd_start(&l->ebbd, &l->env, &err)) {
		log_err("the private daemon ended while the guest needs it: %s; trying again",
			err.msg);
		return l->restart_ms;
	}
	log_warn("the private daemon had ended; started it again to take the guest over");
	return -1;
}

static void end_daemon(struct launch *l)
{
	uint64_t until = now_ms() + DAEMON_TERM_MS;

	if (!l->ebbd.pid)
		return;
	kill(l->ebbd.pid, SIGTERM);
	while (l->ebbd.pid && now_ms() < until)
		serve(l, -1, POLL_MS);
	if (!l->ebbd.pid)
		return;
	log_warn("the private daemon did not end within %d s; killing it", DAEMON_TERM_MS / 1000);
	kill(l->ebbd.pid, SIGKILL);
	while (l->ebbd.pid)
		serve(l, -1, POLL_MS);
}

/* --- QEMU ------------------------------------------------------------------------------------- */

/** write_config() - the options behind the private monitor */
static int write_config(struct launch *l, const char *path, struct ebb_err *err)
{
	_cleanup_free_ char *id = cmdline_free_id(l->cl, "ebb-monitor");
	FILE *f = fopen(path, "wxe");
	int rc;

	if (!f)
		return ebb_err_set(err, -errno, "cannot make %s: %s", path, strerror(errno));
	fprintf(f,
		"[chardev \"%s\"]\n  backend = \"socket\"\n  path = \"%s\"\n  server = \"on\"\n"
		"  wait = \"off\"\n[mon \"%s\"]\n  chardev = \"%s\"\n  mode = \"control\"\n",
		id, l->monitor, id, id);
	rc = ferror(f) ? -EIO : 0;
	if (fclose(f) || rc)
		return ebb_err_set(err, -EIO, "cannot write %s", path);
	return 0;
}

static int start_qemu(struct launch *l)
{
	_cleanup_free_ char *config = run_asprintf("%s/qemu.conf", l->rd.path);
	_cleanup_free_ char *line = NULL;
	struct ebb_err err;
	int rc;

	l->monitor = run_asprintf("%s/qmp.sock", l->rd.path);
	if (write_config(l, config, &err)) {
		log_err("%s", err.msg);
		return RUN_EXIT_FAILED;
	}
	cmdline_hold(l->cl, config);
	if (l->conf->verbose) {
		line = strlist_quote(&l->cl->argv);
		dprintf(STDERR_FILENO, "ebb-run: %s\n", line);
	}
	serve(l, -1, 0); /* the last moment at which a signal finds no QEMU to take it */
	if (l->stop_signal)
		return RUN_EXIT_SIGNAL + l->stop_signal;
	rc = child_spawn(&l->env, l->cl->argv.v, &l->qemu);
	if (!rc)
		return 0;
	log_err("cannot start %s: %s", l->cl->argv.v[0], strerror(-rc));
	return rc == -ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_CANNOT_EXEC;
}

/** end_qemu() - politely first: it puts the terminal back and removes its files */
static void end_qemu(struct launch *l)
{
	uint64_t until = now_ms() + QEMU_TERM_MS;

	if (l->qemu)
		kill(l->qemu, SIGTERM);
	while (l->qemu && now_ms() < until)
		serve(l, -1, POLL_MS);
	if (l->qemu)
		kill(l->qemu, SIGKILL);
	while (l->qemu)
		serve(l, -1, POLL_MS);
}

static int exit_code(const struct launch *l)
{
	return WIFSIGNALED(l->status) ? RUN_EXIT_SIGNAL + WTERMSIG(l->status) :
					WEXITSTATUS(l->status);
}

/** report_early_end() - QEMU is gone before its guest was started; returns its code */
static int report_early_end(const struct launch *l)
{
	if (WIFSIGNALED(l->status))
		log_err("QEMU was ended by signal %d (%s) before its guest could be attached",
			WTERMSIG(l->status), strsignal(WTERMSIG(l->status)));
	else if (WEXITSTATUS(l->status))
		log_err("QEMU ended with code %d before its guest could be attached",
			WEXITSTATUS(l->status));
	return exit_code(l);
}

/** wait_monitor() - as long as it takes: QEMU itself may be waiting for a client */
static int wait_monitor(struct launch *l)
{
	uint64_t start = now_ms();
	struct ebb_err err;
	bool said = false;

	for (;;) {
		if (!access(l->monitor, F_OK) &&
		    !call(l, l->monitor, "query-status", NULL, MONITOR_CALL_MS, &err))
			return 0;
		if (l->gone)
			return -ECHILD;
		if (!said && now_ms() - start > SLOW_START_MS) {
			log_warn("still waiting for QEMU; does it wait for somebody to connect?");
			said = true;
		}
		serve(l, -1, POLL_MS);
		if (l->gone)
			return -ECHILD;
	}
}

static int attach(struct launch *l, struct ebb_err *err)
{
	json_t *args = json_pack("{s:i,s:s}", "pid", (int)l->qemu, "monitor", l->monitor);

	if (l->conf->name)
		json_object_set_new(args, "name", json_string(l->conf->name));
	if (l->conf->limit != UINT64_MAX)
		json_object_set_new(args, "limit", json_integer((json_int_t)l->conf->limit));
	return call(l, l->ebbd.socket, "attach", args, ATTACH_CALL_MS, err);
}

static void say_attached(const struct launch *l)
{
	char ram[32], limit[32];

	if (!l->conf->verbose)
		return;
	log_info("attached%s%s: %s of RAM, limit %s", l->conf->name ? " " : "",
		 l->conf->name ? l->conf->name : "",
		 units_format_bytes(l->cl->ram_bytes, ram, sizeof(ram)),
		 l->conf->limit == UINT64_MAX ?
			 "none" :
			 units_format_bytes(l->conf->limit, limit, sizeof(limit)));
}

/** attach_and_go() - returns 0 with the guest attached and started, else the exit code */
static int attach_and_go(struct launch *l)
{
	struct ebb_err err;

	if (wait_monitor(l))
		return report_early_end(l);
	if (attach(l, &err)) {
		if (l->gone)
			return report_early_end(l);
		log_err("not attached, so the guest is not started: %s", err.msg);
		end_qemu(l);
		return RUN_EXIT_REFUSED;
	}
	l->attached = true;
	say_attached(l);
	if (l->cl->paused || !call(l, l->monitor, "cont", NULL, MONITOR_CALL_MS, &err))
		return 0;
	if (l->gone)
		return report_early_end(l);
	log_err("attached, but the guest could not be started: %s", err.msg);
	end_qemu(l);
	return RUN_EXIT_NO_MONITOR;
}

static int run_qemu(struct launch *l)
{
	int code = start_qemu(l);

	if (!code)
		code = attach_and_go(l);
	if (!l->attached || code)
		return code;
	while (!l->gone)
		serve(l, -1, keep_daemon(l));
	if (WIFSIGNALED(l->status))
		log_err("QEMU was ended by signal %d (%s)", WTERMSIG(l->status),
			strsignal(WTERMSIG(l->status)));
	return exit_code(l);
}

int launch_run(const struct launch_conf *conf, struct cmdline *cl)
{
	struct launch l = {.conf = conf, .cl = cl, .rd = {.fd = -1}};
	struct ebb_err err;
	int code = RUN_EXIT_FAILED;

	if (child_env_init(&l.env, &err) || rundir_open(&l.rd, &err)) {
		log_err("%s", err.msg);
	} else if (get_daemon(&l, &err)) {
		code = l.stop_signal ? RUN_EXIT_SIGNAL + l.stop_signal : RUN_EXIT_NO_DAEMON;
		log_err("%s", err.msg);
	} else {
		code = run_qemu(&l);
	}
	end_daemon(&l);
	rundir_close(&l.rd);
	ebbd_free(&l.ebbd);
	free(l.monitor);
	return code;
}
