// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_framer.c - where JSON values begin and end in a byte stream, good, bad and hostile.
 *
 * EBB_SEED repeats a random run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <cmocka.h>
#include "framer.h"

/* What came out of a framer, one line each: "V text" or "E phrase". */
struct log {
	char *text;
	size_t len, cap;
};

static void log_add(struct log *log, char kind, const char *text, size_t len)
{
	if (log->len + len + 4 > log->cap) {
		log->cap = (log->len + len + 4) * 2;
		log->text = realloc(log->text, log->cap);
		assert_non_null(log->text);
	}
	log->text[log->len++] = kind;
	log->text[log->len++] = ' ';
	memcpy(log->text + log->len, text, len);
	log->len += len;
	log->text[log->len++] = '\n';
	log->text[log->len] = '\0';
}

static void push(struct framer *f, const char *data, size_t len, struct log *log)
{
	size_t used;

	while (len) {
		switch (framer_push(f, data, len, &used)) {
		case FRAMER_VALUE:
			log_add(log, 'V', f->text, f->len);
			break;
		case FRAMER_ERROR:
			assert_int_not_equal(f->error[0], 0);
			log_add(log, 'E', f->error, strlen(f->error));
			break;
		case FRAMER_MORE:
			assert_int_equal(used, len);
			break;
		}
		assert_true(used <= len);
		data += used;
		len -= used;
	}
}

/* The input in one piece and byte by byte must frame alike, and as expected. */
static void expect_bytes(const char *in, size_t len, const char *out)
{
	struct framer f;
	struct log log;
	size_t step, i;

	for (step = 1; step <= len; step = step == 1 && len > 1 ? len : len + 1) {
		memset(&log, 0, sizeof(log));
		framer_init(&f, FRAMER_MAX_BYTES, FRAMER_MAX_TOKENS);
		for (i = 0; i < len; i += step)
			push(&f, in + i, MIN(step, len - i), &log);
		assert_string_equal(log.text ? log.text : "", out);
		free(log.text);
		framer_free(&f);
	}
}

static void expect(const char *in, const char *out)
{
	expect_bytes(in, strlen(in), out);
}

static void test_values(void **state)
{
	expect("{}", "V {}\n");
	expect("  {\"a\":[1,{\"b\":2}]}\r\n", "V {\"a\":[1,{\"b\":2}]}\n");
	expect("{}{}[]", "V {}\nV {}\nV []\n");
	expect("{\"}]\\\"[\":1}{}", "V {\"}]\\\"[\":1}\nV {}\n");
	expect("{\"a\\\\\":1}{}", "V {\"a\\\\\":1}\nV {}\n");
	expect("\"str\" ", "V \"str\"\n");
	expect("17\nnull{}", "V 17\nV null\nV {}\n");
	expect("{ \"a\" :\n\n 1 }", "V { \"a\" :\n\n 1 }\n");
	expect("{\"a\":1", "");
}

static void test_single_quotes(void **state)
{
	expect("{'a':'b'}", "V {\"a\":\"b\"}\n");
	expect("'say \"hi\"'", "V \"say \\\"hi\\\"\"\n");
	expect("'it\\'s'\"it\\'s\"", "V \"it's\"\nV \"it's\"\n");
	expect("\"it's\"", "V \"it's\"\n");
	expect("'\\\\'{}", "V \"\\\\\"\nV {}\n");
}

static void test_recovery(void **state)
{
	expect("/* x */{}", "E JSON parse error, stray '/'\nV {}\n");
	expect("}}]]{}", "E JSON parse error, expecting value\nV {}\n");
	expect("{\"a\":[1}{}", "E JSON parse error, stray '}'\nV {}\n");
	expect("{\"a\":1]\n{}", "E JSON parse error, stray ']'\nV {}\n");
	expect("{\"a\":\"b\x01 c\"}{}", "E JSON parse error, stray '\\u0001'\nV {}\n");
	expect("{\"a\":\"cut\n{\"b\":1}", "E JSON parse error, stray '\\u000A'\nV {\"b\":1}\n");
	expect("{\"a\":\x02 1}\n[]", "E JSON parse error, stray '\\u0002'\nV []\n");
	expect_bytes("\0{}", 3, "E JSON parse error, stray '\\u0000'\nV {}\n");
}

