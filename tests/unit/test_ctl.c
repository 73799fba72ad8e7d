// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_ctl.c - ebbctl against a daemon that only pretends: what it asks, prints, and exits with.
 *
 * The program is compiled in, its main() renamed, and run with its output in files.
 */
#include <fcntl.h>
#include <getopt.h>
#include "control.h"
extern const struct control_command fake_commands[];
#define FIXTURE_COMMANDS fake_commands
#include "control_fixture.h"

int ebbctl_main(int argc, char **argv);
#define main ebbctl_main
#include "../../vmm/ctl/table.c"
#include "../../vmm/ctl/limit.c"
#include "../../vmm/ctl/client.c"
#include "../../vmm/ctl/watch.c"
#include "../../vmm/ctl/show.c"
#include "../../vmm/ctl/main.c"
#undef main

#define GIB (1ll << 30)

/* --- the daemon that pretends ----------------------------------------------------------------- */

/* Read and written with the fixture's lock held: the handlers run in the serving thread. */
static struct fake {
	json_int_t limit; /* of vm1 */
	bool attached;	  /* vm2, pid 4712 */
	bool draining;	  /* vm1 */
	bool bare;	  /* attach returns {} */
	json_int_t limit2;
	char last[512]; /* arguments of the last command that acts */
} fake;

static void fake_note(json_t *args)
{
	size_t len = json_dumpb(args, fake.last, sizeof(fake.last) - 1, JSON_SORT_KEYS);

	fake.last[MIN(len, sizeof(fake.last) - 1)] = '\0';
}

static json_t *fake_limit(json_int_t limit)
{
	return limit < 0 ? json_null() : json_integer(limit);
}

static json_t *fake_vm1(void)
{
	json_t *o = json_pack("{s:s, s:i, s:s, s:I, s:o, s:I, s:I, s:I, s:{s:s, s:I, s:I},"
			 " s:{s:s, s:s}, s:s, s:i, s:i, s:i, s:{s:i, s:i, s:i, s:i},"
			 " s:[{s:i, s:i, s:i}, {s:i, s:i, s:i}], s:{s:i, s:i, s:i},"
			 " s:[{s:s, s:I, s:I}], s:[s]}",
			 "name", "vm1", "pid", 4711, "state", "managed", "size", 4 * GIB, "limit",
			 fake_limit(fake.limit), "resident", 3 * GIB / 2, "evicted", GIB, "zero",
			 GIB / 4, "store", "path", "/var/lib/ebb/vm1", "used", GIB / 2, "size",
			 8 * GIB, "sampler", "name", "zap", "reason", "no idle page tracking",
			 "pin-guard", "bpf", "vm-stopped-us", 104, "refaults", 77, "evictions", 888,
			 "cancels", "touched", 1, "pinned", 2, "busy", 3, "error", 0, "generations",
			 "seq", 7, "age-ms", 61000, "pages", 256, "seq", 8, "age-ms", 900, "pages",
			 512, "fault-latency", "p50-us", 130, "p99-us", 900, "max-us", 12000,
			 "regions", "name", "pc.ram", "size", 4 * GIB, "gpa", 0ll, "warnings",
			 "the \x1b[31mcgroup is tight");

	if (fake.draining)
		json_object_set_new(o, "drain", json_pack("{s:I,s:I,s:I}", "done", GIB / 2, "left",
							  GIB, "rate", GIB / 4));
	return o;
}

static json_t *fake_vm2(void)
{
	return json_pack("{s:s, s:i, s:I, s:o}", "name", "vm2", "pid", 4712, "size", 2 * GIB,
			 "limit", fake_limit(fake.limit2));
}

static int fake_query_guests(void *daemon, json_t *args, struct control_reply *reply)
{
	reply->value = json_array();
	json_array_append_new(reply->value, fake_vm1());
	if (fake.attached)
		json_array_append_new(reply->value, fake_vm2());
	/* one of which next to nothing is known */
	json_array_append_new(reply->value,
			      json_pack("{s:s, s:s}", "name", "odd", "state", "refused"));
	return 0;
}

