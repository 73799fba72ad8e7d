// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_reclaim_pass.c - the door of the reclaim core: when to look, where to look, and what it leads to.
 */
#include "reclaim_fixture.h"

static uint32_t scanned(bool full, uint32_t *ret_stretches)
{
	struct page_run run;
	uint32_t pages = 0;

	*ret_stretches = 0;
	reclaim_begin_pass(r, full);
	while (reclaim_next_scan(r, 2048, &run)) {
		pages += run.nr;
		*ret_stretches += (run.nr + RECLAIM_STRETCH - 1) / RECLAIM_STRETCH;
		for (uint32_t at = run.first; at < run.first + run.nr; at += RECLAIM_STRETCH) {
			uint64_t young[8] = {0};

			if (at == 0)
				memset(young, 0xff, sizeof(young));
			reclaim_note_young(r, at, young, 8);
		}
	}
	return pages;
}

static void test_passes_skip_what_is_dear(void **state)
{
	uint32_t stretches, sum = 0, hot = 0;

	for (int cost = 0; cost < 2; cost++) {
		make(64 * RECLAIM_STRETCH, RECLAIM_ORDER_AUTO, (enum reclaim_scan_cost)cost);
		reclaim_note_resident(r, 0, 1, RECLAIM_NEW);
		reclaim_note_resident(r, 0, 33 * RECLAIM_STRETCH, RECLAIM_FOUND);
		assert_int_equal(scanned(false, &stretches), 33 * RECLAIM_STRETCH); /* the empty ones: never */
		sum = hot = 0;
		for (int i = 0; i < 16; i++) {
			uint64_t before = stats().stretches_skipped;

			scanned(false, &stretches);
			sum += stretches;
			hot += (uint32_t)(stats().stretches_skipped - before);
			after(SEC);
			reclaim_end_pass(r, 0);
		}
		assert_int_equal(sum + hot, 16 * 33);
		if (cost == RECLAIM_SCAN_PER_PAGE)
			assert_in_range(sum, 16 + 16 * 32 / 4, 16 + 16 * 32 / 2); /* the cold 32 */
		else
			assert_in_range(sum, 16 * 32 + 4, 16 * 32 + 8); /* the hot one */
		assert_int_equal(scanned(true, &stretches), 33 * RECLAIM_STRETCH);
		/* A page taken for young is young. */
		assert_int_equal(page(1).seq, stats().max_seq);
	}
}

