/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_search.h - breadth-first search of all states of a world; invariants; traces.
 *
 * DOC: what is checked
 *
 * In each state: the invariants of world_check(); in each step: what the step itself finds (a
 * read of the wrong bytes, a slot freed twice, an owner that lost its page). At the end, over the
 * whole graph: from every state, the steps that are not left to chance lead on some path to a
 * state where no thread waits. Steps of chance (a new access, a new batch, a crash, an own zap)
 * are left out of those paths, so that a forgotten waiter is not excused by a rescue that need
 * not come.
 *
 * Breadth first, so a trace is as short as can be.
 */
#ifndef TESTS_MODEL_PAGE_SEARCH_H
#define TESTS_MODEL_PAGE_SEARCH_H

#include <stdlib.h>
#include <sys/mman.h>
#include "page_evictor.h"

#define PAGES_	WORLD_PAGES
#define THREADS WORLD_THREADS
#define BATCHES WORLD_BATCHES

static const struct world_step world_steps[] = {
	{"thread: start (thread, page, op)", step_thread_start, THREADS * 6, true},
	{"thread: access", step_thread_access, THREADS, false},
	{"thread: enter the fault queue (thread, PTE read-only)", step_thread_queue, THREADS * 2,
	 false},
	{"device: write to its pinned page", step_device_write, THREADS, false},
	{"discard: fallocate", step_discard_punch, PAGES_, true},
	{"discard: madvise raises REMOVE", step_discard_event, 1, false},
	{"discard: madvise drops the PTE", step_discard_zap, 1, false},
	{"own zap: submit", step_zap_submit, 1, true},
	{"own zap: raises REMOVE", step_zap_event, 1, false},
	{"own zap: drops the PTEs", step_zap_zap, 1, false},
	{"store: a dead daemon's write lands", step_zombie_write, WORLD_SLOTS, false},
	{"fault: read a message (thread; 2 discard, 3 zap)", step_fault_read, 4, false},
	{"fault: choose (REMOVE, MISSING, WP x page)", step_fault_take, 3 * PAGES_, false},
	{"fault: compare-and-swap", step_fault_cas, 1, false},
	{"fault: settle", step_fault_settle, 1, false},
	{"fault: read of the store done (page, bad)", step_fault_io, PAGES_ * 2, false},
	{"fault: give up the fill", step_fault_io_failed, PAGES_, false},
	{"fault: wake after giving up", step_fault_wake_returned, 1, false},
	{"fault: COPY or ZEROPAGE", step_fault_install, PAGES_, false},
	{"fault: un-WP", step_fault_unwp, PAGES_, false},
	{"fault: end of FILLING (page, keep slot)", step_fault_end_fill, PAGES_ * 2, false},
	{"fault: end of UNPROTECTING", step_fault_end_unwp, 1, false},
	{"fault: own zap is over", step_fault_zap_over, 1, false},
	{"evict: start (batch, page)", step_evict_start, BATCHES *PAGES_, true},
	{"evict: WP", step_evict_wp, BATCHES, false},
	{"evict: pin check", step_evict_pin, BATCHES, false},
	{"evict: copy", step_evict_read, BATCHES, false},
	{"evict: write done (batch, bad)", step_evict_io, BATCHES * 2, false},
	{"evict: pass the gate", step_evict_gate, BATCHES, false},
	{"evict: commit", step_evict_commit, BATCHES, false},
	{"evict: punch", step_evict_punch, BATCHES, false},
	{"evict: end of PUNCHING", step_evict_end, BATCHES, false},
	{"evict: cancel", step_evict_cancel, BATCHES, false},
	{"evict: un-WP", step_evict_unwp, BATCHES, false},
	{"evict: end of UNPROTECTING", step_evict_end_unwp, BATCHES, false},
	{"evict: free the slot of a cancelled batch early", step_evict_free_early, BATCHES, false},
	{"evict: drop a kept slot", step_evict_drop_kept, PAGES_, true},
	{"CRASH", step_crash, 1, true},
	{"take-over: lock the store", step_to_lock_store, 1, false},
	{"take-over: read and drop a message", step_to_drain, 4, false},
	{"take-over: drained", step_to_drained, 1, false},
	{"take-over: punch again", step_to_punch, 1, false},
	{"take-over: settle the word", step_to_settle, 1, false},
	{"take-over: un-WP", step_to_unwp, 1, false},
	{"take-over: wake, slots", step_to_wake, 1, false},
};

