/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log.h - one line to stderr, with a level systemd understands; rate-limited per call site on request.
 */
#ifndef EBB_LOG_H
#define EBB_LOG_H

#include <stdint.h>
#include <ebb/types.h>

enum log_level { LOG_LVL_ERR = 3, LOG_LVL_WARN = 4, LOG_LVL_INFO = 6, LOG_LVL_DEBUG = 7 };

/** log_init() - @max: the least important level still printed; @prog: printed before each line */
void log_init(const char *prog, enum log_level max);
void log_line(enum log_level level, const char *fmt, ...) __printf(2, 3);

/** struct log_rate - at most one line a second from a call site; the rest are counted */
struct log_rate {
	_Atomic uint64_t next_ns;
	_Atomic uint32_t held;
};

/** log_rate_ok() - may this call site print now? *@ret_held: lines held back since the last */
bool log_rate_ok(struct log_rate *rate, uint32_t *ret_held);

#define log_err(...)   log_line(LOG_LVL_ERR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LVL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LVL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LVL_DEBUG, __VA_ARGS__)

#define log_limited(level, ...)                                                                    \
	do {                                                                                       \
		static struct log_rate rate_;                                                      \
		uint32_t held_;                                                                    \
		if (log_rate_ok(&rate_, &held_)) {                                                 \
			log_line(level, __VA_ARGS__);                                              \
			if (held_)                                                                 \
				log_line(level, "(%u more like the last line)", held_);           \
		}                                                                                  \
	} while (0)

#endif
