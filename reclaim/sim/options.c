// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * options.c - the command line of ebb-sim.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "columns.h"
#include "options.h"

#define JOBS_MAX 256

enum {
	OPT_SUITE = 256,
	OPT_HELD_OUT,
	OPT_GENERATOR,
	OPT_TRACE,
	OPT_POLICY,
	OPT_LIMIT,
	OPT_PERIOD,
	OPT_PAGES,
	OPT_ACCESSES,
	OPT_SEED,
	OPT_JOBS,
	OPT_CSV,
	OPT_PLOT,
	OPT_SET,
	OPT_WRITE,
	OPT_DUMP,
	OPT_LIST,
	OPT_VERBOSE,
	OPT_QUIET,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{"suite", no_argument, NULL, OPT_SUITE},
	{"held-out", no_argument, NULL, OPT_HELD_OUT},
	{"generator", required_argument, NULL, OPT_GENERATOR},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"limit", required_argument, NULL, OPT_LIMIT},
	{"period", required_argument, NULL, OPT_PERIOD},
	{"pages", required_argument, NULL, OPT_PAGES},
	{"accesses", required_argument, NULL, OPT_ACCESSES},
	{"seed", required_argument, NULL, OPT_SEED},
	{"jobs", required_argument, NULL, OPT_JOBS},
	{"csv", required_argument, NULL, OPT_CSV},
	{"plot", required_argument, NULL, OPT_PLOT},
	{"set", required_argument, NULL, OPT_SET},
	{"write-trace", required_argument, NULL, OPT_WRITE},
	{"dump", required_argument, NULL, OPT_DUMP},
	{"list", no_argument, NULL, OPT_LIST},
	{"verbose", no_argument, NULL, OPT_VERBOSE},
	{"quiet", no_argument, NULL, OPT_QUIET},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

/* Lists are read when all options are known: a period may come after its policy. */
struct raw {
	bool suite, held_out;
	const char *generator, *policy, *limit, *period;
	const char *dump;
};

void options_print_help(void)
{
	printf(
		"usage: ebb-sim --suite | --held-out | --generator NAME[,NAME] | --trace FILE  [OPTION]...\n"
		"       ebb-sim --dump FILE | --list\n"
		"\n"
		"Simulates page replacement: how often do pages that were evicted have to be brought back,\n"
		"with ebb's reclaim core and with other policies, on the same accesses?\n"
		"\n"
		"What to run\n"
		"  --suite               the 20 workloads at 50, 75 and 90 %%; a summary, and ebb's goals\n"
		"  --held-out            the same for the 14 workloads that were kept apart\n"
		"                        while constants were chosen\n"
		"  --generator NAMES     these workloads; a table of refaults\n"
		"  --trace FILE          accesses recorded from a guest\n"
		"  --policy NAMES        these policies (default: all); ebb and mglru sample and take a\n"
		"                        period, as in ebb.25\n"
		"  --period LIST         their periods, in N accesses, N being the pages (default 0.25,1)\n"
		"  --limit LIST          percent of the pages touched, or pages: 50,75,9000p\n"
		"                        (default 50,75,90; with --plot 10,15,..95)\n"
		"  --pages N             of the guest (default 30000)\n"
		"  --accesses N          default 100 a page; the first third only warms up\n"
		"  --seed N              other random numbers (default 1); one seed, one result\n"
		"  --set KNOB=VALUE      of ebb: order=auto|generations|frequency|random,\n"
		"                        features=aging,eviction,tiers,ahead, min-period=SHARE of the period\n"
		"\n"
		"What to show\n"
		"  --csv FILE            a line for each workload, limit and policy; - is stdout, and the\n"
		"                        only thing there\n"
		"  --plot FILE.png|.svg  refaults against the limit, a curve for each policy (one workload)\n"
		"  --verbose             what the core says of each run\n"
		"  --quiet               no progress on stderr\n"
		"  --jobs N              threads (default: CPUs)\n"
		"  --list                workloads and policies\n"
		"\n"
		"Traces\n"
		"  --dump FILE           print the records of a trace\n"
		"  --write-trace FILE    write the one --generator as a trace, with a pass each --period\n"
		"                        (one value, default 0.25); --trace can replay it\n"
		"\n"
		"For example\n"
		"  ebb-sim --suite\n"
		"  ebb-sim --generator mixed --policy ebb1,lru,min --limit 30,60\n"
		"  ebb-sim --generator zipf0.9 --plot zipf.svg\n"
		"\n"
		"Exit status: 0, also when goals are missed; 1 when something failed; 2 for a bad command line.\n");
}

