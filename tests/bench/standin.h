/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standin.h - the guest of a benchmark: a process whose threads touch memory and check what they see.
 *
 * DOC: the bytes
 *
 * Every 8-byte word of every page has a value of its own, a hash of page and word, so that the memory does
 * not compress and a page that comes back in another's place is noticed. Words 0 and 1 of a page are its
 * *marks*: they hold the numbers of its last two writes, in turn, and the process remembers the last number
 * in private memory. So each touch can tell whether the last write, and the one before it, are still
 * there; one further word, at random, is compared each time, and all of them by standin_verify(). A page is
 * touched by one thread only during a run (page modulo number of threads), hence there is exactly one right
 * answer.
 *
 * Only the first access to the page is timed; one that takes longer than STANDIN_FAULT_NS is a fault. A
 * minor fault (an entry the sampler dropped, a page in the kernel's swap cache) is faster than that.
 */
#ifndef TESTS_BENCH_STANDIN_H
#define TESTS_BENCH_STANDIN_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <ebb/types.h>
#include "bench_hist.h"

#define STANDIN_THREADS	 64u
#define STANDIN_FAULT_NS 3000u
#define STANDIN_WORDS	 (EBB_PAGE_SIZE / sizeof(uint64_t))
#define STANDIN_MARKS	 2u
#define STANDIN_WAIT_MS	 120000
#define STANDIN_HOT_PCT	 60u /* of the memory, that STANDIN_HOT touches ... */
#define STANDIN_COLD_PCT 10u /* ... but for so many of its touches, which may go anywhere */

enum standin_pattern { STANDIN_READ, STANDIN_HALF_WRITES, STANDIN_SEQUENTIAL, STANDIN_HOT };
enum standin_memory { STANDIN_SHARED, STANDIN_ANON };
enum standin_phase { STANDIN_WARM, STANDIN_MEASURE, STANDIN_STOP };
enum standin_command { STANDIN_RUN = 1, STANDIN_JOIN, STANDIN_VERIFY };

/** struct standin_worker - one thread's results of a run */
struct standin_worker {
	struct bench_hist faults;
	uint64_t touches;
};

/** struct standin_shared - what both processes see */
struct standin_shared {
	_Atomic int phase;	/* enum standin_phase; set by the caller */
	_Atomic uint64_t wrong; /* words that were not what had been written */
	char first_wrong[160];
	struct standin_worker worker[STANDIN_THREADS];
};

/** struct standin - the caller's end */
struct standin {
	pid_t pid;
	int sock;
	struct standin_shared *shared;
};

struct standin_conf {
	enum standin_memory memory;
	uint64_t bytes;
	const char *cgroup_procs; /* file to write the pid to before the memory is, NULL: none */
	unsigned int rest_us;	  /* of a thread, after each touch */
	unsigned int fault_ns;	  /* a touch that takes longer is a fault; 0: STANDIN_FAULT_NS */
};

static inline uint64_t standin_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* --- in the child --------------------------------------------------------------------------- */

struct standin_child {
	const struct standin_conf *conf;
	struct standin_shared *shared;
	int sock;
	uint32_t nr_pages;
	volatile uint64_t *memory;
	uint32_t *last; /* number of each page's last write */
	unsigned int nr_threads;
	enum standin_pattern pattern;
	uint32_t cursor[STANDIN_THREADS]; /* where a sequential thread goes on */
	pthread_t thread[STANDIN_THREADS];
};

struct standin_thread {
	struct standin_child *c;
	unsigned int id;
};

static inline uint64_t standin_mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* What word @word of page @page holds; @number: of the write, 0 for words that are no marks. */
static inline uint64_t standin_value(uint32_t page, uint32_t word, uint32_t number)
{
	return standin_mix(((uint64_t)page * STANDIN_WORDS + word + 1) * 0x9e3779b97f4a7c15 +
			   (uint64_t)number * 0xd1342543de82ef95);
}

static inline volatile uint64_t *standin_page(const struct standin_child *c, uint32_t page)
{
	return c->memory + (uint64_t)page * STANDIN_WORDS;
}

static inline void standin_expect(struct standin_child *c, uint32_t page, uint32_t word, uint64_t got,
				  uint64_t want)
{
	if (got == want || atomic_fetch_add(&c->shared->wrong, 1))
		return;
	snprintf(c->shared->first_wrong, sizeof(c->shared->first_wrong),
		 "page %u word %u holds %#llx instead of %#llx%s", page, word,
		 (unsigned long long)got, (unsigned long long)want, got ? "" : " (zeros)");
}

static inline void standin_expect_mark(struct standin_child *c, uint32_t page, uint32_t number)
{
	uint32_t mark = number % STANDIN_MARKS;

	standin_expect(c, page, mark, standin_page(c, page)[mark], standin_value(page, mark, number));
}

/* One touch; returns how long the access took. */
static inline uint64_t standin_touch(struct standin_child *c, uint32_t page, uint32_t word, bool write)
{
	volatile uint64_t *p = standin_page(c, page);
	uint32_t number = c->last[page], mark = number % STANDIN_MARKS;
	uint64_t begin, end, got = 0, value = 0;

	if (write) {
		number++;
		mark = number % STANDIN_MARKS;
		value = standin_value(page, mark, number);
	}
	begin = standin_now_ns();
	if (write)
		p[mark] = value;
	else
		got = p[mark];
	end = standin_now_ns();
	if (write)
		c->last[page] = number;
	else
		standin_expect(c, page, mark, got, standin_value(page, mark, number));
	standin_expect_mark(c, page, number - 1);
	standin_expect(c, page, word, p[word], standin_value(page, word, 0));
	return end - begin;
}

/* The next page of thread @id; pages are dealt out so that no two threads of a run share one. */
static inline uint32_t standin_next_page(struct standin_child *c, unsigned int id, uint64_t random)
{
	uint32_t share = c->nr_pages / c->nr_threads;

	if (c->pattern == STANDIN_SEQUENTIAL) {
		c->cursor[id] = c->cursor[id] + 1 < share ? c->cursor[id] + 1 : 0;
		return id * share + c->cursor[id];
	}
	if (c->pattern == STANDIN_HOT && (random >> 32 & 0xffff) % 100 >= STANDIN_COLD_PCT)
		share = share * STANDIN_HOT_PCT / 100;
	return (uint32_t)(random & UINT32_MAX) % share * c->nr_threads + id;
}

static void *standin_thread_main(void *arg)
{
	struct standin_thread *t = arg;
	struct standin_child *c = t->c;
	struct standin_worker *w = &c->shared->worker[t->id];
	uint64_t state = standin_now_ns() * 2 + t->id;
	uint64_t fault_ns = c->conf->fault_ns ? c->conf->fault_ns : STANDIN_FAULT_NS;
	int phase;

	while ((phase = atomic_load_explicit(&c->shared->phase, memory_order_relaxed)) !=
	       STANDIN_STOP) {
		uint64_t random = standin_mix(state += 0x9e3779b97f4a7c15), ns;
		uint32_t word = STANDIN_MARKS + (uint32_t)(random >> 48) % (STANDIN_WORDS - STANDIN_MARKS);
		bool write = c->pattern == STANDIN_HALF_WRITES && random >> 40 & 1;

		ns = standin_touch(c, standin_next_page(c, t->id, random), word, write);
		if (c->conf->rest_us)
			usleep(c->conf->rest_us);
		if (phase != STANDIN_MEASURE)
			continue;
		w->touches++;
		if (ns > fault_ns)
			bench_hist_add(&w->faults, ns);
	}
	free(t);
	return NULL;
}

static int standin_child_run(struct standin_child *c, unsigned int threads)
{
	c->nr_threads = threads;
	for (unsigned int i = 0; i < threads; i++) {
		struct standin_thread *t = malloc(sizeof(*t));

		if (!t)
			return -ENOMEM;
		*t = (struct standin_thread){.c = c, .id = i};
		if (pthread_create(&c->thread[i], NULL, standin_thread_main, t))
			return -EAGAIN;
	}
	return 0;
}

static void standin_child_verify(struct standin_child *c)
{
	for (uint32_t page = 0; page < c->nr_pages; page++) {
		volatile uint64_t *p = standin_page(c, page);

		standin_expect_mark(c, page, c->last[page]);
		standin_expect_mark(c, page, c->last[page] - 1);
		for (uint32_t word = STANDIN_MARKS; word < STANDIN_WORDS; word++)
			standin_expect(c, page, word, p[word], standin_value(page, word, 0));
	}
}

static int standin_child_join_cgroup(const struct standin_child *c)
{
	_cleanup_close_ int fd = -1;
	char pid[16];
	int len = snprintf(pid, sizeof(pid), "%d", getpid());

	if (!c->conf->cgroup_procs)
		return 0;
	fd = open(c->conf->cgroup_procs, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, pid, (size_t)len) == len ? 0 : -errno;
}

/* What is allocated before the cgroup is joined is not charged to it. */
static int standin_child_init(struct standin_child *c)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1, rc;
	void *memory;

	c->nr_pages = (uint32_t)bytes_to_pages(c->conf->bytes);
	c->last = malloc(c->nr_pages * sizeof(*c->last));
	if (!c->last)
		return -ENOMEM;
	memset(c->last, 0, c->nr_pages * sizeof(*c->last));
	rc = standin_child_join_cgroup(c);
	if (rc)
		return rc;
	if (c->conf->memory == STANDIN_SHARED) {
		flags = MAP_SHARED;
		fd = memfd_create("memory-backend-memfd", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)c->conf->bytes))
			return -errno;
	}
	memory = mmap(NULL, c->conf->bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	/* The same for all three: ebb asks for small pages too; and no memory is inherited by a fork. */
	(void)madvise(memory, c->conf->bytes, MADV_NOHUGEPAGE);
	(void)madvise(memory, c->conf->bytes, MADV_DONTFORK);
	c->memory = memory;
	for (uint32_t page = 0; page < c->nr_pages; page++)
		for (uint32_t word = 0; word < STANDIN_WORDS; word++)
			standin_page(c, page)[word] = standin_value(
				page, word, word < STANDIN_MARKS ? 0u - word : 0);
	return 0;
}