static int fake_query_guest(void *daemon, json_t *args, struct control_reply *reply)
{
	const char *name = json_string_value(json_object_get(args, "name"));

	if (!strcmp(name, "vm1"))
		reply->value = fake_vm1();
	else if (!strcmp(name, "vm2") && fake.attached)
		reply->value = fake_vm2();
	else if (!strcmp(name, "odd"))
		reply->value = json_pack("{s:s}", "name", "odd");
	if (reply->value)
		return 0;
	reply->class = CONTROL_DEVICE_NOT_FOUND;
	return ebb_err_set(&reply->err, -ENOENT, "there is no guest %s: query-guests lists them",
			   name);
}

static int fake_attach(void *daemon, json_t *args, struct control_reply *reply)
{
	fake_note(args);
	if (json_integer_value(json_object_get(args, "pid")) != 4712)
		return ebb_err_set(&reply->err, -ESRCH, "there is no such process");
	fake.attached = true;
	fake.limit2 = -1;
	if (json_object_get(args, "limit"))
		fake.limit2 = json_integer_value(json_object_get(args, "limit"));
	reply->value = fake.bare ? NULL : fake_vm2();
	return 0;
}

static int fake_set_limit(void *daemon, json_t *args, struct control_reply *reply)
{
	json_int_t limit = json_integer_value(json_object_get(args, "limit"));

	fake_note(args);
	if (limit == 4096)
		return ebb_err_set(&reply->err, -EINVAL, "4 KiB is too small a limit");
	if (!strcmp(json_string_value(json_object_get(args, "name")), "vm1"))
		fake.limit = limit;
	else
		fake.limit2 = limit;
	return 0;
}

static int fake_detach(void *daemon, json_t *args, struct control_reply *reply)
{
	struct fixture *f = daemon;

	fake_note(args);
	sem_post(&f->started);
	while (sem_wait(&f->go))
		;
	return 0;
}

static int fake_drain(void *daemon, json_t *args, struct control_reply *reply)
{
	const char *name = json_string_value(json_object_get(args, "name"));

	fake_note(args);
	if (name && !strcmp(name, "vm2"))
		return ebb_err_set(&reply->err, -ENOSPC, "no room in the host");
	reply->value = json_pack("[{s:s,s:I},{s:s,s:i}]", "name", name ? name : "vm1", "bytes", GIB,
				 "name", "vm3", "bytes", 0);
	return 0;
}

static int fake_note_only(void *daemon, json_t *args, struct control_reply *reply)
{
	fake_note(args);
	return 0;
}

static int fake_query_stats(void *daemon, json_t *args, struct control_reply *reply)
{
	reply->value = json_pack("{s:i, s:{s:i}, s:[i, i]}", "faults", 12, "io", "reads", 34,
				 "hist", 5, 6);
	return 0;
}

static const struct control_arg name_args[] = {{"name", ARG_STRING, false, NULL}, {0}};
static const struct control_arg quit_args[] = {{"mode", ARG_STRING, true, NULL}, {0}};
static const struct control_arg limit_args[] = {
	{"name", ARG_STRING, false, NULL}, {"limit", ARG_SIZE, false, NULL}, {0}};
static const struct control_arg detach_args[] = {
	{"name", ARG_STRING, false, NULL}, {"force", ARG_BOOL, true, NULL}, {0}};
static const struct control_arg drain_args[] = {{"name", ARG_STRING, true, NULL},
						{"force", ARG_BOOL, true, NULL},
						{"detach", ARG_BOOL, true, NULL},
						{0}};
static const struct control_arg attach_args[] = {{"pid", ARG_INT, false, NULL},
						 {"name", ARG_STRING, true, NULL},
						 {"limit", ARG_SIZE, true, NULL},
						 {"monitor", ARG_STRING, true, NULL},
						 {0}};

const struct control_command fake_commands[] = {
	{.name = "query-guests", .run = fake_query_guests},
	{.name = "query-guest", .args = name_args, .run = fake_query_guest},
	{.name = "attach", .args = attach_args, .run = fake_attach},
	{.name = "detach", .args = detach_args, .slow = true, .run = fake_detach},
	{.name = "drain", .args = drain_args, .slow = true, .run = fake_drain},
	{.name = "drain-abort", .args = name_args, .run = fake_note_only},
	{.name = "quit", .args = quit_args, .run = fake_note_only},
	{.name = "set-limit", .args = limit_args, .run = fake_set_limit},
	{.name = "query-stats", .args = name_args, .run = fake_query_stats},
	{0},
};

/* --- running ebbctl --------------------------------------------------------------------------- */

