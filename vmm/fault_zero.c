// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fault_zero.c - the fault thread gives zeros: to the page that faulted, and in chunks to its neighbours.
 *
 * Each page given zeros is FILLING(ZERO) and ours before the call, so that no other thread can put a page there
 * or punch one. Neighbours are taken only where there is room that nobody needs.
 */
#include <assert.h>
#include <errno.h>
#include <unistd.h>
#include <ebb/log.h>
#include "fault_internal.h"

/* The page a ZEROPAGE found present: what that means depends on what we believed. */
static void zero_found_present(struct fault *f, const struct region *r, uint32_t idx, uint32_t was)
{
	struct guest *g = f->g;

	switch (page_word_state(was)) {
	case PAGE_EVICTED:
		page_end_fill_failed(&g->pt, idx);
		guest_uncharge(g, 1);
		guest_fail(g, "page %u was evicted, but the memfd holds one: somebody else writes to "
			   "the guest's memory", idx);
		return;
	case PAGE_EVICTING: /* a stale message; the page was protected by its batch */
		fault_unprotect_page(f, r, idx);
		page_end_fill(&g->pt, idx, PAGE_SLOT_NONE);
		break;
	case PAGE_RESIDENT: /* a stale message */
		page_end_fill(&g->pt, idx, page_word_arg(was));
		break;
	default: /* ABSENT: there since before the scan at attach came by */
		page_end_fill(&g->pt, idx, PAGE_SLOT_NONE);
	}
	uffd_wake(g->rem.uffd, region_hva(r, idx), EBB_PAGE_SIZE);
}

/* A page ZEROPAGE installed. */
static void zero_installed(struct guest *g, uint32_t idx, uint32_t was)
{
	page_end_fill(&g->pt, idx, PAGE_SLOT_NONE);
	if (page_word_state(was) == PAGE_EVICTED) {
		atomic_fetch_sub(&g->evicted_pages, 1);
		atomic_fetch_sub(&g->zero_pages, 1);
	} else if (page_word_state(was) == PAGE_RESIDENT) {
		store_release(&g->store, page_word_arg(was));
		guest_count(&g->c.discarded, 1);
	}
	guest_count(&g->c.zero_filled, 1);
}

/*
 * Give zeros to pages first..first+nr-1, all FILLING(ZERO) and ours; was[]: what they were. False: not to all,
 * try again later.
 */
static bool install_zeros(struct fault *f, const struct region *r, uint32_t first, uint32_t nr,
			  const uint32_t *was)
{
	struct guest *g = f->g;
	unsigned int tries = 0;
	uint32_t done = 0, step = nr;
	bool good;

	while (done < nr) {
		size_t bytes = 0;
		int rc = uffd_zeropage(g->rem.uffd, region_hva(r, first + done),
				       pages_to_bytes(MIN(step, nr - done)), &bytes);

		for (uint32_t n = (uint32_t)bytes_to_pages(bytes); n > 0; n--, done++)
			zero_installed(g, first + done, was[done]);
		if (rc == -EEXIST) {
			zero_found_present(f, r, first + done, was[done]);
			done++;
		} else if (rc == -EAGAIN) {
			fault_again(f, &tries);
		} else if (rc == -ENOENT && step > 1) {
			step = 1; /* crosses from one VMA to the next: the kernel takes none of it */
		} else if (rc) {
			break; /* no memory (it is tried again), or the VMM is going away */
		}
	}
	good = done == nr;
	for (; done < nr; done++) {
		if (page_word_state(was[done]) == PAGE_EVICTED) {
			page_end_fill_failed(&g->pt, first + done);
		} else {
			page_end_zero_failed(&g->pt, first + done);
			store_release(&g->store, page_word_slot(was[done]));
		}
		guest_uncharge(g, 1);
	}
	return good;
}

/* May @idx be given zeros beside a neighbour that faulted? Then it is FILLING and charged. */
static bool own_zero_neighbour(struct guest *g, uint32_t idx, uint32_t *ret_was)
{
	uint32_t word = page_table_load(&g->pt, idx), slot;
	bool won;

	if (word == page_word(PAGE_EVICTED, PAGE_SLOT_ZERO)) {
		if (!guest_try_charge(g, 1))
			return false;
		won = page_try_fill(&g->pt, idx, &slot);
		assert(!won || slot == PAGE_SLOT_ZERO);
	} else if (page_word_state(word) == PAGE_ABSENT) {
		if (!guest_try_charge(g, 1))
			return false;
		won = page_try_zero(&g->pt, idx, word);
	} else {
		return false;
	}
	if (!won)
		guest_uncharge(g, 1);
	*ret_was = word;
	return won;
}

static bool own_zero_faulted(struct guest *g, uint32_t idx, uint32_t word)
{
	uint32_t slot;

	if (page_word_state(word) == PAGE_EVICTED)
		return page_try_fill(&g->pt, idx, &slot);
	return page_try_zero(&g->pt, idx, word);
}

enum served fault_serve_zero(struct fault *f, const struct region *r, struct waiting *w,
			      uint32_t word)
{
	struct guest *g = f->g;
	uint32_t was[FILL_RUN], idx = w->idx, first = idx, nr = 1;
	bool charge = !page_word_is_counted(word), chunk = charge && guest_has_slack(g, FILL_RUN);
	uint32_t lo = MAX(r->first, idx - (idx - r->first) % FILL_RUN);
	uint32_t hi = MIN(r->first + r->nr, lo + FILL_RUN);
	uint32_t before[FILL_RUN];

	if (charge && !fault_charge(f, w))
		return LATER;
	if (!own_zero_faulted(g, idx, word)) {
		if (charge)
			guest_uncharge(g, 1);
		return AGAIN;
	}
	while (chunk && first > lo && own_zero_neighbour(g, first - 1, &before[idx - first]))
		first--;
	for (uint32_t i = first; i < idx; i++)
		was[i - first] = before[idx - i - 1];
	was[idx - first] = word;
	nr = idx - first + 1;
	while (chunk && first + nr < hi && own_zero_neighbour(g, first + nr, &was[nr]))
		nr++;
	if (!install_zeros(f, r, first, nr, was)) {
		w->not_before = guest_now_ns() + RETRY_NS;
		return LATER;
	}
	guest_lock_lru(g);
	if (page_word_state(word) == PAGE_EVICTING)
		reclaim_note_kept(g->lru, idx, RECLAIM_KEPT_TOUCHED);
	reclaim_note_resident(g->lru, idx, 1,
			      page_word_state(word) == PAGE_EVICTED ? RECLAIM_REFAULT : RECLAIM_NEW);
	if (nr > 1)
		reclaim_note_resident(g->lru, first, nr, RECLAIM_PREFETCH);
	guest_unlock_lru(g);
	if (page_word_state(word) == PAGE_EVICTED)
		guest_count(&g->c.refaults, 1);
	return SERVED;
}
