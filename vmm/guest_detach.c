// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * guest_detach.c - let a guest go: bring every page back first, leave it to another daemon, or find that it has exited.
 *
 * Only when none is left outside is the memory unregistered; a drain that ends early (guest_drain.c) leaves the
 * guest managed.
 */
#include <errno.h>
#include <unistd.h>
#include <ebb/log.h>
#include "evictor.h"
#include "fault.h"
#include "guest_life.h"

/* Two full drains of the uffd from now on: no VMM thread waits for us to read its event. */
static void wait_for_drains(struct guest *g)
{
	uint64_t until = atomic_load(&g->drains) + 2;

	while (atomic_load(&g->drains) < until) {
		guest_kick(g->fault_kick);
		usleep(100);
	}
}

int guest_detach(struct guest *g, bool watch, struct ebb_err *err)
{
	struct ebb_err close_err;
	int rc = guest_drain(g, watch, err);

	if (rc && rc != -ESRCH)
		return rc;
	atomic_store(&g->state.h->phase, STATE_DETACHED);
	guest_unregister(g);
	wait_for_drains(g);
	fault_stop(g);
	if (guest_close_remote(g, &close_err))
		log_warn("%s: %s", g->name, close_err.msg);
	log_info("%s: let go", g->name);
	return 0;
}

/*
 * The evictor first: its batches may need the fault thread to read a REMOVE. What the fault thread has read and not
 * answered is raised anew by the successor's WAKE.
 */
void guest_hand_over(struct guest *g)
{
	evictor_stop(g);
	fault_stop(g);
	log_warn("%s: handed over to the next ebbd: %u MiB are out, and what touches them waits for it",
		 g->name, atomic_load(&g->evicted_pages) >> 8);
	guest_free(g, false);
}

void guest_reap(struct guest *g)
{
	atomic_store(&g->phase, GUEST_GONE);
	evictor_stop(g);
	fault_stop(g);
	log_info("%s: VM has exited", g->name);
}
