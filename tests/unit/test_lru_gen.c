// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_lru_gen.c - generations as bitmaps: counts, window, sweeps, deferral, and that verify sees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <reclaim/lru_gen.h>

#define ROOM 64

static struct lru_gen lru;
static void *mem;
static struct page_run runs[ROOM];

static void make(uint32_t nr_pages)
{
	size_t size = (lru_gen_size(nr_pages) + 63) / 64 * 64;

	free(mem);
	mem = aligned_alloc(64, size);
	assert_non_null(mem);
	memset(mem, 0, size);
	lru_gen_init(&lru, mem, nr_pages, 1);
	assert_true(lru_gen_verify(&lru));
}

static int teardown(void **state)
{
	free(mem);
	mem = NULL;
	return 0;
}

static uint32_t pages_of(uint64_t seq)
{
	return lru.slots[lru_gen_slot_of(&lru, seq)].pages;
}

static void assert_run(uint32_t i, uint32_t first, uint32_t nr)
{
	assert_int_equal(runs[i].first, first);
	assert_int_equal(runs[i].nr, nr);
}

static void age(uint32_t times)
{
	while (times--)
		lru_gen_age(&lru, lru.max_seq);
	assert_true(lru_gen_verify(&lru));
}

static void test_starts_empty(void **state)
{
	make(1000);
	assert_int_equal(lru.min_seq, 0);
	assert_int_equal(lru_gen_nr_gens(&lru), RECLAIM_MIN_NR_GENS);
	for (uint64_t seq = lru.min_seq; seq <= lru.max_seq; seq++)
		assert_int_equal(lru_gen_pickable(&lru, seq), 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 10), 0);
	assert_false(lru_gen_isolate_any(&lru, 999, 10, runs));
}

static void test_add_leaves_known_pages_alone(void **state)
{
	make(1000);
	lru_gen_add(&lru, 60, 10, 0);
	lru_gen_add(&lru, 50, 950, 1);
	lru_gen_add(&lru, 0, 0, 1);
	assert_int_equal(pages_of(0), 10);
	assert_int_equal(pages_of(1), 940);
	assert_true(lru_gen_verify(&lru));
}

static void test_remove_takes_every_kind(void **state)
{
	make(1000);
	lru_gen_add(&lru, 0, 100, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 10), 1);
	lru_gen_put_back(&lru, 3, true);
	lru_gen_remove(&lru, 2, 3);    /* isolated, deferred, isolated */
	lru_gen_remove(&lru, 90, 910); /* in a generation, and unknown */
	assert_true(lru_gen_verify(&lru));
	assert_int_equal(pages_of(0), 87);
	assert_int_equal(lru_gen_pickable(&lru, 0), 80);
	assert_false(lru_gen_is_isolated(&lru, 2));
	assert_true(lru_gen_is_isolated(&lru, 5));
	assert_int_equal(lru_gen_undefer(&lru), 0);
}

static void test_promote_moves_known_pages_once(void **state)
{
	uint64_t young[3] = {~0ULL, 0xff, ~0ULL};

	make(100);
	lru_gen_add(&lru, 10, 60, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 5), 1);
	/* Pages 15..69 are known and not isolated; the third word lies past the guest. */
	assert_int_equal(lru_gen_promote(&lru, 0, young, 3), 55);
	assert_true(lru_gen_verify(&lru));
	assert_int_equal(lru_gen_promote(&lru, 0, young, 3), 0);
	assert_int_equal(pages_of(1), 55);
	assert_int_equal(pages_of(0), 5);
	assert_int_equal(lru_gen_pickable(&lru, 0), 0);
}

static void test_promote_starts_at_first(void **state)
{
	uint64_t young = 1ULL << 35 | 1;

	make(100);
	lru_gen_add(&lru, 0, 100, 0);
	assert_int_equal(lru_gen_promote(&lru, 64, &young, 1), 2);
	assert_int_equal(lru_gen_isolate(&lru, 1, runs, ROOM, 5), 2);
	assert_run(0, 64, 1);
	assert_run(1, 99, 1);
	assert_int_equal(lru_gen_promote(&lru, 128, &young, 1), 0);
}

