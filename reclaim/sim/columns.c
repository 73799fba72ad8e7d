// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * columns.c - lists on the command line.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "columns.h"

#define WORD_MAX 64

/*
 * The next word of a list separated by commas: 1, or 0 at the end, or -EINVAL (with @err filled) for
 * one that is empty or too long.
 */
static int next_word(const char **list, char *word, const char *what, struct ebb_err *err)
{
	size_t len;

	if (!*list)
		return 0;
	len = strcspn(*list, ",");
	if (!len || len >= WORD_MAX)
		return ebb_err_set(err, -EINVAL, "%s: \"%s\" is no list such as a,b,c", what,
				   *list);
	memcpy(word, *list, len);
	word[len] = 0;
	*list = (*list)[len] ? *list + len + 1 : NULL;
	return 1;
}

int parse_number(const char *text, double min, double max, double *ret)
{
	double value;
	char *end;

	errno = 0;
	value = strtod(text, &end);
	if (end == text || *end || errno || !isfinite(value) || value < min || value > max)
		return -EINVAL;
	*ret = value;
	return 0;
}

void add_source(struct sim_grid *grid, const char *name, const struct gen *gen)
{
	grid->sources = sim_grow(grid->sources, grid->nr_sources + 1, sizeof(*grid->sources));
	grid->sources[grid->nr_sources++] = (struct sim_source) {.name = name, .gen = gen};
}

int parse_generators(struct sim_grid *grid, const char *list, struct ebb_err *err)
{
	char word[WORD_MAX];
	int rc;

	while ((rc = next_word(&list, word, "--generator", err)) > 0) {
		const struct gen *gen = gen_find(word);

		if (!gen)
			return ebb_err_set(
				err, -EINVAL,
				"--generator: there is no workload \"%s\"; ebb-sim --list "
				"shows them",
				word);
		add_source(grid, gen->name, gen);
	}
	return rc;
}

int parse_limits(struct sim_grid *grid, const char *list, struct ebb_err *err)
{
	char word[WORD_MAX];
	int rc;

	while ((rc = next_word(&list, word, "--limit", err)) > 0) {
		struct sim_limit limit = {0};
		size_t len = strlen(word);

		if (len >= sizeof(limit.name))
			return ebb_err_set(err, -EINVAL, "--limit: \"%s\" is too long", word);
		if (word[len - 1] == '%') /* as it is without */
			word[--len] = 0;
		memcpy(limit.name, word, len + 1);
		limit.in_pages = len && word[len - 1] == 'p';
		if (limit.in_pages)
			word[len - 1] = 0;
		if (parse_number(word, limit.in_pages ? 1 : 1e-3, limit.in_pages ? 4e9 : 100,
				 &limit.value))
			return ebb_err_set(
				err, -EINVAL,
				"--limit: \"%s\" is neither percent of the pages touched (50) "
				"nor a number of pages (9000p)",
				limit.name);
		grid->limits = sim_grow(grid->limits, grid->nr_limits + 1, sizeof(*grid->limits));
		grid->limits[grid->nr_limits++] = limit;
	}
	return rc;
}

/* --- policies ------------------------------------------------------------------------------- */

static int add_column(struct sim_grid *grid, const struct sim_policy *policy, const char *period,
		      struct ebb_err *err)
{
	struct sim_column column = {.policy = policy, .period = 1};

	/* 0.25 is written .25 in a name */
	if (period[0] == '0' && period[1] == '.')
		period++;
	if (period[0] && parse_number(period, PERIOD_MIN, PERIOD_MAX, &column.period))
		return ebb_err_set(err, -EINVAL,
				   "\"%s\" is no period: give it in N accesses, %g to %g", period,
				   PERIOD_MIN, PERIOD_MAX);
	snprintf(column.name, sizeof(column.name), "%s%s", policy->name, period);
	if (grid_column(grid, column.name) >= 0)
		return ebb_err_set(err, -EINVAL, "--policy: %s is there twice", column.name);
	grid->columns = sim_grow(grid->columns, grid->nr_columns + 1, sizeof(*grid->columns));
	grid->columns[grid->nr_columns++] = column;
	return 0;
}

