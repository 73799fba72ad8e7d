/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report.h - what a grid showed: rows, summary, goals, CSV.
 */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <stdio.h>
#include "grid.h"

/** report_rows() - refaults: a line for each workload and limit, a column for each policy */
void report_rows(const struct sim_grid *grid, FILE *out);

/** report_summary() - a line for each policy: ratios to the others over all rows */
void report_summary(const struct sim_grid *grid, FILE *out);

/**
 * report_goals() - what ebb is measured by, each with its value; returns how many are missed
 *
 * Goals of means only where @grid has the whole suite.
 */
uint32_t report_goals(const struct sim_grid *grid, FILE *out);

/** report_notes() - what policies say of themselves, a line for each run */
void report_notes(const struct sim_grid *grid, FILE *out);

/** report_csv() - a header, then a line for each run */
void report_csv(const struct sim_grid *grid, FILE *out);

/* --- figures over the rows of a grid, for the summary and the goals ------------------------------ */

enum report_rows_of {
	REPORT_ALL,
	REPORT_STATIONARY,	/* zipf, zclus, gauss, expo */
	REPORT_STATIONARY_NO13, /* without zipf1.3, whose few refaults make A0 noisy */
	REPORT_CYCLIC_90,
};

/** struct report_ratio - of one column to another */
struct report_ratio {
	uint32_t rows; /* that went in; 0: nothing is known */
	double mean;   /* geometric */
	double worst;  /* largest */
	char at[48];   /* the row of the largest: "workload/limit" */
};

/**
 * report_ratio() - (refaults of @column + 1) / (refaults of @base + 1) over the rows of @which
 * @base: a column, or -1: nothing is known
 */
struct report_ratio report_ratio(const struct sim_grid *grid, enum report_rows_of which, int column,
				 int base);

/** report_hot_share() - the worst limit's share of the hot set lost to scans; negative: no scans */
double report_hot_share(const struct sim_grid *grid, int column);

#endif
