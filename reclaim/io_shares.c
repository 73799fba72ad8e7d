// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * io_shares.c - whose I/O must wait, so that one guest's refaults do not slow all the others down.
 *
 * DOC: theory of operation
 *
 * A disk gives so many operations a second; what is asked of it beyond that stands in a queue, and everybody
 * waits through all of it. A guest that thrashes keeps a hundred reads in flight, so on a disk of 3000
 * operations a second the one read of a calm guest beside it takes not 0.2 ms but 40.
 *
 * So the queue is kept short, at the expense of those who fill it. The latency of all I/O since the last
 * update is held against what this disk was seen to do lately at its best. While it is much longer, each guest
 * that uses more than its share - by weight, among those that used the disk at all in the last seconds, of
 * the most it was seen to give - gets a smaller *window*: the number of reads it may have in flight. By
 * Little's law a queue that is k times too long needs 1/k of the operations in flight, so one step is nearly
 * enough. A disk that is held to a rate (most that are rented) is slow for all once one guest takes
 * the whole rate, and for that one read in flight is enough: below it comes a *pause* between operations.
 * A guest within its share is never held back. When latencies are good, pauses shrink, slowly, since finding the
 * rate again costs everybody; then windows grow. With no other guest about they are wide open.
 *
 * Each guest has at least one read in flight or a pause that ends, so nobody waits for anybody but the disk
 * and the clock, and there is no queue of guests in which a wake-up could be lost.
 *
 * Sources of the idea: delay-based congestion control (TCP Vegas, 1994) for the target, and the Linux block
 * layer's io.latency controller (Josef Bacik, 2018) for slowing down others than the one that suffers.
 */
#include <ebb/reclaim_io.h>
#include "decay.h"

#define HALF_LIFE_NS  200000000.0    /* of what a guest used */
#define ACTIVE_NS     10000000000ull /* since its last I/O a guest counts */
#define BASE_SPAN_NS  30000000000ull /* of the shortest latency; the one before counts too */
#define PEAK_SPAN_NS  5000000000ull  /* of the most that was used, the same */
#define TARGET	      3u	     /* times the shortest latency, and within these bounds: */
#define TARGET_MIN_NS 1000000ull
#define TARGET_MAX_NS 10000000ull
#define GOOD	      0.7	/* of the target: room to grow */
#define CUT_MOST      0.125	/* to this much of the window at once */
#define ENOUGH_OPS    8u	/* fewer say little about latency */
#define PAUSE_MIN_NS  500u
#define PAUSE_MAX_NS  1000000u /* 17 ms for a page: 60 operations a second */
#define PAUSE_MORE    1.5
#define PAUSE_LESS    0.997 /* a tenth in 4 s, by updates of 100 ms */

void io_flow_init(struct io_flow *flow, uint32_t weight)
{
	flow->weight = weight;
	flow->window = IO_WINDOW_MAX;
	flow->pause_ns = 0;
}

static double cost(const struct io_facts *f)
{
	double sum = 0;

	for (int c = 0; c < IO_NR_CLASSES; c++)
		sum += (double)IO_OP_PAGES * f->ops[c] + (double)f->pages[c];
	return sum;
}

static uint64_t target_ns(const struct io_shares *io, int class)
{
	uint64_t a = io->base_ns[class][0], b = io->base_ns[class][1];
	uint64_t base = !a ? b : !b ? a : MIN(a, b);

	return MIN(MAX(base * TARGET, TARGET_MIN_NS), TARGET_MAX_NS);
}

static void begin_spans(struct io_shares *io, uint64_t now_ns)
{
	if (now_ns - io->base_since_ns >= BASE_SPAN_NS) {
		io->base_since_ns = now_ns;
		for (int c = 0; c < IO_NR_CLASSES; c++) {
			io->base_ns[c][1] = io->base_ns[c][0];
			io->base_ns[c][0] = 0;
		}
	}
	if (now_ns - io->peak_since_ns >= PEAK_SPAN_NS) {
		io->peak_since_ns = now_ns;
		io->peak[1] = io->peak[0];
		io->peak[0] = 0;
	}
}

/* How much longer than it should the I/O of all took: 1 is the target; 0: too little of it to say. */
static double slowness(struct io_shares *io, const struct io_flow *first)
{
	double worst = 0;

	for (int c = 0; c < IO_NR_CLASSES; c++) {
		uint64_t ops = 0, ns = 0, mean;

		for (const struct io_flow *f = first; f; f = f->next) {
			ops += f->facts.ops[c];
			ns += f->facts.ns[c];
		}
		if (ops < ENOUGH_OPS)
			continue;
		mean = MAX(ns / ops, 1u);
		if (!io->base_ns[c][0] || mean < io->base_ns[c][0])
			io->base_ns[c][0] = mean;
		worst = MAX(worst, (double)mean / (double)target_ns(io, c));
	}
	return worst;
}

static void note_use(struct io_flow *flow, uint64_t now_ns, uint64_t dt)
{
	double c = cost(&flow->facts), keep = decay_factor(dt, HALF_LIFE_NS);

	flow->used = flow->used * keep + (1 - keep) * c * 1e9 / (double)dt;
	if (c > 0) {
		flow->active_ns = now_ns;
		flow->was_active = true;
	}
}

static bool is_active(const struct io_flow *flow, uint64_t now_ns)
{
	return flow->was_active && now_ns - flow->active_ns < ACTIVE_NS;
}

static double peak(struct io_shares *io, double total)
{
	io->peak[0] = MAX(io->peak[0], total);
	return MAX(io->peak[0], io->peak[1]);
}

/* Reads in flight on average were, by Little's law, their latencies by the time. */
static void hold_back(struct io_flow *flow, double slow, uint64_t dt)
{
	double depth = (double)flow->facts.ns[IO_READ] / (double)dt;
	double window = MIN((double)flow->window, MAX(depth, 1.0));

	if (flow->window == 1) /* what it takes now, and half as much again between two */
		flow->pause_ns = (uint32_t)MIN(flow->pause_ns ? flow->pause_ns * PAUSE_MORE :
				      MAX(1e9 / MAX(flow->used, 1.0), PAUSE_MIN_NS), PAUSE_MAX_NS);
	flow->window = (uint32_t)MAX(window * MAX(1 / slow, CUT_MOST), 1.0);
}

static void let_go(struct io_flow *flow)
{
	flow->pause_ns = (uint32_t)(flow->pause_ns * PAUSE_LESS);
	if (flow->pause_ns >= PAUSE_MIN_NS)
		return;
	flow->pause_ns = 0;
	flow->window = MIN(flow->window + MAX(flow->window / 4, 1u), IO_WINDOW_MAX);
}

void io_shares_update(struct io_shares *io, struct io_flow *first, uint64_t now_ns)
{
	uint64_t dt = MAX(now_ns - io->last_ns, 1u), weights = 0;
	double slow, most, total = 0;
	uint32_t active = 0;

	begin_spans(io, now_ns);
	slow = slowness(io, first);
	for (struct io_flow *f = first; f; f = f->next) {
		note_use(f, now_ns, dt);
		total += f->used;
		if (is_active(f, now_ns)) {
			active++;
			weights += f->weight;
		}
	}
	most = peak(io, total);
	for (struct io_flow *f = first; f; f = f->next) {
		bool over = f->used * (double)weights > most * f->weight;

		if (active < 2)
			io_flow_init(f, f->weight);
		else if (slow > 1 && over)
			hold_back(f, slow, dt);
		else if (slow <= GOOD || !over)
			let_go(f);
		f->facts = (struct io_facts){0};
	}
	io->last_ns = now_ns;
}
