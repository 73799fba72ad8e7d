// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * limit.c - a limit as people write it: 512M, 50%, none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "ctl.h"
#include "units.h"

/** parse_percent() - digits, perhaps a point, and the sign at the end */
static int parse_percent(const char *text, double *ret)
{
	size_t digits = strspn(text, "0123456789.");
	char *end;
	double value;

	if (!digits || strcmp(text + digits, "%"))
		return -EINVAL;
	value = strtod(text, &end);
	if (end != text + digits || value <= 0 || value > 100)
		return -EINVAL;
	*ret = value;
	return 0;
}

int limit_parse(const char *text, struct limit *ret, struct ebb_err *err)
{
	struct limit limit = { .kind = LIMIT_BYTES };
	size_t len = strlen(text);
	int rc;

	if (!strcmp(text, "none")) {
		limit.kind = LIMIT_NONE;
	} else if (len && text[len - 1] == '%') {
		limit.kind = LIMIT_PERCENT;
		rc = parse_percent(text, &limit.percent);
		if (rc)
			return ebb_err_set(err, rc,
					   "\"%s\" is no share of a guest: write more than 0%% and "
					   "at most 100%%, such as 50%%",
					   text);
	} else {
		rc = units_parse_bytes(text, &limit.bytes);
		if (!rc && limit.bytes > INT64_MAX)
			rc = -ERANGE;
		if (rc)
			return ebb_err_set(err, rc,
					   "\"%s\" is no limit: write a size such as 512M or 1.5G, "
					   "a share of the guest such as 50%%, or none",
					   text);
	}
	*ret = limit;
	return 0;
}

json_t *limit_json(const struct limit *limit, uint64_t guest_size)
{
	double pages;

	switch (limit->kind) {
	case LIMIT_NONE:
		return json_string("none");
	case LIMIT_PERCENT:
		/* Whole pages, so that what is shown later is what was asked for. */
		pages = (double)bytes_to_pages(guest_size) * limit->percent / 100;
		return json_integer((json_int_t)pages_to_bytes((uint64_t)pages));
	default:
		return json_integer((json_int_t)limit->bytes);
	}
}
