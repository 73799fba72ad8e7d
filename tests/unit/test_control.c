// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_control.c - the protocol on the control socket: what is said to good, bad and hostile input.
 *
 * The cases follow what QEMU's own monitor answers to the same bytes. EBB_SEED repeats a random
 * run.
 */
#include <sys/random.h>
#include "control_fixture.h"

#define GENERIC(desc)  "{\"error\": {\"class\": \"GenericError\", \"desc\": \"" desc "\"}}"
#define NOTFOUND(desc) "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"" desc "\"}}"
#define PARSE	       "{\"error\": {\"class\": \"GenericError\", \"desc\": \"JSON parse error, *"

static void test_negotiation(void **state)
{
	struct client cl;

	assert_int_equal(client_connect(&cl, fix->path), 0);
	client_expect(&cl, "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 0, \"minor\": 2, "
			   "\"major\": 7}, \"package\": \"ebb " EBB_VERSION "\"}, "
			   "\"capabilities\": []}}");
	client_say(&cl, "{\"execute\":\"query-version\"}\r\n");
	client_expect(&cl, NOTFOUND("Expecting capabilities negotiation with 'qmp_capabilities'"));
	client_say(&cl, "{\"execute\":\"nope\",\"id\":3}");
	client_expect(&cl, "{\"id\": 3, \"error\": {\"class\": \"CommandNotFound\", \"desc\": "
			   "\"Expecting capabilities negotiation with 'qmp_capabilities'\"}}");
	client_say(&cl, "{\"execute\":\"qmp_capabilities\",\"arguments\":{\"enable\":[\"oob\"]}}");
	client_expect(&cl, GENERIC("Parameter 'enable' does not accept value 'oob'"));
	client_say(&cl, "{\"execute\":\"qmp_capabilities\",\"arguments\":{\"enable\":3}}");
	client_expect(&cl, GENERIC("Invalid parameter type for 'enable', expected: array"));
	client_say(&cl, "{\"execute\":\"qmp_capabilities\",\"arguments\":{\"x\":3}}");
	client_expect(&cl, GENERIC("Parameter 'x' is unexpected"));
	client_say(&cl,
		   "{\"execute\":\"qmp_capabilities\",\"arguments\":{\"enable\":[]},\"id\":7}");
	client_expect(&cl, "{\"return\": {}, \"id\": 7}");
	client_say(&cl, "{\"execute\":\"qmp_capabilities\"}");
	client_expect(&cl, NOTFOUND("Capabilities negotiation is already complete, command "
				    "ignored"));
	client_sync(&cl);
	client_close(&cl);
}

struct exchange {
	const char *say;
	const char *lines[3];
};

/* Each is followed by a good command, whose reply must be the next line: the session is in step. */
static void run_exchanges(const struct exchange *x, size_t nr)
{
	struct client cl;
	size_t i, k;

	client_open(&cl);
	for (i = 0; i < nr; i++) {
		client_say(&cl, x[i].say);
		for (k = 0; k < ARRAY_SIZE(x[i].lines) && x[i].lines[k]; k++)
			client_expect(&cl, x[i].lines[k]);
		client_sync(&cl);
	}
	client_close(&cl);
}

static void test_framing(void **state)
{
	static const struct exchange x[] = {
		{"{'execute':'echo','arguments':{'name':'a'}}\n",
		 {"{\"return\": {\"name\": \"a\"}}"}},
		{"{\"execute\":\"fail\",\"id\":1}{\"execute\":\"mute-fail\",\"id\":2}",
		 {"{\"id\": 1, \"error\": {\"class\": \"DeviceNotFound\", \"desc\": \"no guest ?( "
		  "here\"}}",
		  "{\"id\": 2, \"error\": {\"class\": \"GenericError\", \"desc\": \"Input/output "
		  "error\"}}"}},
		{"{ \"execute\":\n\n \"raise\"\n}\n",
		 {"{\"timestamp\": {\"seconds\": *", "{\"return\": {}}"}},
		{"[1,2]\n", {GENERIC("QMP input must be a JSON object")}},
		{"\"str\"\n", {GENERIC("QMP input must be a JSON object")}},
		{"17\n", {GENERIC("QMP input must be a JSON object")}},
		{"null\n", {GENERIC("QMP input must be a JSON object")}},
		{"foo\n", {PARSE}},
		{"NaN\n", {PARSE}},
		{"{\"execute\":\"query-\xff", {GENERIC("JSON parse error, stray '\\\\uFFFD'")}},
		{"\xff{\"execute\":\"mute-fail\"}",
		 {GENERIC("JSON parse error, stray '\\\\uFFFD'"), GENERIC("Input/output error")}},
		{"/* x */{\"execute\":\"mute-fail\"}\n",
		 {GENERIC("JSON parse error, stray '/'"), GENERIC("Input/output error")}},
		{"{\"execute\":\"echo\",}\n", {PARSE}},
		{"{execute:\"echo\"}\n", {PARSE}},
		{"{\"execute\":\"echo\",\"execute\":\"stop\"}",
		 {"{\"error\": {\"class\": \"GenericError\", \"desc\": \"JSON parse error, "
		  "duplicate *"}},
		{"{\"execute\":\"echo\",\"id\":%d}", {PARSE}},
		{"{\"execute\":\"echo\",\"id\":01}", {PARSE}},
		{"{\"execute\":\"echo\"]\n", {GENERIC("JSON parse error, stray ']'")}},
		{"   \r\n\t\n", {NULL}},
	};

	run_exchanges(x, ARRAY_SIZE(x));
}