static void test_promote_ends_deferral(void **state)
{
	uint64_t young = 1;

	make(100);
	lru_gen_add(&lru, 0, 1, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 1), 1);
	lru_gen_put_back(&lru, 0, true);
	assert_int_equal(lru_gen_promote(&lru, 0, &young, 1), 1);
	assert_int_equal(lru_gen_pickable(&lru, 1), 1);
	assert_true(lru_gen_verify(&lru));
}

static void test_window_grows_then_merges(void **state)
{
	make(1000);
	for (uint32_t i = 0; i < RECLAIM_MAX_NR_GENS; i++) {
		lru_gen_add(&lru, 100 * i, 10 + i, lru.max_seq);
		age(1);
	}
	/* Born in 1..4, and 5 is new: of the full window 1..4 the two oldest were merged. */
	assert_int_equal(lru.max_seq, 5);
	assert_int_equal(lru.min_seq, 2);
	assert_int_equal(pages_of(2), 21);
	assert_int_equal(pages_of(3), 12);
	assert_int_equal(pages_of(4), 13);
	assert_int_equal(pages_of(5), 0);
	assert_int_equal(lru_gen_isolate(&lru, 2, runs, ROOM, 100), 2);
	assert_run(0, 0, 10);
	assert_run(1, 100, 11);
}

static void test_merge_keeps_marks(void **state)
{
	make(1000);
	lru_gen_add(&lru, 0, 70, 0);
	age(1);
	lru_gen_add(&lru, 70, 10, 1);
	age(1);
	assert_int_equal(lru.min_seq, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 2), 1);
	age(1);
	assert_int_equal(lru.min_seq, 1);
	assert_int_equal(pages_of(1), 80);
	assert_int_equal(lru_gen_pickable(&lru, 1), 78);
	lru_gen_put_back(&lru, 0, false);
	assert_true(lru_gen_put_back_young(&lru, 1));
	assert_int_equal(pages_of(1), 79);
	assert_int_equal(pages_of(4), 1);
	assert_true(lru_gen_verify(&lru));
}

/* Whichever of the two is smaller, the result has the younger one's birth, hand and sequence. */
static void test_merge_either_way(void **state)
{
	for (uint32_t old = 1; old <= 201; old += 100) {
		make(1000);
		lru_gen_add(&lru, 0, old, 0);
		lru_gen_add(&lru, 500, 100, 1);
		assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 1), 1);
		lru_gen_put_back(&lru, 0, true);
		assert_int_equal(lru_gen_isolate(&lru, 1, runs, ROOM, 10), 1);
		lru.slots[lru_gen_slot_of(&lru, 0)].birth_ns = 70;
		lru.slots[lru_gen_slot_of(&lru, 1)].birth_ns = 71;
		age(3);
		assert_int_equal(lru.min_seq, 1);
		assert_int_equal(pages_of(1), old + 100);
		assert_int_equal(lru.slots[lru_gen_slot_of(&lru, 1)].birth_ns, 71);
		assert_int_equal(lru_gen_isolate(&lru, 1, runs, ROOM, 1000), 1);
		assert_run(0, 510, 90);
		assert_int_equal(lru_gen_isolate(&lru, 1, runs, ROOM, 1000), 1);
		assert_run(0, 0, old);
		assert_true(lru_gen_verify(&lru));
	}
}

static void test_min_seq_follows_the_oldest(void **state)
{
	make(1000);
	lru_gen_add(&lru, 0, 5, 0);
	lru_gen_add(&lru, 5, 5, 1);
	age(2);
	assert_int_equal(lru_gen_nr_gens(&lru), 4);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 5), 1);
	assert_int_equal(lru.min_seq, 0); /* isolated pages still hold their generation */
	for (uint32_t i = 0; i < 5; i++)
		lru_gen_remove(&lru, i, 1);
	assert_int_equal(lru.min_seq, 1);
	lru_gen_remove(&lru, 0, 1000);
	assert_int_equal(lru.min_seq, lru.max_seq - 1);
	assert_true(lru_gen_verify(&lru));
	age(3);
	assert_int_equal(lru_gen_nr_gens(&lru), RECLAIM_MIN_NR_GENS);
}

