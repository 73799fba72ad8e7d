// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control_session.c - one client's bytes: in, out, bounded.
 *
 * DOC: what a client can make us hold
 *
 *   in    SESSION_READ bytes and one value in the framer.
 *   out   Commands are taken only while less than SESSION_OUT_PAUSE of output is unread, so that
 *         replies cannot pile up: a client that asks and does not read is not heard, and blocks
 *         in its own send. Events nobody asked for are dropped above SESSION_OUT_EVENTS, and
 *         from the first one dropped until all output is read: the gap is in one place, where
 *         EVENTS_LOST says how wide it is.
 *
 * Hence at most SESSION_OUT_EVENTS and one reply. The descriptor is level-triggered and polled
 * for exactly what the session could act on; a peer that is gone is reported by epoll even when
 * nothing is polled for, so a session that cannot act on that yet (its slow command runs) leaves
 * the epoll set.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "control_internal.h"

static size_t session_unsent(const struct session *s)
{
	return s->out_len - s->out_pos;
}

/** session_may_take() - is the next command welcome? */
static bool session_may_take(const struct session *s)
{
	return !s->dead && !s->busy && session_unsent(s) < SESSION_OUT_PAUSE;
}

static int session_make_room(struct session *s, size_t len)
{
	size_t need, cap = s->out_cap ? s->out_cap : 4096;
	char *out;

	if (s->out_pos) {
		memmove(s->out, s->out + s->out_pos, session_unsent(s));
		s->out_len -= s->out_pos;
		s->out_pos = 0;
	}
	need = s->out_len + len;
	while (cap < need)
		cap *= 2;
	if (cap == s->out_cap)
		return 0;
	out = realloc(s->out, cap);
	if (!out)
		return -ENOMEM;
	s->out = out;
	s->out_cap = cap;
	return 0;
}

/** session_queue() - one line; a session that misses a part of one is of no more use */
static void session_queue(struct session *s, const char *text, size_t len)
{
	if (s->dead || s->mute)
		return;
	if (session_make_room(s, len + 2)) {
		s->dead = true;
		return;
	}
	memcpy(s->out + s->out_len, text, len);
	memcpy(s->out + s->out_len + len, "\r\n", 2);
	s->out_len += len + 2;
}

static void session_queue_json(struct session *s, json_t *msg)
{
	char *text = msg ? json_dumps(msg, JSON_ENSURE_ASCII) : NULL;

	json_decref(msg);
	if (text)
		session_queue(s, text, strlen(text));
	else
		s->dead = true;
	free(text);
}

/** session_mute() - nobody reads any more; what was sent to us before that is still carried out */
static void session_mute(struct session *s)
{
	s->mute = true;
	s->events_lost = 0;
	s->out_pos = s->out_len = 0;
}

static void session_push_out(struct session *s)
{
	while (!s->dead && session_unsent(s)) {
		ssize_t n = send(s->fd, s->out + s->out_pos, session_unsent(s),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0)
			s->out_pos += (size_t)n;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			return;
		else if (errno != EINTR)
			session_mute(s);
	}
}

/** session_flush() - send what the socket takes; what was missed is told once all is read */
static void session_flush(struct session *s)
{
	session_push_out(s);
	if (s->dead || session_unsent(s))
		return;
	if (s->events_lost) {
		json_t *data = json_pack("{s:I}", "count", (json_int_t)s->events_lost);

		s->events_lost = 0;
		session_queue_json(s, control_event_message("EVENTS_LOST", data));
		session_push_out(s);
	}
	if (!session_unsent(s) && s->out_cap > SESSION_OUT_PAUSE) {
		free(s->out);
		s->out = NULL;
		s->out_pos = s->out_len = s->out_cap = 0;
	}
}

void session_send(struct session *s, json_t *msg)
{
	session_queue_json(s, msg);
	session_flush(s);
}

void session_send_event(struct session *s, const char *text, size_t len)
{
	if (s->dead || s->mute || !s->negotiated)
		return;
	if (s->events_lost || session_unsent(s) + len > SESSION_OUT_EVENTS) {
		s->events_lost++;
		session_flush(s);
		return;
	}
	session_queue(s, text, len);
	session_flush(s);
}

void session_note_lost(struct session *s, uint64_t nr)
{
	if (s->dead || s->mute || !s->negotiated || !nr)
		return;
	s->events_lost += nr;
	session_flush(s);
}

/** session_take() - run the commands that were received, as long as they are welcome */
static void session_take(struct session *s)
{
	while (s->in_pos < s->in_len && session_may_take(s)) {
		size_t used;

		switch (framer_push(&s->framer, s->in + s->in_pos, s->in_len - s->in_pos, &used)) {
		case FRAMER_VALUE:
			control_handle(s, s->framer.text, s->framer.len);
			break;
		case FRAMER_ERROR:
			session_send(s, control_error_message(NULL, "GenericError",
							      s->framer.error));
			break;
		case FRAMER_MORE:
			break;
		}
		s->in_pos += used;
	}
}

static void session_receive(struct session *s)
{
	ssize_t n;

	if (s->eof || s->in_pos < s->in_len || !session_may_take(s))
		return;
	do
		n = recv(s->fd, s->in, sizeof(s->in), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		s->in_pos = 0;
		s->in_len = (size_t)n;
	} else if (n == 0) {
		s->eof = true;
	} else if (errno != EAGAIN && errno != EWOULDBLOCK) {
		s->dead = true;
	}
}

void session_run(struct session *s)
{
	session_flush(s);
	session_take(s);
	session_receive(s);
	session_take(s);
	/* A client may close its sending side and still wait for the replies. */
	if (s->eof && !s->busy && s->in_pos == s->in_len && !session_unsent(s))
		s->dead = true;
	session_poll(s);
}

void session_hangup(struct session *s)
{
	session_mute(s);
	session_run(s);
	if (s->dead || !s->busy || !s->polled)
		return;
	/* Reported for ever, and nothing to be done before the command ends: look away. */
	epoll_ctl(s->c->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
	s->polled = false;
}

void session_poll(struct session *s)
{
	struct epoll_event ev = { .data.u64 = s->serial };

	if (s->dead || (s->mute && s->busy))
		return;
	if (!s->eof && s->in_pos == s->in_len && session_may_take(s))
		ev.events |= EPOLLIN;
	if (session_unsent(s))
		ev.events |= EPOLLOUT;
	if (s->polled && ev.events == s->poll_events)
		return;
	if (epoll_ctl(s->c->epoll_fd, s->polled ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->fd, &ev)) {
		s->dead = true;
		return;
	}
	s->polled = true;
	s->poll_events = ev.events;
}

struct session *session_open(struct control *c, int fd)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s) {
		close(fd);
		return NULL;
	}
	s->c = c;
	s->fd = fd;
	s->serial = c->next_serial++;
	framer_init(&s->framer, FRAMER_MAX_BYTES, FRAMER_MAX_TOKENS);
	session_send(s, control_greeting());
	session_poll(s);
	return s;
}

void session_free(struct session *s)
{
	close(s->fd);
	framer_free(&s->framer);
	json_decref(s->busy_id);
	free(s->out);
	free(s);
}