void options_print_list(void)
{
	printf("Workloads of the suite\n");
	for (const struct gen *gen = gens; gen->name; gen++)
		if (!gen->held_out)
			printf("  %-12s %s\n", gen->name, gen->about);
	printf("\nHeld out\n");
	for (const struct gen *gen = gens; gen->name; gen++)
		if (gen->held_out)
			printf("  %-12s %s\n", gen->name, gen->about);
	printf("\nPolicies\n");
	for (uint32_t i = 0; sim_policies[i]; i++)
		printf("  %-12s %s%s\n", sim_policies[i]->name, sim_policies[i]->about,
		       sim_policies[i]->samples ? " (takes a period, as in ebb.25)" : "");
}

static int parse_count(const char *option, const char *text, double min, double max, double *ret,
		       struct ebb_err *err)
{
	if (!parse_number(text, min, max, ret) && *ret == (double)(uint64_t)*ret)
		return 0;
	return ebb_err_set(err, -EINVAL, "--%s: \"%s\" is no number from %.0f to %.0f", option, text,
			   min, max);
}

static int parse_counts(struct sim_options *o, int opt, const char *arg, struct ebb_err *err)
{
	double value = 0;
	int rc;

	switch (opt) {
	case OPT_PAGES:
		rc = parse_count("pages", arg, GEN_PAGES_MIN, GEN_PAGES_MAX, &value, err);
		o->grid.nr_pages = (uint32_t)value;
		return rc;
	case OPT_ACCESSES:
		rc = parse_count("accesses", arg, GEN_ACCESSES_MIN, GEN_ACCESSES_MAX, &value, err);
		o->grid.nr_accesses = (uint32_t)value;
		return rc;
	case OPT_SEED:
		rc = parse_count("seed", arg, 0, 9e15, &value, err);
		o->grid.seed = (uint64_t)value;
		return rc;
	default:
		rc = parse_count("jobs", arg, 1, JOBS_MAX, &value, err);
		o->grid.jobs = (uint32_t)value;
		return rc;
	}
}

static int set_mode(struct sim_options *o, enum sim_mode mode)
{
	o->mode = mode;
	return 0;
}

static int take_option(struct sim_options *o, struct raw *raw, int opt, char *arg,
		       struct ebb_err *err)
{
	switch (opt) {
	case OPT_SUITE:
		raw->suite = true;
		return 0;
	case OPT_HELD_OUT:
		raw->held_out = true;
		return 0;
	case OPT_GENERATOR:
		raw->generator = arg;
		return 0;
	case OPT_TRACE:
		o->trace = arg;
		return 0;
	case OPT_POLICY:
		raw->policy = arg;
		return 0;
	case OPT_LIMIT:
		raw->limit = arg;
		return 0;
	case OPT_PERIOD:
		raw->period = arg;
		return 0;
	case OPT_CSV:
		o->csv = arg;
		return 0;
	case OPT_PLOT:
		o->plot = arg;
		return 0;
	case OPT_SET:
		return parse_knob(&o->grid.knobs, arg, err);
	case OPT_WRITE:
		o->write = arg;
		return 0;
	case OPT_DUMP:
		raw->dump = arg;
		return 0;
	case OPT_VERBOSE:
		o->verbose = true;
		return 0;
	case OPT_QUIET:
		o->grid.quiet = true;
		return 0;
	case OPT_LIST:
		return set_mode(o, SIM_LIST);
	case OPT_HELP:
		return set_mode(o, SIM_HELP);
	case OPT_VERSION:
		return set_mode(o, SIM_VERSION);
	default:
		return parse_counts(o, opt, arg, err);
	}
}

