// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main.c - ebbd: options, start-up in order, take-over, the main loop, the end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ebb/log.h>
#include "daemon.h"
#include "ending.h"
#include "notify.h"
#include "place.h"
#include "policy.h"
#include "replace.h"
#include "units.h"

#define LOCK_WAIT_MS	   10000
#define HAND_OVER_WAIT_MS  60000 /* a daemon that was asked to go finishes its writes first */
#define TAKE_OVER_RETRY_MS 3000

#define EXIT_LEFT 3 /* guests were left for the next daemon, though they were to be brought back */

static void usage(FILE *to)
{
	fprintf(to,
		"usage: ebbd [OPTIONS]\n"
		"Keep VMs within memory limits: cold pages go to disk, and come back when touched.\n\n"
		"  --socket PATH        control socket (default /run/ebb/ebb.sock); see ebbctl(1)\n"
		"  --state-dir DIR      page states, needed to go on after a crash (default /run/ebb)\n"
		"  --swap-dir DIR       evicted pages; a file system with O_DIRECT\n"
		"                       (default /var/lib/ebb)\n"
		"  --pin-guard bpf      refuse to run where pinned pages can't be told (default)\n"
		"  --pin-guard delay[:MS]  instead wait MS (default 100) before a page is copied. RISK:\n"
		"                       a device write slower than that is LOST\n"
		"  --drain-reserve SIZE  memory of the host that bringing pages back leaves free\n"
		"                       (default 1/32 of it)\n"
		"  --debug-evict random[:SEED]  pick pages at random, for tests\n"
		"  --debug-any-process  accept programs that are not QEMU, for tests\n"
		"  --policy KNOB=VALUE  how to choose what to evict, for all guests: ebb-policy(7)\n"
		"  --on-term MODE       what SIGTERM does: bring-back all pages of all guests, hand-over\n"
		"                       the guests to the next ebbd, or auto (default): bring back\n"
		"                       what fits into memory, hand over the rest\n"
		"  --replace            take the place of the ebbd that runs, if all checks are good\n"
		"  --check              only check whether this ebbd could work here, and take over\n"
		"  -v, --verbose        log more\n"
		"  --version, --help\n\n"
		"A daemon that is killed, or hands its guests over, is followed by the next one started\n"
		"on the same directories, and nothing is lost.\n");
}

enum { OPT_SOCKET = 256, OPT_STATE, OPT_SWAP, OPT_GUARD, OPT_EVICT, OPT_POLICY, OPT_ANY, OPT_RESERVE,
       OPT_ON_TERM, OPT_REPLACE, OPT_CHECK, OPT_VERSION };

static int parse_guard(struct daemon_conf *c, const char *text)
{
	char *end;

	if (!strcmp(text, "bpf"))
		return 0;
	if (strncmp(text, "delay", 5) || (text[5] && text[5] != ':'))
		return -EINVAL;
	c->pin_delay = true;
	c->pin_delay_ms = 100;
	if (text[5]) {
		unsigned long ms = strtoul(text + 6, &end, 10);

		if (end == text + 6 || *end || ms < 1 || ms > 60000)
			return -EINVAL;
		c->pin_delay_ms = (unsigned int)ms;
	}
	return 0;
}

static int parse_evict(struct daemon_conf *c, const char *text)
{
	if (strncmp(text, "random", 6) || (text[6] && text[6] != ':'))
		return -EINVAL;
	c->policy.order = RECLAIM_ORDER_RANDOM;
	c->seed = text[6] ? strtoull(text + 7, NULL, 0) : guest_now_ns();
	return 0;
}

static int parse_knob(struct daemon_conf *c, const char *text)
{
	char name[32];
	const char *value = strchr(text, '=');
	struct ebb_err err;
	int rc;

	if (!value || (size_t)(value - text) >= sizeof(name)) {
		fprintf(stderr, "ebbd: --policy takes KNOB=VALUE, not '%s'; ebb-policy(7) lists the knobs\n", text);
		return -EINVAL;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(value - text), text);
	rc = policy_set_knob(&c->policy, name, value + 1, &err);
	if (rc)
		fprintf(stderr, "ebbd: %s\n", err.msg);
	return rc;
}

