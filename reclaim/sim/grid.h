/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * grid.h - every policy over every workload at every limit, on all CPUs.
 */
#ifndef SIM_GRID_H
#define SIM_GRID_H

#include <string.h>
#include "gen.h"
#include "sim.h"

/** struct sim_limit - pages, or a share of what the workload touches */
struct sim_limit {
	bool in_pages;
	double value; /* pages, or percent */
	char name[16];
};

/** struct sim_source - where a workload comes from: made when needed, or (gen NULL) there already */
struct sim_source {
	const char *name;
	const struct gen *gen;
	struct sim_workload workload;
	uint32_t footprint; /* known once it has been made */
};

struct sim_grid {
	struct sim_source *sources;
	struct sim_limit *limits;
	struct sim_column *columns;
	uint32_t nr_sources, nr_limits, nr_columns;
	uint32_t nr_pages, nr_accesses; /* of generators */
	uint64_t seed;
	struct sim_knobs knobs;
	uint32_t jobs; /* threads */
	bool quiet;    /* no progress */
	struct sim_result *results;
};

/** sim_limit_pages() - of a workload that touches @footprint pages; at least 1 */
uint32_t sim_limit_pages(const struct sim_limit *limit, uint32_t footprint);

/** grid_run() - fill in results; they do not depend on the number of jobs */
void grid_run(struct sim_grid *grid);

void grid_free(struct sim_grid *grid);

static inline struct sim_result *grid_result(const struct sim_grid *grid, uint32_t source,
					     uint32_t limit, uint32_t column)
{
	return &grid->results[(source * grid->nr_limits + limit) * grid->nr_columns + column];
}

/** grid_column() - of that name, or -1 */
static inline int grid_column(const struct sim_grid *grid, const char *name)
{
	for (uint32_t c = 0; c < grid->nr_columns; c++)
		if (!strcmp(grid->columns[c].name, name))
			return (int)c;
	return -1;
}

#endif
