// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lru_gen.c - generations of pages as bitmaps: who is how old, who is handed out.
 *
 * DOC: theory of operation
 *
 * A list per generation would cost 8 bytes a page and a cache miss per move, and its neighbours in
 * age are strangers in memory. Here each generation is a bitmap instead. What that buys:
 *
 * - a young bitmap from a sampler promotes 64 pages with a handful of ANDs and ORs;
 * - aging makes everybody one generation older by counting up max_seq: as long as the window is
 *   not full, no page is looked at;
 * - eviction finds *runs* of neighbours with find-first-set: one hole punch, one write.
 *
 * What is given up is the order inside a generation. A *hand* per generation takes its place: it
 * sweeps the generation in address order, goes on where it stopped, and comes round to what
 * returned behind it only after everything else had its turn.
 *
 * The bitmaps of 64 pages stand side by side in struct lru_word, so that whatever happens to a page
 * happens in one or two cache lines. A summary (one bit a word for each generation) leads from one
 * non-empty word to the next: a hole of 4096 pages costs one load. A guest of 2^28 pages has 65536
 * summary words per generation, which bounds every search for something that is not there; one that
 * the counts know to be hopeless is not begun.
 *
 * A page is *known* when it is in one generation. An *isolated* page stays in its generation (that
 * is how it finds the way back) under the cover of a second bit. So an old generation is not
 * empty, and min_seq does not move on, before the last of its pages is reported back. *Deferred*
 * pages are those found busy (pinned by a device, or in a kernel batch): trying them again at once
 * would find them busy again, and a generation of nothing else would keep eviction from the next
 * one. They wait under a third bit until the next aging.
 *
 * The window. Aging is never refused: with RECLAIM_MAX_NR_GENS generations in use the two oldest
 * are merged, which loses the difference between old and very old, and keeps the one that matters,
 * between looked at twice and not. It takes one OR for each word of the smaller of the two; so that
 * this may be the younger one, a generation's bitmap is found through slot_of[].
 *
 * Counts change with the bits, by the population count of what moved, and never by recounting.
 */
#include <assert.h>
#include <string.h>
#include "lru_gen.h"

#define WORD_PAGES 64u

/* Written out: the compiler's builtin is a library call on baseline x86-64. */
static uint32_t count_bits(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return (uint32_t)(x * 0x0101010101010101 >> 56);
}

static uint32_t lowest_bit(uint64_t x)
{
	return (uint32_t)__builtin_ctzll(x);
}

static uint64_t bit(uint32_t idx)
{
	return 1ULL << idx % WORD_PAGES;
}

/* The bits of word @w that lie in pages @first..@end - 1; at least one does. */
static uint64_t range_mask(uint32_t w, uint64_t first, uint64_t end)
{
	uint64_t base = (uint64_t)w * WORD_PAGES;
	uint64_t mask = ~0ULL;

	if (first > base)
		mask <<= first - base;
	if (end < base + WORD_PAGES)
		mask &= ~0ULL >> (base + WORD_PAGES - end);
	return mask;
}

static uint32_t words_for(uint64_t bits)
{
	return (uint32_t)((bits + WORD_PAGES - 1) / WORD_PAGES);
}

/* Next word at or after @w and before @end that the summary names; @end if there is none. */
static uint32_t next_word(const uint64_t *summary, uint32_t w, uint32_t end)
{
	uint32_t i = w / WORD_PAGES;
	uint64_t bits;

	if (w >= end)
		return end;
	bits = summary[i] & ~0ULL << w % WORD_PAGES;
	while (!bits) {
		if (++i >= words_for(end))
			return end;
		bits = summary[i];
	}
	w = i * WORD_PAGES + lowest_bit(bits);
	return MIN(w, end);
}

static void summary_set(struct lru_gen *lru, uint32_t which, uint32_t w)
{
	lru->summary[which][w / WORD_PAGES] |= bit(w);
}

static void summary_clear(struct lru_gen *lru, uint32_t which, uint32_t w)
{
	lru->summary[which][w / WORD_PAGES] &= ~bit(w);
}

static uint64_t known(const struct lru_word *word)
{
	uint64_t all = 0;

	for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++)
		all |= word->gen[s];
	return all;
}

/* The pages of @mask lose their isolated mark; all of them have one, all are in @slot. */
static void clear_isolated(struct lru_gen *lru, uint32_t w, uint32_t slot, uint64_t mask)
{
	lru->words[w].isolated &= ~mask;
	lru->slots[slot].isolated -= count_bits(mask);
}