/* Returns -1 to go on, else the exit code. */
static int parse_options(struct daemon_conf *c, int argc, char **argv)
{
	static const struct option options[] = {
		{"socket", required_argument, NULL, OPT_SOCKET},
		{"state-dir", required_argument, NULL, OPT_STATE},
		{"swap-dir", required_argument, NULL, OPT_SWAP},
		{"pin-guard", required_argument, NULL, OPT_GUARD},
		{"policy", required_argument, NULL, OPT_POLICY},
		{"drain-reserve", required_argument, NULL, OPT_RESERVE},
		{"on-term", required_argument, NULL, OPT_ON_TERM},
		{"replace", no_argument, NULL, OPT_REPLACE},
		{"check", no_argument, NULL, OPT_CHECK},
		{"debug-evict", required_argument, NULL, OPT_EVICT},
		{"debug-any-process", no_argument, NULL, OPT_ANY},
		{"verbose", no_argument, NULL, 'v'},
		{"version", no_argument, NULL, OPT_VERSION},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct ebb_err err;
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "vh", options, NULL)) != -1) {
		switch (opt) {
		case OPT_SOCKET:
			c->socket = optarg;
			break;
		case OPT_STATE:
			c->state_dir = optarg;
			break;
		case OPT_SWAP:
			c->swap_dir = optarg;
			break;
		case OPT_GUARD:
			rc = parse_guard(c, optarg);
			break;
		case OPT_EVICT:
			rc = parse_evict(c, optarg);
			break;
		case OPT_POLICY:
			if (parse_knob(c, optarg))
				return 2;
			break;
		case OPT_RESERVE:
			rc = units_parse_bytes(optarg, &c->drain_reserve);
			break;
		case OPT_ON_TERM:
			rc = ending_parse(optarg, &c->on_term);
			break;
		case OPT_REPLACE:
			c->replace = true;
			break;
		case OPT_CHECK:
			c->check_only = true;
			break;
		case OPT_ANY:
			c->any_process = true;
			break;
		case 'v':
			log_init("ebbd", LOG_LVL_DEBUG);
			break;
		case OPT_VERSION:
			printf("ebbd %s\n", EBB_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			fprintf(stderr, "ebbd --help shows what there is\n");
			return 2;
		}
	}
	if (rc)
		fprintf(stderr, "ebbd: '%s' is no value of that option; ebbd --help shows what there is\n",
			optarg);
	else if (optind < argc)
		fprintf(stderr, "ebbd: '%s' is no option; ebbd --help shows what there is\n",
			argv[optind]);
	else if (policy_check(&c->policy, &err))
		fprintf(stderr, "ebbd: %s\n", err.msg);
	else
		return -1;
	return 2;
}

