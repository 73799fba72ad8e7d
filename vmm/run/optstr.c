// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * optstr.c - reads and writes the arguments of QEMU options.
 *
 * Running out of memory ends the program: ebb-run has started nothing yet when these run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "optstr.h"
#include "strlist.h"

static void optstr_add(struct optstr *o, char *key, char *value)
{
	o->v = run_realloc(o->v, (o->nr + 1) * sizeof(*o->v));
	o->v[o->nr].key = key;
	o->v[o->nr++].value = value;
}

/** take_value() - text up to a single comma, ",," being one; *@p is left at the comma or the end */
static char *take_value(const char **p)
{
	char *value = run_realloc(NULL, strlen(*p) + 1), *w = value;

	for (; **p; (*p)++) {
		if (**p == ',' && *++*p != ',') {
			(*p)--;
			break;
		}
		*w++ = **p;
	}
	*w = '\0';
	return value;
}

static void parse_pairs(const char *p, struct optstr *o)
{
	for (bool first = true; *p; first = false) {
		size_t len = strcspn(p, "=,");

		if (p[len] == '=') {
			char *key = run_strndup(p, len);

			p += len + 1;
			optstr_add(o, key, take_value(&p));
		} else if (first && o->implied) {
			optstr_add(o, run_strdup(o->implied), take_value(&p));
		} else {
			bool no = len > 2 && !strncmp(p, "no", 2);

			optstr_add(o, run_strndup(p + (no ? 2 : 0), len - (no ? 2 : 0)),
				   run_strdup(no ? "off" : "on"));
			p += len;
		}
		if (*p == ',')
			p++;
	}
}

/** double_quotes() - QEMU also takes 'single-quoted' strings in its JSON; jansson does not */
static char *double_quotes(const char *text)
{
	char *out = run_realloc(NULL, 2 * strlen(text) + 1), *w = out;
	char quote = 0;

	for (const char *p = text; *p; p++) {
		if (!quote) {
			if (*p == '"' || *p == '\'')
				quote = *p;
			*w++ = *p == '\'' ? '"' : *p;
		} else if (*p == quote) {
			quote = 0;
			*w++ = '"';
		} else if (*p == '\\' && p[1]) {
			/* \' is no escape of standard JSON. */
			if (p[1] != '\'')
				*w++ = '\\';
			*w++ = *++p;
		} else {
			if (*p == '"')
				*w++ = '\\';
			*w++ = *p;
		}
	}
	*w = '\0';
	return out;
}

static char *scalar_text(const json_t *value)
{
	char buf[64];

	switch (json_typeof(value)) {
	case JSON_STRING:
		return run_strdup(json_string_value(value));
	case JSON_TRUE:
		return run_strdup("on");
	case JSON_FALSE:
		return run_strdup("off");
	case JSON_INTEGER:
		snprintf(buf, sizeof(buf), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return run_strdup(buf);
	default:
		return NULL;
	}
}

static int parse_json(const char *text, struct optstr *o, struct ebb_err *err)
{
	_cleanup_free_ char *quoted = double_quotes(text);
	json_error_t why;
	const char *key;
	json_t *value;

	o->json = json_loads(quoted, JSON_REJECT_DUPLICATES, &why);
	if (!o->json)
		return ebb_err_set(err, -EINVAL, "is not valid JSON (%s)", why.text);
	json_object_foreach(o->json, key, value)
	{
		char *v = scalar_text(value);

		if (v)
			optstr_add(o, run_strdup(key), v);
	}
	return 0;
}

int optstr_parse(const char *text, const char *implied, struct optstr *ret, struct ebb_err *err)
{
	struct optstr o = {.implied = implied};
	int rc = 0;

	if (*text == '{')
		rc = parse_json(text, &o, err);
	else
		parse_pairs(text, &o);
	if (!rc)
		*ret = o;
	return rc;
}

void optstr_free(struct optstr *o)
{
	for (size_t i = 0; i < o->nr; i++) {
		free(o->v[i].key);
		free(o->v[i].value);
	}
	free(o->v);
	json_decref(o->json);
	*o = (struct optstr) {0};
}

const char *optstr_get(const struct optstr *o, const char *key)
{
	for (size_t i = o->nr; i-- > 0;)
		if (!strcmp(o->v[i].key, key))
			return o->v[i].value;
	return NULL;
}

bool optstr_is_on(const struct optstr *o, const char *key)
{
	static const char *const off[] = {"off", "no", "n", "false"};
	const char *value = optstr_get(o, key);

	if (!value)
		return false;
	/* What QEMU takes for neither it refuses itself: "on" is the careful guess. */
	for (size_t i = 0; i < ARRAY_SIZE(off); i++)
		if (!strcasecmp(value, off[i]))
			return false;
	return true;
}

static json_t *json_from_text(const char *value)
{
	if (!strcmp(value, "on"))
		return json_true();
	if (!strcmp(value, "off"))
		return json_false();
	return json_string(value);
}

void optstr_set(struct optstr *o, const char *key, const char *value)
{
	bool found = false;
	size_t to = 0;

	for (size_t i = 0; i < o->nr; i++) {
		bool same = !strcmp(o->v[i].key, key);

		if (same) {
			free(o->v[i].value);
			o->v[i].value = NULL;
		}
		if (same && found) {
			free(o->v[i].key);
			continue;
		}
		if (same)
			o->v[i].value = run_strdup(value);
		found |= same;
		o->v[to++] = o->v[i];
	}
	o->nr = to;
	if (!found)
		optstr_add(o, run_strdup(key), run_strdup(value));
	if (o->json)
		json_object_set_new(o->json, key, json_from_text(value));
}

/** put_escaped() - append @text at @w with its commas doubled; returns the new end */
static char *put_escaped(char *w, const char *text)
{
	for (; *text; text++) {
		if (*text == ',')
			*w++ = ',';
		*w++ = *text;
	}
	return w;
}

char *optstr_format(const struct optstr *o)
{
	size_t size = 1;
	char *out, *w;

	if (o->json)
		return json_dumps(o->json, JSON_COMPACT);
	for (size_t i = 0; i < o->nr; i++)
		size += strlen(o->v[i].key) + 2 * strlen(o->v[i].value) + 2;
	out = w = run_realloc(NULL, size);
	for (size_t i = 0; i < o->nr; i++) {
		bool bare = i == 0 && o->implied && !strcmp(o->v[0].key, o->implied) &&
			    !strchr(o->v[0].value, '=');

		if (i)
			*w++ = ',';
		if (!bare) {
			w = stpcpy(w, o->v[i].key);
			*w++ = '=';
		}
		w = put_escaped(w, o->v[i].value);
	}
	*w = '\0';
	return out;
}
