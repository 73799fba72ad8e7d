// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control_args.c - a command's arguments against its table, before the handler sees them.
 */
#include <errno.h>
#include <string.h>
#include "control_internal.h"
#include "units.h"

static const char *const type_names[] = {
	[ARG_STRING] = "string",
	[ARG_INT] = "integer",
	[ARG_BOOL] = "boolean",
	[ARG_SIZE] = "size",
};

static const struct control_arg *args_find(const struct control_arg *spec, const char *name)
{
	for (; spec && spec->name; spec++)
		if (!strcmp(spec->name, name))
			return spec;
	return NULL;
}

static json_t *args_size(json_t *value)
{
	uint64_t bytes;

	if (json_is_integer(value))
		return json_integer_value(value) < 0 ? NULL : json_incref(value);
	if (!json_is_string(value))
		return NULL;
	if (!strcmp(json_string_value(value), "none"))
		return json_integer(CONTROL_SIZE_NONE);
	if (units_parse_bytes(json_string_value(value), &bytes) || bytes > INT64_MAX)
		return NULL;
	return json_integer((json_int_t)bytes);
}

static bool args_holds_nul(const json_t *string)
{
	return strlen(json_string_value(string)) != json_string_length(string);
}

/** args_convert() - a new reference to what the handler gets for @value */
static int args_convert(const struct control_arg *a, json_t *value, json_t **ret,
			struct ebb_err *err)
{
	bool fits = true;

	if (json_is_string(value) && args_holds_nul(value))
		return ebb_err_set(err, -EINVAL, "Parameter '%s' must not hold a NUL character",
				   a->name);
	switch (a->type) {
	case ARG_STRING:
		fits = json_is_string(value);
		break;
	case ARG_INT:
		fits = json_is_integer(value);
		break;
	case ARG_BOOL:
		fits = json_is_boolean(value);
		break;
	case ARG_SIZE:
		value = args_size(value);
		if (!value)
			return ebb_err_set(err, -EINVAL,
					   "Parameter '%s' expects a size: bytes as an integer, "
					   "text such as \"512M\", or \"none\"",
					   a->name);
		*ret = value;
		return 0;
	}
	if (!fits)
		return ebb_err_set(err, -EINVAL, "Invalid parameter type for '%s', expected: %s",
				   a->name, type_names[a->type]);
	*ret = json_incref(value);
	return 0;
}

int control_args_check(const struct control_arg *spec, json_t *args, json_t **ret,
		       struct ebb_err *err)
{
	const struct control_arg *a;
	json_t *checked = json_object(), *value;
	const char *key;
	int rc = 0;

	for (a = spec; a && a->name && !rc; a++) {
		json_t *given = json_object_get(args, a->name), *got = NULL;

		if (given)
			rc = args_convert(a, given, &got, err);
		else if (!a->optional)
			rc = ebb_err_set(err, -EINVAL, "Parameter '%s' is missing", a->name);
		if (got && json_object_set_new(checked, a->name, got))
			rc = ebb_err_set(err, -ENOMEM, "Out of memory");
	}
	if (!rc)
		json_object_foreach(args, key, value) {
			if (!args_find(spec, key)) {
				rc = ebb_err_set(err, -EINVAL, "Parameter '%s' is unexpected", key);
				break;
			}
		}
	if (rc)
		json_decref(checked);
	else
		*ret = checked;
	return rc;
}

json_t *control_args_describe(const struct control_arg *spec)
{
	json_t *list = json_array();

	for (; spec && spec->name; spec++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s*}", "name", spec->name,
						      "type", type_names[spec->type], "optional",
						      spec->optional, "help", spec->help));
	return list;
}
