// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * watch.c - a command that brings pages back, and on a terminal how far it is.
 *
 * The daemon answers detach and drain when the last page is back. That is asked in a thread, while a second
 * connection asks now and then how much is still out.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "ctl.h"

struct watched {
	const char *socket, *command, *name;
	json_t *args, *value;
	enum ctl_exit status;
	struct ebb_err err;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done;
};

static void *call_thread(void *arg)
{
	struct watched *w = arg;
	enum ctl_exit status;

	status = client_call(w->socket, w->command, w->args, CTL_DRAIN_TIMEOUT_MS, &w->value, &w->err);
	pthread_mutex_lock(&w->lock);
	w->status = status;
	w->done = true;
	pthread_cond_signal(&w->ended);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/** wait_a_little() - up to half a second; has it ended? */
static bool wait_a_little(struct watched *w)
{
	struct timespec until;
	bool done;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 500000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&w->lock);
	while (!w->done && !rc)
		rc = pthread_cond_timedwait(&w->ended, &w->lock, &until);
	done = w->done;
	pthread_mutex_unlock(&w->lock);
	return done;
}

static void show_progress(const json_t *guest)
{
	const json_t *drain = json_object_get(guest, "drain");
	char left[32], rate[32];

	if (!drain)
		return;
	fprintf(stderr, "\r%s: %s still to be brought back, %s/s\033[K", show_text(guest, "name"),
		show_bytes(drain, "left", left, sizeof(left)),
		show_bytes(drain, "rate", rate, sizeof(rate)));
}

static void watch(struct watched *w)
{
	json_t *guests, *guest;
	size_t i;

	while (!wait_a_little(w)) {
		if (client_call(w->socket, "query-guests", NULL, CTL_TIMEOUT_MS, &guests, NULL) != CTL_OK)
			continue;
		json_array_foreach(guests, i, guest)
			if (!w->name || !strcmp(show_text(guest, "name"), w->name))
				show_progress(guest);
		json_decref(guests);
	}
	fputs("\r\033[K", stderr);
}

enum ctl_exit client_watch(const char *socket, const char *command, const char *name, json_t *args,
			   bool progress, json_t **ret, struct ebb_err *err)
{
	struct watched w = { .socket = socket, .command = command, .name = name, .args = args };
	pthread_t thread;

	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.ended, NULL);
	if (progress && !pthread_create(&thread, NULL, call_thread, &w)) {
		watch(&w);
		pthread_join(thread, NULL);
	} else {
		call_thread(&w);
	}
	pthread_cond_destroy(&w.ended);
	pthread_mutex_destroy(&w.lock);
	if (w.status == CTL_OK)
		*ret = w.value;
	else
		*err = w.err;
	return w.status;
}
