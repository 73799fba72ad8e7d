/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reclaim_proactive.h - reclaim with nobody asking: how old is cold, and how much of it to take
 * now.
 *
 * One of these per guest. It is asked now and then for a step, with what is known at that time,
 * and answers with the pages to evict now, the aging interval it wants, when to ask again, and
 * why. The goal: as much memory as possible without the guest noticing, which is taken to mean
 * that pages come back at no more than a small part of the working set a minute, and that nobody
 * waits for memory.
 *
 * Facts in, decisions out: no system calls, threads, clock or allocation. One caller at a time.
 */
#ifndef EBB_RECLAIM_PROACTIVE_H
#define EBB_RECLAIM_PROACTIVE_H

#include <ebb/reclaim.h>

#define PROACTIVE_NR_RUNGS	  11u /* 5 s, 10 s, ... 2560 s, 1 h */
#define PROACTIVE_MIN_INTERVAL_NS (5ULL * 1000000000)
#define PROACTIVE_MAX_INTERVAL_NS (3600ULL * 1000000000)

/** struct proactive_conf - may change at run time */
struct proactive_conf {
	bool enabled;
	uint32_t target_ppm;	    /* of the working set, that may come back in a minute */
	uint32_t cold_gens;	    /* a page is cold when untouched for so many intervals: 1..16 */
	uint64_t first_interval_ns; /* to begin with: the nearest rung not below it */
	uint64_t min_interval_ns; /* never less: what a pass over the guest costs can be afforded */

	uint64_t step_ns;	/* between steps, in which something may be taken: 1 s..1 h */
	uint32_t step_permille; /* of what is resident, in one of them at most; or 1 MiB */

	/* Pressure, as in /proc/pressure/memory: avg10, in hundredths of a percent (0..10000). */
	uint32_t some_stop, some_resume; /* stop above, go on below; a stop of 0: do not look */
	uint32_t full_stop, full_resume;

	uint64_t daily_bytes; /* that may be written in any 24 hours; 0: any number */
};

/** proactive_conf_default() - 0.2 % a minute, cold after two intervals, no write budget; enabled */
struct proactive_conf proactive_conf_default(void);

/** proactive_check_conf() - -ERANGE for a number out of range, -EINVAL for a contradiction, 0 */
int proactive_check_conf(const struct proactive_conf *conf);

/**
 * struct proactive_facts - what is known now
 *
 * Counters only grow; one that went back (the guest was attached again) counts as no change.
 */
struct proactive_facts {
	uint64_t now_ns; /* any clock that does not go back */
	uint32_t cold;	 /* resident pages untouched for cold_gens intervals, that can be evicted */
	uint32_t working_set; /* touched lately: resident less cold is good enough */
	uint64_t promotions;  /* counter: resident pages touched after they had become cold */
	uint64_t refaults;    /* counter: pages brought back because the guest touched them */
	uint64_t written;     /* counter: bytes written to the store for this guest, whatever for */
	uint32_t outstanding; /* pages of earlier answers that are neither evicted nor kept yet */
	uint32_t some, full;  /* the guest's pressure or the host's, the higher one; 0 if unknown */
};

/** Why a step is what it is. Each step has exactly one reason, and each reason a counter. */
enum proactive_reason {
	PROACTIVE_OFF,		      /* switched off */
	PROACTIVE_EARLY,	      /* asked before its time: nothing has been looked at */
	PROACTIVE_BACKOFF_PSI,	      /* somebody waits for memory */
	PROACTIVE_BACKOFF_PROMOTIONS, /* too much came back: a time of rest begins or goes on */
	PROACTIVE_WATCH,	      /* a new interval: see first what would have come back */
	PROACTIVE_BUSY,		      /* what was asked for last is not done yet */
	PROACTIVE_WAIT_COLD,	      /* nothing is cold */
	PROACTIVE_BUDGET,	      /* written enough for now */
	PROACTIVE_RECLAIM,	      /* pages to evict; the only reason with any */
	PROACTIVE_NR_REASONS,
};

/** struct proactive_step - what to do */
struct proactive_step {
	enum proactive_reason reason;
	uint32_t pages;	      /* evict so many cold ones now; of cold pages only, never others */
	uint64_t interval_ns; /* wanted between agings; 0: no wish */
	uint64_t next_ns;     /* ask again then; UINT64_MAX: when switched on */
};

