// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_store.c - the store and the state file: created, refused by name, locked, reopened.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ebb/page.h>
#include <ebb/reclaim.h>
#include "state.h"
#include "store.h"

static char dir[64];

static const struct proc_id id = {.pid = 4242, .start_time = 77};
static const struct region_table regions = {
	.r = {{.first = 0, .nr = 1000, .hva = 0x7f0000000000, .memfd = -1, .name = "ram"}},
	.nr = 1,
	.nr_pages = 1000,
};

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "ebb-store-XXXXXX"); /* the working directory: on a disk, where O_DIRECT works */
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s.swap", dir, name);
	return path;
}

static struct store_sums sums_of(const struct state *st)
{
	return (struct store_sums){.v = st->sums, .fd = st->fd, .offset = st->sums_offset};
}

static void test_create_reopen(void **state)
{
	struct store s, again;
	struct state st, st2;
	struct store_sums sums;
	struct ebb_err err;
	uint32_t len, slot;
	struct stat sb;

	(void)state;
	assert_int_equal(state_create(&st, dir, &id, &regions, 2000, &err), 0);
	assert_int_equal(page_word_state(st.words[999]), PAGE_ABSENT);
	assert_non_null(strstr(st.path, ".tmp")); /* no guest yet, for who looks at the directory */
	assert_int_equal(state_publish(&st, &err), 0);
	assert_null(strstr(st.path, ".tmp"));
	assert_int_equal(st.h->limit, RECLAIM_NO_LIMIT);
	sums = sums_of(&st);
	assert_int_equal(store_create(&s, path_of("x"), 2000, 9, &sums, &err), 0);
	assert_int_equal(fstat(s.fd, &sb), 0);
	assert_int_equal(sb.st_mode & 0777, 0600);
	slot = store_alloc(&s, 64, &len);
	assert_int_equal(len, 64);
	s.sums.v[slot + 63] = (struct store_sum){1, 2};
	st.words[5] = page_word(PAGE_EVICTED, slot);

	/* Locked while it is open here, even for this process. */
	assert_int_equal(store_reopen(&again, s.path, 2000, 9, &sums, 20, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "another ebbd"));
	store_close(&s, false);

	assert_int_equal(state_open(&st2, st.path, &err), 0);
	assert_int_equal(st2.words[5], page_word(PAGE_EVICTED, slot));
	sums = sums_of(&st2);
	assert_int_equal(store_reopen(&again, s.path, 2000, 9, &sums, 20, &err), 0);
	assert_true(store_sum_equal(again.sums.v[slot + 63], (struct store_sum){1, 2}));
	assert_true(store_claim(&again, slot));
	assert_false(store_claim(&again, slot));
	assert_false(store_claim(&again, 2000));
	store_close(&again, true);
	assert_int_equal(access(s.path, F_OK), -1);
	state_close(&st, false);
	state_close(&st2, true);
}

static void test_refusals(void **state)
{
	struct store_sums sums = {.fd = -1};
	struct store s;
	struct state st;
	struct ebb_err err;
	int fd;
	char path[128];

	(void)state;
	assert_int_equal(store_create(&s, "/nonexistent/x.swap", 10, 0, &sums, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/nonexistent"));
	assert_int_equal(store_create(&s, path_of("big"), PAGE_SLOT_MAX, 0, &sums, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "--swap-dir"));
	assert_int_equal(store_create(&s, "/dev/shm/ebb-unit.swap", 10, 0, &sums, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "--swap-dir"));
	assert_int_equal(access("/dev/shm/ebb-unit.swap", F_OK), -1);

	snprintf(path, sizeof(path), "%s/junk.state", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "ebbstate", 8), 8);
	close(fd);
	assert_int_equal(state_open(&st, path, &err), -EPROTO);
	assert_non_null(strstr(err.msg, "junk.state"));
	assert_int_equal(truncate(path, 1 << 20), 0);
	assert_int_equal(state_open(&st, path, &err), -EPROTO);
}

static void test_zero_and_sum(void **state)
{
	_Alignas(64) char page[4096];
	struct store s = {.seed = 1}, t = {.seed = 2};

	(void)state;
	memset(page, 0, sizeof(page));
	assert_true(store_page_is_zero(page));
	for (unsigned int i = 0; i < sizeof(page); i++) {
		page[i] = 1;
		assert_false(store_page_is_zero(page));
		page[i] = 0;
	}
	assert_true(store_sum_equal(store_sum_page(&s, page), store_sum_page(&s, page)));
	assert_false(store_sum_equal(store_sum_page(&s, page), store_sum_page(&t, page)));
}

/* A killed holder's lock goes with its file; a stopped holder's does not. */
static void test_lock_of_another(void **state)
{
	struct store_sums sums = {.fd = -1};
	struct store s, again;
	struct ebb_err err;
	int status, pipefd[2];
	char path[128], c;
	pid_t pid;

	(void)state;
	snprintf(path, sizeof(path), "%s/held.swap", dir);
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	if (pid == 0) {
		if (store_create(&s, path_of("held"), 16, 0, &sums, &err) == 0 &&
		    write(pipefd[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipefd[0], &c, 1), 1);
	kill(pid, SIGSTOP);
	assert_int_equal(store_reopen(&again, path, 16, 0, &sums, 50, &err), -EBUSY);
	kill(pid, SIGKILL);
	assert_int_equal(store_reopen(&again, path, 16, 0, &sums, 5000, &err), 0);
	store_close(&again, true);
	waitpid(pid, &status, 0);
	close(pipefd[0]);
	close(pipefd[1]);
}

static bool pid_7_is_dead(int pid, uint64_t start_time)
{
	return pid == 7 && start_time == 8;
}

/* Only what is surely dead, of our namespace and not locked is swept. */
static void test_sweep(void **state)
{
	static const struct {
		int pid;
		uint64_t start, ns;
		bool goes;
	} stores[] = {{7, 8, 9, true}, {7, 9, 9, false}, {6, 8, 9, false}, {7, 8, 10, false}};
	struct store_sums sums = {.fd = -1};
	struct ebb_err err;
	struct store s;
	char path[4][256];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(store_make_path(path[i], sizeof(path[i]), dir, stores[i].pid,
						 stores[i].start, stores[i].ns), 0);
		assert_int_equal(store_create(&s, path[i], 16, 0, &sums, &err), 0);
		store_sweep(dir, 9, pid_7_is_dead); /* locked: stays */
		assert_int_equal(access(path[i], F_OK), 0);
		store_close(&s, false);
	}
	store_sweep(dir, 9, pid_7_is_dead);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(access(path[i], F_OK), stores[i].goes ? -1 : 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_create_reopen),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_zero_and_sum),
		cmocka_unit_test(test_lock_of_another),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
