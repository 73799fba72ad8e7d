/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl.h - what the files of ebbctl share: exit statuses, calling the daemon, printing its answers.
 */
#ifndef VMM_CTL_CTL_H
#define VMM_CTL_CTL_H

#include <jansson.h>
#include <ebb/types.h>

#define CTL_DEFAULT_SOCKET "/run/ebb/ebb.sock"

/** enum ctl_exit - exit statuses, as the manual page lists them */
enum ctl_exit {
	CTL_OK = 0,
	CTL_FAILED = 1,	   /* the daemon refused, or something failed on the way */
	CTL_USAGE = 2,	   /* the command line makes no sense; nothing was asked of the daemon */
	CTL_NO_DAEMON = 3, /* nobody answers at the socket */
};

#define CTL_TIMEOUT_MS	      10000
#define CTL_ATTACH_TIMEOUT_MS 120000
#define CTL_DRAIN_TIMEOUT_MS  (24 * 3600 * 1000) /* reads a store back from disk */

/* --- client.c: each returns an exit status and, unless CTL_OK, a sentence in @err ------------- */

/**
 * client_call() - run one command of the daemon
 * @args: consumed; NULL: none
 * @ret: what it returned, the caller's; may be NULL
 */
enum ctl_exit client_call(const char *socket, const char *command, json_t *args, int timeout_ms,
			  json_t **ret, struct ebb_err *err);

/** client_guest() - query-guest @name; *@ret is an object */
enum ctl_exit client_guest(const char *socket, const char *name, json_t **ret,
			   struct ebb_err *err);

/** client_guest_of() - the guest whose VMM is @pid, by query-guests */
enum ctl_exit client_guest_of(const char *socket, json_int_t pid, json_t **ret,
			      struct ebb_err *err);

/**
 * client_watch() - @command, which brings pages back and answers at the end; on a terminal shows how far it is
 * @name: of the guest, NULL: all
 * @args: consumed
 */
enum ctl_exit client_watch(const char *socket, const char *command, const char *name, json_t *args,
			   bool progress, json_t **ret, struct ebb_err *err);

/* --- limit.c ---------------------------------------------------------------------------------- */

/** struct limit - what a person wrote: bytes, a share of the guest, or none */
struct limit {
	enum { LIMIT_BYTES, LIMIT_PERCENT, LIMIT_NONE } kind;
	uint64_t bytes;
	double percent; /* above 0, at most 100 */
};

int limit_parse(const char *text, struct limit *ret, struct ebb_err *err);

/** limit_json() - the argument for the daemon; @guest_size in bytes is used by a share only */
json_t *limit_json(const struct limit *limit, uint64_t guest_size);

/* --- show.c: readable output on stdout -------------------------------------------------------- */

void show_guests(const json_t *guests);
void show_guest(const json_t *guest);
void show_stats(const json_t *stats); /* or anything nested */
/** show_warnings() - "ebbctl: warning: ..." on stderr for each of the guest's */
void show_warnings(const json_t *guest);

/** show_bytes() - a member as a size, "none" for null, "-" when it is not there; returns @buf */
char *show_bytes(const json_t *obj, const char *key, char *buf, size_t size);

/** show_text() - a member as text safe for a terminal, "-" for none; in one of 8 static buffers */
const char *show_text(const json_t *obj, const char *key);

#endif