/** enum proactive_mode - what it is at */
enum proactive_mode {
	PROACTIVE_SETTLING,  /* the interval is new: what is cold is so by the last one */
	PROACTIVE_MEASURING, /* it counts, but takes nothing */
	PROACTIVE_TAKING,
};

/** struct proactive_rate - pages come back, over the last while: weighted sums of both */
struct proactive_rate {
	double pages;
	double minutes;
};

/** struct proactive - state; no field is for callers. Zeroed and set by proactive_init() */
struct proactive {
	struct proactive_conf conf;
	struct proactive_facts last; /* those of the last step that looked */
	bool has_last;
	bool is_pressed; /* PSI: between stop and resume */
	bool is_backoff; /* the present watch was begun because too much came back */
	enum proactive_mode mode;
	uint32_t rung;
	uint64_t mode_ns; /* when the mode began */
	uint64_t rung_ns; /* when the rung did */
	uint64_t next_ns;
	uint32_t ramp;	/* steps take 1/2^ramp of what they may */
	uint32_t fails; /* tries of a shorter interval in a row that failed */
	bool is_trying; /* the present one is such a try */
	double allowed; /* pages a minute, by the last facts */
	struct proactive_rate brief, lasting;
	double tokens; /* bytes that may be written now; below 0: overdrawn */
	uint64_t steps[PROACTIVE_NR_REASONS];
	uint64_t pages, shorter, longer, failed;
};

/**
 * proactive_init() - begin at @now_ns, of the clock of the facts; @conf must pass the check
 *
 * The write budget is empty until proactive_restore() or time fills it.
 */
void proactive_init(struct proactive *p, const struct proactive_conf *conf, uint64_t now_ns);

/**
 * proactive_set_conf() - new knobs; begins anew if switched on
 *
 * The write budget goes on while switched off: time fills it, and what is written is taken out.
 * Returns what proactive_check_conf() says, and changes nothing if that is not 0.
 */
int proactive_set_conf(struct proactive *p, const struct proactive_conf *conf, uint64_t now_ns);

/**
 * proactive_step() - what to do now
 *
 * May be called early (PROACTIVE_EARLY: nothing to do) and late; a late step takes no more than
 * one in time. Pressure is looked at even in an early one.
 */
struct proactive_step proactive_step(struct proactive *p, const struct proactive_facts *facts);

/**
 * struct proactive_saved - what a restart must not forget; plain numbers, to be kept in any form
 * @wall_s: seconds of the wall clock when it was saved
 * @tokens: bytes that might be written then; negative: overdrawn
 * @interval_ns: that was found right
 */
struct proactive_saved {
	uint64_t wall_s;
	int64_t tokens;
	uint64_t interval_ns;
};

/** proactive_save() - for a successor, at @wall_s seconds of the wall clock */
void proactive_save(const struct proactive *p, uint64_t wall_s, struct proactive_saved *ret);

/**
 * proactive_restore() - go on where a predecessor stopped; right after proactive_init()
 * @wall_s: now; earlier than when it was saved counts as no time passed
 *
 * The time between fills the write budget as if it had been spent here. Numbers that make no
 * sense are brought into range: @saved may come from a damaged file.
 */
void proactive_restore(struct proactive *p, const struct proactive_saved *saved, uint64_t wall_s);

/** struct proactive_stats - for people */
struct proactive_stats {
	enum proactive_mode mode;
	uint64_t interval_ns, cold_age_ns;
	double allowed;	     /* pages that may come back in a minute */
	double rate;	     /* that do, since this interval was chosen, fading */
	double rate_brief;   /* in the last minute or two */
	int64_t write_bytes; /* may be written now; INT64_MAX without a budget */
	uint32_t fails;
	uint64_t steps[PROACTIVE_NR_REASONS];
	uint64_t pages;	  /* asked for */
	uint64_t shorter; /* interval was made shorter */
	uint64_t longer;  /* longer */
	uint64_t failed;  /* shorter ones that had to be given up */
};

void proactive_get_stats(const struct proactive *p, struct proactive_stats *ret);

#endif
