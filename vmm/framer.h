/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * framer.h - cuts a byte stream into top-level JSON values, bounded before anything is parsed.
 */
#ifndef VMM_FRAMER_H
#define VMM_FRAMER_H

#include <ebb/types.h>

#define FRAMER_MAX_DEPTH  64 /* one bit each in struct framer: not more */
#define FRAMER_MAX_BYTES  (64u << 10)
#define FRAMER_MAX_TOKENS 4096

enum framer_result {
	FRAMER_MORE,  /* everything was taken, no value is complete yet */
	FRAMER_VALUE, /* text and len hold one value, good until the next call */
	FRAMER_ERROR, /* error holds a phrase; the framer has resynchronised, push on */
};

enum framer_state {
	FRAMER_START,	/* between values */
	FRAMER_INSIDE,	/* in an object or array, outside its strings */
	FRAMER_STRING,
	FRAMER_WORD,	/* a number or bare word at top level */
	FRAMER_RECOVER, /* after a stray byte: skip to '{', a newline or 0xff */
};

struct framer {
	char *text; /* not terminated */
	size_t len;
	char error[96];

	/* private */
	size_t cap, max_bytes;
	unsigned int tokens, max_tokens;
	enum framer_state state;
	unsigned int depth;
	uint64_t arrays; /* bit n: level n is an array */
	char quote;	 /* the one that ends the string */
	bool escaped, in_word;
	bool discard; /* over a limit: follow the structure to its end, keep nothing */
	bool taken;   /* the last call returned a value: forget it first */
};

/** framer_init() - @max_bytes and @max_tokens bound one value; depth is at most FRAMER_MAX_DEPTH */
void framer_init(struct framer *f, size_t max_bytes, unsigned int max_tokens);
void framer_free(struct framer *f);

/**
 * framer_push() - take bytes up to the end of the next value or error
 * @ret_used: bytes taken, at most @len; the rest must be pushed again
 *
 * Any number of values in one push, or pushes in one value. The value is *framed*, not parsed:
 * brackets match and strings end, the rest is the parser's to check. Single-quoted strings,
 * which QEMU's monitor takes, come out double-quoted.
 */
enum framer_result framer_push(struct framer *f, const char *data, size_t len, size_t *ret_used);

#endif
