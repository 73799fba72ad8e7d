// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * framer.c - cuts a byte stream into top-level JSON values, bounded before anything is parsed.
 *
 * DOC: framing
 *
 * QMP has no message boundaries but JSON's own: a command ends where its braces balance. The framer
 * follows just enough of the grammar to know that (strings, escapes, brackets) and copies the value
 * into a buffer that cannot outgrow its bound, so that the parser only ever sees whole values of
 * known size and depth.
 *
 * Two kinds of trouble, two ways back into step:
 *
 *   - A value over a bound is well-formed as far as we know. The error is reported at once and the
 *     structure is followed, unstored, to its end; the next value is then read as if nothing had
 *     happened.
 *   - A stray byte (a control character, a bracket that does not match, 0xfe or 0xff) leaves no
 *     structure to follow. What was collected is dropped and bytes are skipped until something a
 *     command could begin after: '{', a newline, or 0xff. One burst of garbage is one error.
 *
 * 0xff cannot occur in UTF-8. A client that does not know what the connection holds (its
 * predecessor died in the middle of a command) sends one: it resets the framer whatever the
 * state, and the error it provokes tells the client that all before it is dealt with.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "framer.h"

void framer_init(struct framer *f, size_t max_bytes, unsigned int max_tokens)
{
	memset(f, 0, sizeof(*f));
	f->max_bytes = max_bytes;
	f->max_tokens = max_tokens;
}

void framer_free(struct framer *f)
{
	free(f->text);
	f->text = NULL;
	f->cap = f->len = 0;
}

static void framer_reset(struct framer *f, enum framer_state state)
{
	f->state = state;
	f->len = 0;
	f->depth = f->tokens = 0;
	f->arrays = 0;
	f->escaped = f->in_word = f->discard = f->taken = false;
}

/** framer_over() - a bound is passed: say so once, then follow the value without keeping it */
static enum framer_result framer_over(struct framer *f, const char *what)
{
	if (f->discard)
		return FRAMER_MORE;
	f->discard = true;
	f->len = 0;
	snprintf(f->error, sizeof(f->error), "%s", what);
	return FRAMER_ERROR;
}

static enum framer_result framer_stray(struct framer *f, unsigned char c)
{
	/* What ends a recovery needs none. */
	framer_reset(f, c == '\n' || c >= 0xfe ? FRAMER_START : FRAMER_RECOVER);
	if (c >= 0xfe)
		snprintf(f->error, sizeof(f->error), "JSON parse error, stray '\\uFFFD'");
	else if (c < 0x20 || c >= 0x7f)
		snprintf(f->error, sizeof(f->error), "JSON parse error, stray '\\u%04X'", c);
	else
		snprintf(f->error, sizeof(f->error), "JSON parse error, stray '%c'", c);
	return FRAMER_ERROR;
}

static bool framer_grow(struct framer *f)
{
	size_t cap = f->cap ? MIN(f->cap * 2, f->max_bytes) : MIN((size_t)512, f->max_bytes);
	char *text;

	if (f->cap >= f->max_bytes)
		return false;
	text = realloc(f->text, cap);
	if (!text)
		return false;
	f->text = text;
	f->cap = cap;
	return true;
}

static enum framer_result framer_keep(struct framer *f, char c)
{
	if (f->discard)
		return FRAMER_MORE;
	if (f->len == f->cap && !framer_grow(f)) {
		char what[sizeof(f->error)];

		snprintf(what, sizeof(what), "JSON value is larger than %zu bytes", f->max_bytes);
		return framer_over(f, what);
	}
	f->text[f->len++] = c;
	return FRAMER_MORE;
}

static enum framer_result framer_count_token(struct framer *f)
{
	char what[sizeof(f->error)];

	if (f->discard || ++f->tokens <= f->max_tokens)
		return FRAMER_MORE;
	snprintf(what, sizeof(what), "JSON value has more than %u tokens", f->max_tokens);
	return framer_over(f, what);
}

/** framer_end() - the value is complete: hand it out, unless it was over a bound */
static enum framer_result framer_end(struct framer *f)
{
	if (f->discard) {
		framer_reset(f, FRAMER_START);
		return FRAMER_MORE;
	}
	f->taken = true;
	return FRAMER_VALUE;
}

static enum framer_result framer_open(struct framer *f, char c)
{
	f->state = FRAMER_INSIDE;
	if (f->depth < FRAMER_MAX_DEPTH) {
		uint64_t bit = 1ull << f->depth;

		f->arrays = c == '[' ? f->arrays | bit : f->arrays & ~bit;
	}
	if (f->depth++ == FRAMER_MAX_DEPTH)
		return framer_over(f, "JSON nesting depth limit exceeded");
	return framer_keep(f, c);
}

static enum framer_result framer_shut(struct framer *f, char c)
{
	enum framer_result res;

