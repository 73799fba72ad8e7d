// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gen.c - synthetic workloads.
 *
 * DOC: twenty workloads
 *
 * What a policy is worth depends on what it is asked. Skewed and stationary (zipf, zclus, gauss,
 * expo): frequency is all there is to know. Without any skew (uniform): nothing helps. Loops longer
 * than the limit (cyclic, cycperm): recency is exactly wrong. A hot set that moves at once (phases,
 * phasefit) or steadily (drift): frequency is exactly wrong. And a hot set that is scanned over
 * (oneshot, mixed). The held-out ones have other parameters and are kept out of the suite, so that its
 * numbers can be checked on workloads its constants were not chosen on.
 *
 * Each workload has random numbers of its own, of the seed and its id: it does not change when
 * another is added or left out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gen.h"
#include "rng.h"

#define CLUSTER	  64u  /* pages that are about equally hot together */
#define HOT_SLOPE (-.3) /* a hot set is a little skewed itself */

static uint32_t *identity(uint32_t n)
{
	uint32_t *a = sim_alloc(n, sizeof(*a));

	for (uint32_t i = 0; i < n; i++)
		a[i] = i;
	return a;
}

/* Weights of rank 0..n - 1, falling with the power @slope. */
static double *power_weights(uint32_t n, double slope)
{
	double *weights = sim_alloc(n, sizeof(*weights));

	for (uint32_t i = 0; i < n; i++)
		weights[i] = pow(i + 1, slope);
	return weights;
}

static void power_alias(struct alias *alias, uint32_t n, double slope)
{
	double *weights = power_weights(n, slope);

	alias_init(alias, weights, n);
	free(weights);
}

/* Independent accesses by w->weights, to the end. */
static void draw_all(struct sim_workload *w, uint64_t *rng)
{
	struct alias alias;

	alias_init(&alias, w->weights, w->nr_pages);
	for (uint32_t i = 0; i < w->nr_accesses; i++)
		w->accesses[i] = alias_draw(&alias, rng);
	alias_free(&alias);
}

/* a: exponent */
static void make_zipf(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	uint32_t *place = identity(w->nr_pages);

	rng_shuffle(rng, place, w->nr_pages);
	w->weights = sim_alloc(w->nr_pages, sizeof(*w->weights));
	for (uint32_t i = 0; i < w->nr_pages; i++)
		w->weights[place[i]] = pow(i + 1, -gen->a);
	draw_all(w, rng);
	free(place);
}

/* a: exponent. Whole clusters are shuffled; the last one may be short and stays where it is. */
static void make_zclus(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	uint32_t nr_clusters = (w->nr_pages + CLUSTER - 1) / CLUSTER;
	uint32_t *place = identity(nr_clusters);

	rng_shuffle(rng, place, nr_clusters - 1);
	w->weights = sim_alloc(w->nr_pages, sizeof(*w->weights));
	for (uint32_t i = 0; i < w->nr_pages; i++)
		w->weights[place[i / CLUSTER] * CLUSTER + i % CLUSTER] = pow(i + 1, -gen->a);
	draw_all(w, rng);
	free(place);
}

/* a: sigma is 1/a of memory */
static void make_gauss(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	w->weights = sim_alloc(w->nr_pages, sizeof(*w->weights));
	for (uint32_t i = 0; i < w->nr_pages; i++) {
		double z = (i - w->nr_pages / 2.0) / (w->nr_pages / gen->a);

		w->weights[i] = exp(-z * z / 2);
	}
	draw_all(w, rng);
}

/* a: the mean is 1/a of memory */
static void make_expo(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	w->weights = sim_alloc(w->nr_pages, sizeof(*w->weights));
	for (uint32_t i = 0; i < w->nr_pages; i++)
		w->weights[i] = exp(-(double)i / (w->nr_pages / gen->a));
	draw_all(w, rng);
}

static void make_uniform(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	w->weights = sim_alloc(w->nr_pages, sizeof(*w->weights));
	for (uint32_t i = 0; i < w->nr_pages; i++)
		w->weights[i] = 1;
	draw_all(w, rng);
}

