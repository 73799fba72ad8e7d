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

static bool wants_sample(struct guest *g, uint64_t now)
{
	uint32_t resident = atomic_load(&g->resident);
	bool want;

	if (atomic_load(&g->phase) != GUEST_MANAGED || g->order == RECLAIM_ORDER_RANDOM)
		return false;
	pthread_mutex_lock(&g->lru_lock);
	want = reclaim_should_age(g->lru, resident, now);
	pthread_mutex_unlock(&g->lru_lock);
	return want;
}

static void sample_guest(struct guest *g)
{
	uint64_t begun = guest_now_ns(), now;
	int rc;

	if (!wants_sample(g, begun))
		return;
	rc = sampler_zap_pass(g);
	now = guest_now_ns();
	if (rc && rc != -ECANCELED && rc != -ESRCH)
		log_limited(LOG_LVL_WARN, "%s: sampling: %s", g->name, strerror(-rc));
	if (rc)
		return;
	pthread_mutex_lock(&g->lru_lock);
	reclaim_age(g->lru, now);
	pthread_mutex_unlock(&g->lru_lock);
	guest_count(&g->c.sample_passes, 1);
	guest_count(&g->c.sample_ns, now - begun);
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
