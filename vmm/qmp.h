/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qmp.h - a small client of a QEMU monitor: connect, one command, its result.
 *
 * Each call connects anew (a monitor serves one client at a time, and ebb wants it rarely), negotiates,
 * and gives up after @timeout_ms, so that a VMM that hangs cannot hang us.
 */
#ifndef VMM_QMP_H
#define VMM_QMP_H

#include <jansson.h>
#include <ebb/types.h>
#include "region.h"

/** qmp_execute() - *@ret_value: the "return" member (caller owns it), may be NULL if not wanted */
int qmp_execute(const char *path, const char *command, json_t *args, int timeout_ms,
		json_t **ret_value, struct ebb_err *err);

/** qmp_hmp() - human-monitor-command; *@ret_text is malloc'ed */
int qmp_hmp(const char *path, const char *line, int timeout_ms, char **ret_text,
	    struct ebb_err *err);

/**
 * qmp_place_regions() - set gpa of @t from `info mtree -f`, splitting a region where the guest sees its
 * memfd in pieces; indexes are assigned anew
 */
int qmp_place_regions(const char *path, struct region_table *t, int timeout_ms,
		      struct ebb_err *err);

/** qmp_parse_mtree() - the same from the text, for tests */
int qmp_parse_mtree(const char *text, struct region_table *t, struct ebb_err *err);

#endif
