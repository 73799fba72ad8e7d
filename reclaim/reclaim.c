// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reclaim.c - the door of the reclaim core: where a fact leads a page, and in which order to evict.
 *
 * DOC: the policy, in one place
 *
 * Where pages enter:
 *
 *	NEW, REFAULT	youngest	touched this moment
 *	PREFETCH	youngest - 1	a guess: no touch yet, so it is old one aging sooner
 *	FOUND		oldest		nobody knows. A new core has the two youngest generations
 *					only: what is found at attach is looked at before it goes
 *	kept, TOUCHED	youngest
 *	kept, BUSY	where it was	in generation order, not picked again before the next aging
 *	kept, ERROR	where it was	picked again when the sweep comes round
 *
 * What is picked: the oldest generation that has anything to pick, in address order from its hand.
 * A batch never spans two generations, so that it is ascending and its neighbours are of one age;
 * it can be smaller than asked for at a generation's end. From the two youngest generations pages
 * are taken only when it is urgent, oldest first all the same. When even that finds nothing, what
 * was put off as busy is tried again: by then it is the only hope of a waiting fault. The caller
 * must not spin on it: a round in which everything came back busy is a reason to wait for a moment.
 *
 * When to age: a sampling pass costs time in the host and faults in the guest, so it must be good
 * for something. It is, near the limit, if eviction runs out of old pages, or if what it takes now
 * was judged before the last evictions. min_age_ns bounds the rate in any case: generations that
 * span too little time tell nothing.
 */
#include <assert.h>
#include <string.h>
#include "governor.h"
#include "lru_gen.h"
#include "readahead.h"

#define MEM_ALIGN 64u
#define RANDOM_RUN_MAX                                                                             \
	16u /* pages: long enough that runs are exercised, short enough to be spread */

struct reclaim {
	struct reclaim_conf conf;
	struct lru_gen lru;
	struct governor gov;
	struct readahead ra;
	uint64_t random;
	uint64_t aged_ns; /* last aging, or init */
	bool evicted_since_aged;
	uint64_t agings;
	uint64_t promoted;
	uint64_t picked;
};

