/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lru_model_pick.h - is what the core picked what it had to?
 *
 * From probation the model knows each page that goes. Of the main pages it knows which may go, and that
 * some must if there are any: which of them is the sweep's business, but a pick that takes fewer than it
 * was asked for must not leave one behind.
 */
#ifndef TEST_LRU_MODEL_PICK_H
#define TEST_LRU_MODEL_PICK_H

#include "lru_model.h"

/**
 * struct model_pick - a pick that is being checked
 * @ttl_end: youth below which min_ttl protects nothing
 * @gave_up: the present search did not look everywhere
 * @nr_main: main pages among those picked
 * @left, @runs, @end: what is still wanted, runs so far, and where the last one ends
 */
struct model_pick {
	uint32_t room, max;
	bool urgent, gave_up;
	uint32_t ttl_end;
	uint32_t nr_main;
	uint32_t left, runs, end;
};

static inline bool model_pickable(const struct model *m, const struct model_page *p)
{
	return p->resident && !p->isolated && (!p->deferred || m->blind);
}

static inline void model_isolate(struct model_page *p)
{
	p->isolated = true;
	p->deferred = false;
	p->picked = false;
}

/* May main page @p go, if none of youth @youth_end or more may? */
static inline bool model_may_go(const struct model *m, const struct model_pick *k,
				const struct model_page *p, uint32_t youth_end)
{
	if (!model_pickable(m, p) || p->probation || p->youth >= youth_end)
		return false;
	return k->urgent || m->r->sweep.order == LRU_BY_FREQUENCY ||
	       p->youth <= LRU_YOUTH_MAX - RECLAIM_MIN_NR_GENS;
}

static inline bool model_is_protected(const struct model *m, const struct model_page *p)
{
	uint32_t tier = p->hint | (p->refaulted ? 4u : 0u);

	return m->r->policy.features & RECLAIM_TIERS && !m->blind &&
	       m->r->tiers.protected >> tier & 1;
}

static inline uint32_t model_ttl_end(const struct model *m)
{
	uint32_t y = 0;

	if (!m->r->policy.min_ttl_ns)
		return LRU_YOUTH_MAX + 1;
	while (y < LRU_YOUTH_MAX && m->now_ns - m->birth_ns[y + 1] >= m->r->policy.min_ttl_ns)
		y++;
	return y;
}

/* Up to @nr pages go from the head of the queue: each must be among those picked. */
static inline uint32_t model_take_probation(struct model *m, struct model_pick *k, uint32_t nr)
{
	uint32_t tries = model_count_probation(m), taken = 0;

	while (taken < nr && tries-- && k->left && k->runs < k->room) {
		uint32_t idx = model_dequeue(m);

		if (idx == RECLAIM_NO_PAGE)
			break;
		if (!model_pickable(m, &m->pages[idx])) {
			model_enqueue(m, idx);
			continue;
		}
		must(m->pages[idx].picked);
		model_isolate(&m->pages[idx]);
		k->runs += !k->runs || k->end != idx;
		k->end = idx + 1;
		k->left--;
		taken++;
	}
	return taken;
}

/* The sweep puts off what is protected, as far as it gets; all of it when it gets to the end. */
static inline void model_put_off(struct model *m, const struct model_pick *k, uint32_t youth_end,
				 bool to_the_end)
{
	for (uint32_t i = 0; i < m->nr; i++) {
		struct lru_word word = lru_gen_peek_word(&m->r->lru, i / WORD_PAGES);
		struct model_page *p = &m->pages[i];

		if (!model_may_go(m, k, p, youth_end) || !model_is_protected(m, p))
			continue;
		if (!to_the_end && !(word.deferred & word_bit(i)))
			continue;
		p->deferred = true;
		m->want.tier_protected++;
	}
}

/* Main pages of youth below @youth_end go: those picked, if any may. Returns how many. */
static inline uint32_t model_take_main(struct model *m, struct model_pick *k, uint32_t youth_end)
{
	uint32_t nr = 0, stay = 0;
	bool short_of_pages;

	for (uint32_t i = 0; i < m->nr; i++) {
		const struct model_page *p = &m->pages[i];
		bool may = model_may_go(m, k, p, youth_end) && !model_is_protected(m, p);

		nr += may && p->picked;
		stay += may && !p->picked;
	}
	must(!nr || nr == k->nr_main);
	/* Runs are counted before neighbours are joined: only room for each page alone is surely enough. */
	short_of_pages = !k->gave_up && nr < k->left && k->room > k->max - k->left + nr;
	must(!short_of_pages || !stay);
	model_put_off(m, k, youth_end, short_of_pages);
	for (uint32_t i = 0; i < m->nr && nr; i++) {
		struct model_page *p = &m->pages[i];

		if (p->picked && !p->probation)
			model_isolate(p);
	}
	k->left -= nr;
	k->nr_main -= nr;
	return nr;
}