static int check_plot(const char *path, const struct sim_grid *grid, struct ebb_err *err)
{
	const char *dot = strrchr(path, '.');

	if (!dot || (strcmp(dot, ".png") != 0 && strcmp(dot, ".svg") != 0))
		return ebb_err_set(err, -EINVAL, "--plot: \"%s\" ends neither in .png nor in .svg",
				   path);
	if (grid->nr_sources != 1)
		return ebb_err_set(err, -EINVAL,
				   "--plot draws one workload: give one --generator or a --trace");
	return 0;
}

/* What is run, from what was asked for. */
static int choose_sources(struct sim_options *o, const struct raw *raw, struct ebb_err *err)
{
	int kinds = raw->suite + raw->held_out + !!raw->generator + !!o->trace;

	if (kinds > 1)
		return ebb_err_set(err, -EINVAL,
				   "--suite, --held-out, --generator and --trace: one of them at a "
				   "time");
	if (!kinds && (raw->policy || raw->limit || raw->period || o->csv || o->plot || o->write))
		return ebb_err_set(err, -EINVAL,
				   "nothing to run: give --suite, --held-out, --generator or --trace");
	if (!kinds)
		return set_mode(o, SIM_NOTHING);
	o->mode = raw->suite || raw->held_out ? SIM_SUITE : SIM_GRID;
	if (o->trace)
		add_source(&o->grid, "trace", NULL);
	if (raw->generator)
		return parse_generators(&o->grid, raw->generator, err);
	for (const struct gen *gen = gens; !o->trace && gen->name; gen++)
		if (gen->held_out == raw->held_out)
			add_source(&o->grid, gen->name, gen);
	return 0;
}

static int choose_write(struct sim_options *o, const struct raw *raw, struct ebb_err *err)
{
	if (o->grid.nr_sources != 1 || !o->grid.sources[0].gen)
		return ebb_err_set(err, -EINVAL, "--write-trace: give the one --generator to write");
	o->period = .25;
	if (raw->period && parse_number(raw->period, PERIOD_MIN, PERIOD_MAX, &o->period))
		return ebb_err_set(err, -EINVAL,
				   "--period: \"%s\" is not one number from %g to %g; a trace is "
				   "written with one period",
				   raw->period, PERIOD_MIN, PERIOD_MAX);
	return set_mode(o, SIM_WRITE);
}

static int finish(struct sim_options *o, const struct raw *raw, struct ebb_err *err)
{
	const char *limits = "50,75,90";
	int rc;

	if (raw->dump) {
		o->trace = raw->dump;
		return set_mode(o, SIM_DUMP);
	}
	rc = choose_sources(o, raw, err);
	if (rc || o->mode == SIM_NOTHING)
		return rc;
	if (!o->grid.nr_accesses)
		o->grid.nr_accesses = MIN(100ull * o->grid.nr_pages, GEN_ACCESSES_MAX);
	if (o->write)
		return choose_write(o, raw, err);
	if (o->plot) {
		rc = check_plot(o->plot, &o->grid, err);
		if (rc)
			return rc;
		limits = "10,15,20,25,30,35,40,45,50,55,60,65,70,75,80,85,90,95";
	}
	rc = parse_limits(&o->grid, raw->limit ? raw->limit : limits, err);
	if (rc)
		return rc;
	return parse_policies(&o->grid, raw->policy, raw->period ? raw->period : "0.25,1", err);
}

static uint32_t nr_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : MIN(CPU_COUNT(&set), JOBS_MAX);
}

int options_parse(int argc, char **argv, struct sim_options *o, struct ebb_err *err)
{
	struct raw raw = {0};
	int opt, rc;

	*o = (struct sim_options){
		.grid = {.nr_pages = 30000, .seed = 1, .jobs = nr_cpus(), .knobs = sim_knobs_default()},
	};
	optind = 0; /* may be called again, by tests */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", long_options, NULL)) >= 0) {
		if (opt == ':')
			return ebb_err_set(err, -EINVAL, "%s needs a value", argv[optind - 1]);
		if (opt == '?')
			return ebb_err_set(err, -EINVAL, "unknown option %s; ebb-sim --help lists them",
					   argv[optind - 1]);
		rc = take_option(o, &raw, opt, optarg, err);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return ebb_err_set(err, -EINVAL, "%s: options only, and this is none", argv[optind]);
	if (o->mode != SIM_NOTHING) /* --list, --help, --version */
		return 0;
	return finish(o, &raw, err);
}
