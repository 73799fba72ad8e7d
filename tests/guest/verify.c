// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * verify.c - guest workload that writes patterns over most of the memory and checks every word of them.
 *
 * DOC: Theory of operation
 *
 * Each worker process owns a private area of pages. What a page must hold follows from (seed, page,
 * generation) alone; the generation of each page is kept in an array beside the area and goes up with
 * every write. All 512 words of a page differ and depend on the page and its generation, so a page
 * that comes back empty, old, torn, shifted or as somebody else's is always noticed and named.
 *
 * Three things are done to the pages, at random: a check; a check and a new generation (some of them
 * all zeros, which a reclaimer may treat apart); and, with a disk, direct I/O. A direct read goes into
 * 16 pages that are *not touched before*: the device writes to them while they may be cold, which is
 * how a reclaimer that copies a pinned page loses data. A direct write sends 16 pages to a scratch
 * chunk that is read back elsewhere. Sequential passes check everything, the last one after the end.
 *
 * Workers count in memory shared with the parent, which prints PROGRESS lines and one line VERIFY at
 * the end. Nothing here knows of ebb: any way to lose a byte of guest memory shows.
 *
 * With --make-disk the program runs on the host and writes the disk image that the guest reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES  4096u
#define PAGE_WORDS  (PAGE_BYTES / sizeof(uint64_t))
#define CHUNK_PAGES 16u /* a direct I/O moves this many pages */
#define CHUNK_BYTES (CHUNK_PAGES * PAGE_BYTES)
#define MAX_PROCS   16u
#define MAX_BACK    65536u /* generations looked at to find out what a wrong page holds */
#define MAX_REPORTS 20u	   /* mismatches told in full, per worker */

#define WORD_STEP 0x9e3779b97f4a7c15ull /* odd: all words of a page differ */
#define DISK_SEED 0xd15cull
#define GEN_ZERO  0x80000000u /* this generation of the page is all zeros */

enum phase { PHASE_FILL, PHASE_RUN, PHASE_SCAN, PHASE_DONE };
static const char *const phase_names[] = {"fill", "run", "scan", "done"};

/** struct counters - what one worker has done; written by it alone, read by the parent */
struct counters {
	uint64_t pages; /* page checks */
	uint64_t ops;	/* random operations */
	uint64_t dma;	/* chunks moved by direct I/O */
	uint64_t mismatches;
	uint64_t errors;     /* failed I/O, a worker that died */
	uint64_t maxwait_ns; /* longest single page operation */
	uint64_t phase;
} __attribute__((aligned(64)));

/** struct options - percentages are of operations unless said otherwise */
struct options {
	unsigned int procs, mib, seconds, interval, scan_every;
	unsigned int hot, write, zero, dma, spare;
	unsigned int seed;
	const char *disk;
};

/** struct area - one worker's pages */
struct area {
	const struct options *opt;
	struct counters *c;
	unsigned int id;
	uint8_t *mem;
	uint32_t *gen;
	uint64_t n;
	uint64_t seed;
	uint64_t rng;
	int disk;		     /* -1: none */
	uint64_t known;		     /* chunks of known content at the disk's start */
	uint64_t scratch, scratch_n; /* chunks only this worker writes */
};