#undef PAGES_
#undef THREADS
#undef BATCHES

#define NODE_NONE UINT32_MAX

struct node {
	struct world w;
	uint32_t parent;
	uint16_t step, arg;
};

struct search {
	struct world_ctx ctx;
	struct node *nodes;
	uint32_t nr, max;
	uint32_t *table; /* hash -> node + 1 */
	uint32_t mask;
	uint32_t *edges; /* sure steps only; those of node i start at edge_start[i] */
	uint32_t *edge_start;
	uint64_t nr_edges, max_edges;
	uint64_t steps;
};

/* Virtual memory only: what is not touched costs nothing. */
static void *search_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap of the state table");
		exit(1);
	}
	return p;
}

static void search_init(struct search *s, uint32_t max)
{
	memset(s, 0, sizeof(*s));
	s->max = max;
	s->max_edges = (uint64_t)max * 6;
	for (s->mask = 1; s->mask < max; s->mask *= 2)
		;
	s->mask = s->mask * 2 - 1;
	s->nodes = search_map((size_t)max * sizeof(*s->nodes));
	s->table = search_map(((size_t)s->mask + 1) * sizeof(*s->table));
	s->edges = search_map(s->max_edges * sizeof(*s->edges));
	s->edge_start = search_map(((size_t)max + 1) * sizeof(*s->edge_start));
}

static void search_destroy(struct search *s)
{
	munmap(s->nodes, (size_t)s->max * sizeof(*s->nodes));
	munmap(s->table, ((size_t)s->mask + 1) * sizeof(*s->table));
	munmap(s->edges, s->max_edges * sizeof(*s->edges));
	munmap(s->edge_start, ((size_t)s->max + 1) * sizeof(*s->edge_start));
}

