// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fair.c - the fairness benchmark: what calm guests feel of one that thrashes.
 *
 * DOC: what is measured
 *
 * Some calm stand-in guests (standin.h) touch a hot set that fits their limit, slowly, and now and then a page
 * from anywhere: a few refaults a second. Beside them a bully has ten times the memory that its limit lets it
 * keep, and threads that touch all of it at random, as fast as they can. This process does what the daemon
 * does. In each round the calm ones are measured with the bully at rest, and with the bully at work;
 * what they feel is the latency of their faults, and the number of their pages that had to come back.
 *
 * The bully's threads take CPU from the calm guests too, as a neighbour's vCPUs do, which nothing here can
 * change: for comparison, in one scene as many threads as the bully has only burn CPU; and in one the bully
 * works and the shares of the disk are off.
 */
#include <getopt.h>
#include <ebb/log.h>
#include "guest.h"
#include "sampler.h"
#include "standin.h"

#define MIB	   (1ull << 20)
#define MAX_CALM   8u
#define MAX_ROUNDS 20u

enum scene { SCENE_ALONE, SCENE_CPU, SCENE_NO_SHARES, SCENE_SHARES, NR_SCENES };
static const char *const scene_names[] = {"nobody", "threads that burn CPU", "bully, no I/O shares", "bully, I/O shares"};

struct fair_sample {
	double p50, p99, max, faults, touches, bully;
};

struct fair {
	unsigned int nr_calm, rounds, bully_threads, warm_ms;
	double seconds;
	const char *state_dir, *swap_dir;
	struct standin calm[MAX_CALM], bully;
	struct guest *guests[MAX_CALM + 1]; /* the bully is the last */
	struct pinguard *guard;
	struct sampler *sampler;
	struct fair_sample sample[NR_SCENES][MAX_ROUNDS];
	_Atomic bool hog;
};

static int fail(const char *what, int rc)
{
	fprintf(stderr, "bench-fair: %s: %s\n", what, strerror(-rc));
	return rc;
}

/* The bully is the last. */
static struct standin *standin_of(struct fair *f, unsigned int i)
{
	return i < f->nr_calm ? &f->calm[i] : &f->bully;
}

static struct guest *next_guest(void *arg, struct guest *last)
{
	struct fair *f = arg;
	unsigned int i = 0;

	while (last && f->guests[i] != last)
		i++;
	return last ? i < f->nr_calm ? f->guests[i + 1] : NULL : f->guests[0];
}

static void guest_unfit(void *arg, struct guest *g, const char *why)
{
	(void)arg;
	fprintf(stderr, "bench-fair: %s must be let go: %s\n", g->name, why);
	exit(1);
}

static int attach(struct fair *f, unsigned int i, const char *name, uint64_t limit)
{
	struct guest_conf conf = {
		.name = name, .limit = limit, .state_dir = f->state_dir, .swap_dir = f->swap_dir,
		.any_process = true, .guard = f->guard, .policy = reclaim_policy_default(),
	};
	struct ebb_err err;
	int rc = guest_attach(standin_of(f, i)->pid, &conf, &f->guests[i], &err);

	if (rc)
		fprintf(stderr, "bench-fair: %s\n", err.msg);
	return rc;
}

/* All are started before one is attached: a child inherits descriptors that an attach looks for. */
static int start_guests(struct fair *f)
{
	static const struct standin_conf calm = {.bytes = 128 * MIB, .rest_us = 500, .fault_ns = 40000};
	static const struct standin_conf bully = {.bytes = 640 * MIB};
	const struct sampler_host host = {.next = next_guest, .unfit = guest_unfit, .arg = f};
	struct ebb_err err;
	int rc = 0;

	for (unsigned int i = 0; !rc && i <= f->nr_calm; i++)
		rc = standin_start(standin_of(f, i), i < f->nr_calm ? &calm : &bully);
	if (rc)
		return fail("starting a stand-in guest", rc);
	rc = pinguard_open(&f->guard, &err);
	if (rc) {
		fprintf(stderr, "bench-fair: %s\n", err.msg);
		return rc;
	}
	for (unsigned int i = 0; !rc && i <= f->nr_calm; i++) {
		char name[16] = "bully";

		if (i < f->nr_calm)
			snprintf(name, sizeof(name), "calm-%u", i);
		rc = attach(f, i, name, i < f->nr_calm ? 96 * MIB : 64 * MIB);
	}
	return rc ? rc : sampler_new(&host, &f->sampler);
}

