// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fault_event.c - the fault thread reads the uffd: faults are remembered, discards and unmaps take effect.
 *
 * Within one read removes come before faults, whatever their order: the fault is of the memory after the
 * discard, or may be answered as if it were.
 */
#include <errno.h>
#include <unistd.h>
#include <ebb/log.h>
#include "fault_internal.h"

static void remember_fault(struct fault *f, uint64_t hva, uint64_t flags, uint64_t now)
{
	struct guest *g = f->g;
	const struct region *r = region_find_hva(&g->regions, hva);

	if (!r) {
		log_limited(LOG_LVL_ERR, "%s: fault at %#llx, outside all regions", g->name,
			    (unsigned long long)hva);
		return;
	}
	if (f->nr_waiting == NR_WAITING) {
		uffd_wake(g->rem.uffd, hva & ~(EBB_PAGE_SIZE - 1), EBB_PAGE_SIZE);
		return;
	}
	f->waiting[f->nr_waiting++] = (struct waiting){
		.idx = region_index(r, hva),
		.msg = flags & UFFD_PAGEFAULT_FLAG_WP ? PAGE_MSG_WP : PAGE_MSG_MISSING,
		.since = now,
	};
	guest_count(flags & UFFD_PAGEFAULT_FLAG_WP ? &g->c.wp_faults : &g->c.faults, 1);
}

/*
 * Pages of [from, to) that are believed resident but are holes were discarded. The word is loaded before the
 * hole is looked for: the other way round a drain could fill the page in between.
 */
static void settle_run(struct guest *g, const struct region *r, uint32_t from, uint32_t to)
{
	for (uint32_t idx = from; idx < to; idx++) {
		uint32_t word = page_table_load(&g->pt, idx);

		if (page_word_state(word) == PAGE_RESIDENT && !region_holds(r, idx) &&
		    guest_forget_page(g, idx, word))
			guest_count(&g->c.discarded, 1);
	}
}

static void apply_remove_region(struct guest *g, const struct region *r, uint32_t from, uint32_t to)
{
	bool settle = false;

	for (uint32_t idx = from; idx < to; idx++) {
		uint32_t word = page_table_load(&g->pt, idx);

		switch (page_action(PAGE_MSG_REMOVE, page_word_state(word))) {
		case PAGE_ACT_FORGET:
			if (guest_forget_page(g, idx, word)) /* else being filled: old bytes are legal */
				guest_count(&g->c.discarded, 1);
			break;
		case PAGE_ACT_SETTLE:
			settle = true;
			break;
		default:
			break;
		}
	}
	if (settle)
		settle_run(g, r, from, to);
}

static void apply_remove(struct guest *g, uint64_t start, uint64_t end)
{
	guest_count(&g->c.removes, 1);
	if (guest_zap_overlaps(g, start, end))
		return; /* PAGE_MSG_OWN_ZAP: nothing in any state */
	for (unsigned int i = 0; i < g->regions.nr; i++) {
		const struct region *r = &g->regions.r[i];
		uint64_t a = MAX(start, r->hva);
		uint64_t b = MIN(end, region_hva(r, r->first + r->nr));

		if (a < b)
			apply_remove_region(g, r, region_index(r, a),
					    region_index(r, b - 1) + 1);
	}
}

bool fault_drain(struct fault *f)
{
	struct uffd_msg msgs[64];
	bool any = false;
	uint64_t now = 0;
	ssize_t n;

	atomic_fetch_add(&f->g->drains_begun, 1);
	do {
		n = read(f->g->rem.uffd, msgs, sizeof(msgs));
		if (n <= 0)
			break;
		if (!now)
			now = guest_now_ns();
		any = true;
		for (size_t i = 0; i < (size_t)n / sizeof(msgs[0]); i++)
			if (msgs[i].event == UFFD_EVENT_REMOVE)
				apply_remove(f->g, msgs[i].arg.remove.start,
					     msgs[i].arg.remove.end);
			else
				guest_note_unmapped(f->g, &msgs[i]);
		for (size_t i = 0; i < (size_t)n / sizeof(msgs[0]); i++)
			if (msgs[i].event == UFFD_EVENT_PAGEFAULT)
				remember_fault(f, msgs[i].arg.pagefault.address,
					       msgs[i].arg.pagefault.flags, now);
		/* The kernel fills the buffer while it has messages: a short read left none. */
	} while (n == sizeof(msgs));
	atomic_fetch_add(&f->g->drains, 1);
	return any;
}

void fault_again(struct fault *f, unsigned int *tries)
{
	guest_count(&f->g->c.again, 1);
	fault_drain(f);
	if (++*tries > 16)
		usleep(20);
}
