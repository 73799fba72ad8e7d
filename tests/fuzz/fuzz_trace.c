// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fuzz_trace.c - any bytes given to the reader of traces: read to the end or refused, never worse.
 */
#include <stdlib.h>
#include <ebb/trace.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_header header;
	struct trace_reader reader;
	struct trace_record record;
	struct page_run run;
	uint64_t end;

	if (trace_open(&reader, data, size, &header))
		return 0;
	while (trace_read(&reader, &record) > 0) {
		if (record.type != TRACE_YOUNG && record.type != TRACE_EVICT &&
		    record.type != TRACE_DISCARD)
			continue;
		end = 0;
		while (trace_next_run(&record, &run)) {
			if (!run.nr || run.first < end || (uint64_t)run.first + run.nr > header.nr_pages)
				abort();
			end = (uint64_t)run.first + run.nr;
		}
	}
	return 0;
}
