// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_model_lru.c - random facts and decisions against a model that keeps one struct per page.
 *
 * The model is as plain as can be: no bitmaps, no summaries, no running counts; whatever it wants
 * to know it finds by walking all pages. In generation order it predicts every pick exactly, hand and
 * runs included; in random order it checks that what was picked could be. After each step the core
 * recounts itself, and its statistics must equal the model's.
 *
 * EBB_SEED=n repeats a run; the seed is printed first.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include <ebb/reclaim.h>

#define ROOM	  48
#define SEC	  1000000000ULL
#define MIN_AGE	  (5 * SEC)
#define YOUNG_MAX 8 /* words */

struct page {
	bool known;
	bool isolated;
	bool deferred;
	uint64_t seq;
};

struct model {
	struct page *pages;
	uint32_t nr;
	uint64_t min_seq, max_seq;
	uint64_t birth_ns[RECLAIM_MAX_NR_GENS];
	uint32_t hand[RECLAIM_MAX_NR_GENS];
	uint32_t limit;
	uint64_t aged_ns;
	bool evicted_since_aged;
	uint64_t agings, promoted, picked;
};

static uint64_t base_seed;
static uint64_t rng;
static uint64_t now_ns;
static struct model m;
static struct reclaim *r;
static void *mem;
static bool random_order;
static uint32_t centre; /* ranges are chosen near it, so that they meet; it moves now and then */

/* --- chance --------------------------------------------------------------------------------- */

static uint64_t rand64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* 0..n - 1 */
static uint32_t rand_below(uint64_t n)
{
	return (uint32_t)((rand64() >> 16) % n);
}

static bool one_in(uint32_t n)
{
	return !rand_below(n);
}

static uint32_t rand_idx(void)
{
	if (one_in(30))
		centre = rand_below(m.nr);
	return (uint32_t)(((uint64_t)centre + rand_below(600)) % m.nr);
}

static struct page_run rand_run(void)
{
	struct page_run run = {.first = rand_idx()};
	uint32_t longest = one_in(10) ? 5000 : one_in(3) ? 1 : 150;

	run.nr = rand_below(MIN(longest, m.nr - run.first) + 1);
	return run;
}

/* --- the model ------------------------------------------------------------------------------ */

static uint32_t model_count(uint64_t seq, bool isolated)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m.nr; i++)
		nr += m.pages[i].known && m.pages[i].seq == seq && m.pages[i].isolated == isolated;
	return nr;
}

static bool model_can_pick(uint32_t idx, uint64_t seq)
{
	const struct page *p = &m.pages[idx];

	return p->known && p->seq == seq && !p->isolated && !p->deferred;
}

static uint32_t model_pickable(uint64_t seq)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < m.nr; i++)
		nr += model_can_pick(i, seq);
	return nr;
}

static void model_advance(void)
{
	while (m.max_seq - m.min_seq + 1 > RECLAIM_MIN_NR_GENS && !model_count(m.min_seq, false) &&
	       !model_count(m.min_seq, true))
		m.min_seq++;
}

static void model_age(void)
{
	if (m.max_seq - m.min_seq + 1 == RECLAIM_MAX_NR_GENS) {
		for (uint32_t i = 0; i < m.nr; i++)
			if (m.pages[i].known && m.pages[i].seq == m.min_seq)
				m.pages[i].seq++;
		m.min_seq++;
	}
	m.max_seq++;
	m.birth_ns[m.max_seq % RECLAIM_MAX_NR_GENS] = now_ns;
	m.hand[m.max_seq % RECLAIM_MAX_NR_GENS] = 0;
	for (uint32_t i = 0; i < m.nr; i++)
		m.pages[i].deferred = false;
	model_advance();
	m.aged_ns = now_ns;
	m.evicted_since_aged = false;
	m.agings++;
}

static void model_add_to_runs(struct page_run *runs, uint32_t *nr, uint32_t idx)
{
	if (*nr && runs[*nr - 1].first + runs[*nr - 1].nr == idx)
		runs[*nr - 1].nr++;
	else
		runs[(*nr)++] = (struct page_run) {idx, 1};
}

