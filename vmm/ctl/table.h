/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table.h - columns of text on stdout, as wide as what is in them.
 */
#ifndef VMM_CTL_TABLE_H
#define VMM_CTL_TABLE_H

#include <ebb/types.h>

#define TABLE_MAX_COLUMNS 12

/** struct table - start with { 0 }; the first row is the heading */
struct table {
	char **cells;
	size_t nr, cap;
	unsigned int columns;
	unsigned int right; /* bit n: column n is aligned to the right */
	unsigned int indent;
};

/** table_add() - the next cell, left to right, row by row; copied, made safe for a terminal */
void table_add(struct table *t, const char *text);
/** table_print() - and free */
void table_print(struct table *t);

/** text_make_safe() - control characters, which could drive a terminal, become '?' */
void text_make_safe(char *text);

#endif