static void clear_deferred(struct lru_gen *lru, uint32_t w, uint32_t slot, uint64_t mask)
{
	lru->words[w].deferred &= ~mask;
	lru->slots[slot].deferred -= count_bits(mask);
	if (!lru->words[w].deferred)
		summary_clear(lru, LRU_SUMMARY_DEFERRED, w);
}

/* The pages of @mask leave @slot (all are in it) and whatever marks they have. */
static void leave_gen(struct lru_gen *lru, uint32_t w, uint32_t slot, uint64_t mask)
{
	struct lru_word *word = &lru->words[w];

	if (word->isolated & mask)
		clear_isolated(lru, w, slot, word->isolated & mask);
	if (word->deferred & mask)
		clear_deferred(lru, w, slot, word->deferred & mask);
	word->gen[slot] &= ~mask;
	lru->slots[slot].pages -= count_bits(mask);
	if (!word->gen[slot])
		summary_clear(lru, slot, w);
}

static void enter_gen(struct lru_gen *lru, uint32_t w, uint32_t slot, uint64_t mask)
{
	lru->words[w].gen[slot] |= mask;
	lru->slots[slot].pages += count_bits(mask);
	summary_set(lru, slot, w);
}

/* Empty generations at the old end are over, as long as the smallest window is left. */
static void advance_min_seq(struct lru_gen *lru)
{
	while (lru_gen_nr_gens(lru) > RECLAIM_MIN_NR_GENS &&
	       !lru->slots[lru_gen_slot_of(lru, lru->min_seq)].pages)
		lru->min_seq++;
}

static size_t summary_size(uint32_t nr_words)
{
	return (size_t)words_for(nr_words) * sizeof(uint64_t);
}

size_t lru_gen_size(uint32_t nr_pages)
{
	uint32_t nr_words = words_for(nr_pages);

	return nr_words * sizeof(struct lru_word) + LRU_NR_SUMMARIES * summary_size(nr_words);
}

void lru_gen_init(struct lru_gen *lru, void *mem, uint32_t nr_pages, uint64_t now_ns)
{
	uint8_t *at = mem;

	assert(nr_pages && (uintptr_t)mem % sizeof(uint64_t) == 0);
	memset(lru, 0, sizeof(*lru));
	lru->nr_pages = nr_pages;
	lru->nr_words = words_for(nr_pages);
	lru->words = mem;
	at += lru->nr_words * sizeof(struct lru_word);
	for (uint32_t i = 0; i < LRU_NR_SUMMARIES; i++) {
		lru->summary[i] = (uint64_t *)(void *)at;
		at += summary_size(lru->nr_words);
	}
	for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++)
		lru->slot_of[s] = s;
	lru->max_seq = RECLAIM_MIN_NR_GENS - 1;
	for (uint32_t s = 0; s < RECLAIM_MIN_NR_GENS; s++)
		lru->slots[s].birth_ns = now_ns;
}

static bool in_guest(const struct lru_gen *lru, uint32_t first, uint32_t nr)
{
	return nr <= lru->nr_pages && first <= lru->nr_pages - nr;
}

void lru_gen_add(struct lru_gen *lru, uint32_t first, uint32_t nr, uint64_t seq)
{
	uint64_t end = (uint64_t)first + nr;

	assert(in_guest(lru, first, nr));
	assert(seq >= lru->min_seq && seq <= lru->max_seq);
	for (uint32_t w = first / WORD_PAGES; nr && w <= (end - 1) / WORD_PAGES; w++) {
		uint64_t fresh = range_mask(w, first, end) & ~known(&lru->words[w]);

		if (fresh)
			enter_gen(lru, w, lru_gen_slot_of(lru, seq), fresh);
	}
}

void lru_gen_remove(struct lru_gen *lru, uint32_t first, uint32_t nr)
{
	uint64_t end = (uint64_t)first + nr;
	uint64_t mask;

	assert(in_guest(lru, first, nr));
	for (uint32_t w = first / WORD_PAGES; nr && w <= (end - 1) / WORD_PAGES; w++) {
		for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++) {
			mask = range_mask(w, first, end) & lru->words[w].gen[s];
			if (mask)
				leave_gen(lru, w, s, mask);
		}
	}
	advance_min_seq(lru);
}

