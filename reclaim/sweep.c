// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sweep.c - finds the coldest pages, neighbours together.
 *
 * DOC: theory of operation
 *
 * Sorting pages by key would cost memory and lose neighbourhood. Instead a bound is set such that
 * the pages with keys up to it are the coldest 1/256 (from the census), and the guest is gone round
 * once, taking what is within the bound; then the bound moves up by as much again. Between two
 * passes keys only rise (a fault, a touch), so nothing colder can appear behind the sweep but what
 * came back from a failed eviction, and that waits for the next circle.
 *
 * The circle does not go through memory in order of address. Where age or frequency are tied, a
 * sweep by address takes what lies ahead of its hand, and a working set that moves through memory in
 * the same direction suffers. Stretches of 2 MiB are visited in a scattered order (every step-th
 * modulo their number, which is made coprime), from a random start; within a stretch the order is
 * that of the addresses, so that runs of neighbours leave as one.
 *
 * The cost: as the bound admits 1/256 of the pages at least, one in 256 pages looked at is taken
 * on average, that is four words or so for each, and stretches that hold nothing cost a byte.
 */
#include <assert.h>
#include "sweep.h"

#define STRETCH_WORDS (RECLAIM_STRETCH / WORD_PAGES)
#define CIRCLE_SHARE  256.0 /* of the main pages: what a circle takes */

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

void sweep_init(struct sweep *s, uint32_t nr_pages)
{
	uint32_t nr = (nr_pages - 1) / RECLAIM_STRETCH + 1;
	uint32_t step = (uint32_t)(nr * 0.618034); /* golden: neighbours in time lie far apart */

	while (gcd(MAX(step, 1u), nr) != 1)
		step++;
	*s = (struct sweep) {.nr_stretches = nr, .step = MAX(step, 1u), .order = LRU_BY_GENERATION};
}

static void begin_circle(struct sweep *s, const struct lru_gen *lru, const struct census *c,
			 int above)
{
	double share = (lru->resident - lru->probation) / CIRCLE_SHARE;

	s->key = census_key(c, s->order, above, MAX(share, 1.0));
	s->nth = 0;
	s->word = 0;
	s->bit = 0;
}

void sweep_restart(struct sweep *s, const struct lru_gen *lru, const struct census *c,
		   enum lru_key_order order, uint64_t random)
{
	s->order = order;
	s->dry_key = 0;
	s->start = (uint32_t)(random % s->nr_stretches);
	begin_circle(s, lru, c, -1);
}

uint64_t word_lowest_run(uint64_t mask, uint32_t max, uint32_t *ret_first, uint32_t *ret_nr)
{
	uint32_t first = word_lowest(mask);
	uint32_t nr = mask == ~0ULL ? WORD_PAGES : word_lowest(~(mask >> first));

	*ret_first = first;
	*ret_nr = MIN(nr, max);
	return (~0ULL >> (WORD_PAGES - *ret_nr)) << first;
}

bool sweep_add(struct sweep_batch *b, uint32_t first, uint32_t nr)
{
	if (b->nr && b->runs[b->nr - 1].first + b->runs[b->nr - 1].nr == first)
		b->runs[b->nr - 1].nr += nr;
	else if (b->nr < b->room)
		b->runs[b->nr++] = (struct page_run) {first, nr};
	else
		return false;
	b->left -= nr;
	return true;
}

/* Isolate the pages of @mask as far as there is room; false if there is none left. */
static bool take_word(struct lru_gen *lru, uint32_t w, uint64_t mask, struct sweep_batch *b)
{
	uint32_t first, nr;
	uint64_t run;

	while (mask && b->left) {
		run = word_lowest_run(mask, b->left, &first, &nr);
		if (!sweep_add(b, w * WORD_PAGES + first, nr))
			return false;
		lru_gen_isolate(lru, w, run);
		mask &= ~run;
	}
	return b->left;
}

/* Pages of word @w that this circle takes; those of protected tiers are put off. */
static uint64_t candidates(const struct sweep *s, struct lru_gen *lru, uint32_t w,
			   const struct sweep_rules *rules)
{
	const struct lru_word *word = lru_gen_word(lru, w);
	uint64_t mask = word_pickable(word) & ~word->probation;
	uint64_t equal, spared;

	mask = s->bit < WORD_PAGES ? mask >> s->bit << s->bit : 0;
	if (!mask)
		return 0;
	if (s->key < rules->key_end)
		mask &= word_compare(word, s->order, s->key, &equal) | equal;
	else
		mask &= word_compare(word, s->order, rules->key_end, &equal);
	for (uint32_t y = rules->youth_end; y <= LRU_YOUTH_MAX; y++)
		mask &= ~word_has_youth(word, y);
	if (!mask || !rules->tiers)
		return mask;
	spared = mask & tiers_protected(rules->tiers, w);
	if (spared) {
		lru_gen_defer(lru, w, spared);
		*rules->protected += word_count(spared);
	}
	return mask & ~spared;
}

