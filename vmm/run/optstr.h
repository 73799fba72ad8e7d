/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * optstr.h - the argument of a QEMU option: "type,key=value,..." or a JSON object.
 */
#ifndef RUN_OPTSTR_H
#define RUN_OPTSTR_H

#include <jansson.h>
#include <ebb/types.h>

struct optstr_pair {
	char *key;
	char *value;
};

/**
 * struct optstr - a parsed argument
 *
 * @v holds every key with its value as text, in order, also those of a JSON object's top level
 * ("on" and "off" for true and false; members that are lists or objects are left out of @v and kept
 * in @json).
 */
struct optstr {
	struct optstr_pair *v;
	size_t nr;
	const char *implied; /* key of a first value without one, may be NULL */
	json_t *json;	     /* NULL: key=value form */
};

/**
 * optstr_parse() - as QEMU reads it: ",," is a comma, "key" alone is key=on, "nokey" is key=off
 * @implied: key a first word without "=" belongs to, NULL if there is none; must outlive @ret
 *
 * Text that begins with "{" is JSON; QEMU's single-quoted strings are understood. -EINVAL with a
 * sentence when it is not valid JSON.
 */
int optstr_parse(const char *text, const char *implied, struct optstr *ret, struct ebb_err *err);
void optstr_free(struct optstr *o);

/** optstr_get() - the value of @key (the last one counts), NULL where it is not given */
const char *optstr_get(const struct optstr *o, const char *key);

/** optstr_is_on() - is @key given and true? */
bool optstr_is_on(const struct optstr *o, const char *key);

/** optstr_set() - give @key the only value @value; "on" and "off" are booleans in JSON */
void optstr_set(struct optstr *o, const char *key, const char *value);

/** optstr_format() - the text again, for QEMU to parse; the caller frees it */
char *optstr_format(const struct optstr *o);

#endif
