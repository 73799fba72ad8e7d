// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lru.c - what the reclaim core costs: metadata only, guests from 1 GiB up to 1 TiB.
 *
 * DOC: what is measured
 *
 * Guests are made one after the other, and nothing of them but their metadata (loads[], below). A page's
 * heat is the chance that a pass sees it young: one of eight, from 1/32 to 1. After WARM_PASSES passes a
 * page in sixteen is evicted and stays out. The easiest victims, pages that nobody ever touched, are then
 * gone, and each circle of the sweep finds a few pages among many: that is what picking costs in a guest
 * that lives at its limit. Heat that differs from page to page is the hard case, as words that leave whole
 * are cheap, and single resident pages all over an empty guest are the hardest.
 *
 * Times are CPU time, as others use the machine too. The slowest ones have interrupts and page faults in
 * them. Missed goals do not fail: they are a result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <ebb/reclaim.h>

#define SLICE	       8192u /* pages, as the zap sampler */
#define GIB_PAGES      (1u << 18)
#define ROUNDS	       9
#define WARM_PASSES    32
#define MAX_BATCHES    64u /* in a round */
#define STAY_OUT_SHARE 16u
#define SHARE	       100u /* 1 %: of young pages, of resident ones in a sparse guest */
#define MAX_SAMPLES    (1u << 17)
#define PASS_NS	       2000000000ull

enum cost { YOUNG, END, PICK_GEN, PICK_FREQ, PICK_ALIKE, PICK_PATCHES, PICK_SINGLES, IN_VAIN, REFAULT,
	    TRIP, WALK, COLD_WALK, GONE, METADATA, NR_COSTS };

/* @scale: ns in one @unit. @goal: in units, 0: none. "Per page" is of the guest */
static const struct cost_kind {
	const char *head, *what, *unit;
	double scale, goal;
} kinds[NR_COSTS] = {
	[YOUNG] = {"young", "1 % of all pages told to be young, per page of the guest", "ns", 1, 1},
	[END] = {"end", "end of a pass, aging included", "ms", 1e6, 100},
	[PICK_GEN] = {"by gen", "512 pages picked, by generation", "us", 1e3, 50},
	[PICK_FREQ] = {"by freq", "512 pages picked, by frequency", "us", 1e3, 50},
	[PICK_ALIKE] = {"alike", "512 pages picked, by frequency, neighbours alike", "us", 1e3, 50},
	[PICK_PATCHES] = {"patches", "512 pages picked, 1 % resident: whole stretches", "us", 1e3, 50},
	[PICK_SINGLES] = {"singles", "512 pages picked, 1 % resident: single pages", "us", 1e3, 50},
	[IN_VAIN] = {"in vain", "a pick that finds nothing: all are young; per page", "ns", 1, 0},
	[REFAULT] = {"refault", "one refault noted, anywhere", "ns", 1, 0},
	[TRIP] = {"trip", "a page picked, noted evicted, noted back", "ns", 1, 0},
	[WALK] = {"walk", "asked where to look: everywhere; per page", "ns", 1, 0},
	[COLD_WALK] = {"cold", "asked where to look, cold guest; per page", "ns", 1, 0},
	[GONE] = {"gone", "1 GiB discarded", "us", 1e3, 0},
	[METADATA] = {"size", "metadata, of the guest's memory", "%", 1, 0.2},
};

/* @unit: 1 % resident, so many neighbours together; 0: all pages are */
static const struct load {
	enum cost cost;
	enum reclaim_order order;
	uint32_t unit;
} loads[] = {
	{PICK_GEN, RECLAIM_ORDER_GENERATIONS, 0},
	{PICK_FREQ, RECLAIM_ORDER_FREQUENCY, 0},
	{PICK_ALIKE, RECLAIM_ORDER_FREQUENCY, 0},
	{PICK_PATCHES, RECLAIM_ORDER_AUTO, RECLAIM_STRETCH},
	{PICK_SINGLES, RECLAIM_ORDER_AUTO, 1},
};

struct sample {
	double v[MAX_SAMPLES];
	uint32_t nr, short_picks;
};

struct guest {
	struct reclaim *r;
	size_t size;
	uint32_t nr_pages, resident;
	bool alike; /* 16 neighbours are of the same heat */
	uint64_t *bitmap;
	uint64_t now_ns, heat_seed;
};

static struct sample samples[NR_COSTS];
static uint64_t rng;

