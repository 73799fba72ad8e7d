// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sweep.c - finds the coldest pages, neighbours together.
 *
 * DOC: theory of operation
 *
 * Sorting pages by key would cost memory and lose neighbourhood. Instead a bound is set such that
 * the pages with keys up to it are the coldest 1/256 (from the census), and a hand goes round the
 * guest once, taking what is within the bound; then the bound moves up by as much again. Between two
 * passes keys only rise (a fault, a touch), so nothing colder can appear behind the hand but what
 * came back from a failed eviction, and that waits for the next circle.
 *
 * The circle does not go through memory in order of address. Where age or frequency are tied, a
 * sweep by address takes what lies ahead of its hand, and a working set that moves through memory in
 * the same direction suffers. Stretches of 2 MiB are visited in a scattered order (every step-th
 * modulo their number, which is made coprime), from a random start; within a stretch the order is
 * that of the addresses, so that runs of neighbours leave as one.
 *
 * DOC: what a search may cost
 *
 * As the bound admits 1/256 of the pages at least, one in 256 pages looked at is taken on average, that
 * is four words or so for each. Where pages lie thinly, words count and not pages: the bound admits
 * a page for every eighth word that holds any.
 *
 * That is the average. Pages that may go can be far from the hand, or nowhere, and a guest of 1 TiB
 * takes a third of a second to go round, with the LRU lock held. So a search looks at a bounded
 * number of words and then gives up where it stands, with what it has: the next one goes on there. What
 * it has learnt about nothing being left must be true of the whole circle, however many searches it
 * was made of: @seen_key and @seen_youth are the least that any of them was allowed to take, and what
 * came back behind the hand meanwhile is remembered in @wet_key.
 */
#include <assert.h>
#include "sweep.h"

#define STRETCH_WORDS (RECLAIM_STRETCH / WORD_PAGES)
#define PAGES_PER_TAKEN 256.0 /* of the main pages a circle takes one in so many, */
#define WORDS_PER_TAKEN 8.0   /* and of the words that hold some one page in so many */

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static void begin_hand(struct sweep_hand *hand)
{
	*hand = (struct sweep_hand) {
		.start = hand->start,
		.seen_key = LRU_NR_KEYS,
		.seen_youth = LRU_YOUTH_MAX + 1,
		.wet_key = LRU_NR_KEYS,
	};
}

void sweep_init(struct sweep *s, uint32_t nr_pages)
{
	uint32_t nr = (nr_pages - 1) / RECLAIM_STRETCH + 1;
	uint32_t step = (uint32_t)(nr * 0.618034); /* golden: neighbours in time lie far apart */

	while (gcd(MAX(step, 1u), nr) != 1)
		step++;
	*s = (struct sweep) {.nr_stretches = nr, .step = MAX(step, 1u), .order = LRU_BY_GENERATION};
	begin_hand(&s->hand);
	begin_hand(&s->stray);
}

static void begin_circle(struct sweep *s, const struct lru_gen *lru, const struct census *c,
			 int above)
{
	double pages = (lru->resident - lru->probation) / PAGES_PER_TAKEN;
	double words = c->words / WORDS_PER_TAKEN;

	s->key = census_key(c, s->order, above, MAX(MAX(pages, words), 1.0));
	begin_hand(&s->hand);
}

void sweep_restart(struct sweep *s, const struct lru_gen *lru, const struct census *c,
		   enum lru_key_order order, uint64_t random)
{
	s->order = order;
	s->dry_key = 0;
	s->hand.start = s->stray.start = (uint32_t)(random % s->nr_stretches);
	begin_circle(s, lru, c, -1);
	begin_hand(&s->stray);
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

/* Isolate the pages of @mask as far as there is room; false if there is none left. @hand moves past them. */
static bool take_word(struct lru_gen *lru, uint32_t w, uint64_t mask, struct sweep_hand *hand,
		      struct sweep_batch *b)
{
	uint32_t first, nr;
	uint64_t run;

