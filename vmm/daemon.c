// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * daemon.c - the list of guests and who may work on which; the rules are in daemon.h.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <ebb/log.h>
#include "daemon.h"

struct guest_conf daemon_guest_conf(const struct daemon *d)
{
	return (struct guest_conf){
		.limit = UINT64_MAX,
		.state_dir = d->conf.state_dir,
		.swap_dir = d->conf.swap_dir,
		.policy = d->conf.policy,
		.seed = d->conf.seed,
		.any_process = d->conf.any_process,
		.guard = d->guard,
		.guard_delay_ms = d->conf.pin_delay_ms,
		.drain_reserve = d->conf.drain_reserve,
	};
}

struct guest *daemon_find(struct daemon *d, const char *name)
{
	struct guest *g = d->guests;

	while (g && strcmp(g->name, name))
		g = g->next;
	return g;
}

int daemon_add(struct daemon *d, struct guest *g)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = g};
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	if (daemon_find(d, g->name)) {
		rc = -EEXIST;
	} else if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, g->pidfd, &ev)) {
		rc = -errno;
	} else {
		g->busy = true;
		g->next = d->guests;
		d->guests = g;
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

struct guest *daemon_claim_exited(struct daemon *d, const struct guest *which)
{
	struct guest *g;

	pthread_mutex_lock(&d->lock);
	for (g = d->guests; g && g != which; g = g->next)
		;
	if (g && !g->busy) { /* the address may be that of a later guest */
		struct pollfd pfd = {.fd = g->pidfd, .events = POLLIN};

		if (poll(&pfd, 1, 0) == 1)
			g->busy = true;
		else
			g = NULL;
	} else {
		g = NULL;
	}
	pthread_mutex_unlock(&d->lock);
	return g;
}

struct guest *daemon_claim_any(struct daemon *d, bool *ret_empty)
{
	struct guest *g;

	pthread_mutex_lock(&d->lock);
	*ret_empty = !d->guests;
	for (g = d->guests; g && g->busy; g = g->next)
		;
	if (g)
		g->busy = true;
	pthread_mutex_unlock(&d->lock);
	return g;
}

struct guest *daemon_claim(struct daemon *d, const char *name, int *ret_rc)
{
	struct guest *g;

	pthread_mutex_lock(&d->lock);
	g = daemon_find(d, name);
	if (!g || g->busy) {
		*ret_rc = g ? -EBUSY : -ENOENT;
		g = NULL;
	} else {
		g->busy = true;
	}
	pthread_mutex_unlock(&d->lock);
	return g;
}

void daemon_release(struct daemon *d, struct guest *g)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = g};

	pthread_mutex_lock(&d->lock);
	g->busy = false;
	/* It may have exited meanwhile: the event comes again. */
	epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, g->pidfd, &ev);
	pthread_cond_broadcast(&d->released);
	pthread_mutex_unlock(&d->lock);
}

void daemon_remove(struct daemon *d, struct guest *g)
{
	struct guest **at;

	pthread_mutex_lock(&d->lock);
	while (d->held == g)
		pthread_cond_wait(&d->released, &d->lock);
	for (at = &d->guests; *at != g; at = &(*at)->next)
		;
	*at = g->next;
	epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, g->pidfd, NULL);
	pthread_cond_broadcast(&d->released);
	pthread_mutex_unlock(&d->lock);
}

struct guest *daemon_next_guest(void *arg, struct guest *last)
{
	struct daemon *d = arg;
	struct guest *g;

	pthread_mutex_lock(&d->lock);
	g = last ? last->next : d->guests;
	while (g && g->busy)
		g = g->next;
	d->held = g;
	pthread_cond_broadcast(&d->released);
	pthread_mutex_unlock(&d->lock);
	return g;
}

void daemon_keep_sampler_off(struct daemon *d, struct guest *g)
{
	pthread_mutex_lock(&d->lock);
	while (d->held == g)
		pthread_cond_wait(&d->released, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

int daemon_let_go(struct daemon *d, struct guest *g, const char *reason, bool watch,
		  struct ebb_err *err)
{
	int rc;

	daemon_keep_sampler_off(d, g); /* a detach takes the ring away */
	rc = guest_detach(g, watch, err);
	if (rc)
		return rc;
	guest_event(g, "GUEST_DETACHED", json_pack("{s:s}", "reason", reason));
	daemon_remove(d, g);
	guest_free(g, true);
	return 0;
}

struct unfit {
	struct daemon *d;
	char name[64];
	char why[512];
};

static void *let_unfit_go(void *arg)
{
	struct unfit *u = arg;
	struct ebb_err err;
	struct guest *g;
	int rc;

	g = daemon_claim(u->d, u->name, &rc);
	if (g) {
		log_err("%s: %s; bringing its pages back and letting go", u->name, u->why);
		guest_event(g, "HAZARD", json_pack("{s:s}", "reason", u->why));
		if (daemon_let_go(u->d, g, u->why, false, &err)) {
			log_err("%s", err.msg);
			daemon_release(u->d, g);
		}
	}
	free(u);
	return NULL;
}

void daemon_unfit(void *arg, struct guest *g, const char *why)
{
	struct unfit *u = calloc(1, sizeof(*u));
	pthread_attr_t attr;
	pthread_t thread;

	if (!u)
		return; /* asked again in a moment */
	u->d = arg;
	snprintf(u->name, sizeof(u->name), "%s", g->name);
	snprintf(u->why, sizeof(u->why), "%s", why);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, let_unfit_go, u))
		free(u);
	pthread_attr_destroy(&attr);
}