static char out[16384], errs[4096];

static void read_back(FILE *file, char *buf, size_t size)
{
	size_t len;

	rewind(file);
	len = fread(buf, 1, size - 1, file);
	buf[len] = '\0';
	fclose(file);
}

/* ebbctl() - its exit status; what it printed is in out and errs */
static int ebbctl(const char *line)
{
	char copy[512], *argv[32] = {(char *)"ebbctl", (char *)"--socket", fix->path};
	int argc = 3, status, keep_out = dup(1), keep_err = dup(2);
	FILE *to = tmpfile(), *errors = tmpfile();
	char *save = NULL, *word;

	snprintf(copy, sizeof(copy), "%s", line);
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	fflush(stdout);
	dup2(fileno(to), 1);
	dup2(fileno(errors), 2);
	optind = 0;
	status = ebbctl_main(argc, argv);
	fflush(stdout);
	dup2(keep_out, 1);
	dup2(keep_err, 2);
	close(keep_out);
	close(keep_err);
	read_back(to, out, sizeof(out));
	read_back(errors, errs, sizeof(errs));
	return status;
}

#define assert_contains(text, part)                                                                \
	do {                                                                                       \
		if (!strstr(text, part))                                                           \
			fail_msg("no \"%s\" in: %s", part, text);                                  \
	} while (0)

/* assert_refused() - nothing on stdout, one line that holds @part on stderr */
static void assert_refused(const char *line, int status, const char *part)
{
	assert_int_equal(ebbctl(line), status);
	assert_string_equal(out, "");
	assert_contains(errs, part);
	assert_ptr_equal(strchr(errs, '\n'), errs + strlen(errs) - 1);
}

static int start(void **state)
{
	fake = (struct fake) {.limit = -1};
	return fixture_start(state);
}

/* last_args() - what the daemon was asked to do last, "" if nothing */
static const char *last_args(void)
{
	static char copy[sizeof(fake.last)];

	pthread_mutex_lock(&fix->lock);
	memcpy(copy, fake.last, sizeof(copy));
	pthread_mutex_unlock(&fix->lock);
	return copy;
}

static long long last_limit(void)
{
	const char *at = strstr(last_args(), "\"limit\": ");

	return at ? atoll(at + strlen("\"limit\": ")) : -2;
}

static void set_limit(json_int_t limit)
{
	pthread_mutex_lock(&fix->lock);
	fake.limit = limit;
	pthread_mutex_unlock(&fix->lock);
}

static void test_list(void **state)
{
	set_limit(2 * GIB);
	assert_int_equal(ebbctl("list"), 0);
	assert_string_equal(errs, "");
	assert_string_equal(out,
			    "NAME   PID   SIZE  LIMIT  RESIDENT  EVICTED  REFAULTS  STATE\n"
			    "vm1   4711  4 GiB  2 GiB   1.5 GiB    1 GiB        77  managed\n"
			    "odd      -      -      -         -        -         -  refused\n");
	assert_int_equal(ebbctl("list --json"), 0);
	assert_contains(out, "\"pid\": 4711");
}

static void test_show(void **state)
{
	assert_int_equal(ebbctl("show vm1"), 0);
	assert_contains(out, "vm1, pid 4711: managed\n");
	assert_contains(out, "limit          none\n");
	assert_contains(out, "  SEQ    AGE  PAGES   SIZE\n    7   61 s    256  1 MiB\n");
	assert_contains(out, "touched 1, pinned 2, busy 3, error 0");
	assert_contains(out, "512 MiB of 8 GiB");
	assert_contains(out, "zap (no idle page tracking)");
	assert_contains(out, "stopped for 104 us");
	assert_contains(out, "  name     size  gpa\n  pc.ram  4 GiB  0x0\n");
	assert_contains(out, "- the ?[31mcgroup is tight"); /* no escape reaches the terminal */
	set_limit(GIB);
	assert_int_equal(ebbctl("show vm1"), 0);
	assert_contains(out, "limit          1 GiB (25% of size)\n");
	assert_int_equal(ebbctl("show odd"), 0);
	assert_string_equal(out, "odd: -\n");
	assert_refused("show nope", 1, "ebbctl: there is no guest nope: query-guests lists them\n");
}

static void test_stats(void **state)
{
	assert_int_equal(ebbctl("stats vm1"), 0);
	assert_string_equal(out, "faults    12\nio.reads  34\nhist.0     5\nhist.1     6\n");
}

