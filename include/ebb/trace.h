/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace.h - the file format of what was seen of a guest's accesses.
 *
 * DOC: the format, version 1
 *
 * A trace is what a hypervisor can see while a guest runs: faults as they happen, and once a pass
 * which pages were touched since the one before. It is written as it goes and read front to back. All
 * numbers are little endian; a *varint* is 7 bits a byte, lowest first, the top bit set in all but the
 * last byte (LEB128), at most 10 bytes and never longer than needed.
 *
 *	header	magic "EBBTRACE", u16 version, u8 page shift, u8 length of the name, u32 nr_pages,
 *		u64 start in ns since 1970, the name of the guest without a terminator
 *	records	one byte: type in the low 4 bits, argument in the high 4; then varints
 *
 *	TIME	  ns since the TIME before (or the start). Other records happen at the last TIME
 *	FAULT	  arg: enum trace_fault. The page, as zigzag distance from the page of the FAULT before
 *	YOUNG	  runs: touched since the pass before
 *	PASS_END  CPU time of the pass, ns. It ends the pass that the YOUNG records since the last belong to
 *	EVICT	  runs: out of memory
 *	DISCARD	  runs: given up by the guest; the next touch is a first one
 *	LIMIT	  0: none, else resident pages allowed + 1
 *
 * Runs are: their number, then for each the distance of its first page from the end of the run before
 * (from page 0), and its length - 1. They ascend, do not overlap, and end within the guest.
 *
 * A recorder that was killed leaves half a record at the end: the reader tells that apart from
 * garbage. There is no checksum and no index. A young page among others that are not takes 2 or 3 bytes
 * of a pass, and so does a run of them, however long.
 */
#ifndef EBB_TRACE_H
#define EBB_TRACE_H

#include <ebb/types.h>

#define TRACE_VERSION	   1
#define TRACE_NAME_MAX	   255
#define TRACE_HEADER_MAX   (24 + TRACE_NAME_MAX)
#define TRACE_PAGES_MAX	   (1u << 29)
#define TRACE_SMALL_RECORD 16 /* bytes: more than any record without runs takes */

enum trace_type {
	TRACE_TIME = 1,
	TRACE_FAULT,
	TRACE_YOUNG,
	TRACE_PASS_END,
	TRACE_EVICT,
	TRACE_DISCARD,
	TRACE_LIMIT,
	TRACE_NR_TYPES,
};

enum trace_fault {
	TRACE_FAULT_NEW,	/* first touch: given zeros */
	TRACE_FAULT_REFAULT,	/* brought back because the guest touched it */
	TRACE_FAULT_PREFETCH,	/* brought along; the guest did not touch it */
	TRACE_FAULT_WRITE_KEPT, /* still there: a write stopped its eviction */
	TRACE_NR_FAULTS,
};

#define TRACE_NO_LIMIT UINT32_MAX

/** struct trace_header - what a trace is about */
struct trace_header {
	uint16_t version;
	uint8_t page_shift;
	uint32_t nr_pages; /* 1..TRACE_PAGES_MAX */
	uint64_t start_ns; /* since 1970 */
	char name[TRACE_NAME_MAX + 1];
};

/* --- writing -------------------------------------------------------------------------------- */

/**
 * struct trace_writer - appends records to a buffer of the caller
 *
 * The caller empties the buffer (to a file, say) and sets @used to 0 whenever it likes: records do not
 * refer to each other by place. Each call writes a whole record or, with -ENOSPC, nothing.
 */
struct trace_writer {
	uint8_t *buf;
	size_t size, used;
	uint32_t nr_pages;
	uint64_t time_ns;    /* of the last TIME, since the start */
	uint32_t fault_page; /* of the last FAULT */
};

/**
 * trace_begin() - set up @w and write the header
 *
 * Returns 0, -EINVAL for a header no reader would take, or -ENOSPC.
 */
int trace_begin(struct trace_writer *w, void *buf, size_t size, const struct trace_header *header);

/** trace_put_time() - @ns since the start; nothing is written if that is no later than the last */
int trace_put_time(struct trace_writer *w, uint64_t ns);

/** trace_put_fault() - @page below nr_pages */
int trace_put_fault(struct trace_writer *w, enum trace_fault kind, uint32_t page);

/**
 * trace_put_runs() - a YOUNG, EVICT or DISCARD record
 * @runs: ascending, not overlapping, none empty, within the guest: -EINVAL otherwise
 *
 * Of no runs, no record. A record takes at most 6 + 10 * @nr bytes.
 */
int trace_put_runs(struct trace_writer *w, enum trace_type type, const struct page_run *runs,
		   uint32_t nr);

/**
 * trace_put_young() - a YOUNG record from bits, one a page, lowest first
 * @first: page of the first bit; bits beyond the guest are ignored
 *
 * A record takes at most 6 + 10 * 32 * @nr_words bytes: give long bitmaps in pieces.
 */
int trace_put_young(struct trace_writer *w, uint32_t first, const uint64_t *bits,
		    uint32_t nr_words);

int trace_put_pass_end(struct trace_writer *w, uint64_t cost_ns);

/** trace_put_limit() - @pages, or TRACE_NO_LIMIT */
int trace_put_limit(struct trace_writer *w, uint32_t pages);

/* --- reading -------------------------------------------------------------------------------- */

/** struct trace_record - one record; its runs, if it has any, are read with trace_next_run() */
struct trace_record {
	enum trace_type type;
	uint64_t time_ns; /* since the start */
	union {
		struct {
			enum trace_fault kind;
			uint32_t page;
		} fault;
		uint64_t cost_ns; /* PASS_END */
		uint32_t limit;	  /* LIMIT: pages or TRACE_NO_LIMIT */
		struct {
			const uint8_t *at, *end;
			uint32_t left; /* runs */
			uint32_t page; /* end of the run before */
		} runs;
	};
};

/** struct trace_reader - where in a trace we are; @at is the offset of the next record */
struct trace_reader {
	const uint8_t *buf;
	size_t size, at;
	uint32_t nr_pages;
	uint64_t time_ns;
	uint32_t fault_page;
};

/**
 * trace_open() - read the header of the trace in @buf
 *
 * Returns 0; -ENODATA if @buf ends within the header; -EBADMSG if it is no trace or a garbled one;
 * -EPROTONOSUPPORT for a version other than TRACE_VERSION (@ret_header->version is set).
 */
int trace_open(struct trace_reader *r, const void *buf, size_t size,
	       struct trace_header *ret_header);

/**
 * trace_read() - the next record
 *
 * Runs are checked here, all of them: trace_next_run() cannot fail. Returns 1; 0 at the end; -ENODATA
 * if the trace ends within a record (what came before is good); -EBADMSG for what no writer writes.
 * After an error, reader and record say nothing more.
 */
int trace_read(struct trace_reader *r, struct trace_record *ret_record);

/** trace_next_run() - of a YOUNG, EVICT or DISCARD record; false when there are no more */
bool trace_next_run(struct trace_record *record, struct page_run *ret_run);

#endif
