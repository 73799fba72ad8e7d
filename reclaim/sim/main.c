// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main.c - ebb-sim: what page replacement costs, simulated.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "options.h"
#include "report.h"
#include "plot.h"
#include "tracefile.h"

static int write_csv(const struct sim_grid *grid, const char *path, struct ebb_err *err)
{
	bool to_stdout = !strcmp(path, "-");
	FILE *out = to_stdout ? stdout : fopen(path, "we");
	bool bad;

	if (!out)
		return ebb_err_set(err, -errno, "%s: %s", path, strerror(errno));
	report_csv(grid, out);
	bad = fflush(out) || ferror(out);
	if (!to_stdout && fclose(out))
		bad = true;
	return bad ? ebb_err_set(err, -EIO, "%s: could not be written: %s", path, strerror(errno)) :
		     0;
}

static int load_trace(struct sim_options *o, struct ebb_err *err)
{
	struct sim_workload *w = &o->grid.sources[0].workload;
	bool cut;
	int rc = tracefile_load(o->trace, o->grid.seed, w, &cut, err);

	if (!rc && cut && !o->grid.quiet)
		fprintf(stderr, "ebb-sim: %s ends within a record; what is before it is used\n",
			o->trace);
	return rc;
}

static int write_trace(struct sim_options *o, struct ebb_err *err)
{
	struct sim_workload w;
	int rc;

	gen_make(o->grid.sources[0].gen, o->grid.nr_pages, o->grid.nr_accesses, o->grid.seed, &w);
	rc = tracefile_write(o->write, &w, o->period, err);
	sim_workload_free(&w);
	return rc;
}

static int run_grid(struct sim_options *o, struct ebb_err *err)
{
	struct sim_grid *grid = &o->grid;
	int rc = 0;

	if (o->trace)
		rc = load_trace(o, err);
	if (rc)
		return rc;
	grid_run(grid);
	if (o->plot)
		rc = plot_curves(grid, o->plot, err);
	if (!rc && o->csv)
		rc = write_csv(grid, o->csv, err);
	if (rc || (o->csv && !strcmp(o->csv, "-")))
		return rc;
	if (o->verbose) {
		report_notes(grid, stdout);
		printf("\n");
	}
	if (o->mode == SIM_GRID) {
		report_rows(grid, stdout);
	} else {
		report_summary(grid, stdout);
		printf("\n");
		report_goals(grid, stdout);
	}
	return 0;
}

static int run(struct sim_options *o, struct ebb_err *err)
{
	switch (o->mode) {
	case SIM_HELP:
		options_print_help();
		return 0;
	case SIM_VERSION:
		printf("ebb-sim %s\n", EBB_VERSION);
		return 0;
	case SIM_LIST:
		options_print_list();
		return 0;
	case SIM_DUMP:
		return tracefile_dump(o->trace, stdout, err);
	case SIM_WRITE:
		return write_trace(o, err);
	default:
		return run_grid(o, err);
	}
}

int main(int argc, char **argv)
{
	struct sim_options options;
	struct ebb_err err = {0};
	int status = 0;

	if (options_parse(argc, argv, &options, &err)) {
		fprintf(stderr, "ebb-sim: %s\n", err.msg);
		status = 2;
	} else if (options.mode == SIM_NOTHING) {
		fprintf(stderr, "ebb-sim: nothing to do: try ebb-sim --suite, or ebb-sim --help\n");
		status = 2;
	} else if (run(&options, &err)) {
		fprintf(stderr, "ebb-sim: %s\n", err.msg);
		status = 1;
	}
	grid_free(&options.grid);
	return status;
}
