// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fault.c - the fault benchmark: ebb's data plane beside the kernel's swap, in interleaved rounds.
 *
 * DOC: what is measured
 *
 * A stand-in guest (standin.h) has twice as much memory as it may keep. In mode ebb this process does what
 * the daemon does: it attaches with the same library, and its fault thread, evictor and sampler keep the
 * limit. In the modes shmem and anon the stand-in sits in a memory cgroup with that limit, and the
 * kernel swaps to a file on the same disk (scripts/bench-fault prepares both). Each mode has a stand-in of
 * its own that lives through all rounds; only one of them works at a time, and the order changes with the
 * round. In each round the disk alone is measured too: the floor.
 *
 * CPU is user and system time of the stand-in and, in mode ebb, of this process: all that a fault
 * costs on the host, the kernel's reclaim inside the fault included, interrupts excluded.
 *
 * Every touch is checked; a wrong byte, or a guest that had to be stopped, ends the benchmark with exit code
 * 1. Missed goals don't: they are a result.
 */
#include <getopt.h>
#include <ebb/log.h>
#include "guest.h"
#include "sampler.h"
#include "fault_device.h"
#include "fault_report.h"

#define SETTLE_MS     200
#define WAIT_LIMIT_NS 60000000000ull
#define MIB	      (1ull << 20)

struct bench {
	unsigned int rounds, warm_ms;
	double seconds;
	uint64_t memory, limit;
	const char *state_dir, *swap_dir;
	const char *cgroup[NR_MODES]; /* cgroup.procs file, NULL: mode not measured; none for ebb */
	bool verbose;
	struct standin standin[NR_MODES];
	struct pinguard *guard;
	struct guest *guest;
	struct sampler *sampler;
	_Atomic bool unfit;
	int device_fd;
	struct bench_results res;
};

static int fail(const char *what, int rc)
{
	fprintf(stderr, "bench-fault: %s: %s\n", what, strerror(-rc));
	return rc;
}

/* --- ebb ------------------------------------------------------------------------------------ */

static struct guest *next_guest(void *arg, struct guest *last)
{
	return last ? NULL : ((struct bench *)arg)->guest;
}

static void guest_unfit(void *arg, struct guest *g, const char *why)
{
	struct bench *b = arg;

	if (!atomic_exchange(&b->unfit, true))
		fprintf(stderr, "bench-fault: %s must be let go: %s\n", g->name, why);
}

static int ebb_attach(struct bench *b)
{
	struct guest_conf conf = {
		.name = "standin", .limit = b->limit, .state_dir = b->state_dir,
		.swap_dir = b->swap_dir, .any_process = true,
	};
	const struct sampler_host host = {.next = next_guest, .unfit = guest_unfit, .arg = b};
	struct ebb_err err;
	int rc = pinguard_open(&b->guard, &err);

	if (!rc) {
		conf.guard = b->guard;
		rc = guest_attach(b->standin[MODE_EBB].pid, &conf, &b->guest, &err);
	}
	if (rc) {
		fprintf(stderr, "bench-fault: %s\n", err.msg);
		return rc;
	}
	rc = sampler_new(&host, &b->sampler);
	return rc ? fail("starting the sampler", rc) : 0;
}

/* The first measurement should not find the guest on its way down to the limit. */
static int ebb_wait_for_limit(const struct bench *b)
{
	uint64_t begin = standin_now_ns();

	while (pages_to_bytes(atomic_load(&b->guest->resident)) > b->limit) {
		if (standin_now_ns() - begin > WAIT_LIMIT_NS)
			return fail("ebb does not bring the stand-in below its limit", -ETIMEDOUT);
		usleep(10000);
	}
	return 0;
}

static int ebb_detach(struct bench *b)
{
	struct ebb_err err;
	int rc;

	sampler_free(b->sampler);
	b->sampler = NULL;
	rc = guest_detach(b->guest, false, &err);
	if (rc) {
		fprintf(stderr, "bench-fault: %s\n", err.msg);
		return rc;
	}
	guest_free(b->guest, true);
	b->guest = NULL;
	pinguard_close(b->guard);
	return 0;
}