static void test_passes_follow_period_budget_and_idleness(void **state)
{
	struct reclaim_policy p;

	make(4096, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	for (int i = 0; i < 2; i++)
		pass(0, 0);
	assert_false(reclaim_should_scan(r, 4096));
	after(conf.policy.period_ns);
	assert_false(reclaim_should_scan(r, 4096)); /* nothing happens: it waits longer */
	after(16 * conf.policy.period_ns);
	assert_true(reclaim_should_scan(r, 4096));
	assert_false(reclaim_should_scan(r, 2000)); /* far from the limit */
	reclaim_end_pass(r, 100000000);
	evict_all(3000, true, 0, 0);
	for (uint32_t i = 0; i < 4096; i++)
		reclaim_note_resident(r, i, 1, RECLAIM_REFAULT);
	after(conf.policy.period_ns);
	assert_true(reclaim_should_scan(r, 4096)); /* faults: back to the period */
	p = conf.policy;
	p.scan_permille = 1; /* but passes of some ms at a thousandth of a CPU */
	assert_int_equal(reclaim_set_policy(r, &p), 0);
	assert_false(reclaim_should_scan(r, 4096));
	after(200 * SEC);
	assert_true(reclaim_should_scan(r, 4096));
}

/* Some stretches have no page, some one, some all: those that have are named, each once, in order. */
static void test_passes_cover_what_is_resident(void **state)
{
	const uint32_t nr = 101, nr_pages = 100 * RECLAIM_STRETCH + 77;
	bool named[101], wanted[101];
	struct page_run run;

	for (uint32_t max = 1; max < 10 * RECLAIM_STRETCH; max += 300) {
		uint32_t end = 0;

		make(nr_pages, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
		for (uint32_t s = 0; s < nr; s++) {
			wanted[s] = s % 3 != 2 && s != 51;
			if (wanted[s])
				reclaim_note_resident(r, s * RECLAIM_STRETCH + s % 77, 1, RECLAIM_FOUND);
			named[s] = false;
		}
		reclaim_begin_pass(r, false);
		while (reclaim_next_scan(r, max, &run)) {
			assert_int_equal(run.first % RECLAIM_STRETCH, 0);
			assert_true(run.first >= end && run.nr);
			end = run.first + run.nr;
			assert_true(end == nr_pages || (end < nr_pages && end % RECLAIM_STRETCH == 0));
			assert_true(run.nr <= MAX(max, RECLAIM_STRETCH));
			for (uint32_t at = run.first; at < end; at += RECLAIM_STRETCH)
				named[at / RECLAIM_STRETCH] = true;
		}
		assert_memory_equal(named, wanted, sizeof(named));
		assert_false(reclaim_next_scan(r, max, &run)); /* the end is the end */
	}
}

/* Is stretch 0 left out of one of the next eight passes? */
static bool is_skipped(void)
{
	uint64_t before = stats().stretches_skipped;
	struct page_run run;

	for (int i = 0; i < 8; i++) {
		reclaim_begin_pass(r, false);
		while (reclaim_next_scan(r, RECLAIM_STRETCH, &run))
			;
		reclaim_end_pass(r, 0);
	}
	return stats().stretches_skipped > before;
}

/* A part of a stretch tells that it is not cold, but not that it is; of a ragged end, a whole is less. */
static void test_young_of_parts(void **state)
{
	static const uint64_t none[9], some[9] = {0, 1};
	uint64_t all[9];

	memset(all, 0xff, sizeof(all));
	make(RECLAIM_STRETCH + 70, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_note_resident(r, 0, RECLAIM_STRETCH, RECLAIM_FOUND);
	for (int i = 0; i < 20; i++) {
		reclaim_note_young(r, 0, none, 4);
		reclaim_note_young(r, 256, none, 4);
		reclaim_note_young(r, 64, none, 8);
		reclaim_note_young(r, 0, none, 0);
	}
	assert_false(is_skipped());
	for (int i = 0; i < 4; i++)
		reclaim_note_young(r, 0, none, 8);
	assert_true(is_skipped());
	reclaim_note_young(r, 0, some, 3);
	assert_false(is_skipped());
	/* The ragged end: two words. */
	reclaim_note_gone(r, 0, RECLAIM_STRETCH);
	reclaim_note_resident(r, RECLAIM_STRETCH, 70, RECLAIM_FOUND);
	for (int i = 0; i < 10; i++) {
		reclaim_note_young(r, RECLAIM_STRETCH, none, 1);
		reclaim_note_young(r, RECLAIM_STRETCH + 64, none, 1);
	}
	assert_false(is_skipped());
	for (int i = 0; i < 4; i++)
		reclaim_note_young(r, RECLAIM_STRETCH, none, 2);
	assert_true(is_skipped());
	/* Words and bits beyond it are nobody's, and so are those that are not resident. */
	reclaim_note_young(r, RECLAIM_STRETCH, all, 9);
	reclaim_note_young(r, 0, all, 9);
	reclaim_note_young(r, 4 * RECLAIM_STRETCH, all, 9);
	assert_int_equal(stats().promoted, 70 + 1);
	assert_int_equal(stats().resident, 70);
}

/* What was read ahead into memory taken for hot has not been used for that. */
static void test_presumed_is_not_used(void **state)
{
	uint64_t young[RECLAIM_STRETCH / 64];

	memset(young, 0xff, sizeof(young));
	young[7] >>= 8;
	make(2 * RECLAIM_STRETCH, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_YOUNG_PAGE);
	reclaim_note_resident(r, 0, RECLAIM_STRETCH - 8, RECLAIM_FOUND);
	for (int i = 0; i < 4; i++)
		reclaim_note_young(r, 0, young, 8);
	assert_true(is_skipped());
	reclaim_note_resident(r, RECLAIM_STRETCH - 8, 8, RECLAIM_PREFETCH);
	assert_false(is_skipped()); /* were they used? */
	for (int i = 0; i < 4; i++)
		reclaim_note_young(r, 0, young, 8);
	assert_true(is_skipped());
	assert_int_equal(stats().ahead_used, 0);
}

/* Agings without passes end somewhere: nobody grows young again. */
static void test_agings_without_passes(void **state)
{
	make(128, RECLAIM_ORDER_GENERATIONS, RECLAIM_SCAN_PER_PAGE);
	reclaim_note_resident(r, 0, 128, RECLAIM_FOUND);
	pass(0, 64);
	for (uint32_t i = 0; i < 1u << 16; i++)
		reclaim_age(r);
	assert_int_equal(stats().agings, 16);
	assert_int_equal(page(0).seq, stats().min_seq);
	pass(0, 64);
	reclaim_age(r);
	assert_int_equal(stats().agings, 17);
}

static void test_reasons_are_counted(void **state)
{
	struct reclaim_stats s;

	make(8192, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 3000, RECLAIM_FOUND);
	for (int i = 0; i < 6; i++) {
		pass(0, 200);
		reclaim_note_resident(r, 4000 + i * 10, 10, RECLAIM_NEW); /* not quite idle */
	}
	assert_int_equal(stats().passes[RECLAIM_PASS_PERIOD], 6);
	reclaim_end_pass(r, 0);
	assert_int_equal(stats().passes[RECLAIM_PASS_ASKED], 1);
	after(conf.policy.min_period_ns);
	assert_false(reclaim_should_scan(r, 4096));
	for (uint32_t i = 0; i < 400; i++)
		reclaim_note_resident(r, 5000 + i, 1, RECLAIM_NEW);
	assert_true(reclaim_should_scan(r, 4096));
	reclaim_end_pass(r, 0);
	s = stats();
	assert_int_equal(s.passes[RECLAIM_PASS_SURGE], 1);
	assert_int_equal(s.passes[RECLAIM_PASS_PERIOD] + s.passes[RECLAIM_PASS_EMERGENCY], 6);
}

/* Pages come back that an exact LRU would have: a pass is wanted, and eviction goes by generation a while. */
static void test_emergency(void **state)
{
	uint32_t nr = 0;

	make(8192, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	for (int i = 0; i < 6; i++)
		pass(0, 200);
	assert_int_equal(stats().order, RECLAIM_ORDER_FREQUENCY);
	while (!stats().emergency && nr++ < 50) {
		assert_int_equal(reclaim_pick(r, runs, 1, 1, false), 1);
		reclaim_note_evicted(r, runs[0].first);
		after(1000);
		reclaim_note_resident(r, runs[0].first, 1, RECLAIM_REFAULT);
	}
	assert_int_equal(nr, 5); /* a thousandth of memory, and one */
	assert_int_equal(stats().refaults_near, 5);
	after(conf.policy.min_period_ns);
	assert_true(reclaim_should_scan(r, 4096));
	reclaim_end_pass(r, 0);
	assert_int_equal(stats().passes[RECLAIM_PASS_EMERGENCY], 1);
	assert_int_equal(stats().emergencies, 1);
	assert_int_equal(stats().order, RECLAIM_ORDER_GENERATIONS);
	after(stats().unit_ns);
	assert_false(stats().emergency);
}

/* An asked-for pass leaves nothing out. */
static void test_full_pass_when_asked_for(void **state)
{
	uint32_t stretches;

	make(64 * RECLAIM_STRETCH, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 64 * RECLAIM_STRETCH);
	reclaim_note_resident(r, 0, 33 * RECLAIM_STRETCH, RECLAIM_FOUND);
	for (int i = 0; i < 16; i++) {
		scanned(false, &stretches);
		after(conf.policy.period_ns);
		reclaim_end_pass(r, 0);
	}
	scanned(false, &stretches);
	assert_true(stretches < 12);
	for (int i = 0; i < 60; i++) {
		assert_int_equal(reclaim_pick(r, runs, 1, 1, false), 1);
		reclaim_note_evicted(r, runs[0].first);
		after(1000);
		reclaim_note_resident(r, runs[0].first, 1, RECLAIM_REFAULT);
	}
	assert_true(stats().emergency);
	scanned(false, &stretches);
	assert_int_equal(stretches, 33);
}

/* What comes back was kept by an order that would have, if it was there when that was decided. */
static void test_losses(void **state)
{
	make(8192, RECLAIM_ORDER_FREQUENCY, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4096);
	reclaim_note_resident(r, 0, 4096, RECLAIM_FOUND);
	for (int i = 0; i < 3; i++)
		pass(0, 0);
	evict_all(4096, true, 0, 0);
	for (uint32_t i = 0; i < 1000; i++)
		reclaim_note_resident(r, i, 1, RECLAIM_REFAULT);
	pass(0, 0);
	assert_true(stats().loss_generations == 0 && stats().loss_frequency == 0);
	for (uint32_t i = 1000; i < 2000; i++)
		reclaim_note_resident(r, i, 1, RECLAIM_REFAULT);
	pass(0, 0);
	assert_true(stats().loss_generations == 1000 && stats().loss_frequency == 1000);
}

static void test_aging(void **state)
{
	uint64_t seq;

	make(4096, RECLAIM_ORDER_AUTO, RECLAIM_SCAN_PER_PAGE);
	reclaim_set_limit(r, 4000);
	reclaim_note_resident(r, 0, 4000, RECLAIM_FOUND);
	seq = stats().max_seq;
	for (int i = 0; i < 5; i++)
		pass(0, 2799); /* not quite 70 % */
	assert_int_equal(stats().max_seq, seq);
	pass(0, 2800);
	assert_int_equal(stats().max_seq, seq + 1);
	assert_int_equal(stats().gens[stats().nr_gens - 1].pages, 0);
	assert_int_equal(page(0).seq, seq);
	pass(0, 100); /* in the new one there are few */
	assert_int_equal(stats().max_seq, seq + 1);
	assert_int_equal(page(0).seq, seq + 1);
	reclaim_age(r);
	assert_int_equal(stats().agings, 2);
	assert_int_equal(stats().max_seq, seq + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_passes_skip_what_is_dear, teardown),
		cmocka_unit_test_teardown(test_passes_follow_period_budget_and_idleness, teardown),
		cmocka_unit_test_teardown(test_passes_cover_what_is_resident, teardown),
		cmocka_unit_test_teardown(test_young_of_parts, teardown),
		cmocka_unit_test_teardown(test_presumed_is_not_used, teardown),
		cmocka_unit_test_teardown(test_agings_without_passes, teardown),
		cmocka_unit_test_teardown(test_reasons_are_counted, teardown),
		cmocka_unit_test_teardown(test_emergency, teardown),
		cmocka_unit_test_teardown(test_full_pass_when_asked_for, teardown),
		cmocka_unit_test_teardown(test_losses, teardown),
		cmocka_unit_test_teardown(test_aging, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
