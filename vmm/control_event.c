// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control_event.c - events: from any thread to every client.
 *
 * The raising thread stamps the event, writes it out as text and queues it: what is shared between
 * threads is a string, never a json_t. The main loop is woken and copies the text to each client.
 */
#include <stdlib.h>
#include <string.h>
#include <ebb/log.h>
#include "control_internal.h"

struct event {
	struct event *next;
	char *text; /* without its line end */
};

void control_event(struct control *c, const char *name, json_t *data)
{
	json_t *msg = control_event_message(name, data);
	struct event *e = calloc(1, sizeof(*e));
	bool queued = false;

	if (e)
		e->text = msg ? json_dumps(msg, JSON_ENSURE_ASCII) : NULL;
	json_decref(msg);

	pthread_mutex_lock(&c->lock);
	if (e && e->text && c->nr_events < CONTROL_MAX_EVENTS) {
		*c->events_tail = e;
		c->events_tail = &e->next;
		c->nr_events++;
		queued = true;
	} else {
		c->events_lost++;
	}
	pthread_mutex_unlock(&c->lock);
	control_wake(c);

	if (queued)
		return;
	log_limited(LOG_LVL_WARN, "event %s is lost: %u wait already or memory is short", name,
		    CONTROL_MAX_EVENTS);
	if (e)
		free(e->text);
	free(e);
}

/** event_take() - all that was raised so far; *@ret_lost: those that could not be queued */
static struct event *event_take(struct control *c, uint64_t *ret_lost)
{
	struct event *list;

	pthread_mutex_lock(&c->lock);
	list = c->events;
	*ret_lost = c->events_lost;
	c->events = NULL;
	c->events_tail = &c->events;
	c->nr_events = 0;
	c->events_lost = 0;
	pthread_mutex_unlock(&c->lock);
	return list;
}

static void event_free(struct event *e)
{
	free(e->text);
	free(e);
}

void control_event_flush(struct control *c)
{
	uint64_t lost;
	struct event *e = event_take(c, &lost), *next;
	struct session *s;

	if (!e && !lost)
		return;
	for (; e; e = next) {
		next = e->next;
		for (s = c->sessions; s; s = s->next)
			session_send_event(s, e->text, strlen(e->text));
		event_free(e);
	}
	for (s = c->sessions; s; s = s->next) {
		session_note_lost(s, lost);
		session_poll(s);
	}
}

void control_event_discard(struct control *c)
{
	uint64_t lost;
	struct event *e = event_take(c, &lost), *next;

	for (; e; e = next) {
		next = e->next;
		event_free(e);
	}
}
