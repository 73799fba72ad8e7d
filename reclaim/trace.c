// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * trace.c - records of include/ebb/trace.h, to and from memory.
 *
 * DOC: trust
 *
 * The writer is the daemon's and is trusted; the reader is given files and trusts nothing: every
 * length and every page is compared with what is left and with the guest before it is used, varints
 * have one spelling, and runs are walked once for their checks before anybody is given the first. So
 * what is read can be used as an index.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <ebb/trace.h>

#define MAGIC	    "EBBTRACE"
#define MAGIC_LEN   8u
#define HEADER_LEN  24u /* without the name */
#define VARINT_MAX  10u
#define SHIFT_MIN   12u /* 4 KiB.. */
#define SHIFT_MAX   30u /* ..1 GiB */
#define ARG_SHIFT   4
#define TYPE_MASK   0xfu
#define VARINT_MORE 0x80u

/* --- numbers -------------------------------------------------------------------------------- */

static void put_le(uint8_t *p, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_le(const uint8_t *p, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value |= (uint64_t)p[i] << 8 * i;
	return value;
}

static size_t put_varint(uint8_t *p, uint64_t value)
{
	size_t len = 0;

	for (; value >= VARINT_MORE; value >>= 7)
		p[len++] = (uint8_t)(value | VARINT_MORE);
	p[len++] = (uint8_t)value;
	return len;
}

/* Advances *@p; 0, -ENODATA or -EBADMSG. */
static int get_varint(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < VARINT_MAX; i++) {
		uint8_t byte;

		if (*p == end)
			return -ENODATA;
		byte = *(*p)++;
		/* The tenth byte has room for one bit; a last byte of 0 says nothing. */
		if ((i == VARINT_MAX - 1 && byte > 1) || (i && !byte))
			return -EBADMSG;
		value |= (uint64_t)(byte & ~VARINT_MORE) << 7 * i;
		if (!(byte & VARINT_MORE)) {
			*ret = value;
			return 0;
		}
	}
	return -EBADMSG;
}

/* Small distances of either sign become small numbers. */
static uint64_t zigzag(int64_t value)
{
	return value < 0 ? ~((uint64_t)value << 1) : (uint64_t)value << 1;
}

static int64_t unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1 ^ -(value & 1));
}

/* --- writing -------------------------------------------------------------------------------- */

static bool header_is_sane(uint8_t page_shift, uint32_t nr_pages)
{
	return page_shift >= SHIFT_MIN && page_shift <= SHIFT_MAX && nr_pages >= 1 &&
	       nr_pages <= TRACE_PAGES_MAX;
}

/* Bytes before the first 0, at most @max. */
static size_t name_length(const char *name, size_t max)
{
	size_t len = 0;

	while (len < max && name[len])
		len++;
	return len;
}

int trace_begin(struct trace_writer *w, void *buf, size_t size, const struct trace_header *header)
{
	size_t len = name_length(header->name, sizeof(header->name));
	uint8_t *p = buf;

	if (header->version != TRACE_VERSION || len > TRACE_NAME_MAX ||
	    !header_is_sane(header->page_shift, header->nr_pages))
		return -EINVAL;
	if (size < HEADER_LEN + len)
		return -ENOSPC;
	memcpy(p, MAGIC, MAGIC_LEN);
	put_le(p + 8, header->version, 2);
	p[10] = header->page_shift;
	p[11] = (uint8_t)len;
	put_le(p + 12, header->nr_pages, 4);
	put_le(p + 16, header->start_ns, 8);
	memcpy(p + HEADER_LEN, header->name, len);
	*w = (struct trace_writer) {
		.buf = buf,
		.size = size,
		.used = HEADER_LEN + len,
		.nr_pages = header->nr_pages,
	};
	return 0;
}

/* A record of one number, if it fits. */
static int put_record(struct trace_writer *w, enum trace_type type, uint32_t arg, uint64_t value)
{
	uint8_t record[1 + VARINT_MAX];
	size_t len = 1;

	record[0] = (uint8_t)(type | arg << ARG_SHIFT);
	len += put_varint(record + 1, value);
	if (len > w->size - w->used)
		return -ENOSPC;
	memcpy(w->buf + w->used, record, len);
	w->used += len;
	return 0;
}

int trace_put_time(struct trace_writer *w, uint64_t ns)
{
	int rc;

	if (ns <= w->time_ns)
		return 0;
	rc = put_record(w, TRACE_TIME, 0, ns - w->time_ns);
	if (!rc)
		w->time_ns = ns;
	return rc;
}