static void test_limit(void **state)
{
	assert_int_equal(ebbctl("limit vm1 512M"), 0);
	assert_int_equal(last_limit(), 512 << 20);
	assert_string_equal(out, "vm1: limit 512 MiB, resident 1.5 GiB\n");
	assert_contains(errs, "warning: the ?[31mcgroup");
	assert_int_equal(ebbctl("limit vm1 50%"), 0);
	assert_int_equal(last_limit(), 2 * GIB);
	assert_int_equal(ebbctl("limit vm1 33.3%"), 0);
	assert_int_equal(last_limit() % 4096, 0);
	assert_int_equal(last_limit() / 4096, 349175); /* 33.3 % of 1048576 pages, rounded down */
	assert_int_equal(ebbctl("limit vm1 none --json"), 0);
	assert_int_equal(last_limit(), CONTROL_SIZE_NONE);
	assert_string_equal(out, "{}\n");
	assert_refused("limit vm1 4096", 1, "too small");
	assert_refused("limit odd 50%", 1, "does not say how large");
}

static void test_attach(void **state)
{
	assert_int_equal(ebbctl("attach 4712 --name vm2 --monitor /x --limit 1G"), 0);
	assert_string_equal(last_args(), "{\"limit\": 1073741824, \"monitor\": \"/x\", "
					 "\"name\": \"vm2\", \"pid\": 4712}");
	assert_string_equal(out, "vm2: attached, pid 4712, size 2 GiB, limit 1 GiB\n");
	/* A share is set once the size is known, whatever attach returns. */
	pthread_mutex_lock(&fix->lock);
	fake.bare = true;
	pthread_mutex_unlock(&fix->lock);
	assert_int_equal(ebbctl("attach --limit 25% 4712"), 0);
	assert_int_equal(last_limit(), GIB / 2);
	assert_string_equal(out, "vm2: attached, pid 4712, size 2 GiB, limit 512 MiB\n");
	assert_refused("attach 1", 1, "no such process");
}

static void *let_go(void *arg)
{
	sem_wait(&fix->started);
	sem_post(&fix->go);
	return NULL;
}

static void test_detach(void **state)
{
	pthread_t thread;
	json_t *value = NULL;
	struct ebb_err err;

	assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
	assert_int_equal(ebbctl("detach vm1"), 0);
	pthread_join(thread, NULL);
	assert_string_equal(out, "vm1: detached, all its memory is resident\n");
	assert_string_equal(errs, "");
	/* as on a terminal */
	assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
	assert_int_equal(client_watch(fix->path, "detach", "vm1", json_pack("{s:s}", "name", "vm1"), true,
				      &value, &err), CTL_OK);
	pthread_join(thread, NULL);
	json_decref(value);
}

static void test_drain(void **state)
{
	assert_int_equal(ebbctl("show vm1"), 0);
	assert_null(strstr(out, "draining"));
	fake.draining = true;
	assert_int_equal(ebbctl("show vm1"), 0);
	fake.draining = false;
	assert_contains(out, "draining       1 GiB to go, 512 MiB done, 256 MiB/s\n");
	assert_int_equal(ebbctl("drain"), 0);
	assert_string_equal(out, "vm1: drained (1 GiB), without a limit from now on\n"
				 "vm3: drained (0 B), without a limit from now on\n");
	assert_string_equal(last_args(), "{\"detach\": false, \"force\": false}");
	assert_int_equal(ebbctl("drain vm1 --force --detach"), 0);
	assert_contains(out, "vm1: drained (1 GiB), detached\n");
	assert_string_equal(last_args(), "{\"detach\": true, \"force\": true, \"name\": \"vm1\"}");
	assert_int_equal(ebbctl("--json drain vm1"), 0);
	assert_contains(out, "\"bytes\": 1073741824");
	assert_refused("drain vm2", 1, "no room in the host");
	assert_int_equal(ebbctl("drain-abort vm1"), 0);
	assert_string_equal(last_args(), "{\"name\": \"vm1\"}");
	assert_string_equal(out, "");
	assert_int_equal(ebbctl("quit"), 0);
	assert_string_equal(last_args(), "{}");
	assert_int_equal(ebbctl("quit hand-over"), 0);
	assert_string_equal(last_args(), "{\"mode\": \"hand-over\"}");
}