static void test_resync(void **state)
{
	expect("\xff{}", "E JSON parse error, stray '\\uFFFD'\nV {}\n");
	expect("{\"execute\":\"que\xff{}", "E JSON parse error, stray '\\uFFFD'\nV {}\n");
	expect("{\"a\":[[{\xff[1]", "E JSON parse error, stray '\\uFFFD'\nV [1]\n");
	expect("\x01 garbage \xff[1]",
	       "E JSON parse error, stray '\\u0001'\nE JSON parse error, stray '\\uFFFD'\nV [1]\n");
	expect("\"a\\\xff\"b\"", "E JSON parse error, stray '\\uFFFD'\nV \"b\"\n");
}

static char *repeat(const char *head, char c, size_t n, const char *tail)
{
	char *s = malloc(strlen(head) + n + strlen(tail) + 1);

	assert_non_null(s);
	strcpy(s, head);
	memset(s + strlen(head), c, n);
	strcpy(s + strlen(head) + n, tail);
	return s;
}

static void expect_freed(char *in, const char *out)
{
	expect(in, out);
	free(in);
}

static void test_depth(void **state)
{
	struct framer f;
	struct log log = {0};
	char *deep = repeat("", '[', FRAMER_MAX_DEPTH, ""), *shut = repeat("", ']', 500, "{}");

	framer_init(&f, FRAMER_MAX_BYTES, FRAMER_MAX_TOKENS);
	push(&f, deep, strlen(deep), &log);
	push(&f, shut + 500 - FRAMER_MAX_DEPTH, FRAMER_MAX_DEPTH, &log);
	assert_int_equal(log.text[0], 'V');
	assert_int_equal(log.len, 2 + 2 * FRAMER_MAX_DEPTH + 1);
	framer_free(&f);
	free(log.text);
	free(deep);

	/* One too deep, and very much too deep: one error, then in step again when it ends. */
	memset(&log, 0, sizeof(log));
	framer_init(&f, FRAMER_MAX_BYTES, FRAMER_MAX_TOKENS);
	deep = repeat("", '[', 500, "");
	push(&f, deep, FRAMER_MAX_DEPTH + 1, &log);
	push(&f, shut + 500 - FRAMER_MAX_DEPTH - 1, FRAMER_MAX_DEPTH + 3, &log);
	push(&f, deep, 500, &log);
	push(&f, shut, 502, &log);
	assert_string_equal(log.text, "E JSON nesting depth limit exceeded\nV {}\n"
				      "E JSON nesting depth limit exceeded\nV {}\n");
	framer_free(&f);
	free(log.text);
	free(deep);
	free(shut);
}

/* A value of @len bytes and then {}: is it framed if it may be, refused if not, and {} after it? */
static void check_bound(char *in, size_t len)
{
	struct framer f;
	struct log log = {0};

	framer_init(&f, FRAMER_MAX_BYTES, FRAMER_MAX_TOKENS);
	push(&f, in, strlen(in), &log);
	assert_int_equal(log.text[0], len <= FRAMER_MAX_BYTES ? 'V' : 'E');
	assert_string_equal(log.text + log.len - 6, "\nV {}\n");
	assert_true(f.cap <= FRAMER_MAX_BYTES);
	framer_free(&f);
	free(log.text);
	free(in);
}