int trace_put_fault(struct trace_writer *w, enum trace_fault kind, uint32_t page)
{
	int rc;

	assert(page < w->nr_pages && kind < TRACE_NR_FAULTS);
	rc = put_record(w, TRACE_FAULT, kind, zigzag((int64_t)page - w->fault_page));
	if (!rc)
		w->fault_page = page;
	return rc;
}

int trace_put_pass_end(struct trace_writer *w, uint64_t cost_ns)
{
	return put_record(w, TRACE_PASS_END, 0, cost_ns);
}

int trace_put_limit(struct trace_writer *w, uint32_t pages)
{
	return put_record(w, TRACE_LIMIT, 0, pages == TRACE_NO_LIMIT ? 0 : (uint64_t)pages + 1);
}

/* Runs behind the writer's end, which only moves when the record is whole. */
struct run_writer {
	size_t used;
	uint32_t page; /* end of the run before */
};

static int put_run(const struct trace_writer *w, struct run_writer *rw, struct page_run run)
{
	uint8_t bytes[2 * VARINT_MAX];
	size_t len;

	if (run.first < rw->page || !run.nr || run.first >= w->nr_pages ||
	    run.nr > w->nr_pages - run.first)
		return -EINVAL;
	len = put_varint(bytes, run.first - rw->page);
	len += put_varint(bytes + len, run.nr - 1);
	if (len > w->size - rw->used)
		return -ENOSPC;
	memcpy(w->buf + rw->used, bytes, len);
	rw->used += len;
	rw->page = run.first + run.nr;
	return 0;
}

static int begin_runs(struct trace_writer *w, struct run_writer *rw, enum trace_type type,
		      uint32_t nr)
{
	struct trace_writer head = *w;
	int rc = put_record(&head, type, 0, nr);

	*rw = (struct run_writer) {.used = head.used};
	return rc;
}

int trace_put_runs(struct trace_writer *w, enum trace_type type, const struct page_run *runs,
		   uint32_t nr)
{
	struct run_writer rw;
	int rc;

	assert(type == TRACE_YOUNG || type == TRACE_EVICT || type == TRACE_DISCARD);
	if (!nr)
		return 0;
	rc = begin_runs(w, &rw, type, nr);
	for (uint32_t i = 0; !rc && i < nr; i++)
		rc = put_run(w, &rw, runs[i]);
	if (!rc)
		w->used = rw.used;
	return rc;
}

/* The first run of set bits in @bits at or after *@at (below @nr); false: no more. Advances *@at. */
static bool next_bit_run(const uint64_t *bits, uint32_t nr, uint32_t *at, struct page_run *ret)
{
	uint32_t i = *at;

	while (i < nr && !(bits[i / 64] >> i % 64 & 1))
		i += bits[i / 64] >> i % 64 ? 1 : 64 - i % 64;
	if (i >= nr)
		return false;
	ret->first = i;
	while (i < nr && bits[i / 64] >> i % 64 & 1)
		i++;
	ret->nr = i - ret->first;
	*at = i;
	return true;
}

int trace_put_young(struct trace_writer *w, uint32_t first, const uint64_t *bits, uint32_t nr_words)
{
	uint32_t room = first < w->nr_pages ? w->nr_pages - first : 0;
	uint32_t nr_bits = (uint32_t)MIN((uint64_t)room, 64ull * nr_words);
	uint32_t nr_runs = 0, at = 0;
	struct run_writer rw;
	struct page_run run;
	int rc;

	while (next_bit_run(bits, nr_bits, &at, &run))
		nr_runs++;
	if (!nr_runs)
		return 0;
	rc = begin_runs(w, &rw, TRACE_YOUNG, nr_runs);
	at = 0;
	while (!rc && next_bit_run(bits, nr_bits, &at, &run)) {
		run.first += first;
		rc = put_run(w, &rw, run);
	}
	if (!rc)
		w->used = rw.used;
	return rc;
}

/* --- reading -------------------------------------------------------------------------------- */

int trace_open(struct trace_reader *r, const void *buf, size_t size,
	       struct trace_header *ret_header)
{
	const uint8_t *p = buf;
	size_t len;

	memset(ret_header, 0, sizeof(*ret_header));
	if (memcmp(p, MAGIC, MIN(size, MAGIC_LEN)) != 0)
		return -EBADMSG;
	if (size < HEADER_LEN)
		return -ENODATA;
	ret_header->version = (uint16_t)get_le(p + 8, 2);
	if (ret_header->version != TRACE_VERSION)
		return -EPROTONOSUPPORT;
	ret_header->page_shift = p[10];
	len = p[11];
	ret_header->nr_pages = (uint32_t)get_le(p + 12, 4);
	ret_header->start_ns = get_le(p + 16, 8);
	if (!header_is_sane(ret_header->page_shift, ret_header->nr_pages))
		return -EBADMSG;
	if (size - HEADER_LEN < len)
		return -ENODATA;
	if (name_length((const char *)p + HEADER_LEN, len) < len)
		return -EBADMSG;
	memcpy(ret_header->name, p + HEADER_LEN, len);
	*r = (struct trace_reader) {
		.buf = buf,
		.size = size,
		.at = HEADER_LEN + len,
		.nr_pages = ret_header->nr_pages,
	};
	return 0;
}

