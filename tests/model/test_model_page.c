// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_model_page.c - the page protocol against a modelled kernel, in every order of events.
 *
 * DOC: what a pass means
 *
 * First the worlds: each holds a part of what can happen to a page, small enough to be searched
 * to the end, and none may show a violation. Then the mutations: each breaks one rule that the
 * protocol relies on, and the search must notice, or it would not have noticed the product
 * breaking it either. Last the coverage: each cell of the protocol table must have been met. With
 * EBB_MODEL_SMALL=1, and under the sanitizers, the largest worlds and the coverage are left out.
 * EBB_MODEL_LARGE=1 adds larger ones, EBB_MODEL_TRACE=1 prints how each mutation was noticed.
 *
 * What it cannot show: the memory order of the product's loads and stores (each step is atomic
 * here), more pages than two (slots and the uffd are all that pages share), and a product that
 * does something else than the model of the two threads.
 */
#include "page_search.h"

/*
 * Bounds, and why they suffice. Two writes to a page: lost, older and newer bytes all differ. Two
 * batches: one whose page was taken away and one that has it now. Two threads: one waits while
 * the other is served. One discard, one own zap: two of a kind never overlap in the daemon (one
 * at a time each). Crashes: two, so that a take-over is itself interrupted. Evictions, faults and
 * reads are not bounded. Two pages share two slots, so that each slot is used again by the other
 * page.
 */
#define R  OP_BIT(OP_READ)
#define W  OP_BIT(OP_WRITE)
#define IO OP_BIT(OP_DMA)

enum {
	W_ACCESS,
	W_TAGS,
	W_READ_ERROR,
	W_CRASH,
	W_CRASH_DEVICE,
	W_ZAP,
	W_SLOTS,
	W_DRAIN,
	W_DISCARD,
	W_DISCARD_ZAP,
	W_DISCARD_DEVICE,
	W_CRASH_DISCARD,
	W_CRASH_DISCARD_ZAP,
	W_DRAIN_DISCARD,
	W_IO_ERRORS,
	W_SLOTS_CRASH,
	W_NR
};

static const struct world_cfg worlds[W_NR] = {
	[W_ACCESS] = {"two threads and a device",
		      1,
		      2,
		      1,
		      {R | W | IO, R | W | IO},
		      2,
		      0,
		      0,
		      0,
		      0,
		      false},
	[W_TAGS] = {"two batches", 1, 2, 2, {R | W, 0}, 2, 0, 0, 0, 0, false},
	[W_READ_ERROR] = {"I/O errors", 1, 2, 1, {R | W, 0}, 1, 0, 0, 0, 2, false},
	[W_CRASH] = {"two crashes, own zap", 1, 2, 1, {R | W, 0}, 2, 0, 1, 2, 0, false},
	[W_CRASH_DEVICE] = {"crash, device", 1, 2, 1, {R | W, W | IO}, 1, 0, 0, 1, 0, false},
	[W_ZAP] = {"own zap, two threads", 1, 2, 1, {R | W, W}, 1, 0, 1, 0, 0, false},
	[W_SLOTS] = {"two pages share two slots", 2, 2, 2, {R | W, 0}, 1, 0, 0, 0, 0, false},
	[W_DRAIN] = {"drain beside the fault thread, own zap",
		     1,
		     2,
		     1,
		     {R | W, W},
		     1,
		     0,
		     1,
		     0,
		     0,
		     true},
	[W_DISCARD] = {"discard", 1, 2, 1, {R | W, 0}, 2, 1, 0, 0, 0, false},
	[W_DISCARD_ZAP] = {"discard, own zap", 1, 2, 1, {R | W, 0}, 1, 1, 1, 0, 0, false},
	[W_DISCARD_DEVICE] = {"discard, device", 1, 2, 1, {W, IO}, 1, 1, 0, 0, 0, false},
	[W_CRASH_DISCARD] = {"crash, discard", 1, 2, 1, {R | W, 0}, 2, 1, 0, 1, 0, false},
	[W_CRASH_DISCARD_ZAP] =
		{"crash, discard, own zap", 1, 2, 1, {R | W, 0}, 1, 1, 1, 1, 0, false},
	[W_DRAIN_DISCARD] = {"drain, discard", 1, 2, 1, {R | W, 0}, 2, 1, 0, 0, 0, true},
	[W_IO_ERRORS] =
		{"two batches, I/O errors, discard", 1, 2, 2, {R | W, 0}, 1, 1, 0, 0, 1, false},
	[W_SLOTS_CRASH] =
		{"two pages share two slots, crash", 2, 2, 2, {R | W, 0}, 1, 0, 0, 1, 0, false},
};