static void test_runs_span_words(void **state)
{
	make(1000);
	lru_gen_add(&lru, 60, 200, 0);
	lru_gen_add(&lru, 300, 1, 0);
	lru_gen_add(&lru, 302, 3, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 1000), 3);
	assert_run(0, 60, 200);
	assert_run(1, 300, 1);
	assert_run(2, 302, 3);
	assert_true(lru_gen_verify(&lru));
}

static void test_isolate_respects_max_and_room(void **state)
{
	make(1000);
	for (uint32_t i = 0; i < 20; i++)
		lru_gen_add(&lru, 10 * i, 3, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, 2, 1000), 2);
	assert_run(1, 10, 3);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 4), 2);
	assert_run(0, 20, 3);
	assert_run(1, 30, 1);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 0), 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, 0, 10), 0);
	assert_int_equal(lru_gen_pickable(&lru, 0), 50);
	assert_true(lru_gen_verify(&lru));
}

static void test_sweep_comes_round_last(void **state)
{
	make(200);
	lru_gen_add(&lru, 0, 200, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 10), 1);
	for (uint32_t i = 0; i < 10; i++)
		lru_gen_put_back(&lru, i, false);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 180), 1);
	assert_run(0, 10, 180);
	/* Only 10 pages lie ahead of the hand: a smaller batch, not a wrapped one. */
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 20), 1);
	assert_run(0, 190, 10);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 20), 1);
	assert_run(0, 0, 10);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 20), 0);
}

static void test_hand_passes_within_a_word(void **state)
{
	make(64);
	lru_gen_add(&lru, 0, 64, 0);
	for (uint32_t i = 0; i < 64; i++) {
		assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 1), 1);
		assert_run(0, i, 1);
		lru_gen_put_back(&lru, i, false);
	}
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 1), 1);
	assert_run(0, 0, 1);
}

static void test_deferred_waits_for_aging(void **state)
{
	make(200);
	lru_gen_add(&lru, 0, 3, 0);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 2), 1);
	lru_gen_put_back(&lru, 0, true);
	lru_gen_put_back(&lru, 1, true);
	assert_true(lru_gen_verify(&lru));
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 10), 1);
	assert_run(0, 2, 1);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 10), 0);
	assert_false(lru_gen_isolate_any(&lru, 0, 10, runs));
	age(1);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 10), 1);
	assert_run(0, 0, 2);
}

static void test_isolate_any_goes_round(void **state)
{
	make(5000);
	lru_gen_add(&lru, 10, 2, 0);
	lru_gen_add(&lru, 12, 3, 1);
	lru_gen_add(&lru, 4990, 10, 1);
	assert_true(lru_gen_isolate_any(&lru, 4995, 3, runs));
	assert_run(0, 4995, 3);
	assert_true(lru_gen_isolate_any(&lru, 4995, 64, runs));
	assert_run(0, 4998, 2);
	assert_true(lru_gen_isolate_any(&lru, 4995, 64, runs)); /* over two generations */
	assert_run(0, 10, 5);
	assert_true(lru_gen_isolate_any(&lru, 4995, 64, runs)); /* a run ends with its word */
	assert_run(0, 4990, 2);
	assert_true(lru_gen_isolate_any(&lru, 4995, 64, runs)); /* in the first word, but behind */
	assert_run(0, 4992, 3);
	assert_false(lru_gen_isolate_any(&lru, 4995, 64, runs));
	assert_int_equal(lru.slots[0].isolated, 2);
	assert_int_equal(lru.slots[1].isolated, 13);
	assert_true(lru_gen_verify(&lru));
}

