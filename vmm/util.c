// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * util.c - the error sentence, scope cleanup and the log behind include/ebb/types.h and log.h.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <ebb/log.h>

static const char *log_prog = "ebb";
static enum log_level log_max = LOG_LVL_INFO;

int ebb_err_set(struct ebb_err *err, int rc, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return rc;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return rc;
}

void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

void cleanup_free(void *p)
{
	free(*(void **)p);
}

void log_init(const char *prog, enum log_level max)
{
	log_prog = prog;
	log_max = max;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char line[768];
	va_list ap;

	if (level > log_max)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* One write a line, so that lines of two threads do not mix. */
	dprintf(STDERR_FILENO, "%s: %s\n", log_prog, line);
}

bool log_rate_ok(struct log_rate *rate, uint32_t *ret_held)
{
	struct timespec ts;
	uint64_t now, next;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	next = atomic_load(&rate->next_ns);
	if (now < next || !atomic_compare_exchange_strong(&rate->next_ns, &next, now + 1000000000)) {
		atomic_fetch_add(&rate->held, 1);
		return false;
	}
	*ret_held = atomic_exchange(&rate->held, 0);
	return true;
}
