// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lru.c - what the reclaim core costs: metadata only, guests of 1 GiB up to 1 TiB.
 *
 * lru [--max-gib N]. For each size a core is filled (all pages resident), then several passes with a skewed pattern
 * of young pages give it the mixture of generations and frequencies it has in use. Each cost is the median of several
 * rounds, in CPU time; the table shows how it grows. The goals are for the largest size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ebb/reclaim.h>

#define SLICE	    8192u /* pages, as the zap sampler */
#define SLICE_WORDS (SLICE / 64)
#define ROUNDS	    9
#define PASSES	    6
#define BATCHES	    64

static uint64_t rng = 88172645463325252ull;
static uint64_t virtual_ns = 1000000000;

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

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts); /* CPU time: others use this machine too */
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

struct sample {
	double v[ROUNDS * BATCHES];
	int nr;
};

static void add(struct sample *s, double v)
{
	if (s->nr < (int)ARRAY_SIZE(s->v))
		s->v[s->nr++] = v;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(struct sample *s)
{
	qsort(s->v, (size_t)s->nr, sizeof(s->v[0]), compare);
	return s->nr ? s->v[s->nr / 2] : 0;
}

static double worst(struct sample *s)
{
	median(s);
	return s->nr ? s->v[s->nr - 1] : 0;
}

static struct reclaim *make(uint32_t nr_pages, void **ret_mem, size_t *ret_size)
{
	struct reclaim_conf conf = {
		.nr_pages = nr_pages,
		.seed = 1,
		.scan_cost = RECLAIM_SCAN_PER_YOUNG_PAGE,
		.policy = reclaim_policy_default(),
	};
	size_t size = reclaim_size(nr_pages);
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct reclaim *r = mem == MAP_FAILED ? NULL : reclaim_init(mem, size, &conf, virtual_ns);

	if (!r) {
		fprintf(stderr, "lru: no memory for the metadata of %u pages\n", nr_pages);
		exit(1);
	}
	*ret_mem = mem;
	*ret_size = size;
	return r;
}

/* A word of which about 1 in @one_in pages are young, independently. */
static uint64_t sparse_word(uint32_t one_in)
{
	uint64_t word = 0;

	/* 64 draws are too slow; how many young pages a word has is what matters, not which. */
	for (uint64_t left = next_random() % (2 * 64 + one_in); left >= one_in; left -= one_in)
		word |= 1ull << next_random() % 64;
	return word;
}

/* All slices of a young bitmap, which is made ahead so that only the core is timed. */
static double note_all(struct reclaim *r, uint32_t nr_pages, const uint64_t *bitmap)
{
	double begun = cpu_ns();

	for (uint32_t at = 0; at < nr_pages; at += SLICE)
		reclaim_note_young(r, at, bitmap + at / 64, SLICE_WORDS);
	return cpu_ns() - begun;
}

static void fill_bitmap(uint64_t *bitmap, uint32_t nr_pages, uint32_t one_in)
{
	for (uint32_t w = 0; w < nr_pages / 64; w++)
		bitmap[w] = sparse_word(one_in);
}

/* A hot eighth that is always young, the rest now and then. */
static void skew_bitmap(uint64_t *bitmap, uint32_t nr_pages)
{
	for (uint32_t w = 0; w < nr_pages / 64; w++)
		bitmap[w] = w % 8 == 0 ? ~0ull : sparse_word(16 + w % 64);
}

static double end_pass(struct reclaim *r)
{
	double begun;

	virtual_ns += 2000000000;
	reclaim_tick(r, virtual_ns);
	begun = cpu_ns();
	reclaim_end_pass(r, 1000000);
	return cpu_ns() - begun;
}

/* What a pass pays to be told where to look, with nothing to be skipped and nothing young. */
static double walk(struct reclaim *r)
{
	struct page_run run;
	double begun = cpu_ns();

	reclaim_begin_pass(r, true);
	while (reclaim_next_scan(r, SLICE, &run))
		;
	return cpu_ns() - begun;
}

struct costs {
	struct sample young, pass, pick, trip, walk, discard;
	size_t size;
	double share; /* of guest memory */
};

static void measure_eviction(struct reclaim *r, struct costs *c)
{
	static struct page_run runs[RECLAIM_PICK_MAX];

	for (int i = 0; i < BATCHES; i++) {
		double begun = cpu_ns(), picked;
		uint32_t nr = reclaim_pick(r, runs, RECLAIM_PICK_MAX, RECLAIM_PICK_MAX, true), pages = 0;

		picked = cpu_ns() - begun;
		for (uint32_t k = 0; k < nr; k++)
			for (uint32_t p = 0; p < runs[k].nr; p++, pages++)
				reclaim_note_evicted(r, runs[k].first + p);
		for (uint32_t k = 0; k < nr; k++)
			for (uint32_t p = 0; p < runs[k].nr; p++)
				reclaim_note_resident(r, runs[k].first + p, 1, RECLAIM_REFAULT);
		if (pages < RECLAIM_PICK_MAX)
			continue; /* not a full batch: not what the goal is about */
		add(&c->pick, picked);
		add(&c->trip, (cpu_ns() - begun) / pages);
	}
}

static void measure(uint64_t gib, struct costs *c)
{
	uint32_t nr_pages = (uint32_t)(gib << 18);
	size_t bitmap_size = nr_pages / 8;
	uint64_t *bitmap = mmap(NULL, bitmap_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct reclaim *r;
	void *mem;
	double begun;

	memset(c, 0, sizeof(*c));
	r = make(nr_pages, &mem, &c->size);
	c->share = (double)c->size / (double)(gib << 30);
	reclaim_set_limit(r, nr_pages);
	reclaim_note_resident(r, 0, nr_pages, RECLAIM_FOUND);
	for (int i = 0; i < PASSES; i++) {
		skew_bitmap(bitmap, nr_pages);
		note_all(r, nr_pages, bitmap);
		end_pass(r);
	}
	for (int i = 0; i < ROUNDS; i++) {
		fill_bitmap(bitmap, nr_pages, 100);
		add(&c->young, note_all(r, nr_pages, bitmap) / nr_pages);
		add(&c->walk, walk(r) / nr_pages);
		add(&c->pass, end_pass(r));
		if (i == ROUNDS / 2)
			reclaim_age(r);
		measure_eviction(r, c);
	}
	begun = cpu_ns();
	reclaim_note_gone(r, 0, 1u << 18);
	add(&c->discard, cpu_ns() - begun);
	munmap(mem, c->size);
	munmap(bitmap, bitmap_size);
}

static void goal(const char *what, double value, double most, const char *unit)
{
	printf("%-66s %9.3f %s, at most %.4g: %s\n", what, value, unit, most, value <= most ? "met" : "MISSED");
}

int main(int argc, char **argv)
{
	static struct costs c;
	uint64_t max_gib = argc == 3 && !strcmp(argv[1], "--max-gib") ? strtoull(argv[2], NULL, 10) : 1024;

	if ((argc != 1 && argc != 3) || !max_gib || max_gib > 2048) {
		fputs("usage: lru [--max-gib N]     (1..2048, default 1024)\n", stderr);
		return 2;
	}
	printf("medians of %d rounds (pick: %d batches of %u pages in each, and the slowest)\n\n", ROUNDS, BATCHES,
	       RECLAIM_PICK_MAX);
	printf("%6s %12s %11s %11s %11s %11s %13s %11s %9s\n", "GiB", "young ns/pg", "end ms", "pick us", "(slowest)",
	       "trip ns/pg", "walk ns/pg", "gone us/GiB", "metadata");
	for (uint64_t gib = 1; gib <= max_gib; gib = gib * 4 > max_gib && gib < max_gib ? max_gib : gib * 4) {
		measure(gib, &c);
		printf("%6llu %12.3f %11.3f %11.1f %11.1f %11.0f %13.4f %11.0f %8.3f%%\n", (unsigned long long)gib,
		       median(&c.young), median(&c.pass) / 1e6, median(&c.pick) / 1e3, worst(&c.pick) / 1e3,
		       median(&c.trip), median(&c.walk), median(&c.discard) / 1e3, 100 * c.share);
		fflush(stdout);
	}
	printf("\nyoung: telling the core of a young bitmap, 1 %% of all pages young, per page of the guest. end: the end of a\n"
	       "pass, aging included. trip: a page picked, evicted and back. walk: asking where to look. gone: a discard.\n\n");
	goal("end of a pass, aging included", median(&c.pass) / 1e6, 100, "ms");
	goal("promotion from a young bitmap, 1 % young, per page of the guest", median(&c.young), 1, "ns");
	goal("a batch of 512 pages picked", median(&c.pick) / 1e3, 50, "us");
	goal("metadata, of guest memory", 100 * c.share, 0.2, "%");
	return 0;
}