static int wait_for_limits(const struct fair *f)
{
	for (unsigned int i = 0; i <= f->nr_calm; i++)
		for (unsigned int ms = 0; atomic_load(&f->guests[i]->resident) >
					  atomic_load(&f->guests[i]->limit); ms += 10) {
			if (ms > 60000)
				return fail("a stand-in does not get below its limit", -ETIMEDOUT);
			usleep(10000);
		}
	return 0;
}

static void *hog_main(void *arg)
{
	struct fair *f = arg;
	volatile uint64_t x = 0;

	while (atomic_load_explicit(&f->hog, memory_order_relaxed))
		x = x + 1;
	return NULL;
}

static int check_health(struct fair *f)
{
	for (unsigned int i = 0; i <= f->nr_calm; i++) {
		const struct standin *s = standin_of(f, i);

		if (atomic_load(&s->shared->wrong)) {
			fprintf(stderr, "bench-fair: %s: WRONG BYTES: %s\n", f->guests[i]->name,
				s->shared->first_wrong);
			return -EILSEQ;
		}
		if (atomic_load(&f->guests[i]->phase) == GUEST_FAILED) {
			fprintf(stderr, "bench-fair: %s was stopped: %s\n", f->guests[i]->name,
				f->guests[i]->failure);
			return -EIO;
		}
	}
	return 0;
}

static void set_phase(struct fair *f, enum standin_phase phase)
{
	for (unsigned int i = 0; i < f->nr_calm; i++)
		atomic_store(&f->calm[i].shared->phase, phase);
}

static uint64_t refaults(const struct fair *f, unsigned int from, unsigned int to)
{
	uint64_t n = 0;

	for (unsigned int i = from; i < to; i++)
		n += atomic_load(&f->guests[i]->c.refaults);
	return n;
}

static void summarize(const struct fair *f, struct fair_sample *ret)
{
	static struct bench_hist h;
	uint64_t touches = 0;

	memset(&h, 0, sizeof(h));
	for (unsigned int i = 0; i < f->nr_calm; i++)
		for (unsigned int t = 0; t < STANDIN_THREADS; t++) {
			bench_hist_merge(&h, &f->calm[i].shared->worker[t].faults);
			touches += f->calm[i].shared->worker[t].touches;
		}
	ret->p50 = bench_hist_quantile(&h, .5);
	ret->p99 = bench_hist_quantile(&h, .99);
	ret->max = (double)h.max_ns / 1e3;
	ret->touches = (double)touches / f->seconds;
}

static int measure(struct fair *f, enum scene scene, struct fair_sample *ret)
{
	pthread_t hog[STANDIN_THREADS];
	uint64_t calm, bully;
	int rc = 0;

	atomic_store(&f->hog, true);
	for (unsigned int i = 0; scene == SCENE_CPU && i < f->bully_threads; i++)
		pthread_create(&hog[i], NULL, hog_main, f);
	ioflow_set_enabled(scene != SCENE_NO_SHARES);
	if (scene == SCENE_NO_SHARES || scene == SCENE_SHARES)
		rc = standin_run(&f->bully, f->bully_threads, STANDIN_HALF_WRITES);
	for (unsigned int i = 0; !rc && i < f->nr_calm; i++)
		rc = standin_run(&f->calm[i], 2, STANDIN_HOT);
	if (rc)
		return fail("starting a run", rc);
	usleep(f->warm_ms * 1000);
	calm = refaults(f, 0, f->nr_calm);
	bully = refaults(f, f->nr_calm, f->nr_calm + 1);
	set_phase(f, STANDIN_MEASURE);
	usleep((useconds_t)(f->seconds * 1e6));
	set_phase(f, STANDIN_WARM);
	ret->faults = (double)(refaults(f, 0, f->nr_calm) - calm) / f->seconds;
	ret->bully = (double)(refaults(f, f->nr_calm, f->nr_calm + 1) - bully) / f->seconds;
	for (unsigned int i = 0; !rc && i < f->nr_calm; i++)
		rc = standin_stop(&f->calm[i]);
	if (!rc && (scene == SCENE_NO_SHARES || scene == SCENE_SHARES))
		rc = standin_stop(&f->bully);
	atomic_store(&f->hog, false);
	for (unsigned int i = 0; scene == SCENE_CPU && i < f->bully_threads; i++)
		pthread_join(hog[i], NULL);
	if (rc)
		return fail("threads do not come back from a fault", rc);
	summarize(f, ret);
	return check_health(f);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const struct fair *f, enum scene scene, size_t member)
{
	double v[MAX_ROUNDS];

	for (unsigned int i = 0; i < f->rounds; i++)
		memcpy(&v[i], (const char *)&f->sample[scene][i] + member, sizeof(v[i]));
	qsort(v, f->rounds, sizeof(v[0]), compare_doubles);
	return v[f->rounds / 2];
}

