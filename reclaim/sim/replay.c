// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * replay.c - accesses from what was recorded of them.
 *
 * DOC: what a trace does not say
 *
 * Between two passes a page's bit says that it was touched, not how often or when. So in each interval
 *
 *	a fault (new, refault, write kept)	is an access, when it happened
 *	a page found young			is an access, at a time of its own: the young
 *						pages of an interval are spread evenly over it,
 *						in an order drawn by the seed
 *	a page both faulted and young		was accessed when it faulted, and no more: its
 *						own fault set the bit. Each fault of it counts
 *	a page brought along (prefetch)		was not accessed, unless found young
 *	a page given up (discard)		is forgotten: its next access is a first touch
 *
 * That is the least that can have happened. Hot pages are touched more often than it shows, so of
 * several policies' refaults the order and the ratios are worth more than the numbers, exact LFU
 * knows less than it would, and a page touched, then evicted between two passes is one touch short. A
 * loop in the guest is a loop only from interval to interval: policies that loops defeat look better.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ebb/trace.h>
#include "rng.h"
#include "tracefile.h"

#define ACCESSES_MAX (1u << 30)

struct event {
	uint64_t ns;
	uint32_t page;
};

struct events {
	struct event *all;
	uint32_t nr, room;
};

struct replay {
	struct sim_workload *workload;
	uint32_t accesses_room, marks_room, forgets_room;
	uint64_t begin_ns;     /* of the interval */
	uint32_t interval;     /* from 1 */
	uint32_t *interval_of; /* of each page: when it last faulted or was young */
	struct events faults, young;
	uint32_t nr_forgets_before; /* this interval */
	uint64_t *forget_ns; /* when each happened: .at is known at the end of the interval */
	uint64_t rng;
};

/* Room for one more in an array that doubles. */
static void *grow_for(void *array, uint32_t nr, uint32_t *room, size_t size)
{
	if (nr < *room)
		return array;
	*room = *room ? 2 * *room : 1024;
	return sim_grow(array, *room, size);
}

static void add_event(struct events *events, uint64_t ns, uint32_t page)
{
	events->all = grow_for(events->all, events->nr, &events->room, sizeof(*events->all));
	events->all[events->nr] = (struct event) {.ns = ns, .page = page};
	events->nr++;
}

static void add_access(struct replay *rp, uint32_t page)
{
	struct sim_workload *w = rp->workload;

	w->accesses =
		grow_for(w->accesses, w->nr_accesses, &rp->accesses_room, sizeof(*w->accesses));
	w->accesses[w->nr_accesses++] = page;
}

static void add_mark(struct replay *rp, uint64_t ns)
{
	struct sim_workload *w = rp->workload;

	w->marks = grow_for(w->marks, w->nr_marks, &rp->marks_room, sizeof(*w->marks));
	w->marks[w->nr_marks++] = (struct sim_mark) {.at = w->nr_accesses, .ns = ns};
}

static void add_forget(struct replay *rp, struct page_run run, uint64_t ns)
{
	struct sim_workload *w = rp->workload;
	uint32_t room = rp->forgets_room;

	w->forgets = grow_for(w->forgets, w->nr_forgets, &rp->forgets_room, sizeof(*w->forgets));
	if (room != rp->forgets_room)
		rp->forget_ns = sim_grow(rp->forget_ns, rp->forgets_room, sizeof(*rp->forget_ns));
	rp->forget_ns[w->nr_forgets] = ns;
	w->forgets[w->nr_forgets++] = (struct sim_forget) {.run = run};
}

static void add_young(struct replay *rp, struct trace_record *record)
{
	struct page_run run;

	while (trace_next_run(record, &run)) {
		for (uint32_t page = run.first; page < run.first + run.nr; page++) {
			if (rp->interval_of[page] == rp->interval)
				continue;
			rp->interval_of[page] = rp->interval;
			add_event(&rp->young, 0, page);
		}
	}
}

/* Give the young pages of an interval their times: in a random order, evenly. */
static void spread_young(struct replay *rp, uint64_t end_ns)
{
	struct events *young = &rp->young;
	double step = young->nr ? (double)(end_ns - rp->begin_ns) / young->nr : 0;

	for (uint32_t i = 0; i < young->nr; i++) {
		uint32_t j = i + rng_below(&rp->rng, young->nr - i), page = young->all[j].page;

		young->all[j].page = young->all[i].page;
		young->all[i].page = page;
		young->all[i].ns = rp->begin_ns + (uint64_t)((i + .5) * step);
	}
}

