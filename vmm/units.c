// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * units.c - sizes as people write them, read exactly (no floating point) and written shortly.
 *
 * A size is digits, perhaps a fraction, perhaps a suffix: K, M, G, T, P or E, each alone or
 * followed by "B" or "iB", upper or lower case, always a power of 1024; "B" alone means bytes. A
 * fraction needs a suffix and is rounded down to whole bytes.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <ebb/types.h>
#include "units.h"

#define UNITS_MAX_BYTES (UINT64_C(1) << 63)
/* Further digits are dropped: 10^-19 EiB is less than a byte, and 128 bits hold the product. */
#define UNITS_FRACTION_DIGITS 19

static const char units_prefixes[] = "KMGTPE";

/** parse_suffix() - the shift of a suffix that makes up all of @p, negative when it is not one */
static int parse_suffix(const char *p)
{
	const char *prefix;

	while (*p == ' ')
		p++;
	if (!*p || !strcasecmp(p, "B"))
		return 0;
	prefix = strchr(units_prefixes, toupper((unsigned char)*p));
	if (!prefix)
		return -EINVAL;
	p++;
	if (*p && strcasecmp(p, "B") && strcasecmp(p, "iB"))
		return -EINVAL;
	return 10 * (int)(prefix - units_prefixes + 1);
}

int units_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	unsigned __int128 whole = 0, fraction = 0, scale = 1;
	const char *p = text;
	bool fractional;
	int shift;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++)
		/* Saturates just above the limit: the rest must still be read to tell -EINVAL. */
		whole = MIN(whole * 10 + (unsigned int)(*p - '0'),
			    (unsigned __int128)UNITS_MAX_BYTES + 1);
	fractional = *p == '.';
	if (fractional) {
		if (!isdigit((unsigned char)*++p))
			return -EINVAL;
		for (int nr = 0; isdigit((unsigned char)*p); p++, nr++) {
			if (nr >= UNITS_FRACTION_DIGITS)
				continue;
			fraction = fraction * 10 + (unsigned int)(*p - '0');
			scale *= 10;
		}
	}
	shift = parse_suffix(p);
	if (shift < 0 || (fractional && !shift))
		return -EINVAL;
	whole = (whole << shift) + (fraction << shift) / scale;
	if (whole > UNITS_MAX_BYTES)
		return -ERANGE;
	*ret_bytes = (uint64_t)whole;
	return 0;
}

char *units_format_bytes(uint64_t bytes, char *buf, size_t size)
{
	uint64_t unit, tenths;
	int i = -1;

	while (i + 1 < (int)strlen(units_prefixes) && bytes >> 10 * (i + 2))
		i++;
	if (i < 0) {
		snprintf(buf, size, "%" PRIu64 " B", bytes);
		return buf;
	}
	unit = UINT64_C(1) << 10 * (i + 1);
	/* Rounded down, so that it never says "1024.0 MiB"; unit / 10 would round, so 128 bits. */
	tenths = (uint64_t)((unsigned __int128)(bytes % unit) * 10 / unit);
	if (tenths)
		snprintf(buf, size, "%" PRIu64 ".%" PRIu64 " %ciB", bytes / unit, tenths,
			 units_prefixes[i]);
	else
		snprintf(buf, size, "%" PRIu64 " %ciB", bytes / unit, units_prefixes[i]);
	return buf;
}