/* One page at a time from @from up to @end, as documented. */
static uint32_t model_sweep(uint64_t seq, uint32_t from, uint32_t end, struct page_run *runs,
			    uint32_t room, uint32_t max)
{
	uint32_t *hand = &m.hand[seq % RECLAIM_MAX_NR_GENS];
	uint32_t nr = 0, left = model_pickable(seq);

	for (uint32_t i = from; i < end && max && left; i++) {
		if (!model_can_pick(i, seq))
			continue;
		if (nr == room && runs[nr - 1].first + runs[nr - 1].nr != i)
			return nr;
		model_add_to_runs(runs, &nr, i);
		m.pages[i].isolated = true;
		*hand = (i + 1) % m.nr;
		max--;
		left--;
	}
	if (max && left)
		*hand = end % m.nr;
	return nr;
}

static uint32_t model_pick(struct page_run *runs, uint32_t room, uint32_t max, bool urgent)
{
	uint64_t end = urgent ? m.max_seq : m.max_seq - RECLAIM_MIN_NR_GENS;
	uint32_t hand, nr;

	if (!room || !max)
		return 0;
	for (uint64_t seq = m.min_seq; seq <= end && end <= m.max_seq; seq++) {
		if (!model_pickable(seq))
			continue;
		hand = m.hand[seq % RECLAIM_MAX_NR_GENS];
		nr = model_sweep(seq, hand, m.nr, runs, room, max);
		return nr ? nr : model_sweep(seq, 0, hand, runs, room, max);
	}
	return 0;
}

/* Returns true if anything was deferred. */
static bool model_undefer(void)
{
	bool any = false;

	for (uint32_t i = 0; i < m.nr; i++) {
		any |= m.pages[i].deferred;
		m.pages[i].deferred = false;
	}
	return any;
}

static uint32_t model_gap(void)
{
	uint32_t gap = m.limit / 64;

	if (gap < 256)
		gap = 256;
	if (gap > 4096)
		gap = 4096;
	return gap < m.limit / 4 ? gap : m.limit / 4;
}

/* --- steps: the same to both ---------------------------------------------------------------- */

static void step_resident(void)
{
	enum reclaim_origin origin = (enum reclaim_origin)rand_below(4);
	struct page_run run = rand_run();
	uint64_t seq = origin == RECLAIM_FOUND ? m.min_seq : m.max_seq;

	if (origin == RECLAIM_PREFETCH)
		seq--;
	reclaim_note_resident(r, run.first, run.nr, origin);
	for (uint32_t i = run.first; i < run.first + run.nr; i++)
		if (!m.pages[i].known)
			m.pages[i] = (struct page) {.known = true, .seq = seq};
}

static void step_gone(void)
{
	struct page_run run = rand_run();

	reclaim_note_gone(r, run.first, run.nr);
	memset(&m.pages[run.first], 0, run.nr * sizeof(m.pages[0]));
	model_advance();
}

static void step_young(void)
{
	uint64_t young[YOUNG_MAX];
	uint32_t first = rand_idx() / 64 * 64;
	uint32_t nr_words = rand_below(YOUNG_MAX + 1); /* may reach past the guest */
	uint32_t thin = rand_below(4);

	for (uint32_t i = 0; i < YOUNG_MAX; i++) {
		young[i] = rand64();
		for (uint32_t t = 0; t < thin; t++)
			young[i] &= rand64();
		if (one_in(8))
			young[i] = one_in(2) ? ~0ULL : 0;
	}
	reclaim_note_young(r, first, young, nr_words);
	for (uint32_t b = 0; b < nr_words * 64 && first + b < m.nr; b++) {
		struct page *p = &m.pages[first + b];

		if (!(young[b / 64] >> b % 64 & 1) || !p->known || p->isolated ||
		    p->seq == m.max_seq)
			continue;
		p->seq = m.max_seq;
		p->deferred = false;
		m.promoted++;
	}
	model_advance();
}

static void model_keep(struct page *p, enum reclaim_kept why)
{
	p->isolated = false;
	p->deferred = why == RECLAIM_KEPT_BUSY && !random_order;
	if (why == RECLAIM_KEPT_TOUCHED && p->seq != m.max_seq) {
		p->seq = m.max_seq;
		m.promoted++;
	}
	model_advance();
}