/* The last page a 32-bit index can name. The bitmaps are 3 GiB of zeros, hardly touched. */
static void test_largest_guest(void **state)
{
	uint64_t young = 1ULL << 62;

	free(mem);
	mem = calloc(1, lru_gen_size(UINT32_MAX));
	if (!mem) {
		print_message("no address space for the bitmaps of 16 TiB\n");
		skip();
	}
	lru_gen_init(&lru, mem, UINT32_MAX, 1);
	lru_gen_add(&lru, UINT32_MAX - 3, 3, 0);
	lru_gen_add(&lru, 5, 1, 0);
	assert_int_equal(lru_gen_promote(&lru, UINT32_MAX - 63, &young, 1), 1);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 10), 2);
	assert_run(0, 5, 1);
	assert_run(1, UINT32_MAX - 3, 2);
	lru_gen_put_back(&lru, UINT32_MAX - 2, true);
	lru_gen_age(&lru, 2);
	lru_gen_age(&lru, 3);
	lru_gen_age(&lru, 4);
	assert_int_equal(lru_gen_isolate(&lru, lru.min_seq, runs, ROOM, 10), 1);
	assert_run(0, UINT32_MAX - 2, 2);
	lru_gen_remove(&lru, 0, 100);
	lru_gen_remove(&lru, UINT32_MAX - 100, 100);
	assert_int_equal(lru_gen_nr_gens(&lru), RECLAIM_MIN_NR_GENS);
}

/* A state in which every field means something: both marks, a hole, a partial last word. */
static void make_busy(void)
{
	make(150);
	lru_gen_add(&lru, 0, 20, 0);
	lru_gen_add(&lru, 30, 10, 1);
	age(1);
	lru_gen_add(&lru, 140, 10, 2);
	assert_int_equal(lru_gen_isolate(&lru, 0, runs, ROOM, 5), 1);
	lru_gen_put_back(&lru, 4, true);
	assert_true(lru_gen_verify(&lru));
}

#define assert_seen(damage)                                                                        \
	do {                                                                                       \
		make_busy();                                                                       \
		damage;                                                                            \
		assert_false(lru_gen_verify(&lru));                                                \
	} while (0)

static void test_verify_sees_damage(void **state)
{
	assert_seen(lru.words[0].gen[0] ^= 1ULL << 10);		     /* a page lost */
	assert_seen(lru.words[0].gen[1] |= 1ULL << 10);		     /* in two generations */
	assert_seen(lru.words[0].isolated |= 1ULL << 63);	     /* isolated, unknown */
	assert_seen(lru.words[0].isolated ^= 1);		     /* count of isolated */
	assert_seen(lru.words[0].isolated |= lru.words[0].deferred); /* both marks */
	assert_seen(lru.words[0].deferred = 0);			     /* summary of deferred */
	assert_seen(lru.summary[0][0] = 0);			     /* summary lacks a word */
	assert_seen(lru.summary[2][0] |= 2);			     /* summary has one too many */
	assert_seen(lru.slots[1].pages++);
	assert_seen(lru.slots[0].deferred--);
	assert_seen(lru.slots[0].hand = 150);
	assert_seen(lru.slot_of[0] = 1);
	assert_seen(lru.min_seq = lru.max_seq + 1);
	assert_seen(lru.max_seq += RECLAIM_MAX_NR_GENS);
	assert_seen(lru.min_seq = 1); /* a generation outside the window holds pages */
	assert_seen({
		lru.words[2].gen[2] |= 1ULL << 22; /* page 150 of 150 */
		lru.slots[2].pages++;
	});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts_empty),
		cmocka_unit_test(test_add_leaves_known_pages_alone),
		cmocka_unit_test(test_remove_takes_every_kind),
		cmocka_unit_test(test_promote_moves_known_pages_once),
		cmocka_unit_test(test_promote_starts_at_first),
		cmocka_unit_test(test_promote_ends_deferral),
		cmocka_unit_test(test_window_grows_then_merges),
		cmocka_unit_test(test_merge_keeps_marks),
		cmocka_unit_test(test_merge_either_way),
		cmocka_unit_test(test_min_seq_follows_the_oldest),
		cmocka_unit_test(test_runs_span_words),
		cmocka_unit_test(test_isolate_respects_max_and_room),
		cmocka_unit_test(test_sweep_comes_round_last),
		cmocka_unit_test(test_hand_passes_within_a_word),
		cmocka_unit_test(test_deferred_waits_for_aging),
		cmocka_unit_test(test_isolate_any_goes_round),
		cmocka_unit_test(test_largest_guest),
		cmocka_unit_test(test_verify_sees_damage),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
