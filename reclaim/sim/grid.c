// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * grid.c - the threads that run a grid.
 *
 * Cells are handed out workload by workload. Whoever gets the first cell of a workload makes it while the
 * others wait, whoever ends the last one frees it: no more of them are in memory than there are
 * threads, and mostly one. No cell depends on another, so the results are the same for any number of
 * threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "grid.h"

#define LINE_SECONDS 10	 /* between lines of progress, where it is no terminal */
#define TTY_SECONDS  .25 /* between updates of the line, where it is one */

struct maker { /* of one source */
	pthread_mutex_t lock;
	bool made;
	uint32_t left; /* cells to do */
};

struct grid_work {
	struct sim_grid *grid;
	struct maker *makers;
	pthread_mutex_t lock;
	uint32_t next, done, total;
	struct timespec begin;
	double shown; /* seconds since begin, last progress */
};

uint32_t sim_limit_pages(const struct sim_limit *limit, uint32_t footprint)
{
	/* The sum makes up for 90 % of 10 being 8.999.. */
	double pages = limit->in_pages ? limit->value : footprint * limit->value / 100 + 1e-6;

	return (uint32_t)MAX(1.0, MIN(pages, 4e9));
}

static double seconds_since(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - begin->tv_sec) + 1e-9 * (double)(now.tv_nsec - begin->tv_nsec);
}

/* Called with the lock held. */
static void show_progress(struct grid_work *work, const struct sim_source *source)
{
	bool tty = isatty(STDERR_FILENO);
	double now = seconds_since(&work->begin);

	if (work->grid->quiet || now - work->shown < (tty ? TTY_SECONDS : LINE_SECONDS))
		return;
	work->shown = now;
	fprintf(stderr, "%sebb-sim: %u of %u runs, %.0f s, at %s%s", tty ? "\r" : "", work->done,
		work->total, now, source->name, tty ? "    " : "\n");
}

static void clear_progress(const struct grid_work *work)
{
	if (!work->grid->quiet && work->shown > 0 && isatty(STDERR_FILENO))
		fprintf(stderr, "\r%60s\r", "");
}

static void make_source(struct grid_work *work, uint32_t s)
{
	struct sim_grid *grid = work->grid;
	struct sim_source *source = &grid->sources[s];
	struct maker *maker = &work->makers[s];

	pthread_mutex_lock(&maker->lock);
	if (!maker->made) {
		if (source->gen)
			gen_make(source->gen, grid->nr_pages, grid->nr_accesses, grid->seed,
				 &source->workload);
		source->footprint = source->workload.footprint;
		maker->made = true;
	}
	pthread_mutex_unlock(&maker->lock);
}

static void run_cell(struct grid_work *work, uint32_t cell)
{
	struct sim_grid *grid = work->grid;
	uint32_t column = cell % grid->nr_columns, row = cell / grid->nr_columns;
	struct sim_source *source = &grid->sources[row / grid->nr_limits];
	const struct sim_limit *limit = &grid->limits[row % grid->nr_limits];
	struct sim_setup setup = {
		.workload = &source->workload,
		.period = grid->columns[column].period,
		.seed = grid->seed,
		.knobs = &grid->knobs,
	};

	make_source(work, row / grid->nr_limits);
	setup.limit = sim_limit_pages(limit, source->footprint);
	sim_run(&grid->columns[column], &setup, &grid->results[cell]);
}

static void *run_cells(void *arg)
{
	struct grid_work *work = arg;
	struct sim_grid *grid = work->grid;
	uint32_t per_source = grid->nr_limits * grid->nr_columns;

	pthread_mutex_lock(&work->lock);
	while (work->next < work->total) {
		uint32_t cell = work->next++;
		struct maker *maker = &work->makers[cell / per_source];
		struct sim_source *source = &grid->sources[cell / per_source];

		pthread_mutex_unlock(&work->lock);
		run_cell(work, cell);
		pthread_mutex_lock(&work->lock);
		work->done++;
		show_progress(work, source);
		if (!--maker->left && source->gen)
			sim_workload_free(&source->workload);
	}
	pthread_mutex_unlock(&work->lock);
	return NULL;
}

void grid_run(struct sim_grid *grid)
{
	struct grid_work work = {.grid = grid};
	pthread_t *threads = sim_alloc(grid->jobs, sizeof(*threads));
	uint32_t started = 0;

	work.total = grid->nr_sources * grid->nr_limits * grid->nr_columns;
	work.makers = sim_alloc(grid->nr_sources, sizeof(*work.makers));
	grid->results = sim_alloc(work.total, sizeof(*grid->results));
	pthread_mutex_init(&work.lock, NULL);
	for (uint32_t s = 0; s < grid->nr_sources; s++) {
		pthread_mutex_init(&work.makers[s].lock, NULL);
		work.makers[s].left = grid->nr_limits * grid->nr_columns;
	}
	clock_gettime(CLOCK_MONOTONIC, &work.begin);
	while (started + 1 < grid->jobs &&
	       !pthread_create(&threads[started], NULL, run_cells, &work))
		started++;
	run_cells(&work);
	while (started)
		pthread_join(threads[--started], NULL);
	clear_progress(&work);
	free(threads);
	free(work.makers);
}

void grid_free(struct sim_grid *grid)
{
	for (uint32_t s = 0; s < grid->nr_sources; s++)
		sim_workload_free(&grid->sources[s].workload);
	free(grid->sources);
	free(grid->limits);
	free(grid->columns);
	free(grid->results);
}
