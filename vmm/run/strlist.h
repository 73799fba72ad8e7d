/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * strlist.h - a growing, NULL-ended list of strings, and allocation that does not fail.
 *
 * Without memory for a command line nothing can be started: these print one line and exit(125).
 */
#ifndef RUN_STRLIST_H
#define RUN_STRLIST_H

#include <ebb/types.h>

void *run_realloc(void *p, size_t size);
char *run_strdup(const char *text);
char *run_strndup(const char *text, size_t len);
char *run_asprintf(const char *fmt, ...) __printf(1, 2);

/** struct strlist - @v[@nr] is NULL once anything has been added */
struct strlist {
	char **v;
	size_t nr;
};

/** strlist_add() - @text becomes the list's, to be freed with it */
void strlist_add(struct strlist *l, char *text);

/** strlist_insert() - the same, before position @at */
void strlist_insert(struct strlist *l, size_t at, char *text);
void strlist_free(struct strlist *l);

/** strlist_quote() - one line a POSIX shell reads back as these words; the caller frees it */
char *strlist_quote(const struct strlist *l);

#endif
