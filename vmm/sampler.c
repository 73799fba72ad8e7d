// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sampler.c - the sampling thread: asks the core of each guest whether a look is worth it, and ages.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <ebb/log.h>
#include "sampler.h"
#include "watch.h"

#define PERIOD_MS 100 /* how soon a guest that needs aging is noticed without a kick */

struct sampler {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool kicked, stop;
	struct sampler_host host;
};

/* What a page found young costs the guest, which faults it in again after the zap: a minor fault. */
#define REFAULT_NS 1300

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* If a pass is worth it, it begins. */
static bool begin_pass(struct guest *g)
{
	bool want;

	if (atomic_load(&g->phase) != GUEST_MANAGED)
		return false;
	guest_lock_lru(g);
	want = reclaim_should_scan(g->lru, atomic_load(&g->resident));
	if (want)
		reclaim_begin_pass(g->lru, false);
	guest_unlock_lru(g);
	return want;
}

/* Tells once when thrashing begins, and is ready to tell again when it has ended. */
static void watch_thrashing(struct guest *g, bool thrashing)
{
	if (thrashing && !g->thrashing)
		guest_event(g, "THRASHING",
			    json_pack("{s:I,s:I}", "limit",
				      (json_int_t)pages_to_bytes(atomic_load(&g->limit)), "resident",
				      (json_int_t)pages_to_bytes(atomic_load(&g->resident))));
	g->thrashing = thrashing;
}

static void sample_guest(struct guest *g)
{
	uint64_t begun = guest_now_ns(), cpu = thread_cpu_ns();
	uint64_t young = 0;
	bool thrashing;
	int rc;

	if (!begin_pass(g))
		return;
	rc = sampler_zap_pass(g, &young);
	if (rc && rc != -ECANCELED && rc != -ESRCH)
		log_limited(LOG_LVL_WARN, "%s: sampling: %s", g->name, strerror(-rc));
	if (rc)
		return;
	guest_lock_lru(g);
	reclaim_end_pass(g->lru, thread_cpu_ns() - cpu + young * REFAULT_NS);
	thrashing = reclaim_is_thrashing(g->lru);
	guest_unlock_lru(g);
	watch_thrashing(g, thrashing);
	guest_count(&g->c.sample_passes, 1);
	guest_count(&g->c.sample_ns, guest_now_ns() - begun);
	guest_count(&g->c.sample_young, young);
	guest_kick(g->evictor_kick);
}

static void visit_guests(const struct sampler_host *host)
{
	struct ebb_err why;

	for (struct guest *g = host->next(host->arg, NULL); g; g = host->next(host->arg, g)) {
		if (watch_guest(g, &why))
			sample_guest(g);
		else
			host->unfit(host->arg, g, why.msg);
	}
}

static void *sampler_main(void *arg)
{
	struct sampler *s = arg;

	pthread_setname_np(pthread_self(), "ebb-sample");
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		struct timespec until;

		pthread_mutex_unlock(&s->lock);
		visit_guests(&s->host);
		ioflow_update(guest_now_ns());
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PERIOD_MS * 1000000L;
		if (until.tv_nsec >= 1000000000L) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000L;
		}
		pthread_mutex_lock(&s->lock);
		while (!s->kicked && !s->stop &&
		       pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
			;
		s->kicked = false;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int sampler_new(const struct sampler_host *host, struct sampler **ret)
{
	struct sampler *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	int rc;

	if (!s)
		return -ENOMEM;
	s->host = *host;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
	rc = -pthread_create(&s->thread, NULL, sampler_main, s);
	if (rc) {
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void sampler_kick(struct sampler *s)
{
	pthread_mutex_lock(&s->lock);
	s->kicked = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

void sampler_free(struct sampler *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
