// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main.c - ebb-run: its options, and what becomes of a QEMU command line behind them.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ebb/log.h>
#include "cmdline.h"
#include "exitcode.h"
#include "launch.h"
#include "units.h"

struct options {
	struct launch_conf launch;
	const char *limit; /* as given; NULL: none */
	bool dry_run;
};

enum { OPT_SOCKET = 256, OPT_STATE_DIR, OPT_SWAP_DIR, OPT_DRY_RUN, OPT_VERSION };

static void usage(FILE *to)
{
	fputs("usage: ebb-run [OPTIONS] -- QEMU [QEMU OPTIONS]\n"
	      "Start a virtual machine whose memory is kept within a limit.\n"
	      "\n"
	      "  --name NAME       what the guest is called (else QEMU's -name, or pid-N)\n"
	      "  --limit SIZE      memory it may have: 512M, 1.5G, 50% (of -m) or none (default)\n"
	      "  --socket PATH     of the daemon (default /run/ebb/ebb.sock); where none answers\n"
	      "                    a private one is started for this guest\n"
	      "  --state-dir DIR   of a private daemon\n"
	      "  --swap-dir DIR    of a private daemon; on a disk\n"
	      "  --dry-run         print the converted command line and exit\n"
	      "  -v, --verbose     say what is done\n"
	      "  -h, --help\n"
	      "  --version\n",
	      to);
}

/** parse_options() - returns -1 to go on, else the exit code */
static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option long_options[] = {
		{"name", required_argument, NULL, 'n'},
		{"limit", required_argument, NULL, 'l'},
		{"socket", required_argument, NULL, OPT_SOCKET},
		{"state-dir", required_argument, NULL, OPT_STATE_DIR},
		{"swap-dir", required_argument, NULL, OPT_SWAP_DIR},
		{"dry-run", no_argument, NULL, OPT_DRY_RUN},
		{"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, OPT_VERSION},
		{NULL, 0, NULL, 0},
	};
	int opt;

	/* "+": stop at the first word that is no option; what follows is QEMU's. */
	while ((opt = getopt_long(argc, argv, "+n:l:vh", long_options, NULL)) >= 0) {
		switch (opt) {
		case 'n':
			o->launch.name = optarg;
			break;
		case 'l':
			o->limit = optarg;
			break;
		case OPT_SOCKET:
			o->launch.ebbd.socket = optarg;
			break;
		case OPT_STATE_DIR:
			o->launch.ebbd.state_dir = optarg;
			break;
		case OPT_SWAP_DIR:
			o->launch.ebbd.swap_dir = optarg;
			break;
		case OPT_DRY_RUN:
			o->dry_run = true;
			break;
		case 'v':
			o->launch.verbose = o->launch.ebbd.verbose = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		case OPT_VERSION:
			puts("ebb-run " EBB_VERSION);
			return 0;
		default:
			usage(stderr);
			return RUN_EXIT_FAILED;
		}
	}
	return -1;
}

/** resolve_limit() - "none", a size, or a share of the RAM the guest starts with */
static int resolve_limit(const char *text, uint64_t ram_bytes, uint64_t *ret, struct ebb_err *err)
{
	double percent;
	uint64_t bytes;
	int rc, len = 0;

	if (!text || !strcmp(text, "none")) {
		*ret = UINT64_MAX;
		return 0;
	}
	if (sscanf(text, "%lf%n", &percent, &len) == 1 && !strcmp(text + len, "%")) {
		if (!(percent > 0 && percent <= 100))
			return ebb_err_set(err, -EINVAL, "--limit %s is not between 0%% and 100%%",
					   text);
		if (!ram_bytes)
			return ebb_err_set(
				err, -EINVAL,
				"--limit %s: the guest's RAM is not known; give -m, or the "
				"limit as a size",
				text);
		*ret = (uint64_t)((double)ram_bytes * percent / 100) & ~(EBB_PAGE_SIZE - 1);
		return 0;
	}
	rc = units_parse_bytes(text, &bytes);
	if (rc || !bytes || bytes > INT64_MAX)
		return ebb_err_set(err, rc ? rc : -EINVAL,
				   "--limit %s is not a size such as 512M, 1.5G, 50%% or none",
				   text);
	*ret = bytes;
	return 0;
}

/* A name ends up in file names and messages. */
static const char name_characters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	"_.-+@:";

/** adapt_name() - QEMU lets -name be anything */
static void adapt_name(char *name)
{
	for (char *p = name + strspn(name, name_characters); *p; p += strspn(p, name_characters))
		*p = '_';
	if (*name == '.' || *name == '-')
		*name = '_';
}

static int check_name(const char *name, struct ebb_err *err)
{
	if (!*name || strlen(name) > 63 || name[strspn(name, name_characters)] || *name == '.' ||
	    *name == '-')
		return ebb_err_set(
			err, -EINVAL,
			"the name '%.80s' is not of 1 to 63 letters, digits and _.-+@: (not "
			"first . or -); give another with --name",
			name);
	return 0;
}

static int dry_run(const struct cmdline *cl)
{
	_cleanup_free_ char *line = strlist_quote(&cl->argv);

	return puts(line) < 0 || fflush(stdout) ? RUN_EXIT_FAILED : 0;
}

static int run(struct options *o, struct cmdline *cl)
{
	struct ebb_err err;

	if (!o->launch.name && *cl->name) {
		adapt_name(cl->name);
		o->launch.name = cl->name;
	}
	if (resolve_limit(o->limit, cl->ram_bytes, &o->launch.limit, &err) ||
	    (o->launch.name && check_name(o->launch.name, &err))) {
		log_err("%s", err.msg);
		return RUN_EXIT_FAILED;
	}
	for (size_t i = 0; o->launch.verbose && i < cl->notes.nr; i++)
		log_info("%s", cl->notes.v[i]);
	return o->dry_run ? dry_run(cl) : launch_run(&o->launch, cl);
}

int main(int argc, char **argv)
{
	struct options o = {.launch = {.limit = UINT64_MAX}};
	struct cmdline cl;
	struct ebb_err err;
	int code;

	log_init("ebb-run", LOG_LVL_INFO);
	code = parse_options(argc, argv, &o);
	if (code >= 0)
		return code;
	code = cmdline_convert(argc - optind, argv + optind, &cl, &err);
	if (code) {
		log_err("%s", err.msg);
		return code == -ENOTSUP ? RUN_EXIT_UNSUPPORTED : RUN_EXIT_FAILED;
	}
	if (cl.info_only && !o.dry_run) {
		execvp(cl.argv.v[0], cl.argv.v);
		code = errno == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_CANNOT_EXEC;
		log_err("cannot start %s: %s", cl.argv.v[0], strerror(errno));
	} else {
		code = run(&o, &cl);
	}
	cmdline_free(&cl);
	return code;
}
