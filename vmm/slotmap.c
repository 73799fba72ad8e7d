// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * slotmap.c - extent allocator for the slots of a store; the theory is in slotmap.h.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "slotmap.h"

#define BITS 64u

/* An extent shorter than this at the cursor is left for a full store when a free 64 is at hand. */
#define SHORT_EXTENT 8u

/* Slots above 5/4 of those in use that may be touched: room to stay contiguous in a small store. */
#define HORIZON_SLACK 16384u

#define FRAGMENT_TRIES 16u

struct slotmap {
	uint32_t nr, nr_words, nr_sums;
	uint32_t nr_used;
	uint32_t cursor;
	uint64_t *used; /* bit set: slot in use; bits beyond nr are set for ever */
	uint64_t *free; /* summary, bit set: the word has a free bit */
	uint64_t *empty; /* summary, bit set: the word is wholly free */
};

struct slotmap *slotmap_new(uint32_t nr)
{
	struct slotmap *m;

	assert(nr > 0);
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->nr = nr;
	m->nr_words = (uint32_t)(((uint64_t)nr + BITS - 1) / BITS);
	m->nr_sums = (m->nr_words + BITS - 1) / BITS;
	m->used = calloc(m->nr_words, sizeof(uint64_t));
	m->free = calloc(m->nr_sums, sizeof(uint64_t));
	m->empty = calloc(m->nr_sums, sizeof(uint64_t));
	if (!m->used || !m->free || !m->empty) {
		slotmap_free(m);
		return NULL;
	}
	for (uint32_t w = 0; w < m->nr_words; w++) {
		m->free[w / BITS] |= 1ull << w % BITS;
		m->empty[w / BITS] |= 1ull << w % BITS;
	}
	if (nr % BITS) {
		m->used[m->nr_words - 1] = ~0ull << nr % BITS;
		m->empty[(m->nr_words - 1) / BITS] &= ~(1ull << (m->nr_words - 1) % BITS);
	}
	return m;
}

void slotmap_free(struct slotmap *m)
{
	if (!m)
		return;
	free(m->used);
	free(m->free);
	free(m->empty);
	free(m);
}

static void update_summary(struct slotmap *m, uint32_t w)
{
	uint64_t bit = 1ull << w % BITS;

	if (m->used[w] == ~0ull)
		m->free[w / BITS] &= ~bit;
	else
		m->free[w / BITS] |= bit;
	if (m->used[w] == 0)
		m->empty[w / BITS] |= bit;
	else
		m->empty[w / BITS] &= ~bit;
}

/* First word in [@from, @end) whose bit is set in @sum; @end if none. */
static uint32_t find_word(const uint64_t *sum, uint32_t from, uint32_t end)
{
	while (from < end) {
		uint64_t bits = sum[from / BITS] >> from % BITS;

		if (bits)
			return MIN(from + (uint32_t)__builtin_ctzll(bits), end);
		from = (from / BITS + 1) * BITS;
	}
	return end;
}

/* The same in [@from, @end), then in [0, @from). */
static uint32_t find_word_wrap(const uint64_t *sum, uint32_t from, uint32_t end)
{
	uint32_t w = find_word(sum, from, end);

	if (w == end) {
		w = find_word(sum, 0, from);
		if (w == from)
			w = end;
	}
	return w;
}

/* Free slots in a row from @slot on, at most @max. */
static uint32_t run_at(const struct slotmap *m, uint32_t slot, uint32_t max)
{
	uint32_t len = 0;

	while (len < max && slot + len < m->nr) {
		uint32_t pos = slot + len;
		uint64_t word = m->used[pos / BITS] >> pos % BITS;
		uint32_t room = BITS - pos % BITS;
		uint32_t n = word ? MIN((uint32_t)__builtin_ctzll(word), room) : room;

		len += n;
		if (n < room)
			break;
	}
	return MIN(len, max);
}

static void mark(struct slotmap *m, uint32_t slot, uint32_t len)
{
	for (uint32_t end = slot + len; slot < end;) {
		uint32_t w = slot / BITS, off = slot % BITS;
		uint32_t n = MIN(BITS - off, end - slot);
		uint64_t mask = (n == BITS ? ~0ull : (1ull << n) - 1) << off;

		assert(!(m->used[w] & mask));
		m->used[w] |= mask;
		update_summary(m, w);
		slot += n;
	}
	m->nr_used += len;
}

/* The words allocation keeps to while it can; see the theory in the header. */
static uint32_t horizon_words(const struct slotmap *m)
{
	uint64_t slots = (uint64_t)m->nr_used + m->nr_used / 4 + HORIZON_SLACK;

	return (uint32_t)MIN((slots + BITS - 1) / BITS, m->nr_words);
}

/* The longest free run found in the next few words that have one; its length in *@len, 0 if none. */
static uint32_t find_fragment(const struct slotmap *m, uint32_t from, uint32_t end, uint32_t want,
			      uint32_t *len)
{
	uint32_t best = 0;

	*len = 0;
	for (uint32_t tries = 0; tries < FRAGMENT_TRIES && *len < want; tries++) {
		uint32_t w = find_word_wrap(m->free, from, end);

		if (w == end)
			break;
		for (uint32_t slot = w * BITS; slot < MIN((w + 1) * BITS, m->nr);) {
			uint32_t n = run_at(m, slot, want);

			if (n > *len) {
				*len = n;
				best = slot;
			}
			slot += n + 1;
		}
		from = w + 1 < end ? w + 1 : 0;
	}
	return best;
}

uint32_t slotmap_alloc(struct slotmap *m, uint32_t want, uint32_t *ret_len)
{
	uint32_t end = horizon_words(m), slot = m->cursor, len, w;

	assert(want > 0);
	if (slot / BITS >= end)
		slot = 0;
	len = run_at(m, slot, want);
	if (len < MIN(want, SHORT_EXTENT)) {
		w = find_word_wrap(m->empty, slot / BITS, end);
		if (w < end) {
			slot = w * BITS;
			len = run_at(m, slot, want);
		} else if (len == 0) {
			slot = find_fragment(m, slot / BITS, end, want, &len);
		}
	}
	if (len == 0) /* only what lies beyond the horizon is left, or nothing */
		slot = find_fragment(m, 0, m->nr_words, want, &len);
	if (len == 0)
		return UINT32_MAX;
	mark(m, slot, len);
	m->cursor = slot + len < m->nr ? slot + len : 0;
	*ret_len = len;
	return slot;
}

bool slotmap_take(struct slotmap *m, uint32_t slot)
{
	if (slot >= m->nr || m->used[slot / BITS] >> slot % BITS & 1)
		return false;
	mark(m, slot, 1);
	return true;
}

void slotmap_release(struct slotmap *m, uint32_t slot)
{
	assert(slot < m->nr && m->used[slot / BITS] >> slot % BITS & 1);
	m->used[slot / BITS] &= ~(1ull << slot % BITS);
	m->nr_used--;
	update_summary(m, slot / BITS);
}

uint32_t slotmap_nr_used(const struct slotmap *m)
{
	return m->nr_used;
}

uint32_t slotmap_nr(const struct slotmap *m)
{
	return m->nr;
}