/* The fault path must not wait for the host's swap, nor the daemon be killed for the guests' memory. */
static void protect_self(void)
{
	struct rlimit files = {.rlim_cur = 65536, .rlim_max = 65536};
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-900", 4) != 4)
		log_debug("oom_score_adj: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		log_warn("mlockall: %s; faults may wait for the host's swap", strerror(errno));
	if (setrlimit(RLIMIT_NOFILE, &files))
		log_debug("RLIMIT_NOFILE: %s", strerror(errno));
}

/* Two guests of one name (it was given to another meanwhile): the one taken over is renamed. */
static void add_taken_over(struct daemon *d, struct guest *g)
{
	char name[sizeof(g->name)];
	int rc = daemon_add(d, g);

	if (rc == -EEXIST) {
		snprintf(name, sizeof(name), "%.40s-%d", g->name, g->id.pid);
		log_warn("%s: a guest is called that already; this one is now %s", g->name, name);
		memcpy(g->name, name, sizeof(name));
		rc = daemon_add(d, g);
	}
	if (rc)
		log_err("%s: cannot be listed: %s", g->name, strerror(-rc));
	else
		daemon_release(d, g);
}

static bool is_managed(struct daemon *d, const char *state_path)
{
	bool found = false;

	pthread_mutex_lock(&d->lock);
	for (struct guest *g = d->guests; g && !found; g = g->next)
		found = !strcmp(g->state.path, state_path);
	pthread_mutex_unlock(&d->lock);
	return found;
}

/*
 * Go on with the guests of a dead daemon. Returns how many could not be and are worth another try.
 * @first: at start; each trouble is told, later only now and then
 */
static unsigned int take_over_all(struct daemon *d, bool first)
{
	DIR *dir = opendir(d->conf.state_dir);
	unsigned int left = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		struct guest_conf conf = daemon_guest_conf(d);
		const char *dot = strrchr(e->d_name, '.');
		struct guest *g;
		struct ebb_err err;
		char path[512];
		int rc;

		snprintf(path, sizeof(path), "%s/%s", d->conf.state_dir, e->d_name);
		if (dot && !strcmp(dot, ".tmp")) /* of an attach that was killed (none runs yet) */
			unlink(path);
		if (!dot || strcmp(dot, ".state"))
			continue;
		if (is_managed(d, path))
			continue;
		rc = guest_take_over(path, &conf, &g, &err);
		if (!rc)
			add_taken_over(d, g);
		else if (first)
			log_warn("%s", err.msg);
		else
			log_limited(LOG_LVL_WARN, "%s", err.msg);
		left += rc && rc != -ESRCH && rc != -EPROTO && rc != -EUCLEAN && rc != -EXDEV;
	}
	if (dir)
		closedir(dir);
	return left;
}

static bool process_is_dead(int pid, uint64_t start_time)
{
	struct proc_id id;
	int rc = proc_identify(pid, &id, NULL);

	return rc == -ESRCH || (!rc && id.start_time != start_time);
}

static void sweep_stores(const struct daemon *d)
{
	struct state_place here;

	if (!state_get_place(&here))
		store_sweep(d->conf.swap_dir, here.pid_ns, process_is_dead);
}

static void guest_exited(struct daemon *d, const struct guest *which)
{
	struct guest *g = daemon_claim_exited(d, which);

	if (!g)
		return; /* a command has it: daemon_release() brings the event again */
	daemon_remove(d, g);
	guest_reap(g);
	guest_event(g, "GUEST_DETACHED", json_pack("{s:s}", "reason", "exited"));
	guest_free(g, true);
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* From now on a signal kills, which is safe at any time. */
static void close_signals(int fd)
{
	struct signalfd_siginfo si;
	sigset_t set;

	while (read(fd, &si, sizeof(si)) > 0)
		; /* the one that ended the loop is still pending otherwise */
	close(fd);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void loop(struct daemon *d, int signal_fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = d->control};

	epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, control_fd(d->control), &ev);
	ev.data.ptr = d;
	epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, signal_fd, &ev);
	while (!d->quit) {
		int n = epoll_wait(d->epoll_fd, &ev, 1, d->to_take_over ? TAKE_OVER_RETRY_MS : -1);

		if (n < 0 && errno != EINTR)
			return;
		if (n == 0) /* a guest whose VMM was stopped, say: it is frozen until this works */
			d->to_take_over = take_over_all(d, false);
		if (n <= 0)
			continue;
		if (ev.data.ptr == d)
			return;
		if (ev.data.ptr == d->control)
			control_dispatch(d->control);
		else
			guest_exited(d, ev.data.ptr);
	}
}

static void send_event(void *arg, const char *name, json_t *data)
{
	struct daemon *d = arg;

	if (d->control)
		control_event(d->control, name, data);
	else
		json_decref(data);
}

