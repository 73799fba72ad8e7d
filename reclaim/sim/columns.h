/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * columns.h - lists on the command line: policies with their periods, limits, workloads, knobs.
 */
#ifndef SIM_COLUMNS_H
#define SIM_COLUMNS_H

#include "grid.h"

#define PERIOD_MIN 1e-3 /* in N accesses */
#define PERIOD_MAX 1e3

/** parse_number() - all of @text, within @min..@max; -EINVAL otherwise */
int parse_number(const char *text, double min, double max, double *ret);

/**
 * parse_policies() - "ebb,lru,mglru.25": a policy that samples, without a number of its own, gets a
 * column for each of @periods ("0.25,1")
 * @list: NULL for all policies
 */
int parse_policies(struct sim_grid *grid, const char *list, const char *periods,
		   struct ebb_err *err);

/** parse_limits() - "50,75,9000p": percent of the footprint, or with a suffix p pages */
int parse_limits(struct sim_grid *grid, const char *list, struct ebb_err *err);

/** parse_generators() - by name, to the end of grid->sources */
int parse_generators(struct sim_grid *grid, const char *list, struct ebb_err *err);

/** parse_knob() - "order=frequency", "features=aging,eviction" or "min-period=0.1" */
int parse_knob(struct sim_knobs *knobs, const char *text, struct ebb_err *err);

/** add_source() - to the end of grid->sources */
void add_source(struct sim_grid *grid, const char *name, const struct gen *gen);

#endif