/** struct pattern - word i of a page is base + i * step */
struct pattern {
	uint64_t base, step;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* splitmix64's finisher */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t area_random(struct area *a, uint64_t below)
{
	a->rng += WORD_STEP;
	return mix(a->rng) % below;
}

static bool area_chance(struct area *a, unsigned int percent)
{
	return area_random(a, 100) < percent;
}

static void count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static struct pattern pattern_of(uint64_t seed, uint64_t page, uint32_t gen)
{
	struct pattern p = {0, 0};

	if (!(gen & GEN_ZERO)) {
		p.base = mix(seed ^ mix(page * WORD_STEP + gen));
		p.step = WORD_STEP;
	}
	return p;
}

/* noinline: the compiler must not carry what was written over to the check */
static __attribute__((noinline)) void pattern_fill(uint64_t *words, struct pattern p)
{
	for (unsigned int i = 0; i < PAGE_WORDS; i++)
		words[i] = p.base + i * p.step;
}

/* Returns the index of the first wrong word, -1 if there is none. */
static __attribute__((noinline)) int pattern_check(const uint64_t *words, struct pattern p)
{
	uint64_t diff = 0;

	for (unsigned int i = 0; i < PAGE_WORDS; i++)
		diff |= words[i] ^ (p.base + i * p.step);
	if (!diff)
		return -1;
	for (unsigned int i = 0; i < PAGE_WORDS; i++)
		if (words[i] != p.base + i * p.step)
			return (int)i;
	return -1; /* changed between the two looks: the caller checks a second time */
}

static uint64_t *area_page(const struct area *a, uint64_t page)
{
	return (uint64_t *)(void *)(a->mem + page * PAGE_BYTES);
}

static void area_write(struct area *a, uint64_t page)
{
	uint32_t gen = (a->gen[page] & ~GEN_ZERO) + 1;

	a->gen[page] = area_chance(a, a->opt->zero) ? gen | GEN_ZERO : gen;
	pattern_fill(area_page(a, page), pattern_of(a->seed, page, a->gen[page]));
}

static unsigned int pattern_count_wrong(const uint64_t *words, struct pattern p)
{
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < PAGE_WORDS; i++)
		wrong += words[i] != p.base + i * p.step;
	return wrong;
}

/* What does the page hold instead? The answer usually names the bug. */
static const char *area_diagnose(const struct area *a, uint64_t page, unsigned int wrong)
{
	const uint64_t *words = area_page(a, page);
	uint32_t gen = a->gen[page] & ~GEN_ZERO;

	if (pattern_check(words, (struct pattern) {0, 0}) < 0)
		return "all zeros";
	for (uint32_t back = 1; back <= gen && back <= MAX_BACK; back++)
		if (words[0] == pattern_of(a->seed, page, gen - back).base &&
		    pattern_check(words, pattern_of(a->seed, page, gen - back)) < 0)
			return "an older generation of this page";
	if (wrong == PAGE_WORDS &&
	    !pattern_count_wrong(words, (struct pattern) {words[0], WORD_STEP}))
		return "another whole page or chunk";
	return "a mixture";
}

static void area_mismatch(struct area *a, const char *what, uint64_t page, int word,
			  struct pattern want)
{
	unsigned int wrong = pattern_count_wrong(area_page(a, page), want);

	count(&a->c->mismatches, 1);
	if (a->c->mismatches > MAX_REPORTS)
		return;
	printf("MISMATCH worker=%u in=%s page=%" PRIu64 " gen=%" PRIu32
	       "%s wrong_words=%u first=%d got=%016" PRIx64 " want=%016" PRIx64 " holds: %s\n",
	       a->id, what, page, a->gen[page] & ~GEN_ZERO, a->gen[page] & GEN_ZERO ? "z" : "",
	       wrong, word, area_page(a, page)[word], want.base + (uint64_t)word * want.step,
	       area_diagnose(a, page, wrong));
}

/* A page that is wrong gets a new generation, so that one loss is counted once. */
static void area_expect(struct area *a, const char *what, uint64_t page, struct pattern want)
{
	int word = pattern_check(area_page(a, page), want);

	count(&a->c->pages, 1);
	if (word < 0)
		return;
	area_mismatch(a, what, page, word, want);
	area_write(a, page);
}

static void area_verify(struct area *a, const char *what, uint64_t page)
{
	area_expect(a, what, page, pattern_of(a->seed, page, a->gen[page]));
}

static void area_note_wait(struct area *a, uint64_t *since)
{
	uint64_t t = now_ns();

	if (t - *since > a->c->maxwait_ns)
		__atomic_store_n(&a->c->maxwait_ns, t - *since, __ATOMIC_RELAXED);
	*since = t;
}

static void area_scan(struct area *a, const char *what)
{
	uint64_t since = now_ns();

	for (uint64_t page = 0; page < a->n; page++) {
		area_verify(a, what, page);
		area_note_wait(a, &since);
	}
}

/* 90 % of the choices fall into the first opt->hot percent of the area. */
static uint64_t area_choose(struct area *a)
{
	uint64_t hot = a->n * a->opt->hot / 100;

	if (hot && area_chance(a, 90))
		return area_random(a, hot);
	return area_random(a, a->n);
}