static uint32_t world_hash(const struct world *w)
{
	uint64_t h = 0x9e3779b97f4a7c15u, v;

	for (size_t i = 0; i < sizeof(*w); i += sizeof(v)) {
		memcpy(&v, (const char *)w + i, sizeof(v));
		h = (h ^ v) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return (uint32_t)h;
}

/* Returns the node of @w, added if it is new. */
static uint32_t search_add(struct search *s, const struct world *w, uint32_t parent,
			   unsigned int step, unsigned int arg)
{
	uint32_t h = world_hash(w);

	for (;; h++) {
		uint32_t at = s->table[h & s->mask];

		if (!at)
			break;
		if (memcmp(&s->nodes[at - 1].w, w, sizeof(*w)) == 0)
			return at - 1;
	}
	if (s->nr == s->max)
		return NODE_NONE;
	s->nodes[s->nr].parent = parent;
	s->nodes[s->nr].step = (uint16_t)step;
	s->nodes[s->nr].arg = (uint16_t)arg;
	memcpy(&s->nodes[s->nr].w, w, sizeof(*w));
	s->table[h & s->mask] = ++s->nr;
	return s->nr - 1;
}

/* --- invariants ----------------------------------------------------------------------------- */

static void check_slots(struct world_ctx *c, const struct world *w)
{
	unsigned int owners[WORLD_SLOTS] = {0};

	for (unsigned int p = 0; p < c->cfg->pages; p++) {
		uint8_t slot = slot_from_arg(page_word_slot(w->words[p]));

		if (slot < WORLD_SLOTS)
			owners[slot]++;
	}
	for (int b = 0; b < c->cfg->batches; b++) {
		if (w->bat[b].kept < WORLD_SLOTS)
			owners[w->bat[b].kept]++;
		if (w->bat[b].slot < WORLD_SLOTS)
			owners[w->bat[b].slot]++;
	}
	for (int s = 0; s < WORLD_SLOTS; s++) {
		if (owners[s] > 1)
			world_violate(c, "slot %d has %u owners", s, owners[s]);
		if (owners[s] != (w->used >> s & 1))
			world_violate(
				c, owners[s] ? "slot %d is owned and free" : "slot %d is lost", s);
	}
}

/* How many think that they own page @p; a page in a transient state must have exactly one. */
static unsigned int count_owners(const struct world_ctx *c, const struct world *w, unsigned int p)
{
	enum page_state state = world_state(w, p);
	unsigned int n = 0;

	if (state == PAGE_FILLING)
		n += (w->page[p].work != WORK_NONE && w->page[p].work != WORK_UNWP) +
		     (w->fault.pc == FT_END_FILL && w->fault.page == p);
	if (state == PAGE_UNPROTECTING)
		n += (w->page[p].work == WORK_UNWP) +
		     (w->fault.pc == FT_END_UNWP && w->fault.page == p);
	for (unsigned int b = 0; b < c->cfg->batches; b++) {
		const struct mbatch *bat = &w->bat[b];

		if (bat->page != p || bat->pc == BAT_IDLE)
			continue;
		if (state == PAGE_UNPROTECTING)
			n += bat->pc == BAT_UNWP || bat->pc == BAT_END_UNWP;
		if (state == PAGE_PUNCHING)
			n += bat->pc == BAT_PUNCH || bat->pc == BAT_END;
		if (state == PAGE_EVICTING)
			n += page_word_arg(w->words[p]) == batch_tag(b);
	}
	return n;
}

static void world_check(struct world_ctx *c, const struct world *w)
{
	for (unsigned int p = 0; p < c->cfg->pages; p++) {
		enum page_state state = world_state(w, p);

		if (w->page[p].present && !page_word_is_counted(w->words[p]))
			world_violate(c, "page %u is %s and yet in the memfd", p,
				      page_state_name(state));
		if (w->page[p].pte && !w->page[p].present)
			world_violate(c,
				      "page %u is mapped and not in the memfd (the model is wrong)",
				      p);
		if (w->mode == D_RUN && page_owner(state) != PAGE_OWNER_NOBODY &&
		    count_owners(c, w, p) != 1)
			world_violate(c, "page %u, %s, has %u owners", p, page_state_name(state),
				      count_owners(c, w, p));
	}
	if (w->mode == D_RUN)
		check_slots(c, w);
}

/* Nobody waits, nothing is under way that somebody waits for. */
static bool world_is_calm(const struct world *w)
{
	for (int t = 0; t < WORLD_THREADS; t++)
		if (w->thr[t].pc != THR_IDLE)
			return false;
	return w->disc_pc == DISC_IDLE && w->mode == D_RUN;
}

/* --- printing ------------------------------------------------------------------------------- */

static void print_slot(const char *what, uint8_t slot)
{
	if (slot == MSLOT_ZERO)
		printf("%szero", what);
	else if (slot != MSLOT_NONE)
		printf("%s%u", what, slot);
}

static void print_page(const struct world *w, unsigned int p)
{
	const struct mpage *pg = &w->page[p];
	enum page_state state = world_state(w, p);

	printf("  | %s", page_state_name(state));
	if (state == PAGE_EVICTING)
		printf(" tag %u", page_word_arg(w->words[p]));
	else if (state != PAGE_ABSENT)
		print_slot(" slot ", slot_from_arg(page_word_arg(w->words[p])));
	if (pg->present)
		printf(" memfd=%u", pg->content);
	else
		printf(" hole");
	printf("%s%s last=%u%s", pg->pte ? " pte" : "", pg->wp ? " wp" : "", pg->last,
	       pg->zero_ok ? "|0" : "");
	if (pg->msgs)
		printf(" msgs:%s%s%s", pg->msgs & MSG_BIT(PAGE_MSG_MISSING) ? " MISSING" : "",
		       pg->msgs & MSG_BIT(PAGE_MSG_WP) ? " WP" : "",
		       pg->msgs & MSG_BIT(PAGE_MSG_REMOVE) ? " REMOVE" : "");
}

static void print_world(const struct world_ctx *c, const struct world *w)
{
	static const char *const pcs[] = {"idle",   "running", "faulting",
					  "QUEUED", "BLOCKED", "pinned"};

	for (unsigned int p = 0; p < c->cfg->pages; p++)
		print_page(w, p);
	for (int t = 0; t < WORLD_THREADS; t++)
		if (w->thr[t].pc != THR_IDLE)
			printf("  | thread %d %s p%u %s", t, pcs[w->thr[t].pc], w->thr[t].page,
			       w->thr[t].kind == PAGE_MSG_WP ? "WP" :
			       w->thr[t].pc == THR_RUN	     ? "" :
							       "MISSING");
	for (int s = 0; s < c->cfg->slots; s++)
		if (w->store[s])
			printf("%s%s%d=%u", s ? " " : "  | store ", w->zombie[s] ? "~" : "", s,
			       w->store[s]);
	printf("\n");
}

static void search_print_trace(const struct search *s, uint32_t node)
{
	uint32_t path[400], n = 0;

	for (; node != NODE_NONE && n < ARRAY_SIZE(path); node = s->nodes[node].parent)
		path[n++] = node;
	printf("  (memfd, store and last are tokens: 0 zeros, 255 torn; last|0: zeros are legal "
	       "too)\n");
	while (n--) {
		const struct node *nd = &s->nodes[path[n]];

		if (nd->parent == NODE_NONE)
			printf("  %-44s", "start");
		else
			printf("  %s #%u\n      ", world_steps[nd->step].name, nd->arg);
		print_world(&s->ctx, &nd->w);
	}
}

/* --- the search ----------------------------------------------------------------------------- */

enum search_result { SEARCH_CLEAN, SEARCH_VIOLATION, SEARCH_TOO_BIG };

/* All steps of one state. Returns the node at which a rule broke, or NODE_NONE. */
static uint32_t search_expand(struct search *s, uint32_t i)
{
	for (unsigned int k = 0; k < ARRAY_SIZE(world_steps); k++) {
		const struct world_step *step = &world_steps[k];

		for (unsigned int arg = 0; arg < step->nr_args; arg++) {
			struct world next;
			uint32_t at;

			memcpy(&next, &s->nodes[i].w, sizeof(next));
			if (!step->apply(&s->ctx, &next, arg))
				continue;
			s->steps++;
			if (!s->ctx.violation[0])
				world_check(&s->ctx, &next);
			at = search_add(s, &next, i, k, arg);
			if (at == NODE_NONE || s->ctx.violation[0])
				return at == NODE_NONE ? i : at;
			if (!step->chance && s->nr_edges < s->max_edges)
				s->edges[s->nr_edges++] = at;
		}
	}
	return NODE_NONE;
}

/* The first state from which the sure steps lead nowhere calm, or NODE_NONE. */
static uint32_t search_find_stuck(const struct search *s)
{
	uint8_t *calm = search_map(s->nr);
	uint32_t stuck = NODE_NONE;
	bool changed = true;

	for (uint32_t i = 0; i < s->nr; i++)
		calm[i] = world_is_calm(&s->nodes[i].w);
	while (changed) {
		changed = false;
		for (uint32_t i = s->nr; i-- > 0;)
			for (uint32_t e = s->edge_start[i]; !calm[i] && e < s->edge_start[i + 1];
			     e++)
				if (calm[s->edges[e]])
					calm[i] = changed = true;
	}
	for (uint32_t i = 0; i < s->nr && stuck == NODE_NONE; i++)
		if (!calm[i])
			stuck = i;
	munmap(calm, s->nr);
	return stuck;
}

static void world_init(struct world *w, const struct world_cfg *cfg)
{
	memset(w, 0, sizeof(*w));
	for (int p = 0; p < WORLD_PAGES; p++)
		w->words[p] = page_word(PAGE_ABSENT, PAGE_SLOT_NONE);
	for (int b = 0; b < WORLD_BATCHES; b++)
		batch_done(&w->bat[b]);
	w->discards = cfg->discards;
	w->zaps = cfg->zaps;
	w->crashes = cfg->crashes;
	w->errors = cfg->errors;
}

/**
 * search_run() - explore @cfg with @mut
 * @ret_node: where a rule broke
 */
static enum search_result search_run(struct search *s, const struct world_cfg *cfg,
				     enum mutation mut, uint32_t *ret_node)
{
	struct world start;

	s->ctx.cfg = cfg;
	s->ctx.mut = mut;
	world_init(&start, cfg);
	search_add(s, &start, NODE_NONE, 0, 0);
	for (uint32_t i = 0; i < s->nr; i++) {
		s->edge_start[i] = (uint32_t)s->nr_edges;
		*ret_node = search_expand(s, i);
		if (*ret_node != NODE_NONE)
			return s->ctx.violation[0] ? SEARCH_VIOLATION : SEARCH_TOO_BIG;
		s->edge_start[i + 1] = (uint32_t)s->nr_edges;
	}
	if (s->nr_edges == s->max_edges)
		return SEARCH_TOO_BIG;
	*ret_node = search_find_stuck(s);
	if (*ret_node == NODE_NONE)
		return SEARCH_CLEAN;
	world_violate(&s->ctx, "from here on somebody may wait for ever");
	return SEARCH_VIOLATION;
}

#endif
