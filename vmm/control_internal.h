/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control_internal.h - what the files of the control socket share; not for others.
 *
 *   control.c          the server: listening, epoll, accepting, closing
 *   control_event.c    events: from any thread to every client
 *   control_job.c      slow commands in threads
 *   control_session.c  one client's bytes: in, out, bounded
 *   control_qmp.c      one client's messages: negotiation, commands, replies
 *   control_args.c     arguments against a command's table
 */
#ifndef VMM_CONTROL_INTERNAL_H
#define VMM_CONTROL_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>
#include "control.h"
#include "framer.h"

#define CONTROL_MAX_SESSIONS 64
#define CONTROL_MAX_JOBS     16
#define CONTROL_MAX_EVENTS   1024 /* raised and not yet handed to the sessions */

#define SESSION_READ	   4096		/* bytes read at once: what one client gets of a dispatch */
#define SESSION_OUT_PAUSE  (64u << 10)	/* unread output above this: take no further command */
#define SESSION_OUT_EVENTS (256u << 10) /* unread output above this: drop events */

struct event;
struct job;

struct session {
	struct session *next;
	struct control *c;
	uint64_t serial; /* its epoll data, and how a job finds it again */
	int fd;
	bool negotiated;
	bool busy; /* a slow command of it runs: the next must wait */
	bool eof;  /* it will send no more */
	bool mute; /* it will read no more: output is dropped */
	bool dead; /* freed at the end of the dispatch */
	bool polled;
	uint32_t poll_events;
	json_t *busy_id; /* the slow command's id, may be NULL */
	struct framer framer;
	char in[SESSION_READ];
	size_t in_pos, in_len;
	char *out;
	size_t out_pos, out_len, out_cap; /* bytes out_pos..out_len are unsent */
	uint64_t events_lost;
};

struct control {
	int epoll_fd, listen_fd, wake_fd;
	int spare_fd; /* given up for a moment to refuse a client when descriptors run out */
	char *path;
	dev_t dev; /* of the socket file, to know it again */
	ino_t ino;
	const struct control_command *commands;
	void *daemon;

	struct session *sessions;
	unsigned int nr_sessions;
	uint64_t next_serial;
	struct job *jobs;
	unsigned int nr_jobs;

	pthread_mutex_t lock; /* below, and struct job's done and reply */
	struct event *events, **events_tail;
	unsigned int nr_events;
	uint64_t events_lost;
};

/* --- control.c --- */

void control_wake(struct control *c);

/* --- control_event.c --- */

/** control_event_flush() - hand what was raised so far to every negotiated session */
void control_event_flush(struct control *c);
/** control_event_discard() - free what was raised and not handed out */
void control_event_discard(struct control *c);

/* --- control_job.c --- */

/** control_job_start() - run @cmd in a thread; takes a reference to @args */
int control_job_start(struct session *s, const struct control_command *cmd, json_t *args,
		      struct ebb_err *err);
/** control_job_reap() - reply for those that ended */
void control_job_reap(struct control *c);

/* --- control_session.c --- */

/** session_open() - takes @fd, sends the greeting; NULL: no memory (@fd is closed) */
struct session *session_open(struct control *c, int fd);
void session_free(struct session *s);
/** session_run() - do what can be done without waiting: send, take commands, receive */
void session_run(struct session *s);
/** session_hangup() - the peer is gone for good, or the socket failed */
void session_hangup(struct session *s);
/** session_send() - queue one message; @msg is consumed */
void session_send(struct session *s, json_t *msg);
/** session_send_event() - the same for an event's text, which a slow reader misses */
void session_send_event(struct session *s, const char *text, size_t len);
/** session_note_lost() - @nr events were lost before they reached any session */
void session_note_lost(struct session *s, uint64_t nr);
/** session_poll() - tell epoll what the session waits for now */
void session_poll(struct session *s);

/* --- control_qmp.c --- */

json_t *control_greeting(void);
json_t *control_event_message(const char *name, json_t *data);
/** control_handle() - one framed value from the client: run it, reply */
void control_handle(struct session *s, const char *text, size_t len);
/** control_send_reply() - send what a handler returned; consumes reply->value; @id may be NULL */
void control_send_reply(struct session *s, json_t *id, int rc, struct control_reply *reply);
/** control_error_message() - {"error": ...}; also for a client that gets no session */
json_t *control_error_message(json_t *id, const char *class, const char *desc);

/* --- control_args.c --- */

/**
 * control_args_check() - @args (may be NULL) against @spec (may be NULL)
 * @ret: a new object with sizes converted, the caller's
 *
 * -EINVAL with a sentence in the manner of QEMU.
 */
int control_args_check(const struct control_arg *spec, json_t *args, json_t **ret,
		       struct ebb_err *err);
/** control_args_describe() - @spec for query-commands */
json_t *control_args_describe(const struct control_arg *spec);

#endif