static void standin_child_main(struct standin_child *c)
{
	int32_t msg[3], rc = standin_child_init(c);

	while (write(c->sock, &rc, sizeof(rc)) == sizeof(rc)) {
		if (read(c->sock, msg, sizeof(msg)) != sizeof(msg))
			break;
		rc = 0;
		if (msg[0] == STANDIN_RUN) {
			c->pattern = (enum standin_pattern)msg[2];
			rc = standin_child_run(c, (unsigned int)msg[1]);
		} else if (msg[0] == STANDIN_JOIN) {
			for (unsigned int i = 0; i < c->nr_threads; i++)
				pthread_join(c->thread[i], NULL);
		} else {
			standin_child_verify(c);
		}
	}
}

/* --- in the parent -------------------------------------------------------------------------- */

static inline int standin_reply(const struct standin *s)
{
	struct pollfd p = {.fd = s->sock, .events = POLLIN};
	int32_t rc;
	int n;

	while ((n = poll(&p, 1, STANDIN_WAIT_MS)) < 0 && errno == EINTR)
		;
	if (n == 0)
		return -ETIMEDOUT;
	return read(s->sock, &rc, sizeof(rc)) == sizeof(rc) ? rc : -ESRCH;
}

static inline int standin_ask(const struct standin *s, enum standin_command what, int a, int b)
{
	int32_t msg[3] = {what, a, b};

	if (write(s->sock, msg, sizeof(msg)) != sizeof(msg))
		return -ESRCH;
	return standin_reply(s);
}