static void test_strings(void **state)
{
	static const struct exchange x[] = {
		{"{\"execute\":\"mute-fail\",\"id\":\"a\x01 b\"}",
		 {GENERIC("JSON parse error, stray '\\\\u0001'")}},
		{"{\"execute\":\"query-version\",\"id\":\"\\u20ac \xe2\x82\xac \\ud83d\\ude00\"}",
		 {"{\"return\": {\"qemu\": {\"micro\": 0, \"minor\": 2, \"major\": 7}, "
		  "\"package\": "
		  "\"ebb " EBB_VERSION "\"}, \"id\": \"\\u20AC \\u20AC \\uD83D\\uDE00\"}"}},
		{"{\"execute\":\"mute-fail\",\"id\":\"\\ud83d\"}", {PARSE}},
		{"{\"execute\":\"mute-fail\",\"id\":\"\xc3(\"}", {PARSE}},
		{"{\"execute\":\"mute-fail\",\"id\":\"a\\/b\\q\"}", {PARSE}},
		{"{\"execute\":\"mute-fail\",\"id\":\"a\\u0000b\"}",
		 {"{\"id\": \"a\\u0000b\", \"error\": *"}},
		{"{\"execute\":\"mute-fail\\u0000\"}",
		 {GENERIC("QMP input member 'execute' must be a string")}},
		{"{\"execute\":\"\xe2\x82\xac\"}",
		 {NOTFOUND("The command \\u20AC has not been found")}},
	};

	run_exchanges(x, ARRAY_SIZE(x));
}

static void test_envelope(void **state)
{
	static const struct exchange x[] = {
		{"{\"execute\":\"nope\",\"id\":\"x\"}",
		 {"{\"id\": \"x\", \"error\": {\"class\": \"CommandNotFound\", \"desc\": \"The "
		  "command "
		  "nope has not been found\"}}"}},
		{"{\"execute\":\"raise\",\"bogus\":1}",
		 {GENERIC("QMP input member 'bogus' is unexpected")}},
		{"{\"bogus\":1,\"execute\":\"raise\",\"id\":[1]}", {"{\"id\": [1], \"error\": *"}},
		{"{\"exec-oob\":\"raise\"}",
		 {GENERIC("QMP input member 'exec-oob' is unexpected")}},
		{"{\"execute\":\"echo\",\"arguments\":{\"name\":\"\"},\"id\":null}",
		 {"{\"return\": {\"name\": \"\"}, \"id\": null}"}},
		{"{\"execute\":\"echo\",\"arguments\":{\"name\":\"\"},\"id\":{\"a\":[1,2.5]}}",
		 {"{\"return\": {\"name\": \"\"}, \"id\": {\"a\": [1, 2.5]}}"}},
		{"{\"id\":1}",
		 {"{\"id\": 1, \"error\": {\"class\": \"GenericError\", \"desc\": \"QMP input "
		  "lacks member "
		  "'execute'\"}}"}},
		{"{}", {GENERIC("QMP input lacks member 'execute'")}},
		{"{\"execute\":5}", {GENERIC("QMP input member 'execute' must be a string")}},
		{"{\"execute\":\"raise\",\"arguments\":[1]}",
		 {GENERIC("QMP input member 'arguments' must be an object")}},
	};

	run_exchanges(x, ARRAY_SIZE(x));
}

