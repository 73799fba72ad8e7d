// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * proactive.c - reclaim with nobody asking.
 *
 * DOC: how old is cold
 *
 * A page untouched for long enough can go, and the question is how long that is. The answer is
 * that of Google's far memory (Lagar-Cavilla et al., "Software-Defined Far Memory in
 * Warehouse-Scale Computers", ASPLOS 2019): the smallest age such that pages come back at no more
 * than a given part of the working set a minute. There, a histogram of ages answers for all ages
 * at once. Here, there are a few generations and one age can be measured at a time, that of
 * cold_gens aging intervals; so it is searched for, on a ladder of intervals, each twice the one
 * before.
 *
 * What is measured are *returns*: resident pages touched after they had become cold, and pages
 * brought back from the store. The first kind would have been of the second, had the page been
 * evicted in time. So an age can be judged before anything is evicted by it, and a wrong one
 * costs the guest nothing. Each interval, once chosen, goes through three modes, each of one cold
 * age at least:
 *
 *	SETTLING	what is cold now is so by the last interval: count nothing, take nothing
 *	MEASURING	count, take nothing. Too many returns: give up, at once if they are more
 *			than the whole time allows for
 *	TAKING		a little each step; still counting
 *
 * Up the ladder (longer, less is cold) it goes at once: when returns, averaged over ten minutes
 * or a cold age, are above the target, or in the last minute were four times as many. Pages taken
 * wrongly return during the rest that follows, and SETTLING is there not to count them twice.
 * Down it goes slowly: when returns were less than half the target for three cold ages and ten
 * minutes. If that was a mistake, the next try waits twice as long, up to sixteen times. Having
 * to go up from an interval that had proved itself says that the guest has changed, and old
 * mistakes are forgotten.
 *
 * DOC: what else stops it
 *
 * Pressure. Somebody who waits for memory (PSI) is not to be made to wait longer by writes that
 * are not urgent: above one threshold nothing is taken, until below another. Afterwards steps
 * begin at an eighth of their size, and the wait for a shorter interval begins anew. (Pressure
 * as the signal is from senpai and TMO: Weiner et al., "TMO: Transparent Memory Offloading in
 * Datacenters", ASPLOS 2022. They steer by it alone; the faults of a guest wait where PSI does
 * not count them, so that here it can only be the brake.)
 *
 * Wear. A token bucket: an eighth of what may be written in a day is its size, the other seven
 * come in evenly over the day, so that in no 24 hours more than the whole is given out. All that
 * is written for the guest is taken out, also what was not asked for here; so it may be
 * overdrawn, by a day's worth at most. It begins empty, or a daemon that crashes at each start
 * would have an eighth each time.
 */
#include <errno.h>
#include <string.h>
#include <ebb/reclaim_proactive.h>
#include "decay.h"

#define SEC	      1000000000ULL
#define MINUTE	      (60.0 * SEC)
#define DAY	      (86400.0 * SEC)
#define GENS_MAX      16u
#define PERCENT_MAX   10000u /* in hundredths */
#define DAILY_MAX     (1ULL << 60)
#define ALLOWED_MIN   16.0 /* pages a minute: a tiny guest is not to be judged by one page */
#define BRIEF_HALF    1.0  /* minutes */
#define BRIEF_FACTOR  4.0  /* several times what may come back */
#define LASTING_HALF  10.0 /* minutes, at least; a cold age, if that is more */
#define LASTING_LEAST 5.0  /* minutes: what comes in less is taken to have come in that many */
#define TRY_SHARE     0.5  /* of what may come back, to try a shorter interval */
#define TRY_AGES      3.0  /* cold ages at one interval before that ... */
#define TRY_LEAST     10.0 /* ... and minutes */
#define FAILS_MAX     4u
#define RAMP	      3u
#define STEP_LEAST    256u /* pages: a share of what is left would take for ever */
#define BURST_SHARE   8.0  /* of a day's bytes, that may go at once */

static uint64_t interval_of(uint32_t rung)
{
	return MIN(PROACTIVE_MIN_INTERVAL_NS << rung, PROACTIVE_MAX_INTERVAL_NS);
}

/* The lowest rung whose interval is not shorter. */
static uint32_t rung_of(uint64_t interval_ns)
{
	uint32_t rung = 0;

	while (rung < PROACTIVE_NR_RUNGS - 1 && interval_of(rung) < interval_ns)
		rung++;
	return rung;
}

