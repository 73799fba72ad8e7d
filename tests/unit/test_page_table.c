// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_page_table.c - every transition from every state, take-over,
 * and the documented table.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "reclaim/page_table.h"

#define NR   3 /* the page in the middle is used: its neighbours must not change */
#define IDX  1
#define TAG  77u
#define SLOT 5u
#define KEEP 9u

static _Atomic uint32_t words[NR];
static struct page_table pt = {.words = words, .nr = NR};

static const uint32_t args[] = {SLOT, TAG, 0, PAGE_SLOT_NONE, PAGE_SLOT_ZERO, PAGE_SLOT_MAX};

static void set(uint32_t word)
{
	for (int i = 0; i < NR; i++)
		words[i] = page_word(PAGE_FILLING, 1234);
	words[IDX] = word;
}

static void assert_word(enum page_state state, uint32_t arg)
{
	assert_string_equal(page_state_name(page_word_state(words[IDX])), page_state_name(state));
	assert_int_equal(page_word_arg(words[IDX]), arg);
	for (int i = 0; i < NR; i++)
		if (i != IDX)
			assert_int_equal(words[i], page_word(PAGE_FILLING, 1234));
}

/* --- the word ------------------------------------------------------------------------------- */

static void word_round_trip(void **state)
{
	for (int s = 0; s < PAGE_NR_STATES; s++)
		for (size_t a = 0; a < ARRAY_SIZE(args); a++) {
			uint32_t word = page_word((enum page_state)s, args[a]);

			assert_int_equal(page_word_state(word), s);
			assert_int_equal(page_word_arg(word), args[a]);
			assert_int_equal(page_word_slot(word),
					 s == PAGE_EVICTING ? PAGE_SLOT_NONE : args[a]);
		}
	assert_true(page_slot_is_real(0));
	assert_true(page_slot_is_real(PAGE_SLOT_MAX));
	assert_false(page_slot_is_real(PAGE_SLOT_ZERO));
	assert_false(page_slot_is_real(PAGE_SLOT_NONE));
}

static void word_counted(void **state)
{
	static const bool counted[PAGE_NR_STATES] = {
		[PAGE_RESIDENT] = true, [PAGE_EVICTING] = true, [PAGE_UNPROTECTING] = true,
		[PAGE_PUNCHING] = true, [PAGE_FILLING] = true,
	};

	for (int s = 0; s < PAGE_NR_STATES; s++)
		assert_int_equal(page_word_is_counted(page_word((enum page_state)s, SLOT)),
				 counted[s]);
}

/* --- try: legal from its states, refused and without effect from all others ----------------- */

struct try_case {
	const char *name;
	bool (*call)(uint32_t word);
	uint8_t from; /* states, a bit each */
	enum page_state to;
	uint32_t want;	   /* argument afterwards; SAME, or a value */
	uint32_t from_arg; /* legal only with this argument; ANY: with each */
};

#define SAME UINT32_MAX
#define ANY  UINT32_MAX
#define S(s) (1u << PAGE_##s)

static uint32_t out;

static bool call_evict(uint32_t word)
{
	return page_try_evict(&pt, IDX, TAG, &out);
}

static bool call_evict_long_tag(uint32_t word)
{
	return page_try_evict(&pt, IDX, TAG + PAGE_ARG_MASK + 1, &out); /* tags wrap */
}

static bool call_commit(uint32_t word)
{
	return page_try_commit(&pt, IDX, TAG, KEEP);
}

static bool call_commit_zero(uint32_t word)
{
	return page_try_commit(&pt, IDX, TAG, PAGE_SLOT_ZERO);
}

static bool call_cancel(uint32_t word)
{
	return page_try_cancel_batch(&pt, IDX, TAG, KEEP);
}

static bool call_unprotect(uint32_t word)
{
	return page_try_unprotect(&pt, IDX, word);
}

static bool call_fill(uint32_t word)
{
	return page_try_fill(&pt, IDX, &out);
}

static bool call_zero(uint32_t word)
{
	return page_try_zero(&pt, IDX, word);
}

static bool call_found(uint32_t word)
{
	return page_try_found(&pt, IDX);
}

static bool call_discard(uint32_t word)
{
	return page_try_discard(&pt, IDX, word);
}

static bool call_drop_kept(uint32_t word)
{
	return page_try_drop_kept(&pt, IDX, word);
}

