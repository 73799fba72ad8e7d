// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * strlist.c - lists of words: building a command line, and quoting it for a shell.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ebb/log.h>
#include "exitcode.h"
#include "strlist.h"

static void *checked(void *p)
{
	if (!p) {
		log_err("out of memory");
		exit(RUN_EXIT_FAILED);
	}
	return p;
}

void *run_realloc(void *p, size_t size)
{
	return checked(realloc(p, size));
}

char *run_strdup(const char *text)
{
	return checked(strdup(text));
}

char *run_strndup(const char *text, size_t len)
{
	return checked(strndup(text, len));
}

char *run_asprintf(const char *fmt, ...)
{
	char *out = NULL;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = vasprintf(&out, fmt, ap);
	va_end(ap);
	return checked(rc < 0 ? NULL : out);
}

void strlist_insert(struct strlist *l, size_t at, char *text)
{
	l->v = run_realloc(l->v, (l->nr + 2) * sizeof(*l->v));
	memmove(l->v + at + 1, l->v + at, (l->nr - at) * sizeof(*l->v));
	l->v[at] = text;
	l->v[++l->nr] = NULL;
}

void strlist_add(struct strlist *l, char *text)
{
	strlist_insert(l, l->nr, text);
}

void strlist_free(struct strlist *l)
{
	for (size_t i = 0; i < l->nr; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct strlist) {0};
}

static bool is_plain(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=./,:@%";

	return *word && word[strspn(word, plain)] == '\0';
}

/** put_quoted() - in single quotes; a quote inside closes them, stands escaped, opens them again */
static void put_quoted(FILE *f, const char *word)
{
	if (is_plain(word)) {
		fputs(word, f);
		return;
	}
	fputc('\'', f);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", f);
		else
			fputc(*word, f);
	}
	fputc('\'', f);
}

char *strlist_quote(const struct strlist *l)
{
	char *out = NULL;
	size_t size;
	FILE *f = checked(open_memstream(&out, &size));

	for (size_t i = 0; i < l->nr; i++) {
		if (i)
			fputc(' ', f);
		put_quoted(f, l->v[i]);
	}
	fclose(f);
	return checked(out);
}
