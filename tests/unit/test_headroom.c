// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_headroom.c - room for pages to be brought back: the host's, the cgroup's, and what is said when there is none.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "vmm/headroom.h"

#define MIB (1ull << 20)

static struct headroom room(uint64_t available, uint64_t reserve)
{
	return (struct headroom){.available = available, .reserve = reserve,
				 .group = {.max = UINT64_MAX, .room = UINT64_MAX}};
}

static void test_host(void **state)
{
	struct headroom h = room(100 * MIB, 40 * MIB);
	struct ebb_err err;

	assert_int_equal(headroom_check(&h, 60 * MIB, &err), 0);
	assert_int_equal(headroom_check(&h, 60 * MIB + 1, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "no room in the host"));
	assert_int_equal(headroom_check(&h, 70 * MIB, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "70 MiB are"));
	assert_non_null(strstr(err.msg, "has 60 MiB"));
	assert_non_null(strstr(err.msg, "100 MiB available"));
	assert_non_null(strstr(err.msg, "40 MiB stay"));
	h = room(10 * MIB, 40 * MIB); /* the reserve is in use already */
	assert_int_equal(headroom_check(&h, 1, &err), -ENOSPC);
	assert_int_equal(headroom_check(&h, 0, &err), 0);
}

static void test_group(void **state)
{
	struct headroom h = room(1000 * MIB, 0);
	struct ebb_err err;

	memcg_add_group(&h.group, 300 * MIB, 150 * MIB, 20 * MIB, "/sys/fs/cgroup/vm");
	assert_int_equal(headroom_check(&h, (170 - 16) * MIB, &err), 0);
	assert_int_equal(headroom_check(&h, (170 - 16) * MIB + 1, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "/sys/fs/cgroup/vm has 154 MiB"));
	assert_non_null(strstr(err.msg, "limit of 300 MiB"));
}

/* The smallest limit and the least room may be of two groups. */
static void test_groups(void **state)
{
	struct memcg m = {.max = UINT64_MAX, .room = UINT64_MAX};

	memcg_add_group(&m, UINT64_MAX, 5, 0, "/none");
	assert_true(m.room == UINT64_MAX && m.max == UINT64_MAX);
	memcg_add_group(&m, 100, 20, 0, "/a");
	memcg_add_group(&m, 200, 190, 0, "/b");
	assert_true(m.max == 100 && m.room == 10);
	assert_string_equal(m.path, "/b");
	memcg_add_group(&m, 50, 60, 5, "/c"); /* above its limit */
	assert_true(m.max == 50 && m.room == 0);
	memcg_add_group(&m, 500, 10, 30, "/d"); /* more cache than use: the two are not read at once */
	assert_true(m.max == 50 && m.room == 0);
}

static void test_read(void **state)
{
	struct headroom h, all;

	assert_int_equal(headroom_read(getpid(), HEADROOM_RESERVE_DEFAULT, &h), 0);
	assert_true(h.available > MIB && h.reserve > MIB && h.reserve < h.available * 8);
	assert_int_equal(headroom_read(getpid(), 0, &all), 0);
	assert_true(all.reserve == 0);
}

/* A real cgroup, v1 or v2, around a child. */
static void test_cgroup(void **state)
{
	const char *const dirs[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
	const char *const files[] = {"memory.limit_in_bytes", "memory.max"};
	char dir[128], path[200];
	struct memcg m;
	bool made = false;
	int st;

	for (size_t i = 0; i < 2 && !made; i++) {
		FILE *f;

		snprintf(dir, sizeof(dir), "%s/ebb-headroom-%d", dirs[i], getpid());
		if (mkdir(dir, 0755))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		f = fopen(path, "r+e");
		made = f && fprintf(f, "%llu", 64 * MIB) > 0 && fflush(f) == 0;
		if (f)
			fclose(f);
		if (!made)
			rmdir(dir);
	}
	if (!made) {
		print_message("no memory cgroup can be made here\n");
		skip();
	}
	if (!fork()) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
		f = fopen(path, "we");
		if (!f || fprintf(f, "%d", getpid()) < 0 || fclose(f))
			_exit(1);
		memcg_find(getpid(), &m);
		_exit(m.max == 64 * MIB && m.room <= 64 * MIB && m.room > 32 * MIB &&
				      strstr(m.path, "ebb-headroom") ?
			      0 :
			      2);
	}
	assert_true(wait(&st) > 0);
	for (int i = 0; i < 100 && rmdir(dir); i++)
		usleep(10000);
	assert_int_equal(st, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host),   cmocka_unit_test(test_group),
		cmocka_unit_test(test_groups), cmocka_unit_test(test_read),
		cmocka_unit_test(test_cgroup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