bool lru_gen_is_isolated(const struct lru_gen *lru, uint32_t idx)
{
	assert(in_guest(lru, idx, 1));
	return lru->words[idx / WORD_PAGES].isolated & bit(idx);
}

static uint32_t slot_of_page(const struct lru_gen *lru, uint32_t idx)
{
	const struct lru_word *word = &lru->words[idx / WORD_PAGES];
	uint32_t s = 0;

	while (s < RECLAIM_MAX_NR_GENS - 1 && !(word->gen[s] & bit(idx)))
		s++;
	assert(word->gen[s] & bit(idx));
	return s;
}

void lru_gen_put_back(struct lru_gen *lru, uint32_t idx, bool defer)
{
	uint32_t w = idx / WORD_PAGES;
	uint32_t slot;

	assert(lru_gen_is_isolated(lru, idx));
	slot = slot_of_page(lru, idx);
	clear_isolated(lru, w, slot, bit(idx));
	if (!defer)
		return;
	lru->words[w].deferred |= bit(idx);
	lru->slots[slot].deferred++;
	summary_set(lru, LRU_SUMMARY_DEFERRED, w);
}

bool lru_gen_put_back_young(struct lru_gen *lru, uint32_t idx)
{
	uint32_t youngest = lru_gen_slot_of(lru, lru->max_seq);
	uint32_t slot;

	assert(lru_gen_is_isolated(lru, idx));
	slot = slot_of_page(lru, idx);
	leave_gen(lru, idx / WORD_PAGES, slot, bit(idx));
	enter_gen(lru, idx / WORD_PAGES, youngest, bit(idx));
	advance_min_seq(lru);
	return slot != youngest;
}

/* Move @young pages of word @w; returns how many. Bits of unknown pages fall out by themselves. */
static uint32_t promote_word(struct lru_gen *lru, uint32_t w, uint64_t young)
{
	uint32_t youngest = lru_gen_slot_of(lru, lru->max_seq);
	uint64_t moved = 0;

	young &= ~lru->words[w].isolated;
	for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++) {
		uint64_t mask = lru->words[w].gen[s] & young;

		if (!mask || s == youngest)
			continue;
		leave_gen(lru, w, s, mask);
		moved |= mask;
	}
	if (moved)
		enter_gen(lru, w, youngest, moved);
	return count_bits(moved);
}

uint32_t lru_gen_promote(struct lru_gen *lru, uint32_t first, const uint64_t *young,
			 uint32_t nr_words)
{
	uint32_t w = first / WORD_PAGES;
	uint32_t moved = 0;

	assert(first % WORD_PAGES == 0);
	for (uint32_t i = 0; i < nr_words && w < lru->nr_words; i++, w++)
		if (young[i])
			moved += promote_word(lru, w, young[i]);
	advance_min_seq(lru);
	return moved;
}

/* All pages of slot @from, with their marks, become pages of slot @to. */
static void merge_slot(struct lru_gen *lru, uint32_t from, uint32_t to)
{
	struct lru_gen_slot *src = &lru->slots[from];
	struct lru_gen_slot *dst = &lru->slots[to];
	uint32_t w = 0;

	while (src->pages &&
	       (w = next_word(lru->summary[from], w, lru->nr_words)) < lru->nr_words) {
		lru->words[w].gen[to] |= lru->words[w].gen[from];
		lru->words[w].gen[from] = 0;
		summary_set(lru, to, w);
		summary_clear(lru, from, w);
		w++;
	}
	dst->pages += src->pages;
	dst->isolated += src->isolated;
	dst->deferred += src->deferred;
	memset(src, 0, sizeof(*src));
}

/*
 * The two oldest generations become one, with the birth time and the hand of the younger. The bits
 * of the smaller one are moved: when that is the younger, the two exchange their slots first.
 */
static void merge_oldest(struct lru_gen *lru)
{
	uint32_t *old = &lru->slot_of[lru->min_seq % RECLAIM_MAX_NR_GENS];
	uint32_t *next = &lru->slot_of[(lru->min_seq + 1) % RECLAIM_MAX_NR_GENS];

	if (lru->slots[*old].pages > lru->slots[*next].pages) {
		uint32_t big = *old;

		lru->slots[big].birth_ns = lru->slots[*next].birth_ns;
		lru->slots[big].hand = lru->slots[*next].hand;
		*old = *next;
		*next = big;
	}
	merge_slot(lru, *old, *next);
	lru->min_seq++;
}

