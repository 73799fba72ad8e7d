/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reclaim_internal.h - what the files behind the door share.
 */
#ifndef RECLAIM_INTERNAL_H
#define RECLAIM_INTERNAL_H

#include <ebb/reclaim.h>
#include "alarm.h"
#include "governor.h"
#include "judge.h"
#include "lru_gen.h"
#include "pacer.h"
#include "probation.h"
#include "readahead.h"
#include "shadow.h"
#include "stretch.h"
#include "sweep.h"
#include "tiers.h"

/**
 * struct reclaim - the core of one guest
 * @reuse: of the main pages, the share touched in the last whole interval, as log2 of the rest; and
 *         how long that interval was
 * @victim_freq: frequency up to which main pages are being evicted
 * @census_evictions: the eviction clock at the last census
 * @agings: since the last pass
 * @searching: the last pick gave up before it had looked everywhere
 * @ttl_taken: pages under min_ttl evicted since the last pass
 */
struct reclaim {
	struct reclaim_policy policy;
	uint32_t nr_pages;
	uint64_t now_ns;
	uint64_t begun_ns;
	uint64_t random;
	struct lru_gen lru;
	struct governor gov;
	struct readahead ra;
	struct shadow shadow;
	struct probation probation;
	struct tiers tiers;
	struct stretches stretches;
	struct sweep sweep;
	struct judge judge;
	struct alarm alarm;
	struct pacer pacer;
	struct census census;
	double reuse_log2;
	double reuse_len_ns;
	uint32_t reused;
	uint32_t victim_freq;
	uint32_t rounds; /* since the last halving */
	uint64_t census_evictions;
	bool ttl_taken;
	bool searching;
	uint32_t agings;
	struct reclaim_stats stats; /* counters only */
};

/** reclaim_capacity() - pages that may be resident; without a limit, those that are */
static inline uint32_t reclaim_capacity(const struct reclaim *r)
{
	return r->gov.limit == RECLAIM_NO_LIMIT ? MAX(r->lru.resident, 1u) : r->gov.limit;
}

static inline bool reclaim_has(const struct reclaim *r, enum reclaim_feature feature)
{
	return r->policy.features & (uint32_t)feature;
}

/** reclaim_random() - splitmix64: any seed will do, 0 included */
static inline uint64_t reclaim_random(struct reclaim *r)
{
	uint64_t z = r->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/** reclaim_key_order() - the order to evict in now */
enum lru_key_order reclaim_key_order(const struct reclaim *r);

/** reclaim_scene() - where a fault at this moment falls */
struct alarm_scene reclaim_scene(const struct reclaim *r);

/** reclaim_enqueue() - a page is on probation: to the queue's end; others graduate if it is full */
void reclaim_enqueue(struct reclaim *r, uint32_t idx);

/** reclaim_dequeue() - the page longest on probation, RECLAIM_NO_PAGE if nobody is */
uint32_t reclaim_dequeue(struct reclaim *r);
#define RECLAIM_NO_PAGE UINT32_MAX

#endif