/** standin_start() - fork it; returns once all of its memory has been written; 0 or a negative errno */
static inline int standin_start(struct standin *s, const struct standin_conf *conf)
{
	int sock[2];

	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return -errno;
	s->pid = fork();
	if (s->pid < 0)
		return -errno;
	if (s->pid == 0) {
		struct standin_child c = {.conf = conf, .shared = s->shared, .sock = sock[1]};

		close(sock[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		standin_child_main(&c);
		_exit(0);
	}
	close(sock[1]);
	s->sock = sock[0];
	return standin_reply(s);
}

/** standin_run() - @threads begin to touch, in phase WARM; further phases are set by the caller */
static inline int standin_run(struct standin *s, unsigned int threads, enum standin_pattern pattern)
{
	memset(s->shared->worker, 0, sizeof(s->shared->worker));
	atomic_store(&s->shared->phase, STANDIN_WARM);
	return standin_ask(s, STANDIN_RUN, (int)threads, (int)pattern);
}

/** standin_stop() - end the run; -ETIMEDOUT when its threads do not come back from a fault */
static inline int standin_stop(struct standin *s)
{
	atomic_store(&s->shared->phase, STANDIN_STOP);
	return standin_ask(s, STANDIN_JOIN, 0, 0);
}

/** standin_verify() - compare all words of all pages; what is wrong is counted in shared->wrong */
static inline int standin_verify(const struct standin *s)
{
	return standin_ask(s, STANDIN_VERIFY, 0, 0);
}

/** standin_cpu_ns() - user and system time of all of its threads so far */
static inline uint64_t standin_cpu_ns(const struct standin *s)
{
	struct timespec ts = {0};
	clockid_t clock;

	if (!clock_getcpuclockid(s->pid, &clock))
		clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/** standin_end() - kill it and wait until its memory is gone */
static inline void standin_end(struct standin *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	close(s->sock);
	s->pid = 0;
}

#endif
