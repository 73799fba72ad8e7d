// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * show.c - what the daemon tells of guests, for people: a table, sections, a list of counters.
 *
 * Every member may be missing: a daemon of another version, or a guest that was refused before
 * much was known of it. What is missing is left out, or shown as "-" where a table needs
 * something.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ctl.h"
#include "table.h"
#include "units.h"

/* --- members as text -------------------------------------------------------------------------- */

char *show_bytes(const json_t *obj, const char *key, char *buf, size_t size)
{
	const json_t *value = json_object_get(obj, key);

	if (json_is_integer(value) && json_integer_value(value) >= 0)
		return units_format_bytes((uint64_t)json_integer_value(value), buf, size);
	snprintf(buf, size, "%s", json_is_null(value) ? "none" : "-");
	return buf;
}

const char *show_text(const json_t *obj, const char *key)
{
	static char bufs[8][256]; /* several may be arguments of one printf */
	static unsigned int next;
	const json_t *value = json_object_get(obj, key);
	char *buf = bufs[next++ % ARRAY_SIZE(bufs)];

	if (json_is_string(value))
		snprintf(buf, sizeof(bufs[0]), "%s", json_string_value(value));
	else if (json_is_integer(value))
		snprintf(buf, sizeof(bufs[0]), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(buf, sizeof(bufs[0]), "%g", json_real_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, sizeof(bufs[0]), "%s", json_is_true(value) ? "yes" : "no");
	else
		snprintf(buf, sizeof(bufs[0]), "-");
	text_make_safe(buf);
	return buf;
}

static bool has(const json_t *obj, const char *key)
{
	return json_object_get(obj, key) != NULL;
}

static const char *format_us(json_int_t us, char *buf, size_t size)
{
	if (us < 10000)
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT " us", us);
	else if (us < 10000000)
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT " ms", us / 1000);
	else
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT " s", us / 1000000);
	return buf;
}

static const char *format_age(json_int_t ms, char *buf, size_t size)
{
	json_int_t s = ms / 1000;

	if (ms < 10000)
		snprintf(buf, size, "%.1f s", (double)ms / 1000);
	else if (s < 600)
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT " s", s);
	else if (s < 36000)
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT " min", s / 60);
	else
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT " h", s / 3600);
	return buf;
}

/* --- a section: a heading, printed once there is something below it --------------------------- */

struct section {
	const char *title;
	bool printed;
};

static void section_begin(struct section *s)
{
	if (!s->printed)
		printf("\n%s\n", s->title);
	s->printed = true;
}

static void __printf(3, 4) section_row(struct section *s, const char *label, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	section_begin(s);
	printf("  %-14s %s\n", label, text);
}

static void row_bytes(struct section *s, const char *label, const json_t *obj, const char *key)
{
	char buf[32];

	if (has(obj, key))
		section_row(s, label, "%s", show_bytes(obj, key, buf, sizeof(buf)));
}

static void row_text(struct section *s, const char *label, const json_t *obj, const char *key)
{
	if (has(obj, key))
		section_row(s, label, "%s", show_text(obj, key));
}

/* --- one guest -------------------------------------------------------------------------------- */

static void show_memory(const json_t *guest)
{
	struct section s = { "Memory", false };
	double size = json_number_value(json_object_get(guest, "size"));
	double limit = json_number_value(json_object_get(guest, "limit"));
	const json_t *drain = json_object_get(guest, "drain");
	char buf[32], left[32], done[32];

	row_bytes(&s, "size", guest, "size");
	if (has(guest, "limit") && size > 0 && limit > 0)
		section_row(&s, "limit", "%s (%.0f%% of size)",
			    show_bytes(guest, "limit", buf, sizeof(buf)), limit * 100 / size);
	else
		row_bytes(&s, "limit", guest, "limit");
	row_bytes(&s, "resident", guest, "resident");
	row_bytes(&s, "evicted", guest, "evicted");
	row_bytes(&s, "zero pages", guest, "zero");
	if (drain)
		section_row(&s, "draining", "%s to go, %s done, %s/s",
			    show_bytes(drain, "left", left, sizeof(left)),
			    show_bytes(drain, "done", done, sizeof(done)),
			    show_bytes(drain, "rate", buf, sizeof(buf)));
}

