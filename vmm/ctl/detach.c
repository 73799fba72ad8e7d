// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * detach.c - detach a guest, and show on a terminal how far it is.
 *
 * The daemon answers detach when the last page is back. That is asked in a thread, while a second
 * connection asks now and then how much is still out.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include "ctl.h"

struct detach {
	const char *socket, *name;
	json_t *value;
	enum ctl_exit status;
	struct ebb_err err;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done;
};

static void *detach_thread(void *arg)
{
	struct detach *d = arg;
	enum ctl_exit status;

	status = client_call(d->socket, "detach", json_pack("{s:s}", "name", d->name),
			     CTL_DETACH_TIMEOUT_MS, &d->value, &d->err);
	pthread_mutex_lock(&d->lock);
	d->status = status;
	d->done = true;
	pthread_cond_signal(&d->ended);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/** detach_wait() - up to half a second; has it ended? */
static bool detach_wait(struct detach *d)
{
	struct timespec until;
	bool done;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 500000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&d->lock);
	while (!d->done && !rc)
		rc = pthread_cond_timedwait(&d->ended, &d->lock, &until);
	done = d->done;
	pthread_mutex_unlock(&d->lock);
	return done;
}

static void detach_watch(struct detach *d)
{
	char left[32];
	json_t *guest;

	while (!detach_wait(d)) {
		if (client_guest(d->socket, d->name, &guest, NULL) != CTL_OK)
			continue;
		fprintf(stderr, "\r%s: %s still to be brought back\033[K", show_text(guest, "name"),
			show_bytes(guest, "evicted", left, sizeof(left)));
		json_decref(guest);
	}
	fputs("\r\033[K", stderr);
}

enum ctl_exit client_detach(const char *socket, const char *name, bool progress, json_t **ret,
			    struct ebb_err *err)
{
	struct detach d = { .socket = socket, .name = name };
	pthread_t thread;

	pthread_mutex_init(&d.lock, NULL);
	pthread_cond_init(&d.ended, NULL);
	if (progress && !pthread_create(&thread, NULL, detach_thread, &d)) {
		detach_watch(&d);
		pthread_join(thread, NULL);
	} else {
		detach_thread(&d);
	}
	pthread_cond_destroy(&d.ended);
	pthread_mutex_destroy(&d.lock);
	if (d.status == CTL_OK)
		*ret = d.value;
	else
		*err = d.err;
	return d.status;
}