/* Report one page that is handed out; or, now and then, one that is not. */
static void step_report(void)
{
	enum reclaim_kept why = (enum reclaim_kept)rand_below(3);
	bool out = one_in(2);
	uint32_t idx = rand_idx();

	for (uint32_t i = 0; i < m.nr && !m.pages[idx].isolated && !one_in(1000); i++)
		idx = (idx + 1) % m.nr;
	if (out)
		reclaim_note_evicted(r, idx);
	else
		reclaim_note_kept(r, idx, why);
	if (!m.pages[idx].isolated)
		return;
	if (!out) {
		model_keep(&m.pages[idx], why);
		return;
	}
	memset(&m.pages[idx], 0, sizeof(m.pages[idx]));
	m.evicted_since_aged = true;
	model_advance();
}

static uint32_t runs_total(const struct page_run *runs, uint32_t nr)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < nr; i++)
		total += runs[i].nr;
	return total;
}

/* Chance is the core's own: was everything it picked there to be picked, and is it as told? */
static void accept_random_pick(const struct page_run *runs, uint32_t nr, uint32_t room,
			       uint32_t max)
{
	uint32_t pickable = 0;

	assert_true(nr <= room && runs_total(runs, nr) <= max);
	for (uint32_t i = 0; i < m.nr; i++)
		pickable += model_can_pick(i, m.pages[i].seq);
	assert_int_equal(!nr, !pickable || !room || !max);
	for (uint32_t i = 0; i < nr; i++) {
		assert_true(!i || runs[i].first > runs[i - 1].first + runs[i - 1].nr);
		for (uint32_t p = runs[i].first; p < runs[i].first + runs[i].nr; p++) {
			assert_true(model_can_pick(p, m.pages[p].seq));
			m.pages[p].isolated = true;
		}
	}
}

static uint32_t pick(uint32_t room, uint32_t max, bool urgent)
{
	struct page_run got[ROOM], want[ROOM];
	uint32_t nr = reclaim_pick(r, got, room, max, urgent);
	uint32_t nr_want;

	m.picked += runs_total(got, nr);
	if (random_order) {
		accept_random_pick(got, nr, room, max);
		return nr;
	}
	nr_want = model_pick(want, room, max, urgent);
	if (!nr_want && urgent && room && max && model_undefer())
		nr_want = model_pick(want, room, max, urgent);
	assert_int_equal(nr, nr_want);
	if (nr)
		assert_memory_equal(got, want, nr * sizeof(got[0]));
	return nr;
}

static void step_pick(void)
{
	uint32_t room = one_in(3) ? rand_below(4) : rand_below(ROOM + 1);
	uint32_t max = one_in(3) ? rand_below(4) : rand_below(700);

	pick(room, max, one_in(4));
}

static void step_age(void)
{
	now_ns += rand_below(2 * MIN_AGE);
	reclaim_age(r, now_ns);
	model_age();
}

static void step_ask(void)
{
	uint32_t resident = rand_below(2 * (uint64_t)m.nr);
	uint32_t gap, old = 0, excess = 0;
	bool due;

	if (one_in(4)) {
		m.limit = one_in(5) ? RECLAIM_NO_LIMIT : rand_below((uint64_t)m.nr + 1);
		reclaim_set_limit(r, m.limit);
	}
	now_ns += rand_below(MIN_AGE);
	gap = model_gap();
	for (uint64_t seq = m.min_seq; seq + RECLAIM_MIN_NR_GENS <= m.max_seq; seq++)
		old += model_pickable(seq);
	due = m.evicted_since_aged || old < (gap ? gap : 1);
	if (m.limit == RECLAIM_NO_LIMIT || !resident || 4ULL * resident < 3ULL * m.limit ||
	    now_ns - m.aged_ns < MIN_AGE)
		due = false;
	assert_int_equal(reclaim_should_age(r, resident, now_ns), due);
	if (m.limit != RECLAIM_NO_LIMIT && resident > m.limit - gap)
		excess = resident - m.limit + 2 * gap;
	assert_int_equal(reclaim_excess(r, resident), excess);
	assert_int_equal(resident > reclaim_high_watermark(r), excess > 0);
}

/* --- comparing ------------------------------------------------------------------------------ */