#define ECHO(args) "{\"execute\":\"echo\",\"arguments\":{" args "}}"
#define BAD_SIZE                                                                                   \
	GENERIC("Parameter 'limit' expects a size: bytes as an integer, text such as "             \
		"\\\"512M\\\", or \\\"none\\\"")

static void test_bad_arguments(void **state)
{
	static const struct exchange x[] = {
		{"{\"execute\":\"raise\",\"arguments\":{\"x\":1}}",
		 {GENERIC("Parameter 'x' is unexpected")}},
		{"{\"execute\":\"echo\"}", {GENERIC("Parameter 'name' is missing")}},
		{ECHO(""), {GENERIC("Parameter 'name' is missing")}},
		{ECHO("\"name\":5"),
		 {GENERIC("Invalid parameter type for 'name', expected: string")}},
		{ECHO("\"name\":null"),
		 {GENERIC("Invalid parameter type for 'name', expected: string")}},
		{ECHO("\"name\":\"a\",\"nam\":1"), {GENERIC("Parameter 'nam' is unexpected")}},
		{ECHO("\"name\":\"a\\u0000b\""),
		 {GENERIC("Parameter 'name' must not hold a NUL character")}},
		{ECHO("\"name\":\"a\",\"n\":\"1\""),
		 {GENERIC("Invalid parameter type for 'n', expected: integer")}},
		{ECHO("\"name\":\"a\",\"n\":1.5e8"),
		 {GENERIC("Invalid parameter type for 'n', expected: integer")}},
		{ECHO("\"name\":\"a\",\"n\":99999999999999999999"), {PARSE}},
		{ECHO("\"name\":\"a\",\"flag\":1"),
		 {GENERIC("Invalid parameter type for 'flag', expected: boolean")}},
		{ECHO("\"name\":\"a\",\"limit\":-5"), {BAD_SIZE}},
		{ECHO("\"name\":\"a\",\"limit\":1.5"), {BAD_SIZE}},
		{ECHO("\"name\":\"a\",\"limit\":null"), {BAD_SIZE}},
		{ECHO("\"name\":\"a\",\"limit\":\"\""), {BAD_SIZE}},
		{ECHO("\"name\":\"a\",\"limit\":\"50%\""), {BAD_SIZE}},
		{ECHO("\"name\":\"a\",\"limit\":\"12 parsecs\""), {BAD_SIZE}},
	};

	run_exchanges(x, ARRAY_SIZE(x));
	assert_int_equal(atomic_load(&fix->runs), 0);
}

static void test_good_arguments(void **state)
{
	static const struct exchange x[] = {
		{ECHO("\"flag\":true,\"n\":-3,\"name\":\"a\""),
		 {"{\"return\": {\"name\": \"a\", \"n\": -3, \"flag\": true}}"}},
		{ECHO("\"name\":\"a\",\"limit\":134217728"),
		 {"{\"return\": {\"name\": \"a\", \"limit\": 134217728}}"}},
		{ECHO("\"name\":\"a\",\"limit\":\"512M\""),
		 {"{\"return\": {\"name\": \"a\", \"limit\": 536870912}}"}},
		{ECHO("\"name\":\"a\",\"limit\":0"),
		 {"{\"return\": {\"name\": \"a\", \"limit\": 0}}"}},
		{ECHO("\"name\":\"a\",\"limit\":\"none\""),
		 {"{\"return\": {\"name\": \"a\", \"limit\": -1}}"}},
	};

	run_exchanges(x, ARRAY_SIZE(x));
	assert_int_equal(atomic_load(&fix->runs), ARRAY_SIZE(x));
}