	while (mask && b->left) {
		run = word_lowest_run(mask, b->left, &first, &nr);
		if (!sweep_add(b, w * WORD_PAGES + first, nr))
			return false;
		lru_gen_isolate(lru, w, run);
		hand->bit = first + nr;
		mask &= ~run;
	}
	return b->left;
}

/* Pages of word @w with keys up to @key that @rules allow; those of protected tiers are put off. */
static uint64_t candidates(const struct sweep *s, const struct sweep_hand *hand, uint32_t key,
			   struct lru_gen *lru, uint32_t w, const struct sweep_rules *rules)
{
	const struct lru_word *word = lru_gen_word(lru, w);
	uint64_t mask = lru_gen_pickable(lru, word) & ~word->probation;
	uint64_t equal, spared;

	mask = hand->bit < WORD_PAGES ? mask >> hand->bit << hand->bit : 0;
	if (!mask)
		return 0;
	mask &= word_compare(word, s->order, key, &equal) | equal;
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

/* Where the hand is. */
static uint32_t stretch_of(const struct sweep *s, const struct sweep_hand *hand)
{
	return (uint32_t)((hand->start + (uint64_t)hand->nth * s->step) % s->nr_stretches);
}

void sweep_wet(struct sweep *s, uint32_t key)
{
	s->dry_key = MIN(s->dry_key, key);
	if (s->hand.moves)
		s->hand.wet_key = MIN(s->hand.wet_key, key);
	if (s->stray.moves)
		s->stray.wet_key = MIN(s->stray.wet_key, key);
}

/* Go on with the circle; true at its end, false when the batch is full or enough has been looked at. */
static bool go_round(const struct sweep *s, struct sweep_hand *hand, uint32_t key,
		     struct lru_gen *lru, const struct sweep_rules *rules, struct sweep_batch *b)
{
	hand->moves = true;
	hand->seen_key = MIN(hand->seen_key, rules->key_end);
	hand->seen_youth = MIN(hand->seen_youth, rules->youth_end);
	for (; hand->nth < s->nr_stretches; hand->nth++, hand->word = 0, hand->bit = 0) {
		uint32_t w = stretch_of(s, hand) * STRETCH_WORDS;
		bool empty = !((const uint8_t *)lru->summary)[w / 8];

		for (; !empty && hand->word < STRETCH_WORDS && w + hand->word < lru->nr_words;
		     hand->word++, hand->bit = 0) {
			if (!lru_gen_has_resident(lru, w + hand->word))
				continue;
			if (!b->looks)
				return false;
			b->looks--;
			if (!take_word(lru, w + hand->word,
				       candidates(s, hand, key, lru, w + hand->word, rules),
				       hand, b))
				return false;
		}
		if (!b->looks)
			return false;
		b->looks -= empty;
	}
	return true;
}

static bool is_dry(const struct sweep *s, const struct sweep_rules *rules)
{
	return !rules->key_end || !rules->youth_end ||
	       (rules->key_end <= s->dry_key && rules->youth_end <= s->dry_youth);
}

/* @hand has been everywhere, with the highest bound there is: what it was not allowed to take may be left. */
static void run_dry(struct sweep *s, const struct sweep_hand *hand)
{
	s->dry_key = MIN(hand->seen_key, hand->wet_key);
	s->dry_youth = hand->seen_youth;
}

/* The sweep is past what @rules allow: look for stragglers, and let it stand where it stands. */
static void take_stragglers(struct sweep *s, struct lru_gen *lru, const struct sweep_rules *rules,
			    struct sweep_batch *b)
{
	while (!is_dry(s, rules) && go_round(s, &s->stray, rules->key_end - 1, lru, rules, b)) {
		run_dry(s, &s->stray);
		begin_hand(&s->stray);
	}
}

void sweep_take(struct sweep *s, struct lru_gen *lru, const struct census *c,
		const struct sweep_rules *rules, struct sweep_batch *b)
{
	if (s->key >= rules->key_end) {
		take_stragglers(s, lru, rules, b);
		return;
	}
	while (!is_dry(s, rules) && lru_gen_nr_pickable(lru) &&
	       go_round(s, &s->hand, MIN(s->key, rules->key_end - 1), lru, rules, b)) {
		int above = (int)s->key;

		if (s->key + 1 >= rules->key_end) {
			run_dry(s, &s->hand);
			/* Where age protects, a later search may take what is colder than the bound. */
			above = rules->youth_end <= LRU_YOUTH_MAX ? -1 : above - 1;
		}
		begin_circle(s, lru, c, above);
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
