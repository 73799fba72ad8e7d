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

/* commands_policy.c */
extern const struct control_arg commands_args_set_policy[];
int commands_query_policy(void *daemon, json_t *args, struct control_reply *reply);
int commands_set_policy(void *daemon, json_t *args, struct control_reply *reply);

#endif