static int read_run(const uint8_t **p, const uint8_t *end, uint32_t nr_pages, uint32_t *page,
		    struct page_run *ret_run)
{
	uint64_t gap, more;
	int rc = get_varint(p, end, &gap);

	if (!rc && gap >= nr_pages - *page) /* the run has one page at least */
		return -EBADMSG;
	if (!rc)
		rc = get_varint(p, end, &more);
	if (rc)
		return rc;
	ret_run->first = *page + (uint32_t)gap;
	if (more >= nr_pages - ret_run->first)
		return -EBADMSG;
	ret_run->nr = (uint32_t)more + 1;
	*page = ret_run->first + ret_run->nr;
	return 0;
}

bool trace_next_run(struct trace_record *record, struct page_run *ret_run)
{
	int rc;

	if (!record->runs.left)
		return false;
	record->runs.left--;
	/* The bound was checked by trace_read(), with the guest's own number of pages. */
	rc = read_run(&record->runs.at, record->runs.end, UINT32_MAX, &record->runs.page, ret_run);
	assert(!rc);
	return !rc;
}

/* The runs at *@p: check all, and leave *@p behind them. */
static int check_runs(const struct trace_reader *r, const uint8_t **p, uint64_t nr,
		      struct trace_record *ret)
{
	const uint8_t *end = r->buf + r->size;
	uint32_t page = 0;

	if (!nr || nr > r->nr_pages)
		return -EBADMSG;
	ret->runs.at = *p;
	ret->runs.left = (uint32_t)nr;
	ret->runs.page = 0;
	for (uint64_t i = 0; i < nr; i++) {
		struct page_run run;
		int rc = read_run(p, end, r->nr_pages, &page, &run);

		if (rc)
			return rc;
	}
	ret->runs.end = *p;
	return 0;
}

static int take_fault(struct trace_reader *r, uint32_t arg, uint64_t value,
		      struct trace_record *ret)
{
	int64_t distance = unzigzag(value);

	/* The distance is compared, not the sum, which might overflow. */
	if (arg >= TRACE_NR_FAULTS || distance < -(int64_t)r->fault_page ||
	    distance >= (int64_t)r->nr_pages - r->fault_page)
		return -EBADMSG;
	r->fault_page = (uint32_t)(r->fault_page + distance);
	ret->fault.kind = arg;
	ret->fault.page = r->fault_page;
	return 0;
}

static int take_record(struct trace_reader *r, uint32_t arg, uint64_t value, const uint8_t **p,
		       struct trace_record *ret)
{
	if (arg && ret->type != TRACE_FAULT)
		return -EBADMSG;
	switch (ret->type) {
	case TRACE_TIME:
		if (!value || value > UINT64_MAX - r->time_ns)
			return -EBADMSG;
		r->time_ns += value;
		return 0;
	case TRACE_FAULT:
		return take_fault(r, arg, value, ret);
	case TRACE_YOUNG:
	case TRACE_EVICT:
	case TRACE_DISCARD:
		return check_runs(r, p, value, ret);
	case TRACE_PASS_END:
		ret->cost_ns = value;
		return 0;
	case TRACE_LIMIT:
		if (value > UINT32_MAX)
			return -EBADMSG;
		ret->limit = value ? (uint32_t)value - 1 : TRACE_NO_LIMIT;
		return 0;
	default:
		return -EBADMSG;
	}
}

int trace_read(struct trace_reader *r, struct trace_record *ret_record)
{
	const uint8_t *p = r->buf + r->at, *end = r->buf + r->size;
	uint64_t value;
	uint8_t head;
	int rc;

	if (p == end)
		return 0;
	head = *p++;
	memset(ret_record, 0, sizeof(*ret_record));
	if (!(head & TYPE_MASK) || (head & TYPE_MASK) >= TRACE_NR_TYPES)
		return -EBADMSG;
	ret_record->type = head & TYPE_MASK;
	rc = get_varint(&p, end, &value);
	if (!rc)
		rc = take_record(r, head >> ARG_SHIFT, value, &p, ret_record);
	if (rc)
		return rc;
	ret_record->time_ns = r->time_ns;
	r->at = (size_t)(p - r->buf);
	return 1;
}
