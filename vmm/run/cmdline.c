// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cmdline.c - walks a QEMU command line and converts what is about guest RAM.
 *
 * DOC: how a command line is converted
 *
 * The line is read as QEMU reads it: a word that begins with "-" (or "--") is an option, whether it
 * takes an argument is known by its name, everything else is a disk image. Each option about RAM
 * has a handler; all others are handed on as they are.
 *
 *   -m 1G                  adds -object memory-backend-memfd,id=ebb-ram,size=1024M,share=on
 *                          and -machine memory-backend=ebb-ram
 *   -object memory-backend-ram, -shm
 *                          becomes memory-backend-memfd, share=on, other properties kept
 *   -object memory-backend-memfd
 *                          gets share=on
 *   -object memory-backend-file
 *                          stays if it is shared and on tmpfs, else refused
 *   -machine memory-backend=, -numa node,memdev=
 *                          stay: the objects they name are converted
 *   -mem-path on tmpfs     dropped: a memfd is the same kind of memory
 *
 * What is added goes in front of the user's options, where nothing on the line can swallow it as an
 * argument; QEMU merges several -machine, so the user's own stays. Where QEMU takes the last of
 * several values (-m, keys of -machine) so does this.
 *
 * An option this file does not know (of a newer QEMU) is taken to have an argument if the next word
 * does not look like an option. A wrong guess cannot harm: RAM that was not put on a memfd is
 * refused at attach, before the guest runs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "backend.h"
#include "cmdline.h"
#include "optstr.h"
#include "refuse.h"
#include "units.h"
#include "walk.h"

#define DEFAULT_RAM   "128" /* MiB, of every x86 machine */
#define RAM_ALIGNMENT 8192 /* QEMU rounds the size of a machine's RAM up to this */
#define QEMU_CONF     "/etc/qemu/qemu.conf" /* read by QEMU unless told not to */

struct backend {
	char *id;
	uint64_t bytes; /* 0: not given, or QEMU will refuse it */
};

/** struct scan - what has been seen so far */
struct scan {
	struct cmdline *out;
	char *ram_size;	    /* of -m; NULL: not given */
	char *machine_size; /* of -machine memory.size= */
	char *ram_backend;  /* of -machine memory-backend= */
	struct backend *backends;
	size_t nr_backends;
	bool numa_memdev;
	bool no_user_config;
	char *replaced; /* the handler's new argument for its option */
	bool dropped;	/* the handler wants the option gone */
};

/** struct option_handler - @fn gets the argument, NULL where there is none */
struct option_handler {
	const char *name;
	int (*fn)(struct scan *s, const char *arg, struct ebb_err *err);
};

static void keep(char **slot, const char *text)
{
	free(*slot);
	*slot = run_strdup(text);
}

/** parse_arg() - the argument of @option, with the option named in what is wrong with it */
static int parse_arg(const char *option, const char *arg, const char *implied, struct optstr *o,
		     struct ebb_err *err)
{
	struct ebb_err why;
	int rc = optstr_parse(arg, implied, o, &why);

	return rc ? ebb_err_set(err, rc, "-%s %.200s %s", option, arg, why.msg) : 0;
}

static void optstr_cleanup(struct optstr *o)
{
	optstr_free(o);
}
#define _cleanup_optstr_ __attribute__((cleanup(optstr_cleanup)))

/* --- options about RAM ------------------------------------------------------------------------ */

static int on_memory(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	int rc = parse_arg("m", arg, "size", &o, err);

	/* Several -m are one: a later one may give slots= only. */
	if (!rc && optstr_get(&o, "size"))
		keep(&s->ram_size, optstr_get(&o, "size"));
	return rc;
}

static int on_machine(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	const char *value;
	int rc = parse_arg("machine", arg, "type", &o, err);

	if (!rc)
		rc = refuse_machine(&o, err);
	if (rc)
		return rc;
	value = optstr_get(&o, "memory-backend");
	if (value && *value)
		keep(&s->ram_backend, value);
	value = optstr_get(&o, "memory.size");
	if (value)
		keep(&s->machine_size, value);
	return 0;
}

static int on_mem_path(struct scan *s, const char *arg, struct ebb_err *err)
{
	int rc = backend_check_path("-mem-path", arg, err);

	if (rc)
		return rc;
	s->dropped = true;
	strlist_add(&s->out->notes, run_asprintf("-mem-path %s dropped: a memfd is used", arg));
	return 0;
}