/* All that can be found wrong without touching a guest or another daemon. */
static int check_here(struct daemon *d)
{
	struct ebb_err err;
	int rc;

	if ((rc = place_make_dir(d->conf.state_dir)) || (rc = place_make_dir(d->conf.swap_dir)))
		return rc;
	if ((rc = gate_check_host(&err)) ||
	    (!d->conf.pin_delay && (rc = pinguard_open(&d->guard, &err))) ||
	    ((d->conf.replace || d->conf.check_only) && (rc = replace_check(&d->conf, &err))))
		log_err("%s", err.msg);
	return rc;
}

/* The state directory is ours, from another daemon if need be. */
static int get_state_dir(struct daemon *d, bool *ret_replaced)
{
	int wait_ms = LOCK_WAIT_MS;
	struct ebb_err err;
	int rc;

	*ret_replaced = false;
	if (d->conf.replace) {
		rc = replace_old(&d->conf, &err);
		if (rc && rc != -ENOENT) {
			log_err("not replaced, the ebbd that runs works on: %s", err.msg);
			return rc;
		}
		*ret_replaced = !rc;
		if (rc)
			log_info("no ebbd answers at %s: nothing to replace", d->conf.socket);
		else
			wait_ms = HAND_OVER_WAIT_MS;
	}
	rc = place_lock(d->conf.state_dir, wait_ms);
	return rc < 0 ? rc : 0;
}

static int daemon_start(struct daemon *d)
{
	struct ebb_err err;
	int rc;

	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->released, NULL);
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	protect_self();
	guest_set_event_sink(send_event, d);
	d->to_take_over = take_over_all(d, true);
	sweep_stores(d);
	rc = sampler_new(&(struct sampler_host){daemon_next_guest, daemon_unfit, d}, &d->sampler);
	if (rc) {
		log_err("no sampling thread: %s", strerror(-rc));
		return rc;
	}
	rc = control_open(d->conf.socket, daemon_commands, d, &d->control, &err);
	if (rc)
		log_err("%s", err.msg);
	return rc;
}

static int daemon_end(struct daemon *d, enum end_mode mode)
{
	unsigned int left;

	notify_send("STOPPING=1");
	log_info("ending%s (a signal ends at once, and leaves what is out to the next ebbd)",
		 mode == END_HAND_OVER ? ": handing over" : ": bringing pages back");
	left = ending_run(d, mode) + d->to_take_over;
	control_close(d->control);
	pinguard_close(d->guard);
	if (left)
		log_warn("%u guest(s) handed over: START AN EBBD on %s, they wait where they touch what is "
			 "out", left, d->conf.state_dir);
	return left && mode != END_HAND_OVER ? EXIT_LEFT : 0;
}

int main(int argc, char **argv)
{
	static struct daemon d = {
		.conf = {
			.socket = "/run/ebb/ebb.sock",
			.state_dir = "/run/ebb",
			.swap_dir = "/var/lib/ebb",
			.drain_reserve = HEADROOM_RESERVE_DEFAULT,
		},
	};
	bool replaced;
	int signal_fd, rc;

	log_init("ebbd", LOG_LVL_INFO);
	d.conf.policy = reclaim_policy_default();
	rc = parse_options(&d.conf, argc, argv);
	if (rc >= 0)
		return rc;
	if (check_here(&d))
		return 1;
	if (d.conf.check_only) {
		log_info("checked: could work here");
		return 0;
	}
	signal_fd = open_signals();
	rc = get_state_dir(&d, &replaced);
	if (!rc)
		rc = daemon_start(&d);
	if (rc && replaced)
		log_err("THE EBBD BEFORE THIS ONE HAS GONE, and this one cannot work: start one again. "
			"Nothing is lost; guests wait where they touch a page that is out");
	if (rc)
		return 1;
	log_info("ready at %s", d.conf.socket);
	notify_send("READY=1");
	loop(&d, signal_fd);
	close_signals(signal_fd);
	return daemon_end(&d, d.quit ? d.quit_mode : d.conf.on_term);
}