/* Where the circle is. */
static uint32_t stretch_of(const struct sweep *s)
{
	return (uint32_t)((s->start + (uint64_t)s->nth * s->step) % s->nr_stretches);
}

void sweep_note_back(struct sweep *s, uint32_t idx)
{
	uint32_t w = idx / WORD_PAGES;

	if (w == stretch_of(s) * STRETCH_WORDS + s->word)
		s->bit = MAX(s->bit, idx % WORD_PAGES + 1);
}

/* Go on with the circle; false when the batch is full, true at the circle's end. */
static bool go_round(struct sweep *s, struct lru_gen *lru, const struct sweep_rules *rules,
		     struct sweep_batch *b)
{
	for (; s->nth < s->nr_stretches; s->nth++, s->word = 0, s->bit = 0) {
		uint32_t w = stretch_of(s) * STRETCH_WORDS;

		if (!((const uint8_t *)lru->summary)[w / 8])
			continue;
		for (; s->word < STRETCH_WORDS && w + s->word < lru->nr_words;
		     s->word++, s->bit = 0)
			if (lru_gen_has_resident(lru, w + s->word) &&
			    !take_word(lru, w + s->word,
				       candidates(s, lru, w + s->word, rules), b))
				return false;
	}
	return true;
}

static bool is_dry(const struct sweep *s, const struct sweep_rules *rules)
{
	return rules->key_end <= s->dry_key && rules->youth_end <= s->dry_youth;
}

/* Nothing is left that @rules allow. A later search that may take more begins with the coldest again. */
static void run_dry(struct sweep *s, const struct lru_gen *lru, const struct census *c,
		    const struct sweep_rules *rules)
{
	s->dry_key = rules->key_end;
	s->dry_youth = rules->youth_end;
	if (rules->youth_end <= LRU_YOUTH_MAX)
		begin_circle(s, lru, c, -1);
}

/* The sweep is past what @rules allow: look for stragglers, and let it stand where it stands. */
static void take_stragglers(struct sweep *s, struct lru_gen *lru, const struct census *c,
			    const struct sweep_rules *rules, struct sweep_batch *b)
{
	struct sweep extra = *s;

	extra.key = rules->key_end - 1;
	extra.nth = 0;
	extra.word = 0;
	extra.bit = 0;
	if (go_round(&extra, lru, rules, b))
		run_dry(s, lru, c, rules);
}

void sweep_take(struct sweep *s, struct lru_gen *lru, const struct census *c,
		const struct sweep_rules *rules, struct sweep_batch *b)
{
	bool last = false;

	if (is_dry(s, rules))
		return;
	if (s->key >= rules->key_end) {
		take_stragglers(s, lru, c, rules, b);
		return;
	}
	while (b->left && lru_gen_pickable(lru) && go_round(s, lru, rules, b)) {
		/* Everything was looked at with the highest bound there is. */
		if (last) {
			run_dry(s, lru, c, rules);
			break;
		}
		last = s->key + 1 >= rules->key_end;
		begin_circle(s, lru, c, last ? (int)s->key - 1 : (int)s->key);
	}
}

static bool is_later(const struct page_run *a, const struct page_run *b)
{
	return a->first > b->first;
}

void sweep_sort(struct sweep_batch *b)
{
	static const uint32_t gaps[] = {301, 132, 57, 23, 10, 4, 1}; /* Ciura 2001 */
	struct page_run run;
	uint32_t out = 0;

	for (uint32_t g = 0; g < ARRAY_SIZE(gaps); g++) {
		for (uint32_t i = gaps[g]; i < b->nr; i++) {
			uint32_t at = i;

			run = b->runs[i];
			for (; at >= gaps[g] && is_later(&b->runs[at - gaps[g]], &run);
			     at -= gaps[g])
				b->runs[at] = b->runs[at - gaps[g]];
			b->runs[at] = run;
		}
	}
	for (uint32_t i = 1; i < b->nr; i++) {
		if (b->runs[out].first + b->runs[out].nr == b->runs[i].first)
			b->runs[out].nr += b->runs[i].nr;
		else
			b->runs[++out] = b->runs[i];
	}
	if (b->nr)
		b->nr = out + 1;
}
