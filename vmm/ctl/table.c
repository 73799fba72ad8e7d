// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * table.c - columns of text on stdout, as wide as what is in them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "table.h"

void text_make_safe(char *text)
{
	unsigned char *p;

	for (p = (unsigned char *)text; *p; p++) {
		/* C0, DEL, and C1 as UTF-8 writes it (c2 80 to c2 9f) */
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			p[0] = p[1] = '?';
	}
}

/** text_width() - characters, not bytes: names may be UTF-8 */
static size_t text_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

void table_add(struct table *t, const char *text)
{
	char *cell = strdup(text);

	if (t->nr == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 64;
		t->cells = realloc(t->cells, t->cap * sizeof(*t->cells));
	}
	if (!cell || !t->cells) {
		fputs("ebbctl: out of memory\n", stderr);
		exit(1);
	}
	text_make_safe(cell);
	t->cells[t->nr++] = cell;
}

static void table_print_row(const struct table *t, char **row, const size_t *widths)
{
	unsigned int col;

	printf("%*s", (int)t->indent, "");
	for (col = 0; col < t->columns; col++) {
		int pad = (int)(widths[col] - text_width(row[col]));
		bool last = col + 1 == t->columns;

		if (t->right >> col & 1)
			printf("%*s%s", pad, "", row[col]);
		else
			printf("%s%*s", row[col], last ? 0 : pad, "");
		fputs(last ? "\n" : "  ", stdout);
	}
}

void table_print(struct table *t)
{
	size_t widths[TABLE_MAX_COLUMNS] = { 0 }, i;

	for (i = 0; i < t->nr; i++)
		widths[i % t->columns] = MAX(widths[i % t->columns], text_width(t->cells[i]));
	for (i = 0; i + t->columns <= t->nr; i += t->columns)
		table_print_row(t, t->cells + i, widths);
	for (i = 0; i < t->nr; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->nr = t->cap = 0;
}
