// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * alarm.c - notices that the working set has changed before the averages do.
 *
 * DOC: emergency
 *
 * When a program ends and another begins, frequencies are worth nothing for a while, and the judge,
 * who needs intervals, is late: his verdict before the change says that both orders do as well. The
 * sign that does not need a verdict is a *near* refault: a page comes back that an exact LRU would
 * have kept, by its refault distance. A few are the price of sampling and their rate is known; if
 * there are suddenly twice as many and a little more, eviction goes by generation for one unit of
 * reuse, and a pass is wanted at once.
 *
 * At its end the emergency is reviewed. If faults are as many in its last quarter as in its first,
 * the load simply does not fit, and generations do not help: the next one has to wait, four times as
 * long after each failure, and a success takes that back. Until then a surge of near refaults is only a
 * reason to look.
 */
#include <ebb/types.h>
#include "alarm.h"
#include "decay.h"

#define SURGE	      2.0   /* times the usual ... */
#define SURGE_SHARE   0.001 /* ... and this share of memory */
#define UNUSUAL	      1.5
#define UNUSUAL_LEAST 8.0
#define HALF_LIFE     8.0 /* of the usual rate; units of reuse, as all below */
#define DURATION      1.0
#define MAX_LOOKS     3u
#define LOOK_DISTANCE 0.25
#define HELPED	      0.7
#define GAP_FIRST     4.0
#define GAP_FACTOR    4.0
#define GAP_MAX	      256.0

static double expected(const struct alarm *a, const struct alarm_scene *scene)
{
	return a->normal * (double)(scene->now_ns - scene->last_pass_ns + 1);
}

static void review(struct alarm *a, const struct alarm_scene *scene)
{
	double age = (double)(scene->now_ns - a->begun) / (DURATION * scene->unit_ns);

	if (age < 0.25) {
		a->early++;
	} else if (age >= 1) {
		if (a->late > HELPED * a->early)
			a->gap = a->gap > 0 ? MIN(a->gap * GAP_FACTOR, GAP_MAX) : GAP_FIRST;
		else
			a->gap /= GAP_FACTOR;
		a->not_before = scene->now_ns + (uint64_t)(a->gap * scene->unit_ns);
		a->begun = 0;
	} else if (age >= 0.75) {
		a->late++;
	}
}

bool alarm_is_unusual(const struct alarm *a, const struct alarm_scene *scene)
{
	return a->near > UNUSUAL * expected(a, scene) + UNUSUAL_LEAST;
}

enum alarm_call alarm_note_fault(struct alarm *a, const struct alarm_scene *scene, bool near)
{
	enum alarm_call call = ALARM_QUIET;

	a->near += near;
	if (a->begun) /* before another can begin */
		review(a, scene);
	if (a->near > SURGE * expected(a, scene) + SURGE_SHARE * scene->capacity &&
	    !alarm_is_on(a, scene->now_ns)) {
		if (scene->now_ns >= a->not_before) {
			a->until = scene->now_ns + (uint64_t)(DURATION * scene->unit_ns);
			a->begun = scene->now_ns;
			a->early = 1; /* this one */
			a->late = 0;
			a->emergencies++;
			call = ALARM_EMERGENCY;
		} else if ((double)(scene->now_ns - scene->last_pass_ns) >=
				   LOOK_DISTANCE * scene->unit_ns &&
			   a->looks < MAX_LOOKS) {
			a->looks++;
			call = ALARM_LOOK;
		}
	}
	return call;
}

void alarm_end_pass(struct alarm *a, const struct alarm_scene *scene, bool regular)
{
	double len = (double)(scene->now_ns - scene->last_pass_ns + 1);
	double keep = decay_exp2(len / (HALF_LIFE * scene->unit_ns));
	double rate = a->near / len;

	a->normal = a->normal > 0 ? a->normal * keep + rate * (1 - keep) : rate;
	a->near = 0;
	if (regular)
		a->looks = 0;
}