/* One search by the rules: from probation, from main memory, and from probation again. */
static inline void model_pick_coldest(struct model *m, struct model_pick *k)
{
	uint32_t capacity = model_capacity(m, model_count_resident(m)), isolated = 0;
	uint32_t room = probation_room(&m->r->probation, capacity);
	uint32_t probation = model_count_probation(m), taken = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		isolated += m->pages[i].isolated;
	if (probation - MIN(probation, isolated) >= room)
		taken = model_take_probation(m, k, probation - room + 1);
	taken += model_take_main(m, k, k->ttl_end);
	if (k->gave_up && (taken || !k->nr_main))
		return; /* it gave up on the way */
	if (!taken && k->urgent && k->ttl_end <= LRU_YOUTH_MAX) {
		taken = model_take_main(m, k, LRU_YOUTH_MAX + 1);
		m->ttl_taken |= taken > 0;
	}
	if (!taken)
		model_take_probation(m, k, k->left);
}

/* In random order anybody may go, and the queue is not asked. */
static inline void model_pick_random(struct model *m, struct model_pick *k)
{
	uint32_t nr = 0, stay = 0;

	for (uint32_t i = 0; i < m->nr; i++) {
		struct model_page *p = &m->pages[i];

		if (!model_pickable(m, p))
			continue;
		nr += p->picked;
		stay += !p->picked;
		if (p->picked)
			model_isolate(p);
	}
	k->left -= nr;
	must(!k->left || !stay || nr >= k->room);
}

static inline void model_pick(struct model *m, struct model_pick *k)
{
	if (m->r->policy.order == RECLAIM_ORDER_RANDOM)
		model_pick_random(m, k);
	else
		model_pick_coldest(m, k);
}

/* @nr @runs came out: mark the pages. */
static inline void model_mark_picked(struct model *m, struct model_pick *k,
				     const struct page_run *runs, uint32_t nr)
{
	uint32_t total = 0;

	must(nr <= k->room);
	for (uint32_t i = 0; i < nr; i++) {
		must(runs[i].nr && runs[i].first < m->nr && runs[i].nr <= m->nr - runs[i].first);
		must(!i || runs[i].first > runs[i - 1].first + runs[i - 1].nr);
		for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++) {
			m->pages[p].picked = true;
			k->nr_main += !m->pages[p].probation;
		}
		total += runs[i].nr;
	}
	must(total <= k->max);
	m->want.picked += total;
}

static inline void model_check_pick(struct model *m, struct model_pick *k,
				    const struct page_run *runs, uint32_t nr)
{
	bool ready = m->r->policy.order == RECLAIM_ORDER_RANDOM || m->passes >= 2 ||
		     m->now_ns - m->begun_ns >= 4 * m->r->policy.min_period_ns;

	model_mark_picked(m, k, runs, nr);
	if (!k->room || !k->max || !(m->r->policy.features & RECLAIM_EVICTION) || !ready) {
		must(!nr);
		return;
	}
	k->gave_up = reclaim_is_searching(m->r) && m->r->lru.undeferred == m->blind;
	model_pick(m, k);
	if (!k->gave_up && k->left == k->max && k->urgent && model_count_deferred(m) && !m->blind) {
		k->gave_up = reclaim_is_searching(m->r);
		m->blind = true;
		model_pick(m, k);
	}
	for (uint32_t i = 0; i < m->nr; i++)
		must(!m->pages[i].picked);
}

static inline void model_pick_some(struct model *m, uint32_t room, uint32_t max, bool urgent)
{
	struct page_run runs[MODEL_ROOM];
	struct model_pick k = {.room = room, .max = MIN(max, RECLAIM_PICK_MAX), .urgent = urgent};

	k.left = k.max;
	k.ttl_end = model_ttl_end(m);
	must(room <= MODEL_ROOM);
	model_check_pick(m, &k, runs, reclaim_pick(m->r, runs, room, max, urgent));
}

static inline void model_step_pick(struct model *m)
{
	uint32_t room = model_one_in(m, 3) ? model_below(m, 4) : model_below(m, MODEL_ROOM + 1);
	uint32_t max = model_one_in(m, 3) ? model_below(m, 4) : model_below(m, 700);

	model_pick_some(m, room, max, model_one_in(m, 3));
}

#endif