static const struct try_case tries[] = {
	{"evict", call_evict, S(RESIDENT), PAGE_EVICTING, TAG, ANY},
	{"evict, long tag", call_evict_long_tag, S(RESIDENT), PAGE_EVICTING, TAG, ANY},
	{"commit", call_commit, S(EVICTING), PAGE_PUNCHING, KEEP, TAG},
	{"commit zeros", call_commit_zero, S(EVICTING), PAGE_PUNCHING, PAGE_SLOT_ZERO, TAG},
	{"cancel", call_cancel, S(EVICTING), PAGE_UNPROTECTING, KEEP, TAG},
	{"fill", call_fill, S(EVICTED), PAGE_FILLING, SAME, ANY},
	{"zero", call_zero, S(ABSENT) | S(RESIDENT) | S(EVICTING), PAGE_FILLING, PAGE_SLOT_ZERO,
	 ANY},
	{"found", call_found, S(ABSENT), PAGE_RESIDENT, PAGE_SLOT_NONE, PAGE_SLOT_NONE},
	{"discard", call_discard, S(EVICTED) | S(RESIDENT), PAGE_ABSENT, PAGE_SLOT_NONE, ANY},
	{"drop kept", call_drop_kept, S(RESIDENT), PAGE_RESIDENT, PAGE_SLOT_NONE, ANY},
	{"unprotect RESIDENT", call_unprotect, S(RESIDENT), PAGE_UNPROTECTING, SAME, ANY},
};

static void try_from_every_state(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++)
		for (int s = 0; s < PAGE_NR_STATES; s++)
			for (size_t a = 0; a < ARRAY_SIZE(args); a++) {
				const struct try_case *t = &tries[i];
				bool legal = t->from & 1u << s &&
					     (t->from_arg == ANY || t->from_arg == args[a]);

				if (t->call == call_unprotect && s == PAGE_EVICTING)
					continue; /* see unprotect_evicting() */
				set(page_word((enum page_state)s, args[a]));
				out = 4711;
				if (t->call(words[IDX]) != legal)
					fail_msg("%s from %s(%u): %s", t->name,
						 page_state_name((enum page_state)s), args[a],
						 legal ? "refused" : "allowed");
				if (legal)
					assert_word(t->to, t->want == SAME ? args[a] : t->want);
				else
					assert_word((enum page_state)s, args[a]);
				if (!legal ||
				    (t->call != call_evict && t->call != call_evict_long_tag &&
				     t->call != call_fill))
					assert_int_equal(out, 4711); /* untouched on failure */
				else
					assert_int_equal(out, args[a]);
			}
}

static void unprotect_evicting(void **state)
{
	set(page_word(PAGE_EVICTING, TAG));
	assert_true(page_try_unprotect(&pt, IDX, words[IDX]));
	assert_word(PAGE_UNPROTECTING, PAGE_SLOT_NONE); /* the tag must not turn into a slot */
}

static void try_with_an_old_word(void **state)
{
	static bool (*const calls[])(uint32_t) = {call_unprotect, call_zero, call_discard,
						  call_drop_kept};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		for (int s = 0; s < PAGE_NR_STATES; s++) {
			set(page_word((enum page_state)s, SLOT));
			assert_false(calls[i](page_word((enum page_state)s, SLOT + 1)));
			assert_false(calls[i](
				page_word((enum page_state)((s + 1) % PAGE_NR_STATES), SLOT)));
			assert_word((enum page_state)s, SLOT);
		}
}

/* --- end: right from its state, an assertion from all others -------------------------------- */

struct end_case {
	void (*call)(void);
	enum page_state from, to;
	uint32_t want;
};

static void end_punch(void)
{
	page_end_punch(&pt, IDX);
}

static void end_unprotect(void)
{
	page_end_unprotect(&pt, IDX);
}

static void end_unprotect_absent(void)
{
	page_end_unprotect_absent(&pt, IDX);
}

static void end_fill(void)
{
	page_end_fill(&pt, IDX, KEEP);
}

static void end_fill_failed(void)
{
	page_end_fill_failed(&pt, IDX);
}

static void end_zero_failed(void)
{
	page_end_zero_failed(&pt, IDX);
}

static const struct end_case ends[] = {
	{end_punch, PAGE_PUNCHING, PAGE_EVICTED, SAME},
	{end_unprotect, PAGE_UNPROTECTING, PAGE_RESIDENT, SAME},
	{end_unprotect_absent, PAGE_UNPROTECTING, PAGE_ABSENT, PAGE_SLOT_NONE},
	{end_fill, PAGE_FILLING, PAGE_RESIDENT, KEEP},
	{end_fill_failed, PAGE_FILLING, PAGE_EVICTED, SAME},
	{end_zero_failed, PAGE_FILLING, PAGE_ABSENT, PAGE_SLOT_NONE},
};