static void test_size(void **state)
{
	const char *too_big = "E JSON value is larger than 65536 bytes\n";
	char out[128];

	snprintf(out, sizeof(out), "%sV {}\n", too_big);
	expect_freed(repeat("{\"a\":\"", 'x', 100000, "\"}{}"), out);
	expect_freed(repeat("", '7', 100000, " {}"), out);
	expect_freed(repeat("'", '"', 40000, "'{}"), out);
	expect_freed(repeat("{", ' ', 100000, "}{}"), out);
	/* Every length around the bound, where the last bracket or quote is what does not fit. */
	for (size_t n = FRAMER_MAX_BYTES - 12; n < FRAMER_MAX_BYTES + 3; n++) {
		check_bound(repeat("{\"a\":\"", 'x', n, "\"}{}"), n + 8);
		check_bound(repeat("\"", 'x', n, "\"{}"), n + 2);
		check_bound(repeat("", '1', n, "{}"), n);
	}
}

static void test_tokens(void **state)
{
	const char *out = "E JSON value has more than 4096 tokens\nV {}\n";

	expect_freed(repeat("[1", ',', 5000, "]{}"), out);
	expect_freed(repeat("[", ':', FRAMER_MAX_TOKENS, "]{}"), out);
	expect("[1 2 3]{}", "V [1 2 3]\nV {}\n");
}

/* --- random ----------------------------------------------------------------------------------- */

static uint64_t rnd_state;

static uint32_t rnd(uint32_t below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (uint32_t)(rnd_state >> 32) % below;
}

static size_t random_input(char *buf, size_t size)
{
	static const char *const bits[] = {
		"{",
		"}",
		"[",
		"]",
		"\"",
		"'",
		"\\",
		",",
		":",
		"\n",
		"\xff",
		"\xfe",
		"\x01",
		" ",
		"1",
		"{\"execute\":\"x\"}",
		"[[[[[[[[[[[[[[[[[[[[[[",
		"null",
		"\xc3\xa9",
		"\\u0000",
		"/*",
	};
	size_t len = 0;

	while (len + 32 < size) {
		const char *bit = bits[rnd(ARRAY_SIZE(bits))];

		if (rnd(4)) {
			memcpy(buf + len, bit, strlen(bit));
			len += strlen(bit);
		} else {
			buf[len++] = (char)rnd(256);
		}
		if (!rnd(200))
			break;
	}
	return len;
}

/* However the bytes arrive, the same comes out; and 0xff always leads back. */
static void test_random(void **state)
{
	char in[2048];

	for (int round = 0; round < 3000; round++) {
		size_t len = random_input(in, sizeof(in)), i, n;
		struct log whole = {0}, parts = {0};
		struct framer a, b;

		framer_init(&a, 300, 64);
		framer_init(&b, 300, 64);
		push(&a, in, len, &whole);
		for (i = 0; i < len; i += n) {
			n = (size_t)rnd(40) + 1;
			n = MIN(n, len - i);
			push(&b, in + i, n, &parts);
		}
		assert_int_equal(whole.len, parts.len);
		if (whole.len)
			assert_memory_equal(whole.text, parts.text, whole.len);
		assert_true(a.cap <= 300);
		push(&a, "\xff{\"ok\":1}", 9, &whole);
		assert_string_equal(whole.text + whole.len - 11, "V {\"ok\":1}\n");
		framer_free(&a);
		framer_free(&b);
		free(whole.text);
		free(parts.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	 cmocka_unit_test(test_single_quotes),
		cmocka_unit_test(test_recovery), cmocka_unit_test(test_resync),
		cmocka_unit_test(test_depth),	 cmocka_unit_test(test_size),
		cmocka_unit_test(test_tokens),	 cmocka_unit_test(test_random),
	};
	const char *seed = getenv("EBB_SEED");

	if (seed)
		rnd_state = strtoull(seed, NULL, 0);
	else if (getrandom(&rnd_state, sizeof(rnd_state), 0) != sizeof(rnd_state))
		rnd_state = 0;
	if (!rnd_state)
		rnd_state = 1;
	printf("EBB_SEED=%#llx\n", (unsigned long long)rnd_state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