static void compare(void)
{
	uint32_t pages[RECLAIM_MAX_NR_GENS] = {0};
	struct reclaim_stats s;
	uint32_t isolated = 0;

	assert_true(reclaim_verify(r));
	reclaim_get_stats(r, &s);
	for (uint32_t i = 0; i < m.nr; i++) {
		isolated += m.pages[i].isolated;
		if (m.pages[i].known && !m.pages[i].isolated)
			pages[m.pages[i].seq % RECLAIM_MAX_NR_GENS]++;
	}
	assert_int_equal(s.min_seq, m.min_seq);
	assert_int_equal(s.max_seq, m.max_seq);
	assert_int_equal(s.nr_gens, m.max_seq - m.min_seq + 1);
	assert_int_equal(s.isolated, isolated);
	assert_int_equal(s.limit, m.limit);
	assert_int_equal(s.agings, m.agings);
	assert_int_equal(s.promoted, m.promoted);
	assert_int_equal(s.picked, m.picked);
	for (uint32_t i = 0; i < s.nr_gens; i++) {
		uint64_t seq = m.min_seq + i;

		assert_int_equal(s.gens[i].seq, seq);
		assert_int_equal(s.gens[i].pages, pages[seq % RECLAIM_MAX_NR_GENS]);
		assert_int_equal(s.gens[i].birth_ns, m.birth_ns[seq % RECLAIM_MAX_NR_GENS]);
	}
}

/* Report what is out, then take and evict all there is: nothing may be lost or left. */
static void drain(void)
{
	for (uint32_t i = 0; i < m.nr; i++) {
		if (!m.pages[i].isolated)
			continue;
		reclaim_note_kept(r, i, RECLAIM_KEPT_ERROR);
		model_keep(&m.pages[i], RECLAIM_KEPT_ERROR);
	}
	while (pick(ROOM, UINT32_MAX, true))
		;
	compare();
	for (uint32_t i = 0; i < m.nr; i++) {
		assert_int_equal(m.pages[i].isolated, m.pages[i].known);
		reclaim_note_evicted(r, i);
	}
	memset(m.pages, 0, m.nr * sizeof(m.pages[0]));
	m.evicted_since_aged = true;
	model_advance();
	compare();
}

static void start(uint32_t nr_pages, enum reclaim_order order)
{
	struct reclaim_conf conf = {
		.nr_pages = nr_pages,
		.order = order,
		.seed = rand64(),
		.min_age_ns = MIN_AGE,
		.readahead_max = 16,
	};
	size_t size = (reclaim_size(nr_pages) + 63) / 64 * 64;

	now_ns = SEC;
	memset(&m, 0, sizeof(m));
	m.nr = nr_pages;
	m.pages = calloc(nr_pages, sizeof(m.pages[0]));
	mem = aligned_alloc(64, size);
	assert_true(m.pages && mem);
	m.max_seq = RECLAIM_MIN_NR_GENS - 1;
	m.birth_ns[0] = m.birth_ns[1] = m.aged_ns = now_ns;
	m.limit = RECLAIM_NO_LIMIT;
	memset(mem, 0, size);
	r = reclaim_init(mem, size, &conf, now_ns);
	assert_non_null(r);
	random_order = order == RECLAIM_ORDER_RANDOM;
	centre = rand_below(nr_pages);
}

static void step(void)
{
	static void (*const steps[])(void) = {
		step_resident, step_resident, step_resident, step_gone,	  step_young,
		step_young,    step_pick,     step_pick,     step_report, step_report,
		step_report,   step_report,   step_ask,
	};

	if (one_in(25))
		step_age();
	else
		steps[rand_below(ARRAY_SIZE(steps))]();
}

static void run(uint32_t nr_pages, enum reclaim_order order, uint32_t nr_steps)
{
	rng = base_seed * 0x9e3779b97f4a7c15 + nr_pages * 2 + order;
	rng = rng ? rng : 1;
	start(nr_pages, order);
	for (uint32_t i = 0; i < nr_steps; i++) {
		step();
		compare();
	}
	drain();
	free(m.pages);
	free(mem);
}

static void run_sizes(enum reclaim_order order)
{
	static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 129, 500, 4096, 4103, 10007};

	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
		run(sizes[i], order, 2000);
}

static void test_generations(void **state)
{
	run_sizes(RECLAIM_ORDER_GENERATIONS);
}

static void test_random(void **state)
{
	run_sizes(RECLAIM_ORDER_RANDOM);
}

static void test_large_and_sparse(void **state)
{
	run((1u << 20) + 17, RECLAIM_ORDER_GENERATIONS, 200);
	run((1u << 20) + 17, RECLAIM_ORDER_RANDOM, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generations),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_large_and_sparse),
	};
	const char *seed = getenv("EBB_SEED");

	base_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("EBB_SEED=%" PRIu64 "\n", base_seed);
	fflush(stdout);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