static uint64_t cold_age(const struct proactive *p)
{
	return p->conf.cold_gens * interval_of(p->rung);
}

static double in_minutes(uint64_t ns)
{
	return (double)ns / MINUTE;
}

struct proactive_conf proactive_conf_default(void)
{
	return (struct proactive_conf) {
		.enabled = true,
		.target_ppm = 2000,
		.cold_gens = 2,
		.first_interval_ns = 120 * SEC,
		.min_interval_ns = PROACTIVE_MIN_INTERVAL_NS,
		.step_ns = 10 * SEC,
		.step_permille = 5,
		.some_stop = 100,
		.some_resume = 20,
		.full_stop = 50,
		.full_resume = 10,
	};
}

static bool is_between(uint64_t value, uint64_t least, uint64_t most)
{
	return value >= least && value <= most;
}

int proactive_check_conf(const struct proactive_conf *conf)
{
	if (!is_between(conf->target_ppm, 1, 1000000) ||
	    !is_between(conf->cold_gens, 1, GENS_MAX) ||
	    !is_between(conf->first_interval_ns, PROACTIVE_MIN_INTERVAL_NS,
			PROACTIVE_MAX_INTERVAL_NS) ||
	    conf->min_interval_ns > PROACTIVE_MAX_INTERVAL_NS ||
	    !is_between(conf->step_ns, SEC, 3600 * SEC) ||
	    !is_between(conf->step_permille, 1, 1000) || conf->some_stop > PERCENT_MAX ||
	    conf->full_stop > PERCENT_MAX || conf->daily_bytes > DAILY_MAX)
		return -ERANGE;
	if ((conf->some_stop && conf->some_resume > conf->some_stop) ||
	    (conf->full_stop && conf->full_resume > conf->full_stop))
		return -EINVAL;
	return 0;
}

/* --- returns -------------------------------------------------------------------------------- */

static void note_rate(struct proactive_rate *rate, double pages, double minutes, double half_life)
{
	double keep = decay_exp2(minutes / half_life);

	rate->pages = rate->pages * keep + pages;
	rate->minutes = rate->minutes * keep + minutes;
}

static double get_rate(const struct proactive_rate *rate, double least)
{
	return rate->pages / MAX(rate->minutes, least);
}

static double brief_rate(const struct proactive *p)
{
	return get_rate(&p->brief, BRIEF_HALF);
}

static double lasting_rate(const struct proactive *p)
{
	return get_rate(&p->lasting, LASTING_LEAST);
}

/* Of counters, and of times that may have been read in another order than they are used. */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now - MIN(before, now);
}

/* --- the write budget ----------------------------------------------------------------------- */

static void fill_budget(struct proactive *p, uint64_t ns, uint64_t written)
{
	double daily = (double)p->conf.daily_bytes, burst = daily / BURST_SHARE;

	p->tokens += (daily - burst) * ((double)ns / DAY) - (double)written;
	p->tokens = MAX(MIN(p->tokens, burst), -daily);
}

