/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options.h - the command line of ebb-sim.
 */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "grid.h"

enum sim_mode {
	SIM_NOTHING, /* asked for nothing: a hint */
	SIM_GRID,    /* rows, and what is made of them */
	SIM_SUITE,   /* summary and goals */
	SIM_WRITE,   /* a generator as a trace */
	SIM_DUMP,    /* a trace as text */
	SIM_LIST,
	SIM_HELP,
	SIM_VERSION,
};

struct sim_options {
	enum sim_mode mode;
	bool verbose;
	const char *csv, *plot;
	const char *trace; /* to replay or to dump */
	const char *write; /* trace file to write */
	double period;	   /* of passes in a written trace, in N accesses */
	struct sim_grid grid;
};

/**
 * options_parse() - read the command line
 * @o: all pointers into @argv; free with grid_free(&o->grid)
 *
 * The workload of --trace is not loaded: it is the one source of the grid, without a generator.
 * Returns 0, or -EINVAL with @err filled.
 */
int options_parse(int argc, char **argv, struct sim_options *o, struct ebb_err *err);

void options_print_help(void);
void options_print_list(void);

#endif