/* a: shuffled? */
static void make_cyclic(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	uint32_t *place = identity(w->nr_pages);

	if (gen->a != 0)
		rng_shuffle(rng, place, w->nr_pages);
	for (uint32_t i = 0; i < w->nr_accesses; i++)
		w->accesses[i] = place[i % w->nr_pages];
	free(place);
}

/* a: size of the hot set, of all; b: share of accesses that go there; c: phases */
static void make_phases(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	uint32_t nr_hot = (uint32_t)(w->nr_pages * gen->a + 1e-9);
	uint32_t phase = w->nr_accesses / (uint32_t)gen->c;
	uint32_t *place = identity(w->nr_pages);
	struct alias hot;

	power_alias(&hot, nr_hot, HOT_SLOPE);
	for (uint32_t i = 0; i < w->nr_accesses; i++) {
		if (i % phase == 0)
			rng_shuffle(rng, place, w->nr_pages);
		w->accesses[i] = rng_unit(rng) < gen->b ? place[alias_draw(&hot, rng)] :
							  rng_below(rng, w->nr_pages);
	}
	alias_free(&hot);
	free(place);
}

/* Four scans over all memory, every second access of theirs, on top of a hot set. a: its size, of all */
static void make_oneshot(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	static const double at[] = {.15, .4, .6, .8};
	uint32_t *place = identity(w->nr_pages);
	uint32_t next = 0;
	bool scanning = false;
	struct alias hot;

	w->nr_hot = (uint32_t)(w->nr_pages * gen->a + 1e-9);
	rng_shuffle(rng, place, w->nr_pages);
	power_alias(&hot, w->nr_hot, HOT_SLOPE);
	w->is_hot = sim_alloc(w->nr_pages, 1);
	for (uint32_t i = 0; i < w->nr_hot; i++)
		w->is_hot[place[i]] = 1;
	for (uint32_t i = 0; i < w->nr_accesses; i++) {
		if (w->nr_scans < ARRAY_SIZE(at) && !scanning &&
		    i == (uint32_t)(at[w->nr_scans] * w->nr_accesses)) {
			scanning = true;
			next = 0;
			w->scan_begin[w->nr_scans] = i;
		}
		if (!scanning || i % 2 == 0) {
			w->accesses[i] = place[alias_draw(&hot, rng)];
			continue;
		}
		w->accesses[i] = next++;
		if (next == w->nr_pages) {
			scanning = false;
			w->scan_end[w->nr_scans++] = i;
		}
	}
	alias_free(&hot);
	free(place);
}

/* zipf, some of the accesses are one endless scan, and twice all is dealt anew. a: exponent; b: their share */
static void make_mixed(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	uint32_t *place = identity(w->nr_pages);
	uint32_t half = w->nr_accesses / 2, three_quarters = w->nr_accesses / 4 * 3;
	uint32_t next = 0;
	struct alias alias;

	power_alias(&alias, w->nr_pages, -gen->a);
	rng_shuffle(rng, place, w->nr_pages);
	for (uint32_t i = 0; i < w->nr_accesses; i++) {
		if (i == half || i == three_quarters)
			rng_shuffle(rng, place, w->nr_pages);
		if (rng_unit(rng) < gen->b) {
			w->accesses[i] = next++;
			if (next == w->nr_pages)
				next = 0;
		} else {
			w->accesses[i] = place[alias_draw(&alias, rng)];
		}
	}
	alias_free(&alias);
	free(place);
}

/* a: rounds through memory; b: the spot's standard deviation is 1/b of memory */
static void make_drift(const struct gen *gen, struct sim_workload *w, uint64_t *rng)
{
	for (uint32_t i = 0; i < w->nr_accesses; i++) {
		double centre = fmod(gen->a * i / w->nr_accesses, 1.0) * w->nr_pages;
		double g = -6;
		int64_t page;

		/* The sum of twelve is close enough to a Gaussian. */
		for (uint32_t k = 0; k < 12; k++)
			g += rng_unit(rng);
		page = (int64_t)(centre + g * w->nr_pages / gen->b) % (int64_t)w->nr_pages;
		if (page < 0)
			page += w->nr_pages;
		w->accesses[i] =
			rng_unit(rng) < .97 ? (uint32_t)page : rng_below(rng, w->nr_pages);
	}
}

