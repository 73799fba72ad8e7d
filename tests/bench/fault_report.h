/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault_report.h - what the fault benchmark says in the end: medians over rounds, and the goals in words.
 */
#ifndef TESTS_BENCH_FAULT_REPORT_H
#define TESTS_BENCH_FAULT_REPORT_H

#include <stdio.h>
#include <stdlib.h>
#include "standin.h"

#define MAX_ROUNDS 32u
#define MAX_LOADS  16u

/* The goals, as the project set them. */
#define GOAL_P99_RATIO	 0.5  /* of shmem swap's */
#define GOAL_FROM	 4u   /* threads */
#define GOAL_P50_OVER_US 12.0 /* above the device, at one thread */

enum bench_mode { MODE_EBB, MODE_SHMEM, MODE_ANON, NR_MODES };

static const char *const mode_names[NR_MODES] = {"ebb", "shmem swap", "anon swap"};
static const char *const pattern_names[] = {"random, reads", "random, half writes", "sequential, reads"};

/** struct bench_load - one line of work: a pattern by a number of threads */
struct bench_load {
	enum standin_pattern pattern;
	unsigned int threads;
};

/** struct bench_sample - one measurement; latencies in us, CPU in us for each fault */
struct bench_sample {
	double p50, p99, mean, max, faults, touches, cpu;
};

struct bench_results {
	unsigned int nr_loads, nr_rounds;
	bool has_mode[NR_MODES];
	struct bench_load load[MAX_LOADS];
	struct bench_sample sample[MAX_LOADS][NR_MODES][MAX_ROUNDS];
	struct bench_sample device[MAX_ROUNDS]; /* p50, p99, mean, reads a second in @faults */
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median over rounds of the double at @offset in the samples. */
static double median_at(const struct bench_sample *s, unsigned int nr, size_t offset)
{
	double v[MAX_ROUNDS] = {0};

	for (unsigned int i = 0; i < nr; i++)
		memcpy(&v[i], (const char *)&s[i] + offset, sizeof(double));
	qsort(v, nr, sizeof(v[0]), compare_doubles);
	return nr % 2 ? v[nr / 2] : (v[nr / 2 - 1] + v[nr / 2]) / 2;
}

static struct bench_sample median(const struct bench_sample *s, unsigned int nr)
{
#define MEDIAN_OF(member) .member = median_at(s, nr, offsetof(struct bench_sample, member))
	return (struct bench_sample){
		MEDIAN_OF(p50), MEDIAN_OF(p99), MEDIAN_OF(mean), MEDIAN_OF(max),
		MEDIAN_OF(faults), MEDIAN_OF(touches), MEDIAN_OF(cpu),
	};
#undef MEDIAN_OF
}

static void report_line(const char *name, unsigned int threads, const struct bench_sample *s)
{
	printf("| %7u | %-10s | %8.1f | %8.1f | %8.1f | %8.0f | %9.0f | %9.1f |\n", threads, name, s->p50,
	       s->p99, s->mean, s->faults, s->touches, s->cpu);
}

static void report_table(const struct bench_results *r, enum standin_pattern pattern)
{
	bool any = false;

	for (unsigned int i = 0; i < r->nr_loads; i++) {
		if (r->load[i].pattern != pattern)
			continue;
		if (!any) {
			printf("\n### %s\n\n", pattern_names[pattern]);
			printf("| threads | memory     |   p50 us |   p99 us |  mean us | faults/s | touches/s | "
			       "CPU us/fl |\n");
			printf("|--------:|:-----------|---------:|---------:|---------:|---------:|----------:|"
			       "----------:|\n");
		}
		any = true;
		for (int m = 0; m < NR_MODES; m++) {
			struct bench_sample s;

			if (!r->has_mode[m])
				continue;
			s = median(r->sample[i][m], r->nr_rounds);
			report_line(mode_names[m], r->load[i].threads, &s);
		}
	}
}

static const char *verdict(bool met)
{
	return met ? "met   " : "MISSED";
}

/* Against shmem swap there is an aim from 4 threads on; below, the numbers are only told. */
static void report_shmem(const struct bench_load *load, const struct bench_sample *ebb,
			 const struct bench_sample *shmem)
{
	double p99 = ebb->p99 / shmem->p99, rate = ebb->faults / shmem->faults;
	bool aim = load->threads >= GOAL_FROM;

	printf("- %s  p99 at %2u thr: %.0f us, %.2f x shmem swap's %.0f us (aim from %u on: at most %.2f)\n",
	       aim ? verdict(p99 <= GOAL_P99_RATIO) : "report", load->threads, ebb->p99, p99, shmem->p99,
	       GOAL_FROM, GOAL_P99_RATIO);
	printf("- %s  faults/s at %2u thr: %.0f, %.2f x shmem swap's %.0f (aim from %u on: at least 1)\n",
	       aim ? verdict(rate >= 1) : "report", load->threads, ebb->faults, rate, shmem->faults,
	       GOAL_FROM);
}

static void report_anon(const struct bench_load *load, const struct bench_sample *ebb,
			const struct bench_sample *anon)
{
	printf("- report  against anon swap at %2u thr: p50 %.2f x, p99 %.2f x, faults/s %.2f x, "
	       "CPU/fault %.2f x\n", load->threads, ebb->p50 / anon->p50, ebb->p99 / anon->p99,
	       ebb->faults / anon->faults, ebb->cpu / anon->cpu);
}

static void report_goals(const struct bench_results *r)
{
	struct bench_sample device = median(r->device, r->nr_rounds);

	printf("\n### The goals (%s)\n\n", pattern_names[STANDIN_READ]);
	for (unsigned int i = 0; i < r->nr_loads; i++) {
		const struct bench_load *load = &r->load[i];
		struct bench_sample s[NR_MODES];

		if (load->pattern != STANDIN_READ)
			continue;
		for (int m = 0; m < NR_MODES; m++)
			if (r->has_mode[m])
				s[m] = median(r->sample[i][m], r->nr_rounds);
		if (load->threads == 1)
			printf("- %s  p50 at  1 thr: %.1f us, the device's %.1f us + %.1f (aim: at most "
			       "+ %.0f)\n", verdict(s[MODE_EBB].p50 <= device.p50 + GOAL_P50_OVER_US),
			       s[MODE_EBB].p50, device.p50, s[MODE_EBB].p50 - device.p50,
			       GOAL_P50_OVER_US);
		if (r->has_mode[MODE_SHMEM])
			report_shmem(load, &s[MODE_EBB], &s[MODE_SHMEM]);
		if (r->has_mode[MODE_ANON])
			report_anon(load, &s[MODE_EBB], &s[MODE_ANON]);
	}
	if (!r->has_mode[MODE_SHMEM])
		printf("- not compared with the kernel's swap: it was not measured\n");
}

static void report(const struct bench_results *r)
{
	struct bench_sample device = median(r->device, r->nr_rounds);

	printf("\nThe device alone: 4 KiB random O_DIRECT reads by io_uring, one at a time: p50 %.1f us, "
	       "p99 %.1f us, mean %.1f us, %.0f reads/s\n", device.p50, device.p99, device.mean,
	       device.faults);
	for (unsigned int p = STANDIN_READ; p <= STANDIN_SEQUENTIAL; p++)
		report_table(r, (enum standin_pattern)p);
	report_goals(r);
}

#endif