static void note_backend(struct scan *s, const struct optstr *o)
{
	const char *id = optstr_get(o, "id"), *size = optstr_get(o, "size");
	struct backend b = {.id = run_strdup(id ? id : "")};

	if (size)
		units_parse_bytes(size, &b.bytes);
	s->backends = run_realloc(s->backends, (s->nr_backends + 1) * sizeof(b));
	s->backends[s->nr_backends++] = b;
}

static int on_object(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	const char *type;
	int rc = parse_arg("object", arg, "qom-type", &o, err);

	if (rc)
		return rc;
	type = optstr_get(&o, "qom-type");
	rc = type ? refuse_object(type, err) : 0;
	if (rc || !type || strncmp(type, "memory-backend-", 15))
		return rc;
	rc = backend_check(type, &o, err);
	if (rc)
		return rc;
	note_backend(s, &o);
	if (!strcmp(type, "memory-backend-file") ||
	    (!strcmp(type, "memory-backend-memfd") && optstr_is_on(&o, "share")))
		return 0;
	strlist_add(&s->out->notes, run_asprintf("%s %s is memory-backend-memfd,share=on now", type,
						 s->backends[s->nr_backends - 1].id));
	optstr_set(&o, "qom-type", "memory-backend-memfd");
	optstr_set(&o, "share", "on");
	s->replaced = optstr_format(&o);
	return 0;
}

static int on_numa(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	const char *type, *mem;
	int rc = parse_arg("numa", arg, "type", &o, err);

	if (rc)
		return rc;
	type = optstr_get(&o, "type");
	if (!type || strcmp(type, "node"))
		return 0;
	mem = optstr_get(&o, "mem");
	if (mem)
		return ebb_err_set(
			err, -ENOTSUP,
			"-numa node,mem=%s leaves the memory to QEMU; give it a memory backend: "
			"-object memory-backend-memfd,id=node0,size=%s,share=on -numa "
			"node,memdev=node0",
			mem, mem);
	s->numa_memdev |= optstr_get(&o, "memdev") != NULL;
	return 0;
}

static int on_overcommit(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	int rc = parse_arg("overcommit", arg, NULL, &o, err);

	if (!rc && optstr_is_on(&o, "mem-lock"))
		rc = ebb_err_set(
			err, -ENOTSUP,
			"-overcommit mem-lock=on locks all of guest RAM in memory; remove it");
	return rc;
}

static int on_realtime(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	int rc = parse_arg("realtime", arg, NULL, &o, err);

	/* mlock is on where -realtime does not say. */
	if (!rc && (!optstr_get(&o, "mlock") || optstr_is_on(&o, "mlock")))
		rc = ebb_err_set(
			err, -ENOTSUP,
			"-realtime mlock=on locks all of guest RAM in memory; say mlock=off or "
			"remove it");
	return rc;
}

/* --- options about the process and its devices ------------------------------------------------ */

static int on_paused(struct scan *s, const char *arg, struct ebb_err *err)
{
	s->out->paused = true;
	return 0;
}

static int on_device(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	int rc = parse_arg("device", arg, "driver", &o, err);
	const char *driver = rc ? NULL : optstr_get(&o, "driver");

	return driver ? refuse_device(driver, err) : rc;
}

static int check_net(const char *option, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	int rc = parse_arg(option + 1, arg, "type", &o, err);

	return rc ? rc : refuse_netdev(option, optstr_get(&o, "type"), err);
}

static int on_netdev(struct scan *s, const char *arg, struct ebb_err *err)
{
	return check_net("-netdev", arg, err);
}

static int on_nic(struct scan *s, const char *arg, struct ebb_err *err)
{
	return check_net("-nic", arg, err);
}

static int on_net(struct scan *s, const char *arg, struct ebb_err *err)
{
	return check_net("-net", arg, err);
}

static int check_drive(const char *option, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	int rc =
		parse_arg(option + 1, arg, !strcmp(option, "-blockdev") ? "driver" : NULL, &o, err);

	return rc ? rc : refuse_drive(option, &o, err);
}

static int on_drive(struct scan *s, const char *arg, struct ebb_err *err)
{
	return check_drive("-drive", arg, err);
}