static void test_raw(void **state)
{
	assert_int_equal(ebbctl("raw {\"execute\":\"query-version\"}"), 0);
	assert_contains(out, "\"package\": \"ebb ");
	assert_int_equal(ebbctl("raw {\"execute\":\"query-stats\",\"arguments\":{\"name\":\"a\"}}"),
			 0);
	assert_refused("raw {\"execute\":\"nope\"}", 1, "nope");
	assert_refused("raw {\"execute\":", 2, "not JSON");
	assert_refused("raw [1]", 2, "write a command as");
	assert_refused("raw {\"execute\":\"a\",\"id\":1}", 2, "write a command as");
}

static void test_usage(void **state)
{
	assert_refused("", 2, "ebbctl --help");
	assert_refused("lst", 2, "\"lst\" is no command");
	assert_refused("show", 2, "usage: ebbctl show NAME");
	assert_refused("list x", 2, "usage: ebbctl list");
	assert_refused("list --limit 5M", 2, "belong to attach");
	assert_refused("limit vm1 lots", 2, "write a size such as");
	assert_refused("limit vm1 0%", 2, "at most 100%");
	assert_refused("limit vm1 101%", 2, "at most 100%");
	assert_refused("limit vm1 nan%", 2, "at most 100%");
	assert_refused("limit vm1 1.2.3%", 2, "at most 100%");
	assert_refused("attach qemu", 2, "no process id");
	assert_refused("attach -- -4", 2, "no process id");
	assert_refused("attach 4712 --limit x", 2, "no limit");
	assert_refused("show \xc3(", 2, "UTF-8");
	assert_refused("drain vm1 vm2", 2, "too many");
	assert_refused("list --force", 2, "belongs to drain");
	assert_refused("detach vm1 --detach", 2, "--detach to drain");
	assert_int_equal(ebbctl("list --bogus"), 2);
	assert_string_equal(last_args(), ""); /* none of these asked the daemon to act */
	assert_int_equal(ebbctl("--help"), 0);
	assert_contains(out, "usage: ebbctl");
	assert_int_equal(ebbctl("--version"), 0);
	assert_contains(out, EBB_VERSION);
}

static void test_no_daemon(void **state)
{
	char line[200];

	assert_refused("--socket /nonexistent/ebb.sock list", 3,
		       "no ebbd answers at /nonexistent/ebb.sock");
	assert_refused("--socket /dev/null list", 3, "no ebbd answers");
	snprintf(line, sizeof(line), "--socket %s/%0120d list", fix->dir, 1);
	assert_refused(line, 1, "too long");
}

/* One that takes connections and hangs up, or is no ebbd at all. */
static void *pretend(void *arg)
{
	const char *const says[] = {"", "SSH-2.0-OpenSSH_9.2\r\n", "{\"jsonrpc\": \"2.0\"}\r\n"};
	int listener = *(int *)arg;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(says); i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		send(fd, says[i], strlen(says[i]), MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

static void test_wrong_daemon(void **state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char line[120];
	pthread_t thread;
	int fd;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/other", fix->dir);
	snprintf(line, sizeof(line), "--socket %s/other list", fix->dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(pthread_create(&thread, NULL, pretend, &fd), 0);
	assert_refused(line, 1, "stays silent");
	assert_refused(line, 1, "is not ebbd");
	assert_refused(line, 1, "is not ebbd");
	pthread_join(thread, NULL);
	close(fd);
	assert_refused(line, 3, "no ebbd answers");
	unlink(addr.sun_path);
}

/* Why the daemon turns somebody away comes before any command, and reaches the person. */
static void test_turned_away(void **state)
{
	struct client cl[CONTROL_MAX_SESSIONS];
	int i;

	for (i = 0; i < CONTROL_MAX_SESSIONS; i++)
		client_open(&cl[i]);
	assert_refused("list", 1, "ebbctl: 64 clients are connected");
	for (i = 0; i < CONTROL_MAX_SESSIONS; i++)
		client_close(&cl[i]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, start, fixture_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_list),	   T(test_show),	 T(test_stats),	      T(test_limit),
		T(test_attach),	   T(test_detach),	 T(test_raw),	      T(test_usage),
		T(test_drain),	   T(test_no_daemon), T(test_wrong_daemon), T(test_turned_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
