/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault.h - the fault thread of a guest: reads the userfaultfd, fills pages from the store, wakes.
 */
#ifndef VMM_FAULT_H
#define VMM_FAULT_H

#include "guest.h"

/** fault_start() - the thread serves until fault_stop() */
int fault_start(struct guest *g, struct ebb_err *err);

/** fault_stop() - what is in flight is finished, nothing else begun; faults then wait in the kernel */
void fault_stop(struct guest *g);

#endif