void lru_gen_age(struct lru_gen *lru, uint64_t now_ns)
{
	struct lru_gen_slot *youngest;

	if (lru_gen_nr_gens(lru) == RECLAIM_MAX_NR_GENS)
		merge_oldest(lru);
	lru->max_seq++;
	youngest = &lru->slots[lru_gen_slot_of(lru, lru->max_seq)];
	assert(!youngest->pages);
	youngest->hand = 0;
	youngest->birth_ns = now_ns;
	lru_gen_undefer(lru);
	advance_min_seq(lru);
}

uint32_t lru_gen_undefer(struct lru_gen *lru)
{
	uint32_t nr = 0;
	uint32_t w = 0;

	for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++) {
		nr += lru->slots[s].deferred;
		lru->slots[s].deferred = 0;
	}
	if (!nr)
		return 0;
	while ((w = next_word(lru->summary[LRU_SUMMARY_DEFERRED], w, lru->nr_words)) <
	       lru->nr_words) {
		lru->words[w].deferred = 0;
		w++;
	}
	memset(lru->summary[LRU_SUMMARY_DEFERRED], 0, summary_size(lru->nr_words));
	return nr;
}

static uint32_t slot_pickable(const struct lru_gen_slot *slot)
{
	return slot->pages - slot->isolated - slot->deferred;
}

uint32_t lru_gen_pickable(const struct lru_gen *lru, uint64_t seq)
{
	return slot_pickable(&lru->slots[lru_gen_slot_of(lru, seq)]);
}

/* struct batch - runs being filled; @left pages may still be added */
struct batch {
	struct page_run *runs;
	uint32_t nr;
	uint32_t room;
	uint32_t left;
};

/* Add pages after all that were added before; false if there is no room for the run they begin. */
static bool batch_add(struct batch *b, uint32_t first, uint32_t nr)
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

/* The lowest run in @avail (not 0), cut to @max: its bits; *@ret_first gets the lowest one. */
static uint64_t lowest_run(uint64_t avail, uint32_t max, uint32_t *ret_first, uint32_t *ret_nr)
{
	uint32_t first = lowest_bit(avail);
	uint32_t nr = avail == ~0ULL ? WORD_PAGES : lowest_bit(~(avail >> first));

	*ret_first = first;
	*ret_nr = MIN(nr, max);
	return (~0ULL >> (WORD_PAGES - *ret_nr)) << first;
}

/* Isolate pages of @slot from @from up to @end; leaves the hand behind the last one looked at. */
static void sweep(struct lru_gen *lru, uint32_t slot, uint32_t from, uint32_t end, struct batch *b)
{
	struct lru_gen_slot *gen = &lru->slots[slot];
	uint32_t end_word = words_for(end);
	uint32_t first, nr, w = from / WORD_PAGES;
	uint64_t avail, run;

	gen->hand = from;
	while (b->left && slot_pickable(gen) &&
	       (w = next_word(lru->summary[slot], w, end_word)) < end_word) {
		struct lru_word *word = &lru->words[w];

		avail = word->gen[slot] & ~word->isolated & ~word->deferred &
			range_mask(w, from, end);
		while (avail && b->left) {
			run = lowest_run(avail, b->left, &first, &nr);
			if (!batch_add(b, w * WORD_PAGES + first, nr))
				return;
			word->isolated |= run;
			gen->isolated += nr;
			avail &= ~run;
			gen->hand =
				(uint32_t)(((uint64_t)w * WORD_PAGES + first + nr) % lru->nr_pages);
		}
		w++;
	}
	/* Nothing more ahead: the next sweep begins at the far side. */
	if (b->left && slot_pickable(gen))
		gen->hand = end % lru->nr_pages;
}

uint32_t lru_gen_isolate(struct lru_gen *lru, uint64_t seq, struct page_run *runs, uint32_t nr_runs,
			 uint32_t max)
{
	struct batch b = {.runs = runs, .room = nr_runs, .left = max};
	uint32_t slot = lru_gen_slot_of(lru, seq);
	uint32_t hand = lru->slots[slot].hand;

	assert(seq >= lru->min_seq && seq <= lru->max_seq);
	if (!nr_runs || !max || !slot_pickable(&lru->slots[slot]))
		return 0;
	sweep(lru, slot, hand, lru->nr_pages, &b);
	if (!b.nr)
		sweep(lru, slot, 0, hand, &b);
	assert(b.nr);
	return b.nr;
}

