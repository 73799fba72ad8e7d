/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evictor.h - the eviction thread of a guest: carries out what the reclaim core picks.
 */
#ifndef VMM_EVICTOR_H
#define VMM_EVICTOR_H

#include "guest.h"

int evictor_start(struct guest *g, struct ebb_err *err);

/** evictor_stop() - finishes or cancels its batches first; no page is left in a transient state */
void evictor_stop(struct guest *g);

#endif
