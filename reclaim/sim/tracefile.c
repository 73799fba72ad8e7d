// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tracefile.c - trace files: into memory, as text, and from a workload.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ebb/trace.h>
#include "tracefile.h"

#define BUFFER_SIZE (64u << 10)
#define PIECE_WORDS 64u		/* of a bitmap in one record */
#define PIECE_ROOM  (24u << 10) /* bytes: more than such a record takes */

const void *tracefile_map(const char *path, size_t *ret_size, struct ebb_err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *buf;

	if (fd < 0 || fstat(fd, &st)) {
		ebb_err_set(err, 0, "%s: %s", path, strerror(errno));
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || !st.st_size) {
		ebb_err_set(err, 0, "%s: %s", path,
			    S_ISREG(st.st_mode) ? "is empty" : "is no regular file");
		return NULL;
	}
	buf = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (buf == MAP_FAILED) {
		ebb_err_set(err, 0, "%s: %s", path, strerror(errno));
		return NULL;
	}
	*ret_size = (size_t)st.st_size;
	return buf;
}

void tracefile_unmap(const void *buf, size_t size)
{
	munmap((void *)buf, size);
}

int tracefile_error(int rc, size_t at, struct ebb_err *err)
{
	switch (rc) {
	case -ENODATA:
		return ebb_err_set(err, rc, "ends within the record at byte %zu", at);
	case -EPROTONOSUPPORT:
		return ebb_err_set(err, rc, "is a trace of another version than %d", TRACE_VERSION);
	default:
		return ebb_err_set(err, rc, at ? "is garbled at byte %zu" : "is no trace", at);
	}
}

/* --- as text -------------------------------------------------------------------------------- */

static void print_runs(struct trace_record *record, const char *name, FILE *out)
{
	struct page_run run;

	fprintf(out, "%s", name);
	while (trace_next_run(record, &run)) {
		if (run.nr == 1)
			fprintf(out, " %" PRIu32, run.first);
		else
			fprintf(out, " %" PRIu32 "-%" PRIu32, run.first, run.first + run.nr - 1);
	}
	fprintf(out, "\n");
}

static void print_record(struct trace_record *record, FILE *out)
{
	static const char *const faults[TRACE_NR_FAULTS] = {"new", "refault", "prefetch",
							    "write-kept"};

	fprintf(out, "%" PRIu64 ".%09" PRIu64 " ", record->time_ns / 1000000000,
		record->time_ns % 1000000000);
	switch (record->type) {
	case TRACE_FAULT:
		fprintf(out, "fault %" PRIu32 " %s\n", record->fault.page,
			faults[record->fault.kind]);
		return;
	case TRACE_YOUNG:
		print_runs(record, "young", out);
		return;
	case TRACE_EVICT:
		print_runs(record, "evict", out);
		return;
	case TRACE_DISCARD:
		print_runs(record, "discard", out);
		return;
	case TRACE_PASS_END:
		fprintf(out, "pass-end %" PRIu64 " ns\n", record->cost_ns);
		return;
	case TRACE_LIMIT:
		if (record->limit == TRACE_NO_LIMIT)
			fprintf(out, "limit none\n");
		else
			fprintf(out, "limit %" PRIu32 "\n", record->limit);
		return;
	default:
		return;
	}
}

