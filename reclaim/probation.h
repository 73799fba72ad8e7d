/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probation.h - a short first-in-first-out queue for pages that have yet to prove themselves.
 */
#ifndef RECLAIM_PROBATION_H
#define RECLAIM_PROBATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct probation - the queue: a ring of page indexes
 * @head: where the oldest entry is; @head and @tail only grow
 * @target: pages it should hold when memory is full
 */
struct probation {
	uint32_t *ring;
	uint32_t room;
	uint64_t head;
	uint64_t tail;
	double target;
};

/** probation_size() - bytes probation_init() needs */
size_t probation_size(uint32_t nr_pages);
void probation_init(struct probation *pr, void *mem, uint32_t nr_pages);

static inline bool probation_is_empty(const struct probation *pr)
{
	return pr->head == pr->tail;
}

static inline bool probation_is_full(const struct probation *pr)
{
	return pr->tail - pr->head == pr->room;
}

/** probation_push() - @idx is the newest; the queue is not full */
void probation_push(struct probation *pr, uint32_t idx);

/** probation_pop() - take the oldest entry; the queue is not empty */
uint32_t probation_pop(struct probation *pr);

/** probation_floor() - the smallest target for a guest that may keep @capacity pages */
uint32_t probation_floor(uint32_t capacity);

/** probation_room() - pages to hold now: the target, bounded for this @capacity */
uint32_t probation_room(const struct probation *pr, uint32_t capacity);

/** probation_missed() - a page left the queue unproven and came back too soon: grow */
void probation_missed(struct probation *pr, uint32_t capacity);

/** probation_relax() - @units of reuse have passed: the target falls back to the floor */
void probation_relax(struct probation *pr, uint32_t capacity, double units);

#endif