static int on_blockdev(struct scan *s, const char *arg, struct ebb_err *err)
{
	return check_drive("-blockdev", arg, err);
}

static int on_readconfig(struct scan *s, const char *arg, struct ebb_err *err)
{
	return refuse_config(arg, false, err);
}

static int on_no_user_config(struct scan *s, const char *arg, struct ebb_err *err)
{
	s->no_user_config = true;
	return 0;
}

static int on_name(struct scan *s, const char *arg, struct ebb_err *err)
{
	_cleanup_optstr_ struct optstr o = {0};
	int rc = parse_arg("name", arg, "guest", &o, err);

	if (!rc && optstr_get(&o, "guest"))
		snprintf(s->out->name, sizeof(s->out->name), "%s", optstr_get(&o, "guest"));
	return rc;
}

static const struct option_handler handlers[] = {
	{"m", on_memory},
	{"machine", on_machine},
	{"M", on_machine},
	{"object", on_object},
	{"numa", on_numa},
	{"mem-path", on_mem_path},
	{"overcommit", on_overcommit},
	{"realtime", on_realtime},
	{"S", on_paused},
	{"device", on_device},
	{"netdev", on_netdev},
	{"nic", on_nic},
	{"net", on_net},
	{"drive", on_drive},
	{"blockdev", on_blockdev},
	{"readconfig", on_readconfig},
	{"no-user-config", on_no_user_config},
	{"nodefconfig", on_no_user_config},
	{"name", on_name},
};

/* --- putting it together ---------------------------------------------------------------------- */

static int handle_option(struct scan *s, const struct walk *w, struct ebb_err *err)
{
	if (w->wants_arg && !w->arg)
		return ebb_err_set(err, -EINVAL, "-%s needs an argument", w->name);
	if (refuse_option(w->name, err))
		return -ENOTSUP;
	for (size_t i = 0; i < ARRAY_SIZE(handlers); i++)
		if (!strcmp(w->name, handlers[i].name))
			return handlers[i].fn(s, w->arg, err);
	return 0;
}

static int scan_options(struct scan *s, int argc, char *const argv[], struct ebb_err *err)
{
	struct walk w = {.argc = argc, .argv = argv, .nr = 1};
	int rc;

	while (walk_next(&w)) {
		s->replaced = NULL;
		s->dropped = false;
		rc = w.name ? handle_option(s, &w, err) : 0;
		if (rc)
			return rc;
		if (s->dropped)
			continue;
		strlist_add(&s->out->argv, run_strdup(argv[w.at]));
		if (w.nr == 2)
			strlist_add(&s->out->argv,
				    s->replaced ? s->replaced : run_strdup(argv[w.at + 1]));
	}
	return s->no_user_config ? 0 : refuse_config(QEMU_CONF, true, err);
}

/** parse_ram_size() - of -m: plain numbers are MiB, hexadecimal ones too */
static int parse_ram_size(const char *text, bool is_mib, uint64_t *ret, struct ebb_err *err)
{
	size_t len = strlen(text);
	uint64_t bytes;
	char *end;

	if (!strncasecmp(text, "0x", 2)) {
		bytes = strtoull(text, &end, 16);
		if (*end || bytes >> 40)
			return ebb_err_set(err, -EINVAL, "-m %s is not a size", text);
		bytes <<= is_mib ? 20 : 0;
	} else if (units_parse_bytes(text, &bytes)) {
		return ebb_err_set(err, -EINVAL, "-m %s is not a size such as 512M or 1.5G", text);
	} else if (is_mib && len && text[len - 1] >= '0' && text[len - 1] <= '9') {
		if (bytes >> 40)
			return ebb_err_set(err, -EINVAL, "-m %s is more than QEMU can take", text);
		bytes <<= 20;
	}
	*ret = (bytes + RAM_ALIGNMENT - 1) & ~(uint64_t)(RAM_ALIGNMENT - 1);
	return 0;
}

/** default_is_known() - 128 MiB is right for x86; elsewhere each machine has its own */
static bool default_is_known(const char *program)
{
	const char *slash = strrchr(program, '/'), *base = slash ? slash + 1 : program;

	return strncmp(base, "qemu-system-", 12) || !strcmp(base, "qemu-system-x86_64") ||
	       !strcmp(base, "qemu-system-i386");
}