/* A column for each period, or for the one that is in the name. */
static int add_columns(struct sim_grid *grid, const struct sim_policy *policy, const char *own,
		       const char *periods, struct ebb_err *err)
{
	char word[WORD_MAX];
	int rc;

	if (!policy->samples || own[0])
		return add_column(grid, policy, own, err);
	while ((rc = next_word(&periods, word, "--period", err)) > 0) {
		rc = add_column(grid, policy, word, err);
		if (rc)
			return rc;
	}
	return rc;
}

static const struct sim_policy *find_policy(const char *word, const char **ret_own)
{
	for (uint32_t i = 0; sim_policies[i]; i++) {
		const struct sim_policy *policy = sim_policies[i];
		size_t len = strlen(policy->name);

		if (strncmp(word, policy->name, len) != 0)
			continue;
		*ret_own = word + len;
		if (!word[len] || (policy->samples && strchr(".0123456789", word[len])))
			return policy;
	}
	return NULL;
}

int parse_policies(struct sim_grid *grid, const char *list, const char *periods,
		   struct ebb_err *err)
{
	char word[WORD_MAX];
	int rc;

	for (uint32_t i = 0; !list && sim_policies[i]; i++) {
		rc = add_columns(grid, sim_policies[i], "", periods, err);
		if (rc)
			return rc;
	}
	while ((rc = next_word(&list, word, "--policy", err)) > 0) {
		const char *own;
		const struct sim_policy *policy = find_policy(word, &own);

		if (!policy)
			return ebb_err_set(
				err, -EINVAL,
				"--policy: there is no policy \"%s\"; ebb-sim --list shows "
				"them",
				word);
		rc = add_columns(grid, policy, own, periods, err);
		if (rc)
			return rc;
	}
	return rc;
}

/* --- knobs ---------------------------------------------------------------------------------- */

static int parse_features(struct sim_knobs *knobs, const char *list, struct ebb_err *err)
{
	static const struct {
		const char *name;
		uint32_t bits;
	} known[] = {
		{"aging", RECLAIM_AGING}, {"eviction", RECLAIM_EVICTION}, {"tiers", RECLAIM_TIERS},
		{"ahead", RECLAIM_AHEAD}, {"all", RECLAIM_ALL_FEATURES},
	};
	char word[WORD_MAX];
	int rc;

	knobs->features = 0;
	while ((rc = next_word(&list, word, "--set features", err)) > 0) {
		uint32_t i = 0;

		while (i < ARRAY_SIZE(known) && strcmp(known[i].name, word) != 0)
			i++;
		if (i == ARRAY_SIZE(known))
			return ebb_err_set(
				err, -EINVAL,
				"--set features: \"%s\" is none of aging, eviction, tiers, "
				"ahead, all",
				word);
		knobs->features |= known[i].bits;
	}
	if (!rc && !(knobs->features & RECLAIM_EVICTION))
		return ebb_err_set(err, -EINVAL,
				   "--set features: without eviction there is nothing to simulate");
	return rc;
}

static int parse_order(struct sim_knobs *knobs, const char *word, struct ebb_err *err)
{
	static const char *const names[RECLAIM_NR_ORDERS] = {
		[RECLAIM_ORDER_AUTO] = "auto",
		[RECLAIM_ORDER_GENERATIONS] = "generations",
		[RECLAIM_ORDER_FREQUENCY] = "frequency",
		[RECLAIM_ORDER_RANDOM] = "random",
	};

	for (uint32_t i = 0; i < RECLAIM_NR_ORDERS; i++) {
		if (strcmp(names[i], word) != 0)
			continue;
		knobs->order = i;
		return 0;
	}
	return ebb_err_set(err, -EINVAL,
			   "--set order: \"%s\" is none of auto, generations, frequency, random",
			   word);
}

int parse_knob(struct sim_knobs *knobs, const char *text, struct ebb_err *err)
{
	const char *value = strchr(text, '=');
	size_t len = value ? (size_t)(value++ - text) : 0;

	if (len == strlen("order") && !strncmp(text, "order", len))
		return parse_order(knobs, value, err);
	if (len == strlen("features") && !strncmp(text, "features", len))
		return parse_features(knobs, value, err);
	if (len == strlen("min-period") && !strncmp(text, "min-period", len)) {
		if (!parse_number(value, 0, 1, &knobs->min_period))
			return 0;
		return ebb_err_set(err, -EINVAL,
				   "--set min-period: \"%s\" is no share of the period, 0 to 1",
				   value);
	}
	return ebb_err_set(
		err, -EINVAL,
		"--set: \"%s\" is none of order=, features= and min-period= with a value", text);
}
