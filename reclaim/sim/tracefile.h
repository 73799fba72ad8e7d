/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracefile.h - recorded traces (include/ebb/trace.h) as files: replay, print, make.
 */
#ifndef SIM_TRACEFILE_H
#define SIM_TRACEFILE_H

#include <stdio.h>
#include "gen.h"
#include "sim.h"

/**
 * tracefile_load() - a recorded trace as a workload
 * @seed: of the order in which pages of one interval are taken to have been touched
 *
 * Half a record at the end is not an error: what came before is used, and @ret_cut is set. Returns 0, or
 * -errno with @err filled: -EBADMSG for what is no trace, -ENODATA if it holds no access.
 */
int tracefile_load(const char *path, uint64_t seed, struct sim_workload *w, bool *ret_cut,
		   struct ebb_err *err);

/** tracefile_replay() - the same from memory */
int tracefile_replay(const void *buf, size_t size, uint64_t seed, struct sim_workload *w,
		     bool *ret_cut, struct ebb_err *err);

/** tracefile_dump() - print a trace, a line for each record; what is before an error is printed */
int tracefile_dump(const char *path, FILE *out, struct ebb_err *err);

/**
 * tracefile_write() - write @w as a guest without a limit would have been recorded
 * @period: between passes, in N accesses
 */
int tracefile_write(const char *path, const struct sim_workload *w, double period,
		    struct ebb_err *err);

/* A file in memory; NULL with @err filled. */
const void *tracefile_map(const char *path, size_t *ret_size, struct ebb_err *err);
void tracefile_unmap(const void *buf, size_t size);

/** tracefile_error() - what trace_open() and trace_read() returned, in words; returns @rc */
int tracefile_error(int rc, size_t at, struct ebb_err *err);

#endif
