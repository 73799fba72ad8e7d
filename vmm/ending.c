// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ending.c - the end of the daemon: bring back, or hand over; the theory is in ending.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <ebb/log.h>
#include "ending.h"

static const char *const mode_names[] = {
	[END_AUTO] = "auto",
	[END_BRING_BACK] = "bring-back",
	[END_HAND_OVER] = "hand-over",
};

int ending_parse(const char *text, enum end_mode *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++) {
		if (!strcmp(text, mode_names[i])) {
			*ret = (enum end_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* A drain or detach that runs would bring everything back first. */
static void call_off_drains(struct daemon *d)
{
	pthread_mutex_lock(&d->lock);
	for (struct guest *g = d->guests; g; g = g->next)
		atomic_store(&g->ending, true);
	pthread_mutex_unlock(&d->lock);
}

/* @g is claimed. True: it is gone. False: it is to be handed over. */
static bool bring_back(struct daemon *d, struct guest *g, enum end_mode mode)
{
	struct ebb_err err;

	if (mode == END_HAND_OVER)
		return false;
	if (!daemon_let_go(d, g, "ebbd ends", mode == END_AUTO, &err))
		return true;
	log_err("%s: not brought back: %s", g->name, err.msg);
	return false;
}

/* Takes every guest off the list; returns those to be handed over, which still work. */
static struct guest *take_all(struct daemon *d, enum end_mode mode)
{
	struct guest *left = NULL, *g;
	bool empty;

	for (;;) {
		g = daemon_claim_any(d, &empty);
		if (empty)
			return left;
		if (!g) { /* in the hands of a thread that lets it go: daemon_unfit() */
			usleep(10000);
		} else if (!bring_back(d, g, mode)) {
			daemon_remove(d, g);
			g->next = left;
			left = g;
		}
	}
}

static unsigned int hand_over(struct guest *left)
{
	unsigned int nr = 0;

	for (struct guest *g = left, *next; g; g = next, nr++) {
		next = g->next;
		guest_hand_over(g);
	}
	return nr;
}

unsigned int ending_run(struct daemon *d, enum end_mode mode)
{
	struct guest *left;

	if (mode == END_HAND_OVER)
		call_off_drains(d);
	control_finish_jobs(d->control); /* an attach that runs adds its guest first */
	left = take_all(d, mode);
	sampler_free(d->sampler);
	return hand_over(left);
}
