// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fuzz_trace.c - any bytes given to the reader of traces: read to the end or refused, never worse.
 *
 * What is read is written again, and must be the same bytes: a trace has one spelling. And whatever is cut
 * off behind, the reader says that the end is missing, not that the trace is garbled.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ebb/trace.h>

#define RUNS_MAX 4096u

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __func__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static bool has_runs(const struct trace_record *record)
{
	return record->type == TRACE_YOUNG || record->type == TRACE_EVICT ||
	       record->type == TRACE_DISCARD;
}

/* The runs of @record, checked: as many as fit into @runs. */
static uint32_t get_runs(struct trace_record *record, uint32_t nr_pages, struct page_run *runs)
{
	struct page_run run;
	uint64_t end = 0;
	uint32_t nr = 0;

	while (trace_next_run(record, &run)) {
		must(run.nr && run.first >= end && (uint64_t)run.first + run.nr <= nr_pages);
		end = (uint64_t)run.first + run.nr;
		must(nr < RUNS_MAX); /* two bytes each: the input has no room for more */
		runs[nr++] = run;
	}
	return nr;
}

static int put(struct trace_writer *w, struct trace_record *record)
{
	struct page_run runs[RUNS_MAX];

	if (has_runs(record))
		return trace_put_runs(w, record->type, runs, get_runs(record, w->nr_pages, runs));
	switch (record->type) {
	case TRACE_TIME:
		return trace_put_time(w, record->time_ns);
	case TRACE_FAULT:
		must(record->fault.page < w->nr_pages && record->fault.kind < TRACE_NR_FAULTS);
		return trace_put_fault(w, record->fault.kind, record->fault.page);
	case TRACE_PASS_END:
		return trace_put_pass_end(w, record->cost_ns);
	default:
		must(record->type == TRACE_LIMIT);
		return trace_put_limit(w, record->limit);
	}
}

/* Read @data and write it again; returns the bytes that were good, 0 if not even the header was. */
static size_t read_and_write(const uint8_t *data, size_t size, uint8_t *copy)
{
	struct trace_header header;
	struct trace_reader reader;
	struct trace_writer writer;
	struct trace_record record;
	uint64_t before = 0;
	int rc = trace_open(&reader, data, size, &header);

	must(!rc || rc == -ENODATA || rc == -EBADMSG || rc == -EPROTONOSUPPORT);
	if (rc)
		return 0;
	must(!trace_begin(&writer, copy, size, &header));
	while ((rc = trace_read(&reader, &record)) > 0) {
		must(record.time_ns >= before);
		before = record.time_ns;
		must(!put(&writer, &record));
		must(writer.used == reader.at);
	}
	must(rc == 0 || rc == -ENODATA || rc == -EBADMSG);
	must((rc == 0) == (reader.at == size));
	must(!memcmp(copy, data, writer.used));
	return writer.used;
}

/* Any part of the good bytes @data is good, but for its end. */
static void read_part(const uint8_t *data, size_t size)
{
	struct trace_header header;
	struct trace_reader reader;
	struct trace_record record;
	uint8_t *part = malloc(size + 1);
	int rc;

	must(part);
	memcpy(part, data, size);
	rc = trace_open(&reader, part, size, &header);
	while (!rc && (rc = trace_read(&reader, &record)) > 0)
		rc = 0;
	must(rc == 0 || rc == -ENODATA);
	free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct trace_header header = {
		.version = TRACE_VERSION,
		.page_shift = EBB_PAGE_SHIFT,
		.nr_pages = 3000,
		.name = "guest",
	};
	uint8_t *all = malloc(TRACE_HEADER_MAX + size), *copy = malloc(TRACE_HEADER_MAX + size);
	struct trace_writer writer = {0};
	size_t good;

	must(all && copy);
	/* With a good header in front, every other time: few inputs begin with one of their own. */
	if (size && data[size - 1] & 1)
		must(!trace_begin(&writer, all, TRACE_HEADER_MAX, &header));
	memcpy(all + writer.used, data, size);
	good = read_and_write(all, writer.used + size, copy);
	if (good)
		read_part(all, data[size / 2] * good / 256);
	free(all);
	free(copy);
	return 0;
}