static bool area_io(struct area *a, bool write, uint64_t chunk, uint64_t page)
{
	void *buf = area_page(a, page);
	off_t at = (off_t)(chunk * CHUNK_BYTES);
	ssize_t n = write ? pwrite(a->disk, buf, CHUNK_BYTES, at) :
			    pread(a->disk, buf, CHUNK_BYTES, at);

	if (n == (ssize_t)CHUNK_BYTES) {
		count(&a->c->dma, 1);
		return true;
	}
	printf("ERROR worker=%u direct %s of chunk %" PRIu64 ": %s\n", a->id,
	       write ? "write" : "read", chunk, n < 0 ? strerror(errno) : "short");
	count(&a->c->errors, 1);
	return false;
}

/* Known chunk -> pages nobody touched first -> check -> the pages are ours again. */
static void area_dma_read(struct area *a)
{
	uint64_t page = area_random(a, a->n - CHUNK_PAGES);
	uint64_t chunk = area_random(a, a->known);

	if (!area_io(a, false, chunk, page)) {
		for (unsigned int i = 0; i < CHUNK_PAGES; i++)
			area_write(a, page + i); /* who knows how much arrived */
		return;
	}
	for (unsigned int i = 0; i < CHUNK_PAGES; i++) {
		area_expect(a, "dma-read", page + i,
			    pattern_of(DISK_SEED, chunk * CHUNK_PAGES + i, 0));
		area_write(a, page + i);
	}
}

/* Pages -> scratch chunk -> read back over other pages -> check -> those are ours again. */
static void area_dma_write(struct area *a)
{
	uint64_t half = a->n / 2 - CHUNK_PAGES;
	uint64_t from = area_random(a, half);
	uint64_t to = a->n / 2 + area_random(a, half);
	uint64_t chunk = a->scratch + area_random(a, a->scratch_n);

	if (area_io(a, true, chunk, from) && area_io(a, false, chunk, to))
		for (unsigned int i = 0; i < CHUNK_PAGES; i++)
			area_expect(a, "dma-write", to + i,
				    pattern_of(a->seed, from + i, a->gen[from + i]));
	for (unsigned int i = 0; i < CHUNK_PAGES; i++)
		area_write(a, to + i);
}

static void area_op(struct area *a, uint64_t *since)
{
	uint64_t page;

	count(&a->c->ops, 1);
	if (a->disk >= 0 && area_chance(a, a->opt->dma)) {
		if (area_chance(a, 25))
			area_dma_write(a);
		else
			area_dma_read(a);
		*since = now_ns(); /* a disk's time is no wait for a page */
		return;
	}
	page = area_choose(a);
	area_verify(a, "random", page);
	if (area_chance(a, a->opt->write))
		area_write(a, page);
	area_note_wait(a, since);
}

static void area_run(struct area *a)
{
	uint64_t since = now_ns();
	uint64_t end = since + a->opt->seconds * 1000000000ull;
	uint64_t every = a->opt->scan_every * 1000000000ull;
	uint64_t scan_at = since + every;

	while (since < end) {
		area_op(a, &since);
		if (!every || since < scan_at)
			continue;
		area_scan(a, "pass");
		since = now_ns();
		scan_at = since + every;
	}
}

