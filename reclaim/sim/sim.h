/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim.h - the page replacement simulator: a workload, a policy, and what is counted.
 *
 * DOC: what is simulated
 *
 * A *workload* is a list of page accesses. A *policy* has room for a number of pages (the limit) and
 * says of each access whether it was a hit. Everything that is counted is counted by one runner, in
 * the same way for every policy. A *refault* is a miss on a page that was touched before: the first
 * touch of a page costs nobody a read. The first third of a workload only warms up and is not counted.
 *
 * The baselines see every access, exactly; no hypervisor could run them. The policies that sample
 * (ebb, mglru) see faults, and once a period which pages were touched since. Their period T is given
 * in units of N accesses, N being the pages of the guest: at T = 1 a page is touched once between two
 * samples in the mean.
 *
 * One victim a fault, no batches, no read-ahead, no cost of CPU or disk: ratios of refaults are all
 * that may be concluded.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <ebb/reclaim.h>
#include <ebb/types.h>

#define SIM_NS_PER_ACCESS 1000u /* of virtual time, where the workload has no time of its own */
#define SIM_NAME_MAX	  32
#define SIM_NOTE_MAX	  512
#define SIM_MAX_SCANS	  8
#define SIM_NEVER	  UINT32_MAX

/** struct sim_mark - the access @at happens at @ns; between two marks time runs evenly */
struct sim_mark {
	uint32_t at;
	uint64_t ns;
};

/** struct sim_forget - before the access @at the guest gave up @run: its next touch is a first one */
struct sim_forget {
	uint32_t at;
	struct page_run run;
};

/** struct sim_workload - accesses, and what the measurement must know of them */
struct sim_workload {
	char name[SIM_NAME_MAX];
	uint32_t nr_pages;
	uint32_t nr_accesses;
	uint32_t warm_up;   /* accesses not counted */
	uint32_t footprint; /* pages touched at all */
	uint32_t *accesses;
	double *weights; /* relative access probability of each page, or NULL where it changes */

	/* Scans over all memory: does the hot set survive them? Only where is_hot is set. */
	uint8_t *is_hot;
	uint32_t nr_hot;
	uint32_t nr_scans;
	uint32_t scan_begin[SIM_MAX_SCANS], scan_end[SIM_MAX_SCANS];

	/* Of a recorded trace; NULL and 0 otherwise. */
	struct sim_mark *marks;
	uint32_t nr_marks;
	struct sim_forget *forgets;
	uint32_t nr_forgets;
};

void sim_workload_free(struct sim_workload *w);

/** sim_workload_finish() - fill in what follows from the accesses: footprint and warm-up */
void sim_workload_finish(struct sim_workload *w);

/** struct sim_knobs - what --set changes in the ebb core; the defaults come from sim_knobs_default() */
struct sim_knobs {
	enum reclaim_order order;
	uint32_t features;
	double min_period; /* share of the period */
};

struct sim_knobs sim_knobs_default(void);

/** struct sim_setup - what a policy is made for */
struct sim_setup {
	const struct sim_workload *workload;
	uint32_t limit; /* pages, at least 1 */
	double period;	/* in N accesses; only of policies that sample */
	uint64_t seed;
	const struct sim_knobs *knobs;
};

/** struct sim_policy - a replacement policy */
struct sim_policy {
	const char *name;
	const char *about;
	bool samples; /* has a period */
	void *(*create)(const struct sim_setup *setup);
	/** access() - touch @page, the access number @at; returns true for a hit */
	bool (*access)(void *state, uint32_t at, uint32_t page);
	/** forget() - optional: the guest gave the page up */
	void (*forget)(void *state, uint32_t page);
	/** passes() - optional: samples taken so far */
	uint64_t (*passes)(const void *state);
	/** describe() - optional: a line for --verbose */
	void (*describe)(const void *state, char *buf, size_t size);
	void (*destroy)(void *state);
};

extern const struct sim_policy sim_ebb, sim_mglru;
extern const struct sim_policy sim_lru, sim_clock, sim_two_list, sim_arc, sim_s3fifo, sim_sieve,
	sim_lirs;
extern const struct sim_policy sim_lfu, sim_a0, sim_min;

/** sim_policies - all of them, in the order of tables; ends with NULL */
extern const struct sim_policy *const sim_policies[];

/** struct sim_column - a policy with its period: what a table has a column for */
struct sim_column {
	char name[SIM_NAME_MAX];
	const struct sim_policy *policy;
	double period;
};

/** struct sim_result - what one policy did with one workload at one limit */
struct sim_result {
	uint64_t refaults;
	uint64_t counted; /* accesses after the warm-up */
	uint64_t passes;
	double hot_share; /* of the hot set, refaulted from the begin of a scan to 4 N after its end */
	char note[SIM_NOTE_MAX];
};

/** sim_run() - one policy over one workload */
void sim_run(const struct sim_column *column, const struct sim_setup *setup,
	     struct sim_result *ret_result);

/* Memory: failure ends the program, there is nothing to save. */
void *sim_alloc(size_t nr, size_t size); /* zeroed */
void *sim_grow(void *mem, size_t nr, size_t size);

#endif