static void ebb_print_counters(const struct guest_counters *was, const struct guest_counters *is)
{
#define PRINT_DELTA(member)                                                                        \
	do {                                                                                       \
		if (is->member != was->member)                                                     \
			printf(" %s %llu", #member, (unsigned long long)(is->member - was->member)); \
	} while (0)
	printf("    counters:");
	PRINT_DELTA(faults);
	PRINT_DELTA(wp_faults);
	PRINT_DELTA(removes);
	PRINT_DELTA(refaults);
	PRINT_DELTA(prefetched);
	PRINT_DELTA(zero_filled);
	PRINT_DELTA(evicted);
	PRINT_DELTA(evicted_clean);
	PRINT_DELTA(written);
	PRINT_DELTA(cancel_touched);
	PRINT_DELTA(cancel_pinned);
	PRINT_DELTA(cancel_busy);
	PRINT_DELTA(cancel_large);
	PRINT_DELTA(cancel_error);
	PRINT_DELTA(cancel_unprotected);
	PRINT_DELTA(throttled);
	PRINT_DELTA(over_limit);
	PRINT_DELTA(discarded);
	PRINT_DELTA(hazards);
	PRINT_DELTA(again);
	PRINT_DELTA(read_errors);
	PRINT_DELTA(write_errors);
	PRINT_DELTA(sample_passes);
	PRINT_DELTA(sample_young);
	printf(" sample_ms %llu\n", (unsigned long long)((is->sample_ns - was->sample_ns) / 1000000));
#undef PRINT_DELTA
}

/* --- one measurement ------------------------------------------------------------------------ */

static uint64_t cpu_ns(const struct bench *b, int mode)
{
	uint64_t ns = standin_cpu_ns(&b->standin[mode]);
	struct timespec ts = {0};

	if (mode == MODE_EBB) {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
		ns += (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	}
	return ns;
}

static int check_health(const struct bench *b, int mode)
{
	const struct standin_shared *sh = b->standin[mode].shared;
	uint64_t wrong = atomic_load(&sh->wrong);

	if (wrong) {
		fprintf(stderr, "bench-fault: %s: WRONG BYTES: %llu words; the first: %s\n",
			mode_names[mode], (unsigned long long)wrong, sh->first_wrong);
		return -EILSEQ;
	}
	if (mode == MODE_EBB && b->guest && atomic_load(&b->guest->phase) == GUEST_FAILED) {
		fprintf(stderr, "bench-fault: the guest was stopped: %s\n", b->guest->failure);
		return -EIO;
	}
	if (mode == MODE_EBB && atomic_load(&b->unfit))
		return -EIO;
	if (waitpid(b->standin[mode].pid, NULL, WNOHANG)) {
		fprintf(stderr, "bench-fault: %s: the stand-in guest is gone (killed for lack of memory?)\n",
			mode_names[mode]);
		return -ESRCH;
	}
	return 0;
}

/* Sleep, in steps, so that a guest that failed is noticed. */
static int sleep_and_watch(const struct bench *b, int mode, uint64_t ns)
{
	uint64_t begin = standin_now_ns(), gone = 0;
	int rc = 0;

	while (!rc && gone < ns) {
		usleep((useconds_t)MIN((ns - gone) / 1000 + 1, 100000));
		gone = standin_now_ns() - begin;
		rc = check_health(b, mode);
	}
	return rc;
}

static void summarize(const struct standin_shared *sh, double elapsed_s, double cpu_us,
		      struct bench_sample *ret)
{
	static struct bench_hist hist;
	struct bench_hist *h = &hist;
	uint64_t touches = 0;

	memset(h, 0, sizeof(*h));
	for (unsigned int i = 0; i < STANDIN_THREADS; i++) {
		bench_hist_merge(h, &sh->worker[i].faults);
		touches += sh->worker[i].touches;
	}
	*ret = (struct bench_sample){
		.p50 = bench_hist_quantile(h, .5), .p99 = bench_hist_quantile(h, .99),
		.mean = (double)h->sum_ns / (double)MAX(h->total, 1u) / 1e3,
		.max = (double)h->max_ns / 1e3, .faults = (double)h->total / elapsed_s,
		.touches = (double)touches / elapsed_s, .cpu = cpu_us / (double)MAX(h->total, 1u),
	};
}

static int measure(struct bench *b, int mode, const struct bench_load *load, struct bench_sample *ret)
{
	struct standin *s = &b->standin[mode];
	struct guest_counters was = {0};
	uint64_t t0, c0, t1, c1;
	int rc = standin_run(s, load->threads, load->pattern), stop_rc;

	if (!rc)
		rc = sleep_and_watch(b, mode, b->warm_ms * 1000000ull);
	if (mode == MODE_EBB)
		was = b->guest->c;
	c0 = cpu_ns(b, mode);
	t0 = standin_now_ns();
	atomic_store(&s->shared->phase, STANDIN_MEASURE);
	if (!rc)
		rc = sleep_and_watch(b, mode, (uint64_t)(b->seconds * 1e9));
	atomic_store(&s->shared->phase, STANDIN_STOP);
	t1 = standin_now_ns();
	c1 = cpu_ns(b, mode);
	if (rc)
		return rc;
	if (mode == MODE_EBB && b->verbose)
		ebb_print_counters(&was, &b->guest->c);
	stop_rc = standin_stop(s);
	if (stop_rc)
		return fail("the stand-in guest's threads do not end", stop_rc);
	summarize(s->shared, (double)(t1 - t0) / 1e9, (double)(c1 - c0) / 1e3, ret);
	return check_health(b, mode);
}

static int measure_device(struct bench *b, unsigned int round)
{
	struct bench_sample *d = &b->res.device[round];
	int rc = device_measure(b->device_fd, b->memory, b->seconds / 2, d);

	if (rc)
		return fail("measuring the device", rc);
	printf("round %u, the device alone: p50 %.1f p99 %.1f mean %.1f us\n", round + 1, d->p50, d->p99,
	       d->mean);
	return 0;
}

/* The kernel reads ahead by physical order in its swap: best off for random touches, default for a sweep. */
static void set_page_cluster(const struct bench *b, enum standin_pattern pattern)
{
	FILE *f;

	if (!b->cgroup[MODE_SHMEM] && !b->cgroup[MODE_ANON])
		return;
	f = fopen("/proc/sys/vm/page-cluster", "w");
	if (!f)
		return;
	fprintf(f, "%d\n", pattern == STANDIN_SEQUENTIAL ? 3 : 0);
	fclose(f);
}

static int measure_load(struct bench *b, unsigned int load, unsigned int round)
{
	const struct bench_load *l = &b->res.load[load];

	set_page_cluster(b, l->pattern);
	for (unsigned int i = 0; i < NR_MODES; i++) {
		int mode = (int)((i + round + load) % NR_MODES), rc;
		struct bench_sample *s = &b->res.sample[load][mode][round];

		if (!b->res.has_mode[mode])
			continue;
		rc = measure(b, mode, l, s);
		if (rc)
			return rc;
		printf("round %u, %-19s %2u thr, %-10s: p50 %7.1f p99 %8.1f mean %7.1f max %8.0f us, "
		       "%6.0f faults/s %7.0f touches/s, CPU %5.1f us/fault\n", round + 1,
		       pattern_names[l->pattern], l->threads, mode_names[mode], s->p50, s->p99,
		       s->mean, s->max, s->faults, s->touches, s->cpu);
		fflush(stdout);
		usleep(SETTLE_MS * 1000);
	}
	return 0;
}

static int run_rounds(struct bench *b, bool sequential)
{
	int rc = 0;

	for (unsigned int round = 0; !rc && round < b->rounds; round++) {
		for (unsigned int load = 0; !rc && load < b->res.nr_loads; load++) {
			bool is_sequential = b->res.load[load].pattern == STANDIN_SEQUENTIAL;

			if (is_sequential == sequential)
				rc = measure_load(b, load, round);
		}
		if (!rc && !sequential)
			rc = measure_device(b, round);
	}
	return rc;
}

/*
 * The sequential rounds come first: pages leave memory in the order in which they were written, and lie in
 * that order on disk. After random touches nothing is left of it, and there would be nothing to read ahead.
 */
static int run_all(struct bench *b)
{
	int rc = run_rounds(b, true);

	if (!rc)
		rc = run_rounds(b, false);
	b->res.nr_rounds = b->rounds;
	return rc;
}

/* --- all of it ------------------------------------------------------------------------------ */

static int start_standins(struct bench *b)
{
	for (int m = 0; m < NR_MODES; m++) {
		struct standin_conf conf = {
			.memory = m == MODE_ANON ? STANDIN_ANON : STANDIN_SHARED,
			.bytes = b->memory,
			.cgroup_procs = b->cgroup[m],
		};
		int rc;

		b->res.has_mode[m] = m == MODE_EBB || b->cgroup[m];
		if (!b->res.has_mode[m])
			continue;
		rc = standin_start(&b->standin[m], &conf);
		if (rc)
			return fail("starting a stand-in guest", rc);
	}
	return 0;
}

/* Every word of every page, once while most is evicted and once after ebb has let go. */
static int verify_all(struct bench *b)
{
	const struct standin *s = &b->standin[MODE_EBB];
	int rc = standin_verify(s);

	if (rc)
		return fail("verifying the memory", rc);
	if ((rc = check_health(b, MODE_EBB)) || (rc = ebb_detach(b)))
		return rc;
	rc = standin_verify(s);
	if (rc)
		return fail("verifying the memory", rc);
	rc = check_health(b, MODE_EBB);
	if (!rc)
		printf("\nEvery word of the %llu MiB was compared at the end, under ebb and after it had let "
		       "go: all right.\n", b->memory / MIB);
	return rc;
}

static int run(struct bench *b)
{
	int rc = start_standins(b);

	if (rc)
		return rc;
	rc = device_prepare(b->swap_dir, b->memory, &b->device_fd);
	if (rc)
		return fail(b->swap_dir, rc);
	if ((rc = ebb_attach(b)) || (rc = ebb_wait_for_limit(b)) || (rc = run_all(b)) ||
	    (rc = verify_all(b)))
		return rc;
	report(&b->res);
	return 0;
}

static void usage(FILE *to)
{
	fprintf(to, "usage: fault [OPTIONS]     (scripts/bench-fault prepares swap and cgroups, and cleans up)\n"
		"  --rounds N         (3)          --seconds S    a measurement (3)\n"
		"  --threads N,N,...  (1,4,16,64)  --warm MS      before each (500)\n"
		"  --memory MIB       (1024)       --limit MIB    what may stay of it (512)\n"
		"  --patterns LETTERS r: random reads, w: half writes, s: sequential (rws)\n"
		"  --swap-dir DIR     a file system with O_DIRECT\n"
		"  --state-dir DIR    a tmpfs\n"
		"  --shmem-cgroup FILE, --anon-cgroup FILE   cgroup.procs of cgroups with that limit, with\n"
		"                     swap on; without them ebb runs alone\n"
		"  -v                 ebb's counters for each measurement\n");
}

static void add_loads(struct bench *b, const char *patterns, const char *threads)
{
	static const char letters[] = "rws";

	for (const char *p = patterns; *p; p++) {
		const char *letter = strchr(letters, *p);

		for (const char *t = threads; letter && *t;) {
			char *end;
			unsigned long n = strtoul(t, &end, 10);

			if (n >= 1 && n <= STANDIN_THREADS && b->res.nr_loads < MAX_LOADS)
				b->res.load[b->res.nr_loads++] = (struct bench_load){
					.pattern = (enum standin_pattern)(letter - letters),
					.threads = *p == 's' ? 1 : (unsigned int)n,
				};
			t = *end == ',' && *p != 's' ? end + 1 : "";
		}
	}
}

enum { OPT_ROUNDS = 256, OPT_SECONDS, OPT_THREADS, OPT_WARM, OPT_MEMORY, OPT_LIMIT, OPT_PATTERNS,
       OPT_SWAP, OPT_STATE, OPT_SHMEM, OPT_ANON };

static const struct option options[] = {
	{"rounds", required_argument, NULL, OPT_ROUNDS},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"warm", required_argument, NULL, OPT_WARM},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"limit", required_argument, NULL, OPT_LIMIT},
	{"patterns", required_argument, NULL, OPT_PATTERNS},
	{"swap-dir", required_argument, NULL, OPT_SWAP},
	{"state-dir", required_argument, NULL, OPT_STATE},
	{"shmem-cgroup", required_argument, NULL, OPT_SHMEM},
	{"anon-cgroup", required_argument, NULL, OPT_ANON},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

/* Returns -1 to go on, else the exit code. */
static int parse_options(struct bench *b, int argc, char **argv)
{
	const char *threads = "1,4,16,64", *patterns = "rws";
	int opt;

	while ((opt = getopt_long(argc, argv, "vh", options, NULL)) != -1) {
		switch (opt) {
		case OPT_ROUNDS:
			b->rounds = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case OPT_SECONDS:
			b->seconds = strtod(optarg, NULL);
			break;
		case OPT_THREADS:
			threads = optarg;
			break;
		case OPT_WARM:
			b->warm_ms = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case OPT_MEMORY:
			b->memory = strtoull(optarg, NULL, 10) * MIB;
			break;
		case OPT_LIMIT:
			b->limit = strtoull(optarg, NULL, 10) * MIB;
			break;
		case OPT_PATTERNS:
			patterns = optarg;
			break;
		case OPT_SWAP:
			b->swap_dir = optarg;
			break;
		case OPT_STATE:
			b->state_dir = optarg;
			break;
		case OPT_SHMEM:
			b->cgroup[MODE_SHMEM] = optarg;
			break;
		case OPT_ANON:
			b->cgroup[MODE_ANON] = optarg;
			break;
		case 'v':
			b->verbose = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	add_loads(b, patterns, threads);
	if (optind < argc || !b->res.nr_loads || !b->rounds || b->rounds > MAX_ROUNDS ||
	    !(b->seconds > 0) || b->memory < 64 * MIB || b->limit < 32 * MIB || !b->swap_dir ||
	    !b->state_dir) {
		usage(stderr);
		return 2;
	}
	return -1;
}

int main(int argc, char **argv)
{
	static struct bench b = {
		.rounds = 3, .warm_ms = 500, .seconds = 3,
		.memory = 1024 * MIB, .limit = 512 * MIB, .device_fd = -1,
	};
	int rc = parse_options(&b, argc, argv);

	if (rc >= 0)
		return rc;
	log_init("bench-fault", b.verbose ? LOG_LVL_INFO : LOG_LVL_WARN);
	signal(SIGPIPE, SIG_IGN);
	rc = run(&b);
	for (int m = 0; m < NR_MODES; m++)
		standin_end(&b.standin[m]);
	return rc ? 1 : 0;
}