static void test_query_commands(void **state)
{
	static const char *const want[] = {"qmp_capabilities", "query-version", "query-commands",
					   "echo", "slow"};
	struct client cl;
	json_t *msg, *entry;
	size_t i, k, found = 0;

	client_open(&cl);
	client_say(&cl, "{\"execute\":\"query-commands\"}");
	msg = client_json(&cl);
	json_array_foreach(json_object_get(msg, "return"), i, entry)
	{
		const char *name = json_string_value(json_object_get(entry, "name"));

		assert_non_null(name);
		for (k = 0; k < ARRAY_SIZE(want); k++)
			found += !strcmp(name, want[k]);
		if (!strcmp(name, "echo"))
			assert_int_equal(json_array_size(json_object_get(entry, "arguments")), 4);
	}
	assert_int_equal(found, ARRAY_SIZE(want));
	json_decref(msg);
	client_close(&cl);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void say_repeated(struct client *cl, const char *bit, size_t n)
{
	char *all = malloc(strlen(bit) * n + 1);
	size_t i;

	assert_non_null(all);
	for (i = 0; i < n; i++)
		memcpy(all + i * strlen(bit), bit, strlen(bit));
	client_send(cl, all, strlen(bit) * n);
	free(all);
}

static void test_bounds(void **state)
{
	struct client cl;

	client_open(&cl);
	client_say(&cl, "{\"execute\":\"raise\",\"id\":");
	say_repeated(&cl, "[", 2000);
	client_expect(&cl, GENERIC("JSON nesting depth limit exceeded"));
	say_repeated(&cl, "]", 2000);
	client_say(&cl, "}");
	client_sync(&cl);

	client_say(&cl, "{\"execute\":\"raise\",\"id\":\"");
	say_repeated(&cl, "0123456789abcdef", 20000);
	client_expect(&cl, GENERIC("JSON value is larger than 65536 bytes"));
	client_say(&cl, "\"}");
	client_sync(&cl);

	client_say(&cl, "{\"execute\":\"raise\",\"id\":[0");
	say_repeated(&cl, ",0", 5000);
	client_expect(&cl, GENERIC("JSON value has more than 4096 tokens"));
	client_say(&cl, "\xff");
	client_expect(&cl, GENERIC("JSON parse error, stray '\\\\uFFFD'"));
	client_sync(&cl);
	client_close(&cl);
}

static void test_split(void **state)
{
	const char *say = ECHO("\"name\":\"x\"");
	struct client cl;
	size_t i;

	client_open(&cl);
	for (i = 0; say[i]; i++)
		client_send(&cl, say + i, 1);
	client_expect(&cl, "{\"return\": {\"name\": \"x\"}}");
	client_close(&cl);
}

/* More commands in one write than are taken at once, all answered, in order. */
static void test_pipeline(void **state)
{
	static char all[64000];
	size_t len = 0, nr = 0, i;
	struct client cl;

	while (len < sizeof(all) - 100)
		len += (size_t)sprintf(all + len, "{\"execute\":\"mute-fail\",\"id\":%zu}", nr++);
	client_open(&cl);
	client_send(&cl, all, len);
	for (i = 0; i < nr; i++) {
		json_t *msg = client_json(&cl);

		assert_int_equal(json_integer_value(json_object_get(msg, "id")), i);
		json_decref(msg);
	}
	client_sync(&cl);
	client_close(&cl);
}

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
		"\x01",
		" ",
		"1",
		"-1e9",
		"{\"execute\":",
		"\"echo\"",
		"\"arguments\":{",
		"\"name\":",
		"\"id\":",
		"\"limit\":",
		"{\"execute\":\"mute-fail\"}",
		"{\"execute\":\"raise\",\"id\":[]}",
		"\\ud800",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
		"null",
		"true",
		"\xc3\xa9",
		"\\u0000",
		"/*",
	};
	size_t len = 0;

	while (len + 64 < size && rnd(300)) {
		const char *bit = bits[rnd(ARRAY_SIZE(bits))];

		if (!rnd(5)) {
			buf[len++] = (char)rnd(256);
			continue;
		}
		memcpy(buf + len, bit, strlen(bit));
		len += strlen(bit);
	}
	return len;
}

/* Whatever is thrown at it, replies are JSON, and 0xff leads back to a session in step. */
static void test_random(void **state)
{
	char in[4096];
	struct client cl;
	int round;

	client_open(&cl);
	for (round = 0; round < 400; round++) {
		bool synced = false;

		client_send(&cl, in, random_input(in, sizeof(in)));
		client_say(&cl, "\xff{\"execute\":\"query-version\",\"id\":\"it is me\"}");
		while (!synced) {
			json_t *msg = client_json(&cl), *id = json_object_get(msg, "id");

			synced = json_is_string(id) && !strcmp(json_string_value(id), "it is me");
			json_decref(msg);
		}
	}
	client_close(&cl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_negotiation, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_framing, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_strings, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_envelope, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_bad_arguments, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_good_arguments, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_query_commands, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_bounds, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_split, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_pipeline, fixture_start, fixture_end),
		cmocka_unit_test_setup_teardown(test_random, fixture_start, fixture_end),
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