static int dump(const void *buf, size_t size, FILE *out, struct ebb_err *err)
{
	struct trace_header header;
	struct trace_record record;
	struct trace_reader reader;
	int rc = trace_open(&reader, buf, size, &header);

	if (rc)
		return tracefile_error(rc, 0, err);
	/* The name came from a file: whatever a terminal could take for a command is left out. */
	for (char *c = header.name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	fprintf(out,
		"# trace version %u of \"%s\", %" PRIu32 " pages of %u bytes, start %" PRIu64
		" ns\n",
		header.version, header.name, header.nr_pages, 1u << header.page_shift,
		header.start_ns);
	while ((rc = trace_read(&reader, &record)) > 0)
		if (record.type != TRACE_TIME)
			print_record(&record, out);
	return rc ? tracefile_error(rc, reader.at, err) : 0;
}

int tracefile_dump(const char *path, FILE *out, struct ebb_err *err)
{
	struct ebb_err why = {0};
	size_t size;
	const void *buf = tracefile_map(path, &size, err);
	int rc;

	if (!buf)
		return -EIO;
	rc = dump(buf, size, out, &why);
	tracefile_unmap(buf, size);
	return rc ? ebb_err_set(err, rc, "%s %s", path, why.msg) : 0;
}

/* --- from a workload ------------------------------------------------------------------------ */

struct recording {
	FILE *file;
	const struct sim_workload *workload;
	struct trace_writer writer;
	uint64_t *young;
	uint8_t buf[BUFFER_SIZE];
};

static void flush(struct recording *rec)
{
	fwrite(rec->buf, 1, rec->writer.used, rec->file); /* errors are asked for at the end */
	rec->writer.used = 0;
}

static void make_room(struct recording *rec)
{
	if (rec->writer.size - rec->writer.used < PIECE_ROOM)
		flush(rec);
}

static int record_pass(struct recording *rec)
{
	uint32_t nr_words = (rec->workload->nr_pages + 63) / 64;

	for (uint32_t word = 0; word < nr_words; word += PIECE_WORDS) {
		uint32_t nr = MIN(PIECE_WORDS, nr_words - word);
		int rc;

		make_room(rec);
		rc = trace_put_young(&rec->writer, word * 64, rec->young + word, nr);
		if (rc)
			return rc;
	}
	memset(rec->young, 0, nr_words * sizeof(*rec->young));
	return trace_put_pass_end(&rec->writer, 0);
}

static int record_access(struct recording *rec, uint32_t page, bool is_new)
{
	rec->young[page / 64] |= 1ull << page % 64;
	return is_new ? trace_put_fault(&rec->writer, TRACE_FAULT_NEW, page) : 0;
}

static int record_all(struct recording *rec, double period)
{
	const struct sim_workload *w = rec->workload;
	uint32_t between = (uint32_t)MAX(1.0, MIN(period * w->nr_pages, 4e9));
	uint8_t *seen = sim_alloc(w->nr_pages, 1);
	int rc = trace_put_limit(&rec->writer, TRACE_NO_LIMIT);

	for (uint32_t at = 0; !rc && at < w->nr_accesses; at++) {
		uint32_t page = w->accesses[at];

		make_room(rec);
		if (at && at % between == 0) {
			rc = trace_put_time(&rec->writer, (uint64_t)at * SIM_NS_PER_ACCESS);
			if (!rc)
				rc = record_pass(rec);
		}
		if (!rc && !seen[page])
			rc = trace_put_time(&rec->writer, (uint64_t)at * SIM_NS_PER_ACCESS);
		if (!rc)
			rc = record_access(rec, page, !seen[page]);
		seen[page] = 1;
	}
	if (!rc)
		rc = trace_put_time(&rec->writer, (uint64_t)w->nr_accesses * SIM_NS_PER_ACCESS);
	if (!rc)
		rc = record_pass(rec);
	free(seen);
	return rc;
}

int tracefile_write(const char *path, const struct sim_workload *w, double period,
		    struct ebb_err *err)
{
	struct trace_header header = {
		.version = TRACE_VERSION,
		.page_shift = EBB_PAGE_SHIFT,
		.nr_pages = w->nr_pages,
	};
	struct recording *rec = sim_alloc(1, sizeof(*rec));
	int rc;

	rec->file = fopen(path, "we");
	if (!rec->file) {
		free(rec);
		return ebb_err_set(err, -errno, "%s: %s", path, strerror(errno));
	}
	rec->workload = w;
	rec->young = sim_alloc((w->nr_pages + 63) / 64, sizeof(*rec->young));
	memcpy(header.name, w->name, sizeof(w->name));
	rc = trace_begin(&rec->writer, rec->buf, sizeof(rec->buf), &header);
	if (!rc)
		rc = record_all(rec, period);
	flush(rec);
	if (ferror(rec->file) | fclose(rec->file))
		rc = -EIO;
	free(rec->young);
	free(rec);
	return rc ? ebb_err_set(err, rc, "%s: could not be written: %s", path, strerror(-rc)) : 0;
}
