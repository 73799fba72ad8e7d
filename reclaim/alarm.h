/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alarm.h - notices that the working set has changed before the averages do.
 */
#ifndef RECLAIM_ALARM_H
#define RECLAIM_ALARM_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct alarm - what it watches, times in ns
 * @near: refaults since the last pass that an exact LRU would not have had
 * @normal: their usual rate per ns
 * @until: an emergency lasts until then
 * @begun: when it began; 0: none to be reviewed
 * @early, @late: faults in its first and last quarter
 * @gap: back-off after one that did not help; none begins before @not_before
 * @looks: passes asked for during back-off since the last regular one
 */
struct alarm {
	double near;
	double normal;
	uint64_t until;
	uint64_t begun;
	uint32_t early, late;
	double gap;
	uint64_t not_before;
	uint32_t looks;
	uint64_t emergencies;
};

/** struct alarm_scene - where a fault falls: now, end of the last pass, unit of reuse, capacity */
struct alarm_scene {
	uint64_t now_ns;
	uint64_t last_pass_ns;
	double unit_ns;
	uint32_t capacity;
};

/** enum alarm_call - what is wanted now */
enum alarm_call {
	ALARM_QUIET,
	ALARM_LOOK,	 /* a pass */
	ALARM_EMERGENCY, /* a pass, and eviction by generation until alarm_is_on() ends */
};

/** alarm_note_fault() - a page came, from anywhere; @near: exact LRU would have kept it */
enum alarm_call alarm_note_fault(struct alarm *a, const struct alarm_scene *scene, bool near);

/** alarm_is_unusual() - do near refaults come clearly faster than usual? */
bool alarm_is_unusual(const struct alarm *a, const struct alarm_scene *scene);

/** alarm_end_pass() - a pass ends at @scene->now_ns; @regular: not one of the extra ones */
void alarm_end_pass(struct alarm *a, const struct alarm_scene *scene, bool regular);

static inline bool alarm_is_on(const struct alarm *a, uint64_t now_ns)
{
	return now_ns < a->until;
}

#endif