static int resolve_size(struct scan *s, const char *program, uint64_t *ret, struct ebb_err *err)
{
	uint64_t bytes = 0;
	int rc = 0;

	if (s->ram_size && *s->ram_size)
		rc = parse_ram_size(s->ram_size, true, &bytes, err);
	if (!rc && !bytes && s->machine_size)
		rc = parse_ram_size(s->machine_size, false, &bytes, err);
	if (!rc && !bytes && !default_is_known(program))
		return ebb_err_set(
			err, -EINVAL,
			"the size of the guest's RAM is not given, and its default depends on "
			"the machine; add -m");
	if (!rc && !bytes)
		rc = parse_ram_size(DEFAULT_RAM, true, &bytes, err);
	if (!rc)
		*ret = bytes;
	return rc;
}

char *cmdline_free_id(const struct cmdline *c, const char *base)
{
	char *id = run_strdup(base);

	for (unsigned int n = 1;; n++) {
		bool used = false;

		for (size_t i = 0; i < c->argv.nr && !used; i++)
			used = strstr(c->argv.v[i], id) != NULL;
		if (!used)
			return id;
		free(id);
		id = run_asprintf("%s-%u", base, n);
	}
}

/** insert_front() - right after the program, in the order given, ended by NULL */
static void insert_front(struct cmdline *c, char *const words[])
{
	for (size_t i = 0; words[i]; i++)
		strlist_insert(&c->argv, 1 + i, words[i]);
}

static void add_backend(struct cmdline *c, uint64_t bytes)
{
	_cleanup_free_ char *id = cmdline_free_id(c, "ebb-ram"), *size;
	uint64_t mib = bytes >> 20;

	size = mib << 20 == bytes ? run_asprintf("%lluM", (unsigned long long)mib) :
				    run_asprintf("%llu", (unsigned long long)bytes);
	insert_front(c,
		     (char *const[]) {
			     run_strdup("-object"),
			     run_asprintf("memory-backend-memfd,id=%s,size=%s,share=on", id, size),
			     run_strdup("-machine"), run_asprintf("memory-backend=%s", id), NULL});
	strlist_add(&c->notes, run_asprintf("guest RAM is the shared memfd %s of %s", id, size));
}

/** resolve_ram() - all has been seen: is there a backend for the RAM, and how large is it? */
static int resolve_ram(struct scan *s, const char *program, struct ebb_err *err)
{
	struct cmdline *c = s->out;
	int rc;

	if (s->ram_backend) {
		for (size_t i = 0; i < s->nr_backends; i++)
			if (!strcmp(s->backends[i].id, s->ram_backend))
				c->ram_bytes = s->backends[i].bytes;
		return 0;
	}
	rc = resolve_size(s, program, &c->ram_bytes, err);
	if (!rc && !s->numa_memdev)
		add_backend(c, c->ram_bytes);
	return rc;
}

static void scan_free(struct scan *s)
{
	for (size_t i = 0; i < s->nr_backends; i++)
		free(s->backends[i].id);
	free(s->backends);
	free(s->ram_size);
	free(s->machine_size);
	free(s->ram_backend);
}

int cmdline_convert(int argc, char *const argv[], struct cmdline *ret, struct ebb_err *err)
{
	struct cmdline c = {0};
	struct scan s = {.out = &c};
	int rc = 0;

	if (argc < 1 || !*argv[0])
		return ebb_err_set(err, -EINVAL, "no QEMU command line: give it after --");
	c.info_only = walk_asks_for_help(argc, argv);
	strlist_add(&c.argv, run_strdup(argv[0]));
	if (c.info_only)
		for (int i = 1; i < argc; i++)
			strlist_add(&c.argv, run_strdup(argv[i]));
	else
		rc = scan_options(&s, argc, argv, err);
	if (!rc && !c.info_only)
		rc = resolve_ram(&s, argv[0], err);
	scan_free(&s);
	if (rc)
		cmdline_free(&c);
	else
		*ret = c;
	return rc;
}

void cmdline_free(struct cmdline *c)
{
	strlist_free(&c->argv);
	strlist_free(&c->notes);
}

void cmdline_hold(struct cmdline *c, const char *config)
{
	insert_front(c, (char *const[]) {run_strdup("-S"), run_strdup("-readconfig"),
					 run_strdup(config), NULL});
}