	f->depth--;
	if (f->depth < FRAMER_MAX_DEPTH && (f->arrays >> f->depth & 1) != (c == ']'))
		return framer_stray(f, (unsigned char)c);
	res = framer_keep(f, c);
	if (f->depth)
		return res;
	/* Too long by just this bracket: the error is told, and nothing is left to discard. */
	if (res == FRAMER_ERROR)
		framer_reset(f, FRAMER_START);
	return res == FRAMER_ERROR ? res : framer_end(f);
}

static enum framer_result framer_open_string(struct framer *f, char c)
{
	f->state = FRAMER_STRING;
	f->quote = c;
	return framer_keep(f, '"');
}

static enum framer_result framer_shut_string(struct framer *f)
{
	enum framer_result res = framer_keep(f, '"');

	if (f->depth) {
		f->state = FRAMER_INSIDE;
		return res;
	}
	if (res == FRAMER_ERROR)
		framer_reset(f, FRAMER_START);
	return res == FRAMER_ERROR ? res : framer_end(f);
}

static enum framer_result framer_in_string(struct framer *f, char c)
{
	if (f->escaped) {
		f->escaped = false;
		/* \' is QEMU's: JSON knows no such escape, the quote alone says the same */
		if (c == '\'' && f->len && !f->discard) {
			f->text[f->len - 1] = c;
			return FRAMER_MORE;
		}
		return framer_keep(f, c);
	}
	if (c == f->quote)
		return framer_shut_string(f);
	if (c == '\\')
		f->escaped = true;
	else if (c == '"' && framer_keep(f, '\\') == FRAMER_ERROR)
		return FRAMER_ERROR;
	return framer_keep(f, c);
}

static bool framer_is_space(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static enum framer_result framer_inside(struct framer *f, char c)
{
	bool word = false, starts;

	if (framer_is_space((unsigned char)c)) {
		f->in_word = false;
		return framer_keep(f, c);
	}
	word = !strchr("{}[]:,\"'", c);
	starts = !word || !f->in_word;
	f->in_word = word;
	if (starts && framer_count_token(f) == FRAMER_ERROR) {
		/* The byte that was one too many still counts for the structure. */
		framer_inside(f, c);
		return FRAMER_ERROR;
	}
	switch (c) {
	case '{':
	case '[':
		return framer_open(f, c);
	case '}':
	case ']':
		return framer_shut(f, c);
	case '"':
	case '\'':
		return framer_open_string(f, c);
	default:
		return framer_keep(f, c);
	}
}

static bool framer_is_word(unsigned char c)
{
	return isalnum(c) || c == '-' || c == '+' || c == '.' || c == '_';
}

static enum framer_result framer_between(struct framer *f, unsigned char c)
{
	if (framer_is_space(c))
		return FRAMER_MORE;
	if (c == '{' || c == '[')
		return framer_open(f, (char)c);
	if (c == '"' || c == '\'')
		return framer_open_string(f, (char)c);
	if (framer_is_word(c)) {
		f->state = FRAMER_WORD;
		return framer_keep(f, (char)c);
	}
	if (!strchr("}],:", c))
		return framer_stray(f, c);
	framer_reset(f, FRAMER_RECOVER);
	snprintf(f->error, sizeof(f->error), "JSON parse error, expecting value");
	return FRAMER_ERROR;
}

/** framer_step() - one byte; *@ret_again: it was not taken, it belongs to what comes next */
static enum framer_result framer_step(struct framer *f, unsigned char c, bool *ret_again)
{
	if (c >= 0xfe)
		return framer_stray(f, c);
	if (f->state == FRAMER_RECOVER) {
		if (c == '\n' || c == '{')
			framer_reset(f, FRAMER_START);
		*ret_again = c == '{';
		return FRAMER_MORE;
	}
	if (f->state == FRAMER_WORD && !framer_is_word(c)) {
		*ret_again = true;
		return framer_end(f);
	}
	if (c < 0x20 && (f->state == FRAMER_STRING || !framer_is_space(c)))
		return framer_stray(f, c);
	switch (f->state) {
	case FRAMER_STRING:
		return framer_in_string(f, (char)c);
	case FRAMER_INSIDE:
		return framer_inside(f, (char)c);
	case FRAMER_WORD:
		return framer_keep(f, (char)c);
	default:
		return framer_between(f, c);
	}
}

enum framer_result framer_push(struct framer *f, const char *data, size_t len, size_t *ret_used)
{
	enum framer_result res = FRAMER_MORE;
	size_t i = 0;

	if (f->taken)
		framer_reset(f, FRAMER_START);
	while (i < len && res == FRAMER_MORE) {
		bool again = false;

		res = framer_step(f, (unsigned char)data[i], &again);
		if (!again)
			i++;
	}
	*ret_used = i;
	return res;
}
