// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tiers.c - kinds of pages, and a controller that protects the kinds that come back most.
 *
 * DOC: tiers
 *
 * A tier is what is known about a page beside its age and frequency: whether it came back too soon
 * the last time it was evicted, and the class a guest agent gave it. Neither is trusted. Both only
 * sort evictions into eight boxes, and for each box it is counted how many of its pages were
 * evicted and how many of those came back too soon. Tier 0, no class and no such refault, is the
 * baseline: a tier whose pages come back clearly more often than the baseline's is protected, its
 * pages are passed over once per pass. Where hardly anything of tier 0 is evicted, since the agent
 * gave every page a class, a tier is held against all others together. A guest that calls all its
 * memory precious gains nothing, since its precious pages do not come back more often than themselves.
 *
 * The controller is the one of the multi-gen LRU (Yu Zhao, Linux 6.1): proportional on the counts of
 * the present interval, integral as an average over the past, here with a half-life of some units of
 * reuse; and no verdict on fewer than a handful of refaults.
 */
#include <string.h>
#include "decay.h"
#include "lru_word.h"
#include "tiers.h"

#define HALF_LIFE    4.0  /* units of reuse */
#define MIN_REFAULTS 64.0 /* below, chance */
#define MIN_EVICTED  64.0 /* of the baseline, the same */
#define GAIN	     1.5  /* protected: this many times the baseline's share comes back */

size_t tiers_size(uint32_t nr_pages)
{
	return words_for(nr_pages) * sizeof(struct tier_word);
}

void tiers_init(struct tiers *t, void *mem, uint32_t nr_pages)
{
	*t = (struct tiers) {.words = mem, .nr_words = words_for(nr_pages)};
}

uint32_t tiers_of(const struct tiers *t, uint32_t idx)
{
	const struct tier_word *word;
	uint32_t n = idx % WORD_PAGES;

	if (!t->any)
		return 0;
	word = &t->words[idx / WORD_PAGES];
	return (uint32_t)(word->hint[0] >> n & 1) | (uint32_t)(word->hint[1] >> n & 1) << 1 |
	       (uint32_t)(word->refaulted >> n & 1) << 2;
}

void tiers_set_hint(struct tiers *t, uint32_t first, uint32_t nr, enum reclaim_hint hint)
{
	uint64_t end = (uint64_t)first + nr;

	t->any |= hint != RECLAIM_HINT_NONE;
	for (uint32_t w = first / WORD_PAGES; t->any && nr && w <= (end - 1) / WORD_PAGES; w++) {
		uint64_t mask = word_range(w, first, end);

		for (uint32_t i = 0; i < 2; i++)
			t->words[w].hint[i] = (t->words[w].hint[i] & ~mask) |
					      ((uint32_t)hint >> i & 1 ? mask : 0);
	}
}

void tiers_note_evicted(struct tiers *t, uint32_t idx)
{
	t->now[tiers_of(t, idx)].evicted++;
}

void tiers_note_refault(struct tiers *t, uint32_t idx, bool near)
{
	struct tier_word *word = &t->words[idx / WORD_PAGES];

	if (near) {
		t->now[tiers_of(t, idx)].refaulted++;
		word->refaulted |= word_bit(idx);
		t->any = true;
	} else if (t->any && word->refaulted & word_bit(idx)) {
		word->refaulted &= ~word_bit(idx);
	}
}

void tiers_forget(struct tiers *t, uint32_t w, uint64_t mask)
{
	struct tier_word *word = &t->words[w];

	if (!t->any || !((word->refaulted | word->hint[0] | word->hint[1]) & mask))
		return;
	word->refaulted &= ~mask;
	word->hint[0] &= ~mask;
	word->hint[1] &= ~mask;
}

/* Does @tier come back clearly more often than @base? Both shares have the counts as they are below them. */
static bool comes_back_more(const struct tier *tier, const struct tier *base)
{
	return tier->refaulted >= MIN_REFAULTS &&
	       tier->refaulted * (base->evicted + MIN_REFAULTS) >
		       GAIN * (base->refaulted + 1) * tier->evicted;
}

void tiers_update(struct tiers *t, double units)
{
	double keep = decay_exp2(units / HALF_LIFE);
	struct tier all = {0};

	t->protected = 0;
	for (uint32_t i = 0; i < RECLAIM_NR_TIERS; i++) {
		t->avg[i].evicted = t->avg[i].evicted * keep + t->now[i].evicted;
		t->avg[i].refaulted = t->avg[i].refaulted * keep + t->now[i].refaulted;
		all.evicted += t->avg[i].evicted;
		all.refaulted += t->avg[i].refaulted;
	}
	for (uint32_t i = 1; i < RECLAIM_NR_TIERS; i++) {
		struct tier base = t->avg[0];

		if (base.evicted < MIN_EVICTED)
			base = (struct tier) {all.evicted - t->avg[i].evicted,
					      all.refaulted - t->avg[i].refaulted};
		if (base.evicted >= MIN_EVICTED && comes_back_more(&t->avg[i], &base))
			t->protected |= 1u << i;
	}
	memset(t->now, 0, sizeof(t->now));
}

uint64_t tiers_protected(const struct tiers *t, uint32_t w)
{
	const struct tier_word *word = &t->words[w];
	uint64_t mask = 0;

	for (uint32_t i = 1; t->protected && i < RECLAIM_NR_TIERS; i++)
		if (t->protected & 1u << i)
			mask |= (i & 1 ? word->hint[0] : ~word->hint[0]) &
				(i & 2 ? word->hint[1] : ~word->hint[1]) &
				(i & 4 ? word->refaulted : ~word->refaulted);
	return mask;
}