/* Worlds from here on are left out when small. */
#define FIRST_LARGE W_DISCARD_DEVICE

static const struct {
	enum mutation mut;
	uint8_t world;
	const char *what;
} mutations[] = {
	{MUT_IGNORE_TAG, W_TAGS, "a batch commits whatever batch owns the page"},
	{MUT_NO_STORE_LOCK, W_SLOTS_CRASH, "take-over does not wait for the lock of the store"},
	{MUT_NO_DRAIN, W_CRASH, "take-over does not drain before un-WP"},
	{MUT_NO_RING_IDLE, W_CRASH, "take-over does not wait for the remote ring"},
	{MUT_NO_PIN_GUARD, W_ACCESS, "eviction without the pin guard"},
	{MUT_PIN_BEFORE_WP, W_ACCESS, "pin guard before the write protection"},
	{MUT_TRUST_OWN_ZAP, W_ZAP, "REMOVE trusted although it overlaps an own zap"},
	{MUT_ZAP_ENDS_EARLY, W_ZAP,
	 "own zap forgotten when it completes, not after the next drain"},
	{MUT_WP_EVICTED_NONE, W_ACCESS, "WP message on EVICTED ignored"},
	{MUT_WP_UNPROT_NONE, W_ACCESS, "WP message on UNPROTECTING ignored"},
	{MUT_KEPT_UNCHECKED, W_ACCESS, "kept slot used again without comparing"},
	{MUT_UNWP_FIRST, W_CRASH, "take-over un-WPs before it finishes PUNCHING"},
	{MUT_NO_PUNCH_AGAIN, W_CRASH, "take-over does not punch PUNCHING again"},
	{MUT_FREE_IN_FLIGHT, W_SLOTS, "a cancelled batch frees its slot before its write is done"},
	{MUT_UNWP_UNOWNED, W_TAGS, "un-WP by a thread that does not own UNPROTECTING"},
	{MUT_DEFER_SPINS, W_ZAP, "the fault thread waits for a deferred page and reads no more"},
	{MUT_RETURN_SILENT, W_READ_ERROR,
	 "a failed read is neither tried again nor followed by WAKE"},
	{MUT_DISCARD_GUESSED, W_ACCESS, "MISSING on EVICTED taken for a discard"},
	{MUT_NO_GATE, W_DISCARD,
	 "a batch commits between the read of a REMOVE and its application"},
	{MUT_DRAIN_SILENT, W_DRAIN, "a drain beside the fault thread does not wake after FILLING"},
	{MUT_STRICT_TAKE_OVER, W_CRASH_DISCARD,
	 "(known limit) older bytes after crash and discard"},
};

_Static_assert(ARRAY_SIZE(mutations) == MUT_NR - 1, "each mutation is tried");

/* Searched with EBB_MODEL_LARGE=1: minutes, and some GiB. */
static const struct world_cfg large_worlds[] = {
	{"two batches and a device", 1, 2, 2, {R | W | IO, IO}, 2, 0, 0, 0, 0, false},
	{"discard, own zap, two writes", 1, 2, 1, {R | W | IO, 0}, 2, 1, 1, 0, 0, false},
	{"discard, all by two threads", 1, 2, 1, {R | W | IO, R | W | IO}, 1, 1, 0, 0, 0, false},
	{"two batches, crash, discard, own zap", 1, 2, 2, {R | W | IO, 0}, 1, 1, 1, 1, 0, false},
	{"two pages, discard", 2, 2, 1, {R | W, 0}, 1, 1, 0, 0, 0, false},
	{"two pages, crash, own zap", 2, 2, 1, {R | W, 0}, 1, 0, 1, 1, 0, false},
};