static void report(const struct fair *f)
{
	printf("\nMedians of %u rounds; %u calm guests, together.\n\n"
	       "| beside                  | p50 us | p99 us | max us | refaults/s | touches/s | bully's refaults/s |\n"
	       "|:------------------------|-------:|-------:|-------:|-----------:|----------:|-------------------:|\n",
	       f->rounds, f->nr_calm);
#define MEDIAN(member) median(f, (enum scene)s, offsetof(struct fair_sample, member))
	for (int s = 0; s < NR_SCENES; s++)
		printf("| %-23s | %6.0f | %6.0f | %6.0f | %10.1f | %9.0f | %18.0f |\n", scene_names[s],
		       MEDIAN(p50), MEDIAN(p99), MEDIAN(max), MEDIAN(faults), MEDIAN(touches),
		       MEDIAN(bully));
#undef MEDIAN
}

static int run(struct fair *f)
{
	int rc = start_guests(f);

	if (!rc)
		rc = wait_for_limits(f);
	for (unsigned int round = 0; !rc && round < f->rounds; round++)
		for (int s = 0; !rc && s < NR_SCENES; s++) {
			struct fair_sample *r = &f->sample[s][round];

			rc = measure(f, (enum scene)s, r);
			printf("round %u, beside %-23s: p50 %5.0f p99 %6.0f max %7.0f us, %5.1f refaults/s %6.0f "
			       "touches/s, bully %5.0f refaults/s\n", round + 1, scene_names[s], r->p50,
			       r->p99, r->max, r->faults, r->touches, r->bully);
			fflush(stdout);
		}
	for (unsigned int i = 0; !rc && i <= f->nr_calm; i++) {
		rc = standin_verify(standin_of(f, i));
		if (!rc)
			rc = check_health(f);
	}
	if (!rc)
		report(f);
	return rc;
}

static void usage(FILE *to)
{
	fputs("usage: fair --swap-dir DIR --state-dir DIR [OPTIONS]     (make bench-fair)\n"
	      "  --calm N (3)  --threads N of the bully (8)  --rounds N (5)  --seconds S each (5)\n"
	      "  -v            ebbd's log\n", to);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"calm", required_argument, NULL, 'c'},	    {"threads", required_argument, NULL, 't'},
		{"rounds", required_argument, NULL, 'r'},   {"seconds", required_argument, NULL, 's'},
		{"swap-dir", required_argument, NULL, 'S'}, {"state-dir", required_argument, NULL, 'D'},
		{"help", no_argument, NULL, 'h'},	    {0},
	};
	static struct fair f = {.nr_calm = 3, .rounds = 5, .bully_threads = 8, .seconds = 5, .warm_ms = 1000};
	bool verbose = false;
	int opt, rc;

	while ((opt = getopt_long(argc, argv, "vh", options, NULL)) != -1) {
		switch (opt) {
		case 'c': f.nr_calm = (unsigned int)strtoul(optarg, NULL, 10); break;
		case 't': f.bully_threads = (unsigned int)strtoul(optarg, NULL, 10); break;
		case 'r': f.rounds = (unsigned int)strtoul(optarg, NULL, 10); break;
		case 's': f.seconds = strtod(optarg, NULL); break;
		case 'S': f.swap_dir = optarg; break;
		case 'D': f.state_dir = optarg; break;
		case 'v': verbose = true; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (optind < argc || f.nr_calm < 1 || f.nr_calm > MAX_CALM || f.bully_threads < 1 ||
	    f.bully_threads > STANDIN_THREADS || f.rounds < 1 || f.rounds > MAX_ROUNDS ||
	    !(f.seconds > 0) || !f.swap_dir || !f.state_dir) {
		usage(stderr);
		return 2;
	}
	log_init("bench-fair", verbose ? LOG_LVL_INFO : LOG_LVL_WARN);
	signal(SIGPIPE, SIG_IGN);
	rc = run(&f);
	for (unsigned int i = 0; i < f.nr_calm; i++)
		standin_end(&f.calm[i]);
	standin_end(&f.bully);
	return rc ? 1 : 0;
}
