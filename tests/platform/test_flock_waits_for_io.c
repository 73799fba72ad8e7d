// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_flock_waits_for_io.c - the lock of a killed writer is free only when its last I/O is done.
 *
 * A daemon killed with io_uring writes in flight keeps its store open until they are finished. A
 * new daemon that takes the lock on a fresh open of the store therefore never sees the dead one's
 * writes come after its own; and one that is merely stopped keeps the lock.
 */
#include <liburing.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include "platform.h"

#define DEPTH  32u
#define CHUNK  (256u << 10)
#define ROUNDS 6

static char name[64]; /* of the store, for a fresh open */

/* Locks the file, then writes to it over and over, never twice the same, DEPTH writes in flight. */
static void writer(atomic_uint *written)
{
	char *buf = mmap(NULL, (size_t)DEPTH * CHUNK, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open(name, O_RDWR | O_DIRECT | O_CLOEXEC);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	uint64_t stamp = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(buf != MAP_FAILED && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	must(io_uring_queue_init(DEPTH, &ring, 0) == 0);
	for (unsigned int i = 0, fly = 0;; i = (i + 1) % DEPTH) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		char *chunk = buf + (size_t)i * CHUNK;

		for (size_t off = 0; off < CHUNK; off += PG)
			*(uint64_t *)(chunk + off) = ++stamp;
		io_uring_prep_write(sqe, fd, chunk, CHUNK, (uint64_t)i * CHUNK);
		io_uring_submit(&ring);
		if (++fly < DEPTH)
			continue;
		must(io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->res == (int)CHUNK);
		io_uring_cqe_seen(&ring, cqe);
		fly--;
		atomic_fetch_add(written, 1);
	}
}

static uint64_t stamps(int fd)
{
	static char buf[CHUNK] __attribute__((aligned(4096)));
	uint64_t sum = 0;

	for (unsigned int i = 0; i < DEPTH; i++) {
		must(pread(fd, buf, CHUNK, (off_t)i * CHUNK) == (ssize_t)CHUNK);
		for (size_t off = 0; off < CHUNK; off += PG)
			sum = sum * 31 + *(uint64_t *)(buf + off);
	}
	return sum;
}

static void one_round(atomic_uint *written, int fd, bool stop_first)
{
	uint64_t before;
	pid_t pid;

	atomic_store(written, 0);
	pid = fork();
	must(pid >= 0);
	if (pid == 0)
		writer(written);
	for (int i = 0; atomic_load(written) < DEPTH; i++) {
		check(i < LONG_MS * 4, "the writer does not write");
		sleep_ms(1);
	}
	check(flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK, "two hold the lock");
	if (stop_first) {
		must(kill(pid, SIGSTOP) == 0 && waitpid(pid, NULL, WUNTRACED) == pid);
		check(flock(fd, LOCK_EX | LOCK_NB) < 0, "a stopped holder lost its lock");
		finding("stopped holder: keeps the lock");
	}
	must(kill(pid, SIGKILL) == 0);
	must(flock(fd, LOCK_EX) == 0);
	before = stamps(fd);
	sleep_ms(SHORT_MS);
	check(stamps(fd) == before, "the dead writer's data arrived after its lock was free");
	must(flock(fd, LOCK_UN) == 0);
	must(waitpid(pid, NULL, 0) == pid);
}

int main(void)
{
	atomic_uint *written =
		mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct io_uring probe;
	int fd, rc;

	plat_start("The lock of a process killed with io_uring writes in flight is free only after "
		   "them.");
	must(written != MAP_FAILED);
	rc = io_uring_queue_init(1, &probe, 0);
	if (rc < 0)
		skip_test("io_uring: %s", strerror(-rc));
	io_uring_queue_exit(&probe);
	fd = plat_direct_file((size_t)DEPTH * CHUNK);
	if (fd < 0)
		skip_test("no file system here that can O_DIRECT");
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)getpid(), fd);
	for (int i = 0; i < ROUNDS; i++)
		one_round(written, fd, i == 0);
	finding("killed holder, %u writes in flight, %d times: nothing lands after the lock is "
		"free",
		DEPTH, ROUNDS);
	return 0;
}