static size_t header_size(void)
{
	return (sizeof(struct reclaim) + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
}

size_t reclaim_size(uint32_t nr_pages)
{
	return header_size() + lru_gen_size(nr_pages);
}

static bool conf_is_sane(const struct reclaim_conf *conf)
{
	return conf->nr_pages && conf->readahead_max >= 1 && conf->readahead_max <= READAHEAD_MAX &&
	       (conf->order == RECLAIM_ORDER_GENERATIONS || conf->order == RECLAIM_ORDER_RANDOM);
}

struct reclaim *reclaim_init(void *mem, size_t size, const struct reclaim_conf *conf,
			     uint64_t now_ns)
{
	struct reclaim *r = mem;

	if (!mem || !conf_is_sane(conf) || size < reclaim_size(conf->nr_pages) ||
	    (uintptr_t)mem % MEM_ALIGN)
		return NULL;
	memset(r, 0, sizeof(*r));
	r->conf = *conf;
	lru_gen_init(&r->lru, (uint8_t *)mem + header_size(), conf->nr_pages, now_ns);
	r->gov.limit = RECLAIM_NO_LIMIT;
	r->ra.nr_pages = conf->nr_pages;
	r->ra.max = conf->readahead_max;
	r->random = conf->seed;
	r->aged_ns = now_ns;
	return r;
}

/* --- facts ---------------------------------------------------------------------------------- */

void reclaim_note_resident(struct reclaim *r, uint32_t first, uint32_t nr,
			   enum reclaim_origin origin)
{
	uint64_t seq = r->lru.max_seq;

	if (origin == RECLAIM_FOUND)
		seq = r->lru.min_seq;
	else if (origin == RECLAIM_PREFETCH)
		seq = r->lru.max_seq - 1;
	lru_gen_add(&r->lru, first, nr, seq);
}

void reclaim_note_gone(struct reclaim *r, uint32_t first, uint32_t nr)
{
	lru_gen_remove(&r->lru, first, nr);
}

void reclaim_note_evicted(struct reclaim *r, uint32_t idx)
{
	/* Not isolated: it was discarded meanwhile, and maybe is back as somebody else. */
	if (!lru_gen_is_isolated(&r->lru, idx))
		return;
	lru_gen_remove(&r->lru, idx, 1);
	r->evicted_since_aged = true;
}

/* In random order chance puts others first, and no aging need come to end a deferral. */
static bool is_random(const struct reclaim *r)
{
	return r->conf.order == RECLAIM_ORDER_RANDOM;
}

void reclaim_note_kept(struct reclaim *r, uint32_t idx, enum reclaim_kept why)
{
	if (!lru_gen_is_isolated(&r->lru, idx))
		return;
	if (why == RECLAIM_KEPT_TOUCHED)
		r->promoted += lru_gen_put_back_young(&r->lru, idx);
	else
		lru_gen_put_back(&r->lru, idx, why == RECLAIM_KEPT_BUSY && !is_random(r));
}

void reclaim_note_young(struct reclaim *r, uint32_t first, const uint64_t *young, uint32_t nr_words)
{
	r->promoted += lru_gen_promote(&r->lru, first, young, nr_words);
}

void reclaim_set_limit(struct reclaim *r, uint32_t pages)
{
	r->gov.limit = pages;
}

/* --- decisions ------------------------------------------------------------------------------ */

uint32_t reclaim_high_watermark(const struct reclaim *r)
{
	return governor_high(&r->gov);
}

uint32_t reclaim_excess(const struct reclaim *r, uint32_t resident)
{
	return governor_excess(&r->gov, resident);
}

/* One past the youngest generation that is evicted in generation order. */
static uint64_t protected_seq(const struct lru_gen *lru)
{
	return lru->max_seq + 1 - RECLAIM_MIN_NR_GENS;
}

static uint32_t pick_oldest(struct reclaim *r, struct page_run *runs, uint32_t nr_runs,
			    uint32_t max, bool urgent)
{
	uint64_t end = urgent ? r->lru.max_seq + 1 : protected_seq(&r->lru);

	for (uint64_t seq = r->lru.min_seq; seq < end; seq++)
		if (lru_gen_pickable(&r->lru, seq))
			return lru_gen_isolate(&r->lru, seq, runs, nr_runs, max);
	return 0;
}

/* splitmix64: any seed will do, 0 included. */
static uint64_t next_random(struct reclaim *r)
{
	uint64_t z = r->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Put @run, which overlaps none of @runs, in its place and join it with its neighbours. */
static uint32_t insert_run(struct page_run *runs, uint32_t nr, struct page_run run)
{
	uint32_t out = 0;
	uint32_t at = nr;

	for (; at && runs[at - 1].first > run.first; at--)
		runs[at] = runs[at - 1];
	runs[at] = run;
	for (uint32_t i = 1; i <= nr; i++) {
		if (runs[out].first + runs[out].nr == runs[i].first)
			runs[out].nr += runs[i].nr;
		else
			runs[++out] = runs[i];
	}
	return out + 1;
}

static uint32_t pick_random(struct reclaim *r, struct page_run *runs, uint32_t nr_runs,
			    uint32_t max)
{
	struct page_run run;
	uint32_t from, len;
	uint32_t nr = 0;

	while (max && nr < nr_runs) {
		from = (uint32_t)(next_random(r) % r->conf.nr_pages);
		len = 1 + (uint32_t)(next_random(r) % RANDOM_RUN_MAX);
		if (!lru_gen_isolate_any(&r->lru, from, MIN(len, max), &run))
			break;
		max -= run.nr;
		nr = insert_run(runs, nr, run);
	}
	return nr;
}

static uint32_t pick(struct reclaim *r, struct page_run *runs, uint32_t nr_runs, uint32_t max,
		     bool urgent)
{
	if (is_random(r))
		return pick_random(r, runs, nr_runs, max);
	return pick_oldest(r, runs, nr_runs, max, urgent);
}

uint32_t reclaim_pick(struct reclaim *r, struct page_run *runs, uint32_t nr_runs, uint32_t max,
		      bool urgent)
{
	uint32_t nr;

	if (!nr_runs || !max)
		return 0;
	nr = pick(r, runs, nr_runs, max, urgent);
	if (!nr && urgent && lru_gen_undefer(&r->lru))
		nr = pick(r, runs, nr_runs, max, urgent);
	for (uint32_t i = 0; i < nr; i++)
		r->picked += runs[i].nr;
	return nr;
}

bool reclaim_should_age(const struct reclaim *r, uint32_t resident, uint64_t now_ns)
{
	const struct lru_gen *lru = &r->lru;
	uint64_t old = 0;

	if (governor_is_idle(&r->gov, resident) || now_ns < r->aged_ns ||
	    now_ns - r->aged_ns < r->conf.min_age_ns)
		return false;
	for (uint64_t seq = lru->min_seq; seq < protected_seq(lru); seq++)
		old += lru_gen_pickable(lru, seq);
	return r->evicted_since_aged || old < MAX(governor_gap(&r->gov), 1u);
}

void reclaim_age(struct reclaim *r, uint64_t now_ns)
{
	lru_gen_age(&r->lru, now_ns);
	r->aged_ns = now_ns;
	r->evicted_since_aged = false;
	r->agings++;
}

uint32_t reclaim_readahead(struct reclaim *r, uint32_t idx)
{
	return readahead_fault(&r->ra, idx);
}

/* --- looking in ----------------------------------------------------------------------------- */

void reclaim_get_stats(const struct reclaim *r, struct reclaim_stats *ret_stats)
{
	const struct lru_gen *lru = &r->lru;
	const struct lru_gen_slot *slot;

	memset(ret_stats, 0, sizeof(*ret_stats));
	ret_stats->min_seq = lru->min_seq;
	ret_stats->max_seq = lru->max_seq;
	ret_stats->limit = r->gov.limit;
	ret_stats->nr_gens = lru_gen_nr_gens(lru);
	ret_stats->agings = r->agings;
	ret_stats->promoted = r->promoted;
	ret_stats->picked = r->picked;
	for (uint32_t i = 0; i < ret_stats->nr_gens; i++) {
		slot = &lru->slots[lru_gen_slot_of(lru, lru->min_seq + i)];
		ret_stats->gens[i].seq = lru->min_seq + i;
		ret_stats->gens[i].birth_ns = slot->birth_ns;
		ret_stats->gens[i].pages = slot->pages - slot->isolated;
		ret_stats->isolated += slot->isolated;
	}
}

bool reclaim_verify(const struct reclaim *r)
{
	return lru_gen_verify(&r->lru);
}
