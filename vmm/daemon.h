/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon.h - the daemon as a whole: its settings, its guests, who may work on which.
 *
 * DOC: the list of guests
 *
 * d->lock guards the list and the `busy` marks. A command that takes long (attach, detach) claims its
 * guest and works without the lock; others then find it busy. The sampler holds the guest it looks at
 * (d->held), and a guest leaves the list only when it is not held, so that its memory is not freed
 * under the sampler. Quick commands work under the lock.
 */
#ifndef VMM_DAEMON_H
#define VMM_DAEMON_H

#include "control.h"
#include "guest.h"
#include "headroom.h"
#include "sampler.h"

/** enum end_mode - what is done with the guests at the end; ending.h */
enum end_mode { END_AUTO, END_BRING_BACK, END_HAND_OVER };

struct daemon_conf {
	const char *socket, *state_dir, *swap_dir;
	bool pin_delay; /* --pin-guard=delay */
	unsigned int pin_delay_ms;
	struct reclaim_policy policy;
	uint64_t seed;
	bool any_process;
	uint64_t drain_reserve; /* bytes; see headroom.h */
	enum end_mode on_term;
	bool check_only; /* --check */
	bool replace;
};

struct daemon {
	struct daemon_conf conf;
	struct pinguard *guard;
	struct control *control;
	struct sampler *sampler;
	unsigned int to_take_over; /* guests left behind by a dead daemon, to be tried again */
	int epoll_fd;
	bool quit; /* a command said so; the main loop's */
	enum end_mode quit_mode;

	pthread_mutex_t lock;
	pthread_cond_t released; /* d->held or a busy mark changed */
	struct guest *guests;
	struct guest *held;
};

/** daemon_guest_conf() - what an attach takes from the daemon's settings */
struct guest_conf daemon_guest_conf(const struct daemon *d);

/**
 * daemon_add() - the guest is managed from now on; -EEXIST: its name is taken
 *
 * It is added as claimed: daemon_release() when the caller is done with it.
 */
int daemon_add(struct daemon *d, struct guest *g);

/** daemon_find() - by name; d->lock held */
struct guest *daemon_find(struct daemon *d, const char *name);

/**
 * daemon_claim() - find and mark busy, for a command that takes long
 * @ret_rc: -ENOENT or -EBUSY when NULL is returned
 */
struct guest *daemon_claim(struct daemon *d, const char *name, int *ret_rc);

/** daemon_claim_exited() - the guest at @which, if it is still there, free, and its VMM has exited */
struct guest *daemon_claim_exited(struct daemon *d, const struct guest *which);

/** daemon_claim_any() - one that is free; *@ret_empty: there is none at all */
struct guest *daemon_claim_any(struct daemon *d, bool *ret_empty);

/** daemon_release() - the command is done and the guest still there */
void daemon_release(struct daemon *d, struct guest *g);

/** daemon_remove() - take a claimed guest off the list; waits for the sampler */
void daemon_remove(struct daemon *d, struct guest *g);

/** daemon_next_guest() - for the sampler: see sampler_new() */
struct guest *daemon_next_guest(void *arg, struct guest *last);

/** daemon_unfit() - for the sampler: let @g go in a thread of its own */
void daemon_unfit(void *arg, struct guest *g, const char *why);

/** daemon_keep_sampler_off() - wait until the sampler has left a claimed guest; it does not come back */
void daemon_keep_sampler_off(struct daemon *d, struct guest *g);

/**
 * daemon_let_go() - detach a claimed guest, take it off the list and free it
 * @watch: see guest_detach()
 *
 * On failure it stays, and stays claimed.
 */
int daemon_let_go(struct daemon *d, struct guest *g, const char *reason, bool watch,
		  struct ebb_err *err);

/** daemon_commands - the commands of the socket, for control_open() */
extern const struct control_command daemon_commands[];

#endif