static uint64_t total[PAGE_NR_MSGS][PAGE_NR_STATES];

static bool model_is_small(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return true;
#endif
#endif
	return getenv("EBB_MODEL_SMALL") != NULL;
}

/* Guards against a world that grows; the worlds of each list stay well below. */
#define STATES_MAX	 3000000
#define STATES_MAX_LARGE 24000000

static bool run_world(const struct world_cfg *cfg, uint32_t states_max)
{
	struct search s;
	uint32_t node;
	enum search_result rc;

	search_init(&s, states_max);
	rc = search_run(&s, cfg, MUT_NONE, &node);
	printf("%-4s %-34s %8u states %9lu steps\n", rc == SEARCH_CLEAN ? "ok" : "FAIL", cfg->name,
	       s.nr, (unsigned long)s.steps);
	if (rc == SEARCH_VIOLATION) {
		printf("  VIOLATION: %s\n", s.ctx.violation);
		search_print_trace(&s, node);
	} else if (rc == SEARCH_TOO_BIG) {
		printf("  more than %u states: the world is too big to be searched to its end\n",
		       s.max);
	}
	for (int m = 0; m < PAGE_NR_MSGS; m++)
		for (int t = 0; t < PAGE_NR_STATES; t++)
			total[m][t] += s.ctx.cover[m][t];
	search_destroy(&s);
	return rc == SEARCH_CLEAN;
}

static bool run_mutation(unsigned int i)
{
	struct search s;
	uint32_t node;
	enum search_result rc;

	search_init(&s, STATES_MAX);
	rc = search_run(&s, &worlds[mutations[i].world], mutations[i].mut, &node);
	printf("%-4s broken: %s\n", rc == SEARCH_VIOLATION ? "ok" : "FAIL", mutations[i].what);
	if (rc == SEARCH_VIOLATION)
		printf("       noticed after %u states: %s\n", s.nr, s.ctx.violation);
	else
		printf("  nothing was noticed in %u states of '%s'\n", s.nr,
		       worlds[mutations[i].world].name);
	if (rc == SEARCH_VIOLATION && getenv("EBB_MODEL_TRACE"))
		search_print_trace(&s, node);
	search_destroy(&s);
	return rc == SEARCH_VIOLATION;
}

static bool check_coverage(void)
{
	bool ok = true;

	printf("how often each cell of the table was met:\n%-10s", "");
	for (int t = 0; t < PAGE_NR_STATES; t++)
		printf(" %12s", page_state_name((enum page_state)t));
	printf("\n");
	for (int m = 0; m < PAGE_NR_MSGS; m++) {
		printf("%-10s", page_msg_name((enum page_msg)m));
		for (int t = 0; t < PAGE_NR_STATES; t++)
			printf(" %12lu", (unsigned long)total[m][t]);
		printf("\n");
	}
	for (int m = 0; m < PAGE_NR_MSGS; m++)
		for (int t = 0; t < PAGE_NR_STATES; t++) {
			if (total[m][t])
				continue;
			printf("FAIL %s on %s was never met\n", page_msg_name((enum page_msg)m),
			       page_state_name((enum page_state)t));
			ok = false;
		}
	return ok;
}

int main(void)
{
	bool ok = true, small = model_is_small();

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < (small ? FIRST_LARGE : W_NR); i++)
		ok = run_world(&worlds[i], STATES_MAX) && ok;
	for (size_t i = 0; i < ARRAY_SIZE(large_worlds) && getenv("EBB_MODEL_LARGE"); i++)
		ok = run_world(&large_worlds[i], STATES_MAX_LARGE) && ok;
	for (unsigned int i = 0; i < ARRAY_SIZE(mutations); i++)
		ok = run_mutation(i) && ok;
	if (small)
		printf("small: the largest worlds and the coverage were left out\n");
	else
		ok = check_coverage() && ok;
	return ok ? 0 : 1;
}