#define ZIPF(id, held, a)                                                                           \
	{"zipf" #a, "independent accesses, rank^-" #a, id, held, true, make_zipf, a, 0, 0}
#define ZCLUS(id, held, a)                                                                          \
	{"zclus" #a, "the same, in clusters of 64 pages", id, held, true, make_zclus, a, 0, 0}

const struct gen gens[] = {
	ZIPF(0, false, 0.1),
	ZIPF(1, false, 0.3),
	ZIPF(2, false, 0.5),
	ZIPF(3, false, 0.7),
	ZIPF(4, false, 0.9),
	ZIPF(5, false, 1.1),
	ZIPF(6, false, 1.3),
	ZCLUS(7, false, 0.5),
	ZCLUS(8, false, 0.9),
	ZCLUS(9, false, 1.1),
	{"gauss", "Gaussian over the address, sigma N/6", 10, false, true, make_gauss, 6, 0, 0},
	{"expo", "exponential over the address, mean N/6", 11, false, true, make_expo, 6, 0, 0},
	{"uniform", "every page alike", 12, false, false, make_uniform, 0, 0, 0},
	{"cyclic", "all pages in turn, by address", 13, false, false, make_cyclic, 0, 0, 0},
	{"cycperm", "all pages in turn, in a random order", 14, false, false, make_cyclic, 1, 0, 0},
	{"phases", "95 % of accesses to a hot 30 %, which is another one in each of 7 phases", 15, false,
	 false, make_phases, .3, .95, 7},
	{"phasefit", "the same with 99.5 %", 16, false, false, make_phases, .3, .995, 7},
	{"oneshot", "a hot 40 %, and four scans over all memory", 17, false, false, make_oneshot, .4, 0, 0},
	{"mixed", "zipf 0.9 and an endless scan; dealt anew twice", 18, false, false, make_mixed, .9, .2, 0},
	{"drift", "a Gaussian hot spot, sigma N/12, twice through memory", 19, false, false, make_drift, 2,
	 12, 0},
	{"phases15", "phases: hot 15 %, 20 phases", 20, true, false, make_phases, .15, .95, 20},
	{"phasefit15", "phasefit: hot 15 %, 20 phases", 21, true, false, make_phases, .15, .995, 20},
	{"phases50", "phases: hot 50 %, 5 phases", 22, true, false, make_phases, .5, .95, 5},
	{"phasefit50", "phasefit: hot 50 %, 5 phases", 23, true, false, make_phases, .5, .995, 5},
	{"driftfast", "drift: 2.5 times as fast and as narrow", 24, true, false, make_drift, 5, 30, 0},
	ZIPF(25, true, 0.2),
	ZIPF(26, true, 0.6),
	ZIPF(27, true, 1.0),
	ZIPF(28, true, 1.2),
	ZCLUS(29, true, 0.7),
	{"gauss10", "gauss: sigma N/10", 30, true, true, make_gauss, 10, 0, 0},
	{"expo4", "expo: mean N/4", 31, true, true, make_expo, 4, 0, 0},
	{"oneshot25", "oneshot: a hot 25 %", 32, true, false, make_oneshot, .25, 0, 0},
	{"mixed35", "mixed: zipf 0.7, and 35 % of accesses scan", 33, true, false, make_mixed, .7, .35, 0},
	{0},
};

const struct gen *gen_find(const char *name)
{
	for (const struct gen *gen = gens; gen->name; gen++)
		if (!strcmp(gen->name, name))
			return gen;
	return NULL;
}

void gen_make(const struct gen *gen, uint32_t nr_pages, uint32_t nr_accesses, uint64_t seed,
	      struct sim_workload *w)
{
	uint64_t rng = seed * 0x9E3779B97F4A7C15ull + gen->id * 77777ull + 1;

	if (!rng) /* the one state xorshift never leaves */
		rng = 1;
	for (uint32_t i = 0; i < 10; i++)
		rng_next(&rng);
	memset(w, 0, sizeof(*w));
	snprintf(w->name, sizeof(w->name), "%s", gen->name);
	w->nr_pages = nr_pages;
	w->nr_accesses = nr_accesses;
	w->accesses = sim_alloc(nr_accesses, sizeof(*w->accesses));
	gen->make(gen, w, &rng);
	sim_workload_finish(w);
}
