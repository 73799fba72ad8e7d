/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * commands.h - what the files with commands of the control socket share.
 */
#ifndef VMM_COMMANDS_H
#define VMM_COMMANDS_H

#include "daemon.h"

/** commands_with_guest() - find by the `name` argument and have @fn make the reply, under d->lock */
int commands_with_guest(struct daemon *d, json_t *args, struct control_reply *reply,
			int (*fn)(struct guest *g, json_t *args, struct control_reply *reply));

/** commands_busy() - the reply when somebody else works on the guest */
int commands_busy(struct control_reply *reply, const char *name);

/** commands_not_found() - the reply when there is no such guest */
int commands_not_found(struct control_reply *reply, const char *name);

/** commands_limit_json() - a limit in bytes, null for none */
json_t *commands_limit_json(uint32_t pages);

/** commands_arg_true() - a boolean argument that was given, and is true */
bool commands_arg_true(json_t *args, const char *name);

/* commands_drain.c */
extern const struct control_arg commands_args_drain[];
int commands_drain(void *daemon, json_t *args, struct control_reply *reply);
int commands_drain_abort(void *daemon, json_t *args, struct control_reply *reply);

/* commands_quit.c */
extern const struct control_arg commands_args_quit[];
int commands_quit(void *daemon, json_t *args, struct control_reply *reply);

/* commands_policy.c */
extern const struct control_arg commands_args_set_policy[];
int commands_query_policy(void *daemon, json_t *args, struct control_reply *reply);
int commands_set_policy(void *daemon, json_t *args, struct control_reply *reply);

#endif