static bool aborts(void (*call)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		signal(SIGABRT, SIG_DFL);
		call();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void end_from_its_state(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		for (size_t a = 0; a < ARRAY_SIZE(args); a++) {
			set(page_word(ends[i].from, args[a]));
			ends[i].call();
			assert_word(ends[i].to, ends[i].want == SAME ? args[a] : ends[i].want);
		}
}

static void end_from_other_states(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		for (int s = 0; s < PAGE_NR_STATES; s++) {
			set(page_word((enum page_state)s, SLOT));
			if (s != (int)ends[i].from && !aborts(ends[i].call))
				fail_msg("end %zu does not assert from %s", i,
					 page_state_name((enum page_state)s));
		}
}

/* --- take-over ------------------------------------------------------------------------------ */

static void take_over(void **state)
{
	static const struct {
		enum page_state found;
		uint32_t arg;
		bool present;
		enum page_state want;
		uint32_t want_arg;
	} t[] = {
		{PAGE_ABSENT, PAGE_SLOT_NONE, false, PAGE_ABSENT, PAGE_SLOT_NONE},
		{PAGE_RESIDENT, SLOT, true, PAGE_RESIDENT, SLOT},
		{PAGE_RESIDENT, SLOT, false, PAGE_RESIDENT, SLOT},
		{PAGE_RESIDENT, PAGE_SLOT_NONE, true, PAGE_RESIDENT, PAGE_SLOT_NONE},
		{PAGE_EVICTING, TAG, true, PAGE_RESIDENT, PAGE_SLOT_NONE},
		{PAGE_EVICTING, TAG, false, PAGE_RESIDENT, PAGE_SLOT_NONE},
		{PAGE_UNPROTECTING, SLOT, true, PAGE_RESIDENT, SLOT},
		{PAGE_UNPROTECTING, PAGE_SLOT_NONE, true, PAGE_RESIDENT, PAGE_SLOT_NONE},
		{PAGE_PUNCHING, SLOT, false, PAGE_EVICTED, SLOT},
		{PAGE_PUNCHING, PAGE_SLOT_ZERO, false, PAGE_EVICTED, PAGE_SLOT_ZERO},
		{PAGE_EVICTED, SLOT, false, PAGE_EVICTED, SLOT},
		{PAGE_EVICTED, PAGE_SLOT_ZERO, false, PAGE_EVICTED, PAGE_SLOT_ZERO},
		{PAGE_FILLING, SLOT, false, PAGE_EVICTED, SLOT},
		{PAGE_FILLING, SLOT, true, PAGE_RESIDENT, SLOT},
		{PAGE_FILLING, PAGE_SLOT_ZERO, false, PAGE_EVICTED, PAGE_SLOT_ZERO},
		{PAGE_FILLING, PAGE_SLOT_ZERO, true, PAGE_RESIDENT, PAGE_SLOT_NONE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		uint32_t word = page_take_over(page_word(t[i].found, t[i].arg), t[i].present);

		set(page_word(t[i].found, t[i].arg));
		page_table_store_take_over(&pt, IDX, word);
		assert_word(t[i].want, t[i].want_arg);
		assert_int_equal(page_owner(t[i].want), PAGE_OWNER_NOBODY);
		/* a take-over that is itself interrupted must find nothing left to change */
		assert_int_equal(page_take_over(word, t[i].present), word);
	}
}

/* --- owners, and the table of the document -------------------------------------------------- */

static void owners(void **state)
{
	static const enum page_owner want[PAGE_NR_STATES] = {
		[PAGE_EVICTING] = PAGE_OWNER_BATCH,
		[PAGE_UNPROTECTING] = PAGE_OWNER_CANCELLER,
		[PAGE_PUNCHING] = PAGE_OWNER_EVICTOR,
		[PAGE_FILLING] = PAGE_OWNER_FILLER,
	};

	for (int s = 0; s < PAGE_NR_STATES; s++)
		assert_int_equal(page_owner((enum page_state)s), want[s]);
}

static FILE *open_document(const char **ret_name)
{
	static const char *const dirs[] = {"", "../", "../../", "../../../", "../../../../"};
	static const char *const names[] = {"ARCHITECTURE.md"};
	static char path[64];

	/* tests run at the root of the source tree; by hand perhaps further down */
	for (size_t n = 0; n < ARRAY_SIZE(names); n++)
		for (size_t d = 0; d < ARRAY_SIZE(dirs); d++) {
			FILE *f;

			snprintf(path, sizeof(path), "%s%s", dirs[d], names[n]);
			f = fopen(path, "r");
			*ret_name = path;
			if (f)
				return f;
		}
	return NULL;
}

/* The next cell of a row, stripped of blanks; NULL after the last. Cuts @*row. */
static char *next_cell(char **row)
{
	char *cell = *row, *end;

	if (!cell)
		return NULL;
	end = strchr(cell, '|');
	if (!end)
		return NULL;
	*row = end + 1;
	while (cell < end && (*cell == ' ' || *cell == '\t'))
		cell++;
	while (end > cell && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	return cell;
}

static void compare_header(char *row)
{
	next_cell(&row); /* "message" */
	for (int s = 0; s < PAGE_NR_STATES; s++) {
		const char *cell = next_cell(&row);

		assert_non_null(cell);
		assert_string_equal(cell, page_state_name((enum page_state)s));
	}
	assert_null(next_cell(&row));
}

static enum page_msg compare_row(const char *doc, char *row)
{
	const char *name = next_cell(&row), *cell;
	enum page_msg msg = 0;
	char want[32];

	assert_non_null(name);
	while (msg < PAGE_NR_MSGS && strcmp(name, page_msg_name(msg)) != 0)
		msg++;
	if (msg == PAGE_NR_MSGS)
		fail_msg("%s: there is no message '%s'", doc, name);
	for (int s = 0; s < PAGE_NR_STATES; s++) {
		cell = next_cell(&row);
		if (!cell)
			fail_msg("%s: the row of %s is too short", doc, name);
		snprintf(want, sizeof(want), "`%s`",
			 page_action_name(page_action(msg, (enum page_state)s)));
		if (strncmp(cell, want, strlen(want)) != 0)
			fail_msg("%s on %s: %s says %s, page_action() says %s", name,
				 page_state_name((enum page_state)s), doc, cell, want);
	}
	assert_null(next_cell(&row));
	return msg;
}

static void table_is_documented(void **state)
{
	unsigned int seen[PAGE_NR_MSGS] = {0};
	bool inside = false, header = false, closed = false;
	const char *doc;
	char line[1024];
	FILE *f = open_document(&doc);

	if (!f)
		fail_msg("ARCHITECTURE.md was not found from the working directory");
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "<!-- protocol-table -->") == 0) {
			inside = true;
		} else if (inside && strcmp(line, "<!-- /protocol-table -->") == 0) {
			inside = false;
			closed = true;
		} else if (inside && line[0] == '|' && !header) {
			compare_header(line + 1);
			header = true;
		} else if (inside && line[0] == '|' && line[1] != '-' && line[1] != ' ') {
			fail_msg("%s: cannot read the line '%s'", doc, line);
		} else if (inside && line[0] == '|' && line[1] == ' ' && line[2] != '-') {
			seen[compare_row(doc, line + 1)]++;
		}
	}
	fclose(f);
	if (!closed)
		fail_msg("%s has no section between <!-- protocol-table --> and its end", doc);
	for (int m = 0; m < PAGE_NR_MSGS; m++)
		if (seen[m] != 1)
			fail_msg("%s has %u rows for %s", doc, seen[m],
				 page_msg_name((enum page_msg)m));
}

static void names_are_distinct(void **state)
{
	for (int a = 0; a < PAGE_NR_ACTS; a++)
		for (int b = 0; b < a; b++)
			assert_string_not_equal(page_action_name((enum page_action)a),
						page_action_name((enum page_action)b));
	assert_string_equal(page_state_name(PAGE_NR_STATES), "?");
	assert_string_equal(page_msg_name(PAGE_NR_MSGS), "?");
	assert_string_equal(page_action_name(PAGE_NR_ACTS), "?");
	assert_string_equal(page_owner_name(PAGE_NR_OWNERS), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(word_round_trip),
		cmocka_unit_test(word_counted),
		cmocka_unit_test(try_from_every_state),
		cmocka_unit_test(unprotect_evicting),
		cmocka_unit_test(try_with_an_old_word),
		cmocka_unit_test(end_from_its_state),
		cmocka_unit_test(end_from_other_states),
		cmocka_unit_test(take_over),
		cmocka_unit_test(owners),
		cmocka_unit_test(table_is_documented),
		cmocka_unit_test(names_are_distinct),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