/* Pages that may be written now. */
static uint32_t affordable(const struct proactive *p)
{
	double pages = MAX(p->tokens, 0) / EBB_PAGE_SIZE;

	if (!p->conf.daily_bytes)
		return UINT32_MAX;
	return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

/*
 * Are there cold pages enough for all that may be written? More of them are of no use then. Were
 * there not, the bucket would be filling up.
 */
static bool is_short_of_bytes(const struct proactive *p)
{
	return p->conf.daily_bytes &&
	       p->tokens < (double)p->conf.daily_bytes / BURST_SHARE / 2;
}

/* --- the ladder ----------------------------------------------------------------------------- */

static void enter_mode(struct proactive *p, enum proactive_mode mode, uint64_t now_ns)
{
	p->mode = mode;
	p->mode_ns = now_ns;
	p->brief = (struct proactive_rate) {0};
	if (mode != PROACTIVE_TAKING)
		p->lasting = (struct proactive_rate) {0};
}

static void enter_rung(struct proactive *p, uint32_t rung, uint64_t now_ns)
{
	p->rung = MIN(MAX(rung, rung_of(p->conf.min_interval_ns)), PROACTIVE_NR_RUNGS - 1);
	p->rung_ns = now_ns;
	p->ramp = RAMP;
	enter_mode(p, PROACTIVE_SETTLING, now_ns);
}

static void lengthen(struct proactive *p, uint64_t now_ns)
{
	p->fails = p->is_trying ? MIN(p->fails + 1, FAILS_MAX) : 0;
	p->failed += p->is_trying;
	p->is_trying = false;
	p->is_backoff = true;
	p->longer += p->rung < PROACTIVE_NR_RUNGS - 1;
	enter_rung(p, p->rung + 1, now_ns);
}

static void shorten(struct proactive *p, uint64_t now_ns)
{
	p->is_trying = true;
	p->is_backoff = false;
	p->shorter++;
	enter_rung(p, p->rung - 1, now_ns);
}

static void judge_measuring(struct proactive *p, uint64_t now_ns)
{
	double age = in_minutes(cold_age(p));

	if (p->lasting.pages > p->allowed * age) {
		lengthen(p, now_ns);
	} else if (grown(now_ns, p->mode_ns) >= cold_age(p)) {
		p->is_backoff = false;
		enter_mode(p, PROACTIVE_TAKING, now_ns);
	}
}

static void judge_taking(struct proactive *p, uint64_t now_ns)
{
	double here = in_minutes(grown(now_ns, p->rung_ns));
	double enough = MAX(TRY_AGES * in_minutes(cold_age(p)), TRY_LEAST);

	if (lasting_rate(p) > p->allowed || brief_rate(p) > BRIEF_FACTOR * p->allowed) {
		lengthen(p, now_ns);
		return;
	}
	if (p->is_trying && here >= enough) {
		p->is_trying = false;
		p->fails = 0;
	}
	if (here >= enough * (1u << p->fails) && lasting_rate(p) < TRY_SHARE * p->allowed &&
	    p->rung > rung_of(p->conf.min_interval_ns) && !is_short_of_bytes(p))
		shorten(p, now_ns);
}

static void judge(struct proactive *p, uint64_t now_ns)
{
	switch (p->mode) {
	case PROACTIVE_SETTLING:
		if (grown(now_ns, p->mode_ns) >= cold_age(p))
			enter_mode(p, PROACTIVE_MEASURING, now_ns);
		break;
	case PROACTIVE_MEASURING:
		judge_measuring(p, now_ns);
		break;
	case PROACTIVE_TAKING:
		judge_taking(p, now_ns);
		break;
	}
}

/* --- a step --------------------------------------------------------------------------------- */

static void note_pressure(struct proactive *p, const struct proactive_facts *facts)
{
	const struct proactive_conf *c = &p->conf;

	if ((c->some_stop && facts->some > c->some_stop) ||
	    (c->full_stop && facts->full > c->full_stop))
		p->is_pressed = true;
	else if ((!c->some_stop || facts->some <= c->some_resume) &&
		 (!c->full_stop || facts->full <= c->full_resume))
		p->is_pressed = false;
	if (p->is_pressed) {
		p->ramp = RAMP;
		p->rung_ns = MAX(p->rung_ns, facts->now_ns); /* no try before a while without it */
	}
}

static void note_facts(struct proactive *p, const struct proactive_facts *facts)
{
	const struct proactive_facts *last = p->has_last ? &p->last : facts;
	uint64_t ns = facts->now_ns - last->now_ns;
	double returns = (double)grown(facts->promotions, last->promotions) +
			 (double)grown(facts->refaults, last->refaults);

	p->allowed = (double)facts->working_set * p->conf.target_ppm / 1e6;
	p->allowed = MAX(p->allowed, ALLOWED_MIN);
	note_rate(&p->brief, returns, in_minutes(ns), BRIEF_HALF);
	/* A measurement is to be exact, so it does not fade. */
	note_rate(&p->lasting, returns, in_minutes(ns),
		  p->mode == PROACTIVE_TAKING ? MAX(LASTING_HALF, in_minutes(cold_age(p))) : 1e30);
	fill_budget(p, ns, grown(facts->written, last->written));
	p->last = *facts;
	p->has_last = true;
}

static uint32_t pages_to_take(const struct proactive *p, const struct proactive_facts *facts)
{
	uint64_t most = ((uint64_t)facts->working_set + facts->cold) * p->conf.step_permille / 1000;

	most = MAX(most, STEP_LEAST) >> p->ramp;
	return (uint32_t)MIN(MIN(most, facts->cold), affordable(p));
}

static enum proactive_reason decide(struct proactive *p, const struct proactive_facts *facts,
				    uint32_t *ret_pages)
{
	if (p->is_pressed)
		return PROACTIVE_BACKOFF_PSI;
	if (p->mode != PROACTIVE_TAKING)
		return p->is_backoff ? PROACTIVE_BACKOFF_PROMOTIONS : PROACTIVE_WATCH;
	if (facts->outstanding)
		return PROACTIVE_BUSY;
	if (!facts->cold)
		return PROACTIVE_WAIT_COLD;
	*ret_pages = pages_to_take(p, facts);
	if (!*ret_pages)
		return PROACTIVE_BUDGET;
	p->ramp -= p->ramp > 0;
	p->pages += *ret_pages;
	return PROACTIVE_RECLAIM;
}

struct proactive_step proactive_step(struct proactive *p, const struct proactive_facts *facts)
{
	struct proactive_facts known = *facts;
	struct proactive_step step = {.reason = PROACTIVE_OFF, .next_ns = UINT64_MAX};

	if (p->conf.enabled) {
		if (p->has_last)
			known.now_ns = MAX(known.now_ns, p->last.now_ns);
		note_pressure(p, &known);
		if (known.now_ns < p->next_ns) {
			step.reason = p->is_pressed ? PROACTIVE_BACKOFF_PSI : PROACTIVE_EARLY;
		} else {
			note_facts(p, &known);
			judge(p, known.now_ns);
			step.reason = decide(p, &known, &step.pages);
			p->next_ns = known.now_ns + p->conf.step_ns;
		}
		step.next_ns = p->next_ns;
		step.interval_ns = interval_of(p->rung);
	}
	p->steps[step.reason]++;
	return step;
}

/* --- beginning and going on ----------------------------------------------------------------- */

/* The last facts stay: what was written meanwhile counts, and returns do not while settling. */
static void begin(struct proactive *p, uint64_t now_ns)
{
	p->is_pressed = false;
	p->is_backoff = false;
	p->is_trying = false;
	p->fails = 0;
	p->next_ns = now_ns;
	enter_rung(p, rung_of(p->conf.first_interval_ns), now_ns);
}

void proactive_init(struct proactive *p, const struct proactive_conf *conf, uint64_t now_ns)
{
	*p = (struct proactive) {.conf = *conf};
	begin(p, now_ns);
}

int proactive_set_conf(struct proactive *p, const struct proactive_conf *conf, uint64_t now_ns)
{
	bool was_enabled = p->conf.enabled, same_age = p->conf.cold_gens == conf->cold_gens;
	int rc = proactive_check_conf(conf);

	if (rc)
		return rc;
	p->conf = *conf;
	fill_budget(p, 0, 0);
	if (conf->enabled && !was_enabled)
		begin(p, now_ns);
	else if (!same_age || p->rung < rung_of(conf->min_interval_ns))
		enter_rung(p, p->rung, now_ns);
	p->next_ns = MIN(p->next_ns, now_ns + conf->step_ns);
	return 0;
}

void proactive_save(const struct proactive *p, uint64_t wall_s, struct proactive_saved *ret)
{
	*ret = (struct proactive_saved) {
		.wall_s = wall_s,
		.tokens = (int64_t)p->tokens,
		.interval_ns = interval_of(p->rung),
	};
}

void proactive_restore(struct proactive *p, const struct proactive_saved *saved, uint64_t wall_s)
{
	double seconds = (double)grown(wall_s, saved->wall_s);
	uint64_t now_ns = p->mode_ns;

	p->tokens = (double)saved->tokens;
	fill_budget(p, 0, 0);
	fill_budget(p, (uint64_t)(MIN(seconds, 7 * 86400.0) * SEC), 0);
	enter_rung(p, rung_of(saved->interval_ns), now_ns);
}

void proactive_get_stats(const struct proactive *p, struct proactive_stats *ret)
{
	*ret = (struct proactive_stats) {
		.mode = p->mode,
		.interval_ns = interval_of(p->rung),
		.cold_age_ns = cold_age(p),
		.allowed = p->allowed,
		.rate = lasting_rate(p),
		.rate_brief = brief_rate(p),
		.write_bytes = p->conf.daily_bytes ? (int64_t)p->tokens : INT64_MAX,
		.fails = p->fails,
		.pages = p->pages,
		.shorter = p->shorter,
		.longer = p->longer,
		.failed = p->failed,
	};
	memcpy(ret->steps, p->steps, sizeof(ret->steps));
}