/* Both are in order of time: the accesses of the interval are their merge, faults first. */
static void end_interval(struct replay *rp, uint64_t end_ns)
{
	struct sim_workload *w = rp->workload;
	uint32_t fault = 0, young = 0, forget = rp->nr_forgets_before;

	spread_young(rp, end_ns);
	add_mark(rp, rp->begin_ns);
	while (fault < rp->faults.nr || young < rp->young.nr) {
		bool take_fault = young == rp->young.nr ||
				  (fault < rp->faults.nr &&
				   rp->faults.all[fault].ns <= rp->young.all[young].ns);
		const struct event *event =
			take_fault ? &rp->faults.all[fault++] : &rp->young.all[young++];

		for (; forget < w->nr_forgets && rp->forget_ns[forget] <= event->ns; forget++)
			w->forgets[forget].at = w->nr_accesses;
		add_access(rp, event->page);
	}
	for (; forget < w->nr_forgets; forget++)
		w->forgets[forget].at = w->nr_accesses;
	rp->nr_forgets_before = forget;
	rp->faults.nr = rp->young.nr = 0;
	rp->begin_ns = end_ns;
	rp->interval++;
}

static void take_record(struct replay *rp, struct trace_record *record)
{
	struct page_run run;

	switch (record->type) {
	case TRACE_FAULT:
		if (record->fault.kind == TRACE_FAULT_PREFETCH)
			break;
		rp->interval_of[record->fault.page] = rp->interval;
		add_event(&rp->faults, record->time_ns, record->fault.page);
		break;
	case TRACE_YOUNG:
		add_young(rp, record);
		break;
	case TRACE_DISCARD:
		while (trace_next_run(record, &run))
			add_forget(rp, run, record->time_ns);
		break;
	case TRACE_PASS_END:
		end_interval(rp, record->time_ns);
		break;
	default: /* what the recording daemon did about it is not for others to copy */
		break;
	}
}

static int take_all(struct replay *rp, struct trace_reader *reader, bool *ret_cut,
		    struct ebb_err *err)
{
	struct trace_record record;
	int rc;

	while ((rc = trace_read(reader, &record)) > 0) {
		take_record(rp, &record);
		if (rp->workload->nr_accesses + (uint64_t)rp->faults.nr + rp->young.nr >
		    ACCESSES_MAX)
			return ebb_err_set(err, -EFBIG, "holds more than %u accesses",
					   ACCESSES_MAX);
	}
	if (rc && rc != -ENODATA)
		return tracefile_error(rc, reader->at, err);
	*ret_cut = rc != 0;
	end_interval(rp, MAX(reader->time_ns, rp->begin_ns));
	add_mark(rp, rp->begin_ns);
	if (!rp->workload->nr_accesses)
		return ebb_err_set(err, -ENODATA, "holds no access");
	return 0;
}

int tracefile_replay(const void *buf, size_t size, uint64_t seed, struct sim_workload *w,
		     bool *ret_cut, struct ebb_err *err)
{
	struct replay rp = {.workload = w, .interval = 1, .rng = seed * 0x9E3779B97F4A7C15ull | 1};
	struct trace_header header;
	struct trace_reader reader;
	int rc = trace_open(&reader, buf, size, &header);

	memset(w, 0, sizeof(*w));
	if (rc)
		return tracefile_error(rc, 0, err);
	snprintf(w->name, sizeof(w->name), "trace");
	w->nr_pages = header.nr_pages;
	rp.interval_of = sim_alloc(w->nr_pages, sizeof(*rp.interval_of));
	rc = take_all(&rp, &reader, ret_cut, err);
	free(rp.interval_of);
	free(rp.faults.all);
	free(rp.young.all);
	free(rp.forget_ns);
	if (rc)
		sim_workload_free(w);
	else
		sim_workload_finish(w);
	return rc;
}

int tracefile_load(const char *path, uint64_t seed, struct sim_workload *w, bool *ret_cut,
		   struct ebb_err *err)
{
	struct ebb_err why = {0};
	size_t size;
	const void *buf = tracefile_map(path, &size, err);
	int rc;

	if (!buf)
		return -EIO;
	rc = tracefile_replay(buf, size, seed, w, ret_cut, &why);
	tracefile_unmap(buf, size);
	return rc ? ebb_err_set(err, rc, "%s %s", path, why.msg) : 0;
}
