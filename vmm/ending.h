/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ending.h - how the daemon ends: every guest is let go with all its pages, or left for the next daemon.
 *
 * DOC: stop means bring back or hand over, never drop
 *
 *   bring-back   every page of every guest comes back, whatever the host has room for; the guests are let go
 *   hand-over    the guests stay as they are: eviction stops, what is under way is finished, nothing is unregistered.
 *                Threads that touch a page that is out wait until the next daemon has taken over
 *   auto         bring back guest by guest what fits (headroom.h), and hand over the rest
 *
 * What fails to come back is handed over in each of them. The guests to be handed over stay managed until the last of
 * the others has gone, so that none waits longer than it must.
 *
 * At any step a kill leaves what a kill of a working daemon leaves: nothing here is a state of its own.
 */
#ifndef VMM_ENDING_H
#define VMM_ENDING_H

#include "daemon.h"

/** ending_parse() - "auto", "bring-back" or "hand-over"; -EINVAL */
int ending_parse(const char *text, enum end_mode *ret);

/**
 * ending_run() - nothing dispatches commands any more: end all work on guests, and the guests
 *
 * Returns the guests that were handed over.
 */
unsigned int ending_run(struct daemon *d, enum end_mode mode);

#endif