static uint64_t next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void add(enum cost cost, double ns)
{
	if (samples[cost].nr < MAX_SAMPLES)
		samples[cost].v[samples[cost].nr++] = ns;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorted samples: 0 is the smallest, 0.5 the median, 1 the largest; in units. */
static double quantile(enum cost cost, double q)
{
	const struct sample *s = &samples[cost];

	return s->nr ? s->v[(uint32_t)(q * (s->nr - 1))] / kinds[cost].scale : 0;
}

/* Bit @i of the heat of each page of word @w, the same in each pass (the hash is splitmix64's). */
static uint64_t heat_plane(const struct guest *g, uint32_t w, uint32_t i)
{
	uint64_t z = g->heat_seed + (uint64_t)w * 4 + i;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	z ^= z >> 31;
	/* One bit for each 16 pages: of bits 0, 16, 32 and 48 a run of 16 each. */
	return g->alike ? (z & 0x0001000100010001) * 0xffff : z;
}

/* Who of word @w is young in this pass? */
static uint64_t draw_word(const struct guest *g, uint32_t w)
{
	uint64_t p0 = heat_plane(g, w, 0), p1 = heat_plane(g, w, 1), hot = heat_plane(g, w, 2);
	uint64_t half = next_random(), other = next_random();
	uint64_t eighth = half & other & next_random(), rest = next_random(), last = next_random();
	uint64_t warm = (p0 & p1) | (p0 & ~eighth) | (p1 & (half | other)) | (~p0 & ~p1 & half);
	uint64_t cool = (p0 & p1 & half & other) | (p0 & ~p1 & eighth) | (~p0 & p1 & eighth & rest) |
			(eighth & rest & last);

	return (hot & warm) | (~hot & cool);
}

/* Exactly one page in SHARE, anywhere; @unit: pages, 1 or a multiple of 64, that come together. */
static void draw_share(struct guest *g, uint32_t unit)
{
	memset(g->bitmap, 0, g->nr_pages / 8);
	for (uint32_t left = g->nr_pages / unit / SHARE; left;) {
		uint32_t idx = (uint32_t)(next_random() % (g->nr_pages / unit)) * unit;

		left -= !(g->bitmap[idx / 64] >> idx % 64 & 1);
		g->bitmap[idx / 64] |= 1ull << idx % 64;
		memset(g->bitmap + idx / 64, 0xff, unit / 64 * 8);
	}
}

static void make_guest(struct guest *g, uint64_t gib, enum reclaim_order order,
		       enum reclaim_scan_cost scan_cost, uint32_t unit)
{
	struct reclaim_conf conf = {
		.nr_pages = (uint32_t)(gib * GIB_PAGES),
		.seed = next_random(),
		.scan_cost = scan_cost,
		.policy = reclaim_policy_default(),
	};
	void *mem;

	conf.policy.order = order;
	*g = (struct guest) {.nr_pages = conf.nr_pages, .size = reclaim_size(conf.nr_pages)};
	g->heat_seed = next_random();
	mem = mmap(NULL, g->size + g->nr_pages / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g->r = mem == MAP_FAILED ? NULL : reclaim_init(mem, g->size, &conf, g->now_ns);
	if (!g->r) {
		fprintf(stderr, "lru: no metadata for a guest of %llu GiB\n", (unsigned long long)gib);
		exit(1);
	}
	g->bitmap = (uint64_t *)(void *)((char *)mem + g->size);
	if (unit)
		draw_share(g, unit);
	for (uint32_t idx = 0; idx < g->nr_pages; idx++) {
		if (!unit || g->bitmap[idx / 64] >> idx % 64 & 1) {
			reclaim_note_resident(g->r, idx, 1, RECLAIM_FOUND);
			g->resident++;
		}
	}
	reclaim_set_limit(g->r, g->resident);
}

/* The bitmap in slices, as the daemon's sampler has it. */
static double note_bitmap(struct guest *g)
{
	double begun = cpu_ns();

	for (uint32_t at = 0; at < g->nr_pages; at += SLICE)
		reclaim_note_young(g->r, at, g->bitmap + at / 64, SLICE / 64);
	return cpu_ns() - begun;
}

static double end_pass(struct guest *g, bool age)
{
	double begun;

	g->now_ns += PASS_NS;
	reclaim_tick(g->r, g->now_ns);
	begun = cpu_ns();
	if (age)
		reclaim_age(g->r);
	reclaim_end_pass(g->r, 1000000);
	return cpu_ns() - begun;
}

static uint32_t out[MAX_BATCHES * RECLAIM_PICK_MAX];

/* One batch leaves; its pages are told in @idx. Returns how many they are, and adds the time to @ret_ns. */
static uint32_t evict_batch(struct guest *g, enum cost cost, uint32_t *idx, double *ret_ns)
{
	static struct page_run runs[RECLAIM_PICK_MAX];
	double begun = cpu_ns(), picked;
	uint32_t nr = reclaim_pick(g->r, runs, RECLAIM_PICK_MAX, RECLAIM_PICK_MAX, false), pages = 0;

	picked = cpu_ns() - begun;
	for (uint32_t i = 0; i < nr; i++)
		for (uint32_t p = 0; p < runs[i].nr; p++)
			reclaim_note_evicted(g->r, idx[pages++] = runs[i].first + p);
	*ret_ns += cpu_ns() - begun;
	if (pages) /* an empty one may be cheap: that there is nothing is remembered */
		add(cost, picked);
	samples[cost].short_picks += pages < RECLAIM_PICK_MAX;
	return pages;
}

/* What is coldest leaves for good. */
static void evict_for_good(struct guest *g, enum cost cost)
{
	uint32_t left = g->resident / STAY_OUT_SHARE, nr = 1;
	double ns = 0;

	for (; nr && left >= RECLAIM_PICK_MAX; left -= MIN(left, nr))
		nr = evict_batch(g, cost, out, &ns);
}

/* Some batches leave, and their pages come back in another order. */
static void evict_and_refault(struct guest *g, enum cost cost)
{
	uint32_t batches = MIN(MAX(g->resident / RECLAIM_PICK_MAX / 64, 1u), MAX_BATCHES), nr = 0;
	double ns = 0, begun;

	for (uint32_t i = 0; i < batches; i++)
		nr += evict_batch(g, cost, out + nr, &ns);
	for (uint32_t i = nr; i-- > 1;) {
		uint32_t k = (uint32_t)(next_random() % (i + 1)), idx = out[i];

		out[i] = out[k];
		out[k] = idx;
	}
	begun = cpu_ns();
	for (uint32_t i = 0; i < nr; i++)
		reclaim_note_resident(g->r, out[i], 1, RECLAIM_REFAULT);
	begun = cpu_ns() - begun;
	if (cost == PICK_FREQ && nr) {
		add(REFAULT, begun / nr);
		add(TRIP, (ns + begun) / nr);
	}
}

/* Returns what the end cost. */
static double heat_pass(struct guest *g, bool age)
{
	for (uint32_t w = 0; w < g->nr_pages / 64; w++)
		g->bitmap[w] = draw_word(g, w);
	note_bitmap(g);
	return end_pass(g, age);
}

static void measure_eviction(struct guest *g, enum cost cost)
{
	for (int i = 0; i < WARM_PASSES; i++)
		heat_pass(g, false);
	evict_for_good(g, cost);
	for (int i = 0; i < ROUNDS; i++) {
		double ns = heat_pass(g, i % 3 == 2);

		if (cost == PICK_GEN || cost == PICK_FREQ)
			add(END, ns);
		evict_and_refault(g, cost);
	}
}

static void measure_young(struct guest *g)
{
	for (int i = 0; i < ROUNDS; i++) {
		draw_share(g, 1);
		add(YOUNG, note_bitmap(g) / g->nr_pages);
		add(END, end_pass(g, true));
	}
}

/* The worst a pick can do: nothing may go, which is known only when all has been looked at. */
static void measure_in_vain(struct guest *g)
{
	static struct page_run runs[RECLAIM_PICK_MAX];

	memset(g->bitmap, 0xff, g->nr_pages / 8);
	for (int i = 0; i < ROUNDS; i++) {
		double begun;

		note_bitmap(g);
		end_pass(g, false);
		begun = cpu_ns();
		if (!reclaim_pick(g->r, runs, RECLAIM_PICK_MAX, RECLAIM_PICK_MAX, false))
			add(IN_VAIN, (cpu_ns() - begun) / g->nr_pages);
	}
}

/* What a pass pays to be told where to look, and nothing else of the pass. */
static void walk(struct guest *g, bool full, enum cost cost)
{
	struct page_run run;
	double begun = cpu_ns();

	reclaim_begin_pass(g->r, full);
	while (reclaim_next_scan(g->r, SLICE, &run))
		;
	add(cost, (cpu_ns() - begun) / g->nr_pages);
	end_pass(g, false);
}

/* First everything is looked at and found cold; then most of it is skipped. */
static void measure_cold(struct guest *g)
{
	memset(g->bitmap, 0, g->nr_pages / 8);
	for (int i = 0; i < ROUNDS; i++) {
		walk(g, true, WALK);
		note_bitmap(g);
	}
	for (int i = 0; i < ROUNDS; i++)
		walk(g, false, COLD_WALK);
}

static void measure_gone(struct guest *g)
{
	for (uint32_t at = 0; at < g->nr_pages && at / GIB_PAGES < ROUNDS; at += GIB_PAGES) {
		double begun = cpu_ns();

		reclaim_note_gone(g->r, at, GIB_PAGES);
		add(GONE, cpu_ns() - begun);
	}
}

static void measure(uint64_t gib)
{
	struct guest g;

	for (int i = 0; i < NR_COSTS; i++)
		samples[i].nr = samples[i].short_picks = 0;
	for (uint32_t i = 0; i < ARRAY_SIZE(loads); i++) {
		enum cost cost = loads[i].cost;

		make_guest(&g, gib, loads[i].order, RECLAIM_SCAN_PER_YOUNG_PAGE, loads[i].unit);
		g.alike = cost == PICK_ALIKE;
		measure_eviction(&g, cost);
		if (cost == PICK_GEN)
			measure_in_vain(&g);
		if (cost == PICK_FREQ)
			measure_young(&g);
		if (cost == PICK_ALIKE)
			measure_gone(&g);
		munmap(g.r, g.size + g.nr_pages / 8);
	}
	make_guest(&g, gib, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE, 0);
	measure_cold(&g);
	add(METADATA, 100 * (double)g.size / (double)pages_to_bytes(g.nr_pages));
	munmap(g.r, g.size + g.nr_pages / 8);
	for (int i = 0; i < NR_COSTS; i++)
		qsort(samples[i].v, samples[i].nr, sizeof(samples[i].v[0]), compare);
}

static void print_row(uint64_t gib)
{
	printf("%5llu", (unsigned long long)gib);
	for (int i = 0; i < NR_COSTS; i++) {
		double median = quantile(i, .5);

		printf(" %10.*f", median < .1 ? 5 : median < 10 ? 3 : 1, median);
	}
	printf("\n");
	fflush(stdout);
}

static void print_details(const double *first)
{
	printf("\n%-60s %5s %10s %6s %10s %10s %10s %7s %6s\n", "the largest guest", "goal", "median", "",
	       "min", "99 %", "max", "samples", "/first");
	for (int i = 0; i < NR_COSTS; i++) {
		const struct cost_kind *k = &kinds[i];
		double median = quantile(i, .5);
		char goal[16] = "";

		if (k->goal > 0)
			snprintf(goal, sizeof(goal), "%.4g", k->goal);
		printf("%-57s %-2s %5s %10.4f %-6s %10.4f %10.4f %10.4f %7u %6.2f", k->what, k->unit, goal, median,
		       !*goal ? "" : samples[i].nr && median <= k->goal ? "met" : "MISSED", quantile(i, 0), quantile(i, .99),
		       quantile(i, 1), samples[i].nr, median / first[i]);
		if (samples[i].short_picks)
			printf("  %u of them found fewer", samples[i].short_picks);
		printf("\n");
	}
	printf("\n/first: divided by that of the smallest guest. Where a number is per page, 1 is linear;\n"
	       "more, up to the speed of memory, is where the metadata no longer fits the caches.\n");
}

int main(int argc, char **argv)
{
	static double first[NR_COSTS];
	uint64_t max_gib = argc == 3 && !strcmp(argv[1], "--max-gib") ? strtoull(argv[2], NULL, 10) : 1024;
	uint64_t free_bytes = pages_to_bytes((uint64_t)sysconf(_SC_AVPHYS_PAGES));
	const char *seed = getenv("EBB_SEED");

	if ((argc != 1 && argc != 3) || !max_gib || max_gib > 2048) {
		fputs("usage: lru [--max-gib N]     (1..2048, default 1024)\n", stderr);
		return 2;
	}
	for (; max_gib > 1 && reclaim_size((uint32_t)(max_gib * GIB_PAGES)) * 5 / 4 > free_bytes; max_gib /= 2)
		printf("not enough memory is free for a guest of %llu GiB\n", (unsigned long long)max_gib);
	rng = seed && strtoull(seed, NULL, 0) ? strtoull(seed, NULL, 0) : 88172645463325252ull;
	printf("EBB_SEED=%llu; medians; %d rounds after %d passes\n\n", (unsigned long long)rng, ROUNDS, WARM_PASSES);
	printf("%5s", "GiB");
	for (int i = 0; i < NR_COSTS; i++)
		printf(" %7s %-2s", kinds[i].head, kinds[i].unit);
	printf("\n");
	for (uint64_t gib = 1;; gib = MIN(gib * 4, max_gib)) {
		measure(gib);
		for (int i = 0; gib == 1 && i < NR_COSTS; i++)
			first[i] = quantile(i, .5);
		print_row(gib);
		if (gib == max_gib)
			break;
	}
	print_details(first);
	return 0;
}
