// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * report.c - figures over the rows of a grid, and the tables made of them.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "report.h"

#define MAX_GROUPS 24

static bool is_cyclic(const char *name)
{
	return !strcmp(name, "cyclic") || !strcmp(name, "cycperm");
}

static bool row_is_of(const struct sim_grid *grid, uint32_t s, uint32_t l,
		      enum report_rows_of which)
{
	const struct sim_source *source = &grid->sources[s];

	switch (which) {
	case REPORT_ALL:
		return true;
	case REPORT_STATIONARY:
		return source->gen && source->gen->stationary;
	case REPORT_STATIONARY_NO13:
		return source->gen && source->gen->stationary &&
		       strcmp(source->name, "zipf1.3") != 0;
	case REPORT_CYCLIC_90:
		return is_cyclic(source->name) && !strcmp(grid->limits[l].name, "90");
	}
	return false;
}

static double ratio_at(const struct sim_grid *grid, uint32_t s, uint32_t l, int column, int base)
{
	return (double)(grid_result(grid, s, l, (uint32_t)column)->refaults + 1) /
	       (double)(grid_result(grid, s, l, (uint32_t)base)->refaults + 1);
}

struct report_ratio report_ratio(const struct sim_grid *grid, enum report_rows_of which, int column,
				 int base)
{
	struct report_ratio ret = {0};
	double logs = 0;

	if (base < 0 || column < 0)
		return ret;
	for (uint32_t s = 0; s < grid->nr_sources; s++) {
		for (uint32_t l = 0; l < grid->nr_limits; l++) {
			double ratio;

			if (!row_is_of(grid, s, l, which))
				continue;
			ratio = ratio_at(grid, s, l, column, base);
			logs += log(ratio);
			ret.rows++;
			if (ratio <= ret.worst)
				continue;
			ret.worst = ratio;
			snprintf(ret.at, sizeof(ret.at), "%.31s/%.15s", grid->sources[s].name,
				 grid->limits[l].name);
		}
	}
	ret.mean = ret.rows ? exp(logs / ret.rows) : 0;
	return ret;
}

double report_hot_share(const struct sim_grid *grid, int column)
{
	double worst = -1;

	for (uint32_t s = 0; s < grid->nr_sources; s++) {
		if (strncmp(grid->sources[s].name, "oneshot", strlen("oneshot")) != 0)
			continue;
		for (uint32_t l = 0; l < grid->nr_limits; l++)
			worst = MAX(worst, grid_result(grid, s, l, (uint32_t)column)->hot_share);
	}
	return worst;
}

/* --- the summary ---------------------------------------------------------------------------- */

/* The workloads of a summary's last columns: those of one kind together. */
static const char *group_of(const struct sim_source *source)
{
	return source->name[0] == 'z' && source->gen ? "zipf" : source->name;
}

static uint32_t list_groups(const struct sim_grid *grid, const char **groups)
{
	uint32_t nr = 0;

	for (uint32_t s = 0; s < grid->nr_sources; s++) {
		const char *group = group_of(&grid->sources[s]);
		uint32_t i = 0;

		while (i < nr && strcmp(groups[i], group) != 0)
			i++;
		if (i == nr && nr < MAX_GROUPS)
			groups[nr++] = group;
	}
	return nr;
}

static double group_mean(const struct sim_grid *grid, const char *group, int column, int base)
{
	double logs = 0;
	uint32_t rows = 0;

	for (uint32_t s = 0; s < grid->nr_sources; s++) {
		if (strcmp(group_of(&grid->sources[s]), group) != 0)
			continue;
		for (uint32_t l = 0; l < grid->nr_limits; l++) {
			logs += log(ratio_at(grid, s, l, column, base));
			rows++;
		}
	}
	return exp(logs / rows);
}

static void print_value(FILE *out, int width, int digits, double value, bool known)
{
	if (known)
		fprintf(out, " %*.*f", width, digits, value);
	else
		fprintf(out, " %*s", width, "-");
}

static void print_ratio(FILE *out, const struct report_ratio *ratio, int at_width)
{
	print_value(out, 6, 3, ratio->mean, ratio->rows);
	print_value(out, 6, 2, ratio->worst, ratio->rows);
	if (at_width)
		fprintf(out, " %-*s", at_width, ratio->rows ? ratio->at : "-");
}