/* As next_word(), of all generations together. */
static uint32_t next_word_any(const struct lru_gen *lru, uint32_t w, uint32_t end)
{
	for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++)
		if (slot_pickable(&lru->slots[s]))
			end = next_word(lru->summary[s], w, end);
	return end;
}

static bool isolate_any_between(struct lru_gen *lru, uint32_t from, uint32_t end, uint32_t max,
				struct page_run *ret_run)
{
	uint32_t end_word = words_for(end);
	uint32_t first, nr, w = from / WORD_PAGES;
	uint64_t avail, run;

	for (; (w = next_word_any(lru, w, end_word)) < end_word; w++) {
		struct lru_word *word = &lru->words[w];

		avail = known(word) & ~word->isolated & ~word->deferred & range_mask(w, from, end);
		if (!avail)
			continue;
		run = lowest_run(avail, max, &first, &nr);
		word->isolated |= run;
		for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++)
			lru->slots[s].isolated += count_bits(word->gen[s] & run);
		*ret_run = (struct page_run) {w * WORD_PAGES + first, nr};
		return true;
	}
	return false;
}

bool lru_gen_isolate_any(struct lru_gen *lru, uint32_t from, uint32_t max, struct page_run *ret_run)
{
	assert(in_guest(lru, from, 1) && max);
	return isolate_any_between(lru, from, lru->nr_pages, max, ret_run) ||
	       isolate_any_between(lru, 0, from, max, ret_run);
}

/* Does word @w keep its promises? Adds its pages to @counts. */
static bool verify_word(const struct lru_gen *lru, uint32_t w, struct lru_gen_slot *counts)
{
	const struct lru_word *word = &lru->words[w];
	uint64_t marked = word->isolated | word->deferred;
	uint64_t seen = 0;
	bool named;

	for (uint32_t s = 0; s < RECLAIM_MAX_NR_GENS; s++) {
		named = lru->summary[s][w / WORD_PAGES] & bit(w);
		if ((seen & word->gen[s]) || named != !!word->gen[s])
			return false;
		seen |= word->gen[s];
		counts[s].pages += count_bits(word->gen[s]);
		counts[s].isolated += count_bits(word->gen[s] & word->isolated);
		counts[s].deferred += count_bits(word->gen[s] & word->deferred);
	}
	named = lru->summary[LRU_SUMMARY_DEFERRED][w / WORD_PAGES] & bit(w);
	return named == !!word->deferred && !(marked & ~seen) &&
	       !(word->isolated & word->deferred) && !(seen & ~range_mask(w, 0, lru->nr_pages));
}

/* A slot outside the window must be empty. */
static bool verify_slot(const struct lru_gen *lru, uint64_t seq, const struct lru_gen_slot *counted)
{
	const struct lru_gen_slot *slot = &lru->slots[lru_gen_slot_of(lru, seq)];

	return slot->pages == counted->pages && slot->isolated == counted->isolated &&
	       slot->deferred == counted->deferred && slot->hand < lru->nr_pages &&
	       (seq <= lru->max_seq || !slot->pages);
}

bool lru_gen_verify(const struct lru_gen *lru)
{
	struct lru_gen_slot counts[RECLAIM_MAX_NR_GENS] = {0};
	uint32_t nr_gens = lru_gen_nr_gens(lru);

	uint32_t slots = 0;

	for (uint32_t i = 0; i < RECLAIM_MAX_NR_GENS; i++)
		slots |= 1u << lru->slot_of[i] % 32;
	if (lru->min_seq > lru->max_seq || nr_gens < RECLAIM_MIN_NR_GENS ||
	    nr_gens > RECLAIM_MAX_NR_GENS || slots != (1u << RECLAIM_MAX_NR_GENS) - 1)
		return false;
	for (uint32_t w = 0; w < lru->nr_words; w++)
		if (!verify_word(lru, w, counts))
			return false;
	for (uint32_t i = 0; i < RECLAIM_MAX_NR_GENS; i++)
		if (!verify_slot(lru, lru->min_seq + i,
				 &counts[lru_gen_slot_of(lru, lru->min_seq + i)]))
			return false;
	return nr_gens == RECLAIM_MIN_NR_GENS ||
	       lru->slots[lru_gen_slot_of(lru, lru->min_seq)].pages;
}