static void show_store(const json_t *guest)
{
	const json_t *store = json_object_get(guest, "store");
	struct section s = { "Store", false };
	char used[32], size[32];

	row_text(&s, "path", store, "path");
	if (has(store, "used") || has(store, "size"))
		section_row(&s, "used", "%s of %s", show_bytes(store, "used", used, sizeof(used)),
			    show_bytes(store, "size", size, sizeof(size)));
}

static void show_method(const json_t *guest)
{
	const json_t *sampler = json_object_get(guest, "sampler");
	struct section s = { "Method", false };
	char buf[32];

	if (has(sampler, "name") && has(sampler, "reason"))
		section_row(&s, "sampler", "%s (%s)", show_text(sampler, "name"),
			    show_text(sampler, "reason"));
	else
		row_text(&s, "sampler", sampler, "name");
	row_text(&s, "pin guard", guest, "pin-guard");
	if (has(guest, "vm-stopped-us"))
		section_row(&s, "at attach", "the VMM's main thread was stopped for %s",
			    format_us(json_integer_value(json_object_get(guest, "vm-stopped-us")),
				      buf, sizeof(buf)));
}

static void show_generations(const json_t *guest)
{
	const json_t *gens = json_object_get(guest, "generations"), *gen;
	struct section s = { "Generations, oldest first", false };
	struct table t = { .columns = 4, .right = 0xf, .indent = 2 };
	char buf[32];
	size_t i;

	if (!json_array_size(gens))
		return;
	section_begin(&s);
	table_add(&t, "SEQ");
	table_add(&t, "AGE");
	table_add(&t, "PAGES");
	table_add(&t, "SIZE");
	json_array_foreach(gens, i, gen) {
		json_t *age = json_object_get(gen, "age-ms");
		json_t *pages = json_object_get(gen, "pages");

		table_add(&t, show_text(gen, "seq"));
		table_add(&t, age ? format_age(json_integer_value(age), buf, sizeof(buf)) : "-");
		table_add(&t, show_text(gen, "pages"));
		table_add(&t, pages ? units_format_bytes(
					      pages_to_bytes((uint64_t)json_integer_value(pages)),
					      buf, sizeof(buf)) :
				      "-");
	}
	table_print(&t);
}

static void show_latency(struct section *s, const json_t *lat)
{
	static const char *const keys[] = { "p50-us", "p99-us", "max-us" };
	static const char *const labels[] = { "fault median", "fault p99", "fault max" };
	char buf[32];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (has(lat, keys[i]))
			section_row(s, labels[i], "%s",
				    format_us(json_integer_value(json_object_get(lat, keys[i])),
					      buf, sizeof(buf)));
}

static void show_activity(const json_t *guest)
{
	json_t *cancels = json_object_get(guest, "cancels"), *count;
	struct section s = { "Activity", false };
	char text[256] = "";
	const char *key;
	size_t len = 0;

	row_text(&s, "evictions", guest, "evictions");
	json_object_foreach(cancels, key, count) {
		if (len >= sizeof(text))
			break;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %s", len ? ", " : "",
					key, show_text(cancels, key));
	}
	if (len) {
		text_make_safe(text);
		section_row(&s, "cancelled", "%s", text);
	}
	row_text(&s, "refaults", guest, "refaults");
	show_latency(&s, json_object_get(guest, "fault-latency"));
}

/** show_region_value() - sizes as sizes, addresses in hex, the rest as it is */
static const char *show_region_value(const json_t *region, const char *key, char *buf, size_t size)
{
	const json_t *value = json_object_get(region, key);

	if (!json_is_integer(value))
		return show_text(region, key);
	if (!strcmp(key, "size") || !strcmp(key, "bytes"))
		return show_bytes(region, key, buf, size);
	if (!strcmp(key, "gpa") || !strcmp(key, "hva") || strstr(key, "addr") ||
	    strstr(key, "offset") || strstr(key, "-off")) {
		snprintf(buf, size, "0x%" PRIx64, (uint64_t)json_integer_value(value));
		return buf;
	}
	return show_text(region, key);
}