static void print_line(const struct sim_grid *grid, uint32_t column, const char *const *groups,
		       uint32_t nr_groups, FILE *out)
{
	int c = (int)column, lru = grid_column(grid, "lru");
	struct report_ratio to_lru = report_ratio(grid, REPORT_ALL, c, lru);
	struct report_ratio to_two =
		report_ratio(grid, REPORT_ALL, c, grid_column(grid, "two-list"));
	struct report_ratio to_lfu =
		report_ratio(grid, REPORT_STATIONARY, c, grid_column(grid, "lfu"));
	struct report_ratio to_a0 =
		report_ratio(grid, REPORT_STATIONARY_NO13, c, grid_column(grid, "a0"));
	struct report_ratio cyclic =
		report_ratio(grid, REPORT_CYCLIC_90, c, grid_column(grid, "min"));
	double hot = report_hot_share(grid, c);

	fprintf(out, "%-9s", grid->columns[column].name);
	print_ratio(out, &to_lru, 13);
	print_value(out, 6, 3, to_two.mean, to_two.rows);
	print_ratio(out, &to_lfu, 0);
	print_value(out, 6, 3, to_a0.mean, to_a0.rows);
	print_value(out, 6, 2, cyclic.worst, cyclic.rows);
	print_value(out, 5, 1, 100 * hot, hot >= 0);
	fprintf(out, " |");
	for (uint32_t g = 0; g < nr_groups; g++)
		print_value(out, 7, 3, lru < 0 ? 0 : group_mean(grid, groups[g], c, lru), lru >= 0);
	fprintf(out, "\n");
}

void report_summary(const struct sim_grid *grid, FILE *out)
{
	const char *groups[MAX_GROUPS];
	uint32_t nr_groups = list_groups(grid, groups);

	fprintf(out, "%-9s %6s %6s %-13s %6s %6s %6s %6s %6s %5s |", "policy", "gmLRU", "maxLRU",
		"at", "gm2L", "gmLFU", "maxLFU", "gmA0", "cyc90", "hot%");
	for (uint32_t g = 0; g < nr_groups; g++)
		fprintf(out, " %7.7s", groups[g]);
	fprintf(out, "\n");
	for (uint32_t c = 0; c < grid->nr_columns; c++)
		print_line(grid, c, groups, nr_groups, out);
	fprintf(out,
		"\nRefaults relative to another policy. gm: geometric mean, max: worst row. LRU: "
		"all "
		"rows; 2L: two-list;\nLFU: rows of zipf, zclus, gauss, expo; A0: the same without "
		"zipf1.3; cyc90: cyclic and cycperm at 90 %%, to MIN, the worse;\nhot%%: of the "
		"hot set, "
		"lost to a scan (oneshot, worst limit). After the bar: gm to LRU by workload.\n");
}

/* --- rows and files ------------------------------------------------------------------------- */

void report_rows(const struct sim_grid *grid, FILE *out)
{
	fprintf(out, "%-12s %8s %9s", "workload", "limit", "pages");
	for (uint32_t c = 0; c < grid->nr_columns; c++)
		fprintf(out, " %9s", grid->columns[c].name);
	fprintf(out, "\n");
	for (uint32_t s = 0; s < grid->nr_sources; s++) {
		for (uint32_t l = 0; l < grid->nr_limits; l++) {
			const struct sim_limit *limit = &grid->limits[l];

			fprintf(out, "%-12s %7s%s %9" PRIu32, grid->sources[s].name, limit->name,
				limit->in_pages ? " " : "%",
				sim_limit_pages(limit, grid->sources[s].footprint));
			for (uint32_t c = 0; c < grid->nr_columns; c++)
				fprintf(out, " %9" PRIu64, grid_result(grid, s, l, c)->refaults);
			fprintf(out, "\n");
		}
	}
	if (grid->nr_sources)
		fprintf(out, "\nRefaults, of %" PRIu64 " accesses counted%s.\n",
			grid_result(grid, 0, 0, 0)->counted,
			grid->nr_sources > 1 ? " in each row" : "");
}

void report_notes(const struct sim_grid *grid, FILE *out)
{
	for (uint32_t s = 0; s < grid->nr_sources; s++)
		for (uint32_t l = 0; l < grid->nr_limits; l++)
			for (uint32_t c = 0; c < grid->nr_columns; c++) {
				const struct sim_result *result = grid_result(grid, s, l, c);

				if (result->note[0])
					fprintf(out, "%s/%s %s: refaults %" PRIu64 ", %s\n",
						grid->sources[s].name, grid->limits[l].name,
						grid->columns[c].name, result->refaults,
						result->note);
			}
}

void report_csv(const struct sim_grid *grid, FILE *out)
{
	fprintf(out, "workload,limit,limit_pages,policy,refaults,counted,hot_share,passes\n");
	for (uint32_t s = 0; s < grid->nr_sources; s++)
		for (uint32_t l = 0; l < grid->nr_limits; l++)
			for (uint32_t c = 0; c < grid->nr_columns; c++) {
				const struct sim_result *result = grid_result(grid, s, l, c);

				fprintf(out,
					"%s,%s,%" PRIu32 ",%s,%" PRIu64 ",%" PRIu64 ",%.4f,%" PRIu64
					"\n",
					grid->sources[s].name, grid->limits[l].name,
					sim_limit_pages(&grid->limits[l],
							grid->sources[s].footprint),
					grid->columns[c].name, result->refaults, result->counted,
					result->hot_share, result->passes);
			}
}