static int area_open_disk(struct area *a)
{
	uint64_t chunks;

	a->disk = -1;
	if (!a->opt->disk)
		return 0;
	a->disk = open(a->opt->disk, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (a->disk < 0) {
		printf("ERROR cannot open %s: %s\n", a->opt->disk, strerror(errno));
		return -1;
	}
	chunks = (uint64_t)lseek(a->disk, 0, SEEK_END) / CHUNK_BYTES;
	a->known = chunks * 3 / 4;
	a->scratch_n = (chunks - a->known) / a->opt->procs;
	a->scratch = a->known + a->id * a->scratch_n;
	if (a->scratch_n)
		return 0;
	printf("ERROR %s is too small\n", a->opt->disk);
	return -1;
}

static int worker_main(const struct options *opt, unsigned int id, struct counters *c)
{
	struct area a = {.opt = opt, .c = c, .id = id};

	a.n = ((uint64_t)opt->mib << 20) / opt->procs / PAGE_BYTES;
	a.seed = mix((uint64_t)opt->seed * MAX_PROCS + id);
	a.rng = mix(a.seed);
	a.mem = mmap(NULL, a.n * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	a.gen = calloc(a.n, sizeof(*a.gen));
	if (a.mem == MAP_FAILED || !a.gen || a.n < 4 * CHUNK_PAGES) {
		printf("ERROR worker=%u cannot get %" PRIu64 " pages\n", id, a.n);
		return 1;
	}
	if (area_open_disk(&a))
		return 1;

	for (uint64_t page = 0; page < a.n; page++)
		area_write(&a, page);
	__atomic_store_n(&c->phase, PHASE_RUN, __ATOMIC_RELAXED);
	area_scan(&a, "first");
	area_run(&a);
	__atomic_store_n(&c->phase, PHASE_SCAN, __ATOMIC_RELAXED);
	area_scan(&a, "final");
	__atomic_store_n(&c->phase, PHASE_DONE, __ATOMIC_RELAXED);
	return 0;
}

static struct counters counters_sum(const struct counters *c, unsigned int n)
{
	struct counters s = {.phase = PHASE_DONE};

	for (unsigned int i = 0; i < n; i++) {
		uint64_t wait = __atomic_load_n(&c[i].maxwait_ns, __ATOMIC_RELAXED);
		uint64_t phase = __atomic_load_n(&c[i].phase, __ATOMIC_RELAXED);

		s.pages += __atomic_load_n(&c[i].pages, __ATOMIC_RELAXED);
		s.ops += __atomic_load_n(&c[i].ops, __ATOMIC_RELAXED);
		s.dma += __atomic_load_n(&c[i].dma, __ATOMIC_RELAXED);
		s.mismatches += __atomic_load_n(&c[i].mismatches, __ATOMIC_RELAXED);
		s.errors += __atomic_load_n(&c[i].errors, __ATOMIC_RELAXED);
		if (wait > s.maxwait_ns)
			s.maxwait_ns = wait;
		if (phase < s.phase)
			s.phase = phase;
	}
	return s;
}

static void counters_print(const char *head, const struct counters *s)
{
	printf("%s pages=%" PRIu64 " ops=%" PRIu64 " dma=%" PRIu64 " mismatches=%" PRIu64
	       " errors=%" PRIu64 " maxwait_ms=%" PRIu64 "\n",
	       head, s->pages, s->ops, s->dma, s->mismatches, s->errors, s->maxwait_ns / 1000000);
}

/* Print progress until every worker has ended; returns the number of those that ended badly. */
static unsigned int parent_watch(const struct options *opt, const struct counters *c)
{
	uint64_t start = now_ns(), next = start;
	unsigned int left = opt->procs, bad = 0;
	bool filled = false;

	while (left) {
		struct counters s = counters_sum(c, opt->procs);
		char head[64];
		int status;

		if (!filled && s.phase >= PHASE_RUN) {
			filled = true;
			printf("FILLED mib=%u seconds=%" PRIu64 "\n", opt->mib,
			       (now_ns() - start) / 1000000000u);
		}
		if (now_ns() >= next) {
			snprintf(head, sizeof(head), "PROGRESS t=%" PRIu64 " phase=%s",
				 (now_ns() - start) / 1000000000u, phase_names[s.phase]);
			counters_print(head, &s);
			next += opt->interval * 1000000000ull;
		}
		usleep(100000);
		while (left && waitpid(-1, &status, WNOHANG) > 0) {
			left--;
			if (!status)
				continue;
			bad++;
			printf("ERROR a worker ended with %s %d\n",
			       WIFSIGNALED(status) ? "signal" : "status",
			       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		}
	}
	return bad;
}

static int parent_main(const struct options *opt)
{
	struct counters *c, s;

	c = mmap(NULL, MAX_PROCS * sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		 -1, 0);
	if (c == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	printf("START procs=%u mib=%u seconds=%u disk=%s seed=%u\n", opt->procs, opt->mib,
	       opt->seconds, opt->disk ? opt->disk : "none", opt->seed);
	for (unsigned int i = 0; i < opt->procs; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (!pid)
			exit(worker_main(opt, i, &c[i]));
	}
	c[0].errors += parent_watch(opt, c); /* the workers are gone: it is ours now */
	s = counters_sum(c, opt->procs);
	counters_print("VERIFY", &s);
	return s.mismatches || s.errors || !s.pages;
}

static int make_disk(const char *file, unsigned long mib)
{
	static uint64_t words[PAGE_WORDS];
	FILE *f = fopen(file, "we");
	int failed;

	if (!f) {
		perror(file);
		return 1;
	}
	for (uint64_t page = 0; page < (uint64_t)mib << 8; page++) {
		pattern_fill(words, pattern_of(DISK_SEED, page, 0));
		if (fwrite(words, sizeof(words), 1, f) != 1)
			break;
	}
	failed = ferror(f);
	if (fclose(f) || failed) {
		perror(file);
		return 1;
	}
	return 0;
}

/* All available memory less a reserve for the kernel, or 0 when it cannot be told. */
static unsigned int memory_auto(unsigned int spare_mib)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long kib = 0;
	char line[128];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib / 1024 > spare_mib ? (unsigned int)(kib / 1024) - spare_mib : 0;
}

static void usage(FILE *f)
{
	fputs("usage: verify [options]\n"
	      "       verify --make-disk FILE MIB   (on the host)\n"
	      "  --procs N       worker processes (1)\n"
	      "  --mib N         memory of all workers together (0: what is available less "
	      "--spare)\n"
	      "  --spare N       MiB left to the kernel when --mib is 0 (28)\n"
	      "  --seconds N     length of the random phase (30)\n"
	      "  --interval N    seconds between PROGRESS lines (2)\n"
	      "  --scan-every N  seconds between sequential passes (0: only first and last)\n"
	      "  --hot PCT       90 % of operations go to this part of memory (0: uniform)\n"
	      "  --write PCT     operations that write a new generation (50)\n"
	      "  --zero PCT      writes that make the page all zeros (5)\n"
	      "  --disk DEV      direct I/O on this disk, made by --make-disk\n"
	      "  --dma PCT       operations that are direct I/O (12)\n"
	      "  --seed N\n",
	      f);
}

/* Returns 0, or -1 after saying what is wrong. */
static int number(const char *name, const char *text, unsigned int max, unsigned int *ret)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || *end || end == text || v > max) {
		fprintf(stderr, "verify: --%s wants a number up to %u, not '%s'\n", name, max,
			text);
		return -1;
	}
	*ret = (unsigned int)v;
	return 0;
}

/* Fills @o; returns 0, or -1 after saying what is wrong. */
static int parse_options(int argc, char **argv, struct options *o, const char **ret_disk_file)
{
	const struct {
		const char *name;
		unsigned int max;
		unsigned int *to;
	} numbers[] = {
		{"procs", MAX_PROCS, &o->procs},
		{"mib", 1u << 22, &o->mib},
		{"spare", 1u << 22, &o->spare},
		{"seconds", 1u << 30, &o->seconds},
		{"interval", 3600, &o->interval},
		{"scan-every", 1u << 30, &o->scan_every},
		{"hot", 100, &o->hot},
		{"write", 100, &o->write},
		{"zero", 100, &o->zero},
		{"dma", 100, &o->dma},
		{"seed", UINT32_MAX, &o->seed},
	};
	enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };
	struct option table[NUMBERS + 3] = {0};
	int c, index = 0;

	for (int i = 0; i < NUMBERS; i++)
		table[i] = (struct option) {numbers[i].name, required_argument, NULL, 'n'};
	table[NUMBERS] = (struct option) {"disk", required_argument, NULL, 'd'};
	table[NUMBERS + 1] = (struct option) {"make-disk", required_argument, NULL, 'm'};

	while ((c = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (c == 'n' &&
		    number(numbers[index].name, optarg, numbers[index].max, numbers[index].to))
			return -1;
		if (c == 'd')
			o->disk = optarg;
		if (c == 'm')
			*ret_disk_file = optarg;
		if (c == '?')
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {.procs = 1,
			    .seconds = 30,
			    .interval = 2,
			    .write = 50,
			    .zero = 5,
			    .dma = 12,
			    .spare = 28,
			    .seed = 1};
	const char *disk_file = NULL;
	unsigned int mib;

	setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines: workers and kernel share the console */

	if (parse_options(argc, argv, &o, &disk_file)) {
		usage(stderr);
		return 2;
	}
	if (disk_file) {
		if (optind + 1 != argc || number("make-disk", argv[optind], 1u << 20, &mib))
			return 2;
		return make_disk(disk_file, mib);
	}
	if (!o.mib)
		o.mib = memory_auto(o.spare);
	if (optind != argc || !o.procs || !o.interval || !o.mib) {
		usage(stderr);
		return 2;
	}
	return parent_main(&o);
}