/** show_regions() - a column for each member of the first one */
static void show_regions(const json_t *guest)
{
	json_t *regions = json_object_get(guest, "regions"), *first, *region, *value;
	struct section s = { "Regions", false };
	struct table t = { .indent = 2 };
	const char *key;
	char buf[64];
	size_t i;

	first = json_array_get(regions, 0);
	if (!json_object_size(first))
		return;
	section_begin(&s);
	json_object_foreach(first, key, value) {
		if (t.columns == TABLE_MAX_COLUMNS)
			break;
		if (json_is_integer(value))
			t.right |= 1u << t.columns;
		t.columns++;
		table_add(&t, key);
	}
	json_array_foreach(regions, i, region) {
		unsigned int col = 0;

		json_object_foreach(first, key, value)
			if (col++ < t.columns)
				table_add(&t, show_region_value(region, key, buf, sizeof(buf)));
	}
	table_print(&t);
}

static void show_warning_section(const json_t *guest)
{
	const json_t *warnings = json_object_get(guest, "warnings"), *w;
	struct section s = { "Warnings", false };
	char text[1024];
	size_t i;

	json_array_foreach(warnings, i, w) {
		if (!json_is_string(w))
			continue;
		snprintf(text, sizeof(text), "%s", json_string_value(w));
		text_make_safe(text);
		section_begin(&s);
		printf("  - %s\n", text);
	}
}

void show_warnings(const json_t *guest)
{
	const json_t *warnings = json_object_get(guest, "warnings"), *w;
	char text[1024];
	size_t i;

	json_array_foreach(warnings, i, w) {
		if (!json_is_string(w))
			continue;
		snprintf(text, sizeof(text), "%s", json_string_value(w));
		text_make_safe(text);
		fprintf(stderr, "ebbctl: warning: %s\n", text);
	}
}

void show_guest(const json_t *guest)
{
	printf("%s", show_text(guest, "name"));
	if (has(guest, "pid"))
		printf(", pid %s", show_text(guest, "pid"));
	printf(": %s\n", show_text(guest, "state"));
	show_memory(guest);
	show_generations(guest);
	show_activity(guest);
	show_store(guest);
	show_method(guest);
	show_regions(guest);
	show_warning_section(guest);
}

/* --- all guests ------------------------------------------------------------------------------- */

void show_guests(const json_t *guests)
{
	static const char *const heads[] = { "NAME",	 "PID",	    "SIZE",	"LIMIT",
					     "RESIDENT", "EVICTED", "REFAULTS", "STATE" };
	static const char *const keys[] = { "size", "limit", "resident", "evicted" };
	struct table t = { .columns = ARRAY_SIZE(heads), .right = 0x7e };
	json_t *guest;
	char buf[32];
	size_t i, k;

	for (k = 0; k < ARRAY_SIZE(heads); k++)
		table_add(&t, heads[k]);
	json_array_foreach(guests, i, guest) {
		table_add(&t, show_text(guest, "name"));
		table_add(&t, show_text(guest, "pid"));
		for (k = 0; k < ARRAY_SIZE(keys); k++)
			table_add(&t, show_bytes(guest, keys[k], buf, sizeof(buf)));
		table_add(&t, show_text(guest, "refaults"));
		table_add(&t, show_text(guest, "state"));
	}
	table_print(&t);
	if (!json_array_size(guests))
		fputs("ebbctl: no guests; attach one with: ebbctl attach PID\n", stderr);
}

/* --- counters --------------------------------------------------------------------------------- */

/** add_stats() - nested objects and arrays become names with dots */
static void add_stats(struct table *t, const char *prefix, const json_t *value, int depth)
{
	char name[256];
	const char *key;
	json_t *member;
	size_t i;

	if (depth > 8)
		return;
	json_object_foreach((json_t *)value, key, member) {
		snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", key);
		if (json_is_object(member) || json_is_array(member)) {
			add_stats(t, name, member, depth + 1);
		} else {
			table_add(t, name);
			table_add(t, show_text(value, key));
		}
	}
	json_array_foreach(value, i, member) {
		json_t *wrap = json_object();

		snprintf(name, sizeof(name), "%zu", i);
		json_object_set(wrap, name, member);
		add_stats(t, prefix, wrap, depth + 1);
		json_decref(wrap);
	}
}

void show_stats(const json_t *stats)
{
	struct table t = { .columns = 2, .right = 2 };

	add_stats(&t, "", stats, 0);
	table_print(&t);
}
