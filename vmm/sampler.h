/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sampler.h - where accessed bits come from: one thread looks at all guests, samples those that need
 * aging, and watches what must be watched (watch.h).
 */
#ifndef VMM_SAMPLER_H
#define VMM_SAMPLER_H

#include "guest.h"

struct sampler;

/** struct sampler_host - what the thread needs of the daemon */
struct sampler_host {
	struct guest *(*next)(void *arg, struct guest *last);
	void (*unfit)(void *arg, struct guest *g, const char *why);
	void *arg;
};

/**
 * sampler_new() - the thread
 * @host: copied. next(): called under no lock to walk the guests: next(arg, NULL) is the first, then next(arg, last);
 *        it must hold off the guest's end until the following call. unfit(): the guest must be let go;
 *        must not wait for that
 */
int sampler_new(const struct sampler_host *host, struct sampler **ret);
void sampler_kick(struct sampler *s);
void sampler_free(struct sampler *s);

/**
 * sampler_zap_pass() - a pass of the core over a guest, by zapping; 0 or a negative errno
 * @ret_young: grows by the pages found young
 */
int sampler_zap_pass(struct guest *g, uint64_t *ret_young);

#endif
