/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control.h - the daemon's UNIX socket: QMP-style sessions, a table of commands, events.
 *
 * Runs in the main loop's thread. A command's handler runs there too, except that one marked
 * `slow` runs in a thread of its own so that the socket stays live; its reply is sent when it
 * ends. Within one session commands run one after the other, slow or not.
 */
#ifndef VMM_CONTROL_H
#define VMM_CONTROL_H

#include <jansson.h>
#include <ebb/types.h>

/** enum control_class - QMP error classes a handler may choose */
enum control_class { CONTROL_GENERIC_ERROR, CONTROL_DEVICE_NOT_FOUND };

struct control_reply {
	json_t *value; /* on success; NULL means an empty object */
	enum control_class class;
	struct ebb_err err;
};

enum control_arg_type { ARG_STRING, ARG_INT, ARG_BOOL, ARG_SIZE };

/*
 * ARG_SIZE is bytes as a number >= 0, text as people write it ("512M"), or the text "none". The
 * handler gets a json integer: bytes, or CONTROL_SIZE_NONE. ARG_STRING never holds a NUL.
 */
#define CONTROL_SIZE_NONE (-1)

/** struct control_arg - one member of a command's arguments */
struct control_arg {
	const char *name; /* NULL ends the list */
	enum control_arg_type type;
	bool optional;
	const char *help;
};

struct control_command {
	const char *name; /* NULL ends the table */
	const char *help;
	bool slow;
	const struct control_arg *args; /* NULL: takes none */
	/*
	 * @args: an object, never NULL, borrowed; checked against the table: known members, none
	 * missing, right types. Returns 0 and reply->value, or a negative errno and reply->err.
	 */
	int (*run)(void *daemon, json_t *args, struct control_reply *reply);
};

struct control;

/**
 * control_open() - listen on @path (0660); root and the owner of the socket file may command
 * @commands: beside the built-in ones (qmp_capabilities, query-version, query-commands); not copied
 *
 * A socket file nobody answers at is replaced. -EADDRINUSE: somebody does; -EEXIST: @path is
 * something else than a socket; -ENAMETOOLONG; or what the system said.
 */
int control_open(const char *path, const struct control_command *commands, void *daemon,
		 struct control **ret, struct ebb_err *err);

/** control_close() - waits for slow commands to end; nobody may call control_event() any more */
void control_close(struct control *c);

/** control_finish_jobs() - at the end, with no dispatch any more: wait for the slow commands that run; reply to nobody */
void control_finish_jobs(struct control *c);

/** control_fd() - becomes readable when control_dispatch() has work (an epoll descriptor) */
int control_fd(const struct control *c);
void control_dispatch(struct control *c);

/**
 * control_event() - send an event to every negotiated client
 * @data: an object, consumed; NULL or empty: the event has none
 *
 * Any thread; never blocks. A client that does not read misses events and is told how many by an
 * event EVENTS_LOST {"count"} once it reads again. An event raised by a handler precedes the
 * handler's reply.
 */
void control_event(struct control *c, const char *name, json_t *data);

#endif
