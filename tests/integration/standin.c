// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * standin.c - a process that stands in for a VM: touches a shared memfd and checks every byte it reads.
 *
 * standin MIB THREADS SECONDS [WRITE% [HOT%]]: prints "READY pid" when all pages are written, then, at the
 * end or on SIGTERM, a line "STANDIN ops=N mismatches=N maxwait_us=N". Threads own disjoint pages. Each page
 * holds words derived from its number and a generation kept outside the memfd.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE  4096u
#define WORDS (PAGE / 8)

static char *mem;
static uint8_t *gens;
static uint64_t nr_pages;
static int write_pct = 30, hot_pct;
static unsigned int nr_threads;
static _Atomic int stop;
static _Atomic uint64_t ops, mismatches, max_wait;

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ull;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44dull;
	return x ^ x >> 33;
}

static uint64_t word_of(uint64_t page, unsigned int gen, unsigned int i)
{
	/* Every 16th page is all zeros in its even generations. */
	if (page % 16 == 0 && gen % 2 == 0)
		return 0;
	return mix(page * 1000003 + gen * 512 + i);
}

static void write_page(uint64_t page, unsigned int gen)
{
	volatile uint64_t *w = (uint64_t *)(mem + page * PAGE);

	for (unsigned int i = 0; i < WORDS; i += 8)
		w[i] = word_of(page, gen, i);
}

static void check_page(uint64_t page)
{
	const volatile uint64_t *w = (uint64_t *)(mem + page * PAGE);

	for (unsigned int i = 0; i < WORDS; i += 8) {
		uint64_t got = w[i], want = word_of(page, gens[page], i);

		if (got == want)
			continue;
		if (atomic_fetch_add(&mismatches, 1) < 10)
			printf("MISMATCH page %llu gen %u word %u got %llx want %llx\n",
			       (unsigned long long)page, gens[page], i, (unsigned long long)got,
			       (unsigned long long)want);
		return;
	}
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void *toucher(void *arg)
{
	uint64_t id = (uintptr_t)arg, share = nr_pages / nr_threads, seed = mix(id + 17);

	while (!atomic_load(&stop)) {
		uint64_t begun, took, old, page;

		seed = mix(seed + 0x9e3779b97f4a7c15ull);
		page = seed % share;
		if (hot_pct && (seed >> 40) % 100 < 90)
			page = page % (share * (unsigned int)hot_pct / 100 + 1);
		page += id * share;
		begun = now_us();
		check_page(page);
		if ((int)((seed >> 32) % 100) < write_pct)
			write_page(page, ++gens[page]);
		took = now_us() - begun;
		old = atomic_load(&max_wait);
		while (took > old && !atomic_compare_exchange_weak(&max_wait, &old, took))
			;
		atomic_fetch_add(&ops, 1);
	}
	return NULL;
}

static void on_term(int sig)
{
	(void)sig;
	atomic_store(&stop, 1);
}

int main(int argc, char **argv)
{
	pthread_t threads[256];
	int fd;

	if (argc < 4)
		return 2;
	nr_pages = strtoull(argv[1], NULL, 10) << 8;
	nr_threads = (unsigned int)atoi(argv[2]);
	if (argc > 4)
		write_pct = atoi(argv[4]);
	if (argc > 5)
		hot_pct = atoi(argv[5]);
	signal(SIGTERM, on_term);
	fd = memfd_create("standin-ram", 0);
	if (fd < 0 || ftruncate(fd, (off_t)(nr_pages * PAGE)) || nr_threads < 1 || nr_threads > 256)
		return 1;
	mem = mmap(NULL, nr_pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	gens = calloc(nr_pages, 1);
	if (mem == MAP_FAILED || !gens || madvise(mem, nr_pages * PAGE, MADV_DONTFORK))
		return 1;
	for (uint64_t p = 0; p < nr_pages; p++)
		write_page(p, 0);
	printf("READY %d\n", getpid());
	fflush(stdout);
	for (uintptr_t i = 0; i < nr_threads; i++)
		pthread_create(&threads[i], NULL, toucher, (void *)i);
	for (int s = atoi(argv[3]); s > 0 && !atomic_load(&stop); s--)
		sleep(1);
	atomic_store(&stop, 1);
	for (unsigned int i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t p = 0; p < nr_pages / nr_threads * nr_threads; p++)
		check_page(p);
	printf("STANDIN ops=%llu mismatches=%llu maxwait_us=%llu\n", (unsigned long long)ops,
	       (unsigned long long)mismatches, (unsigned long long)max_wait);
	return mismatches != 0;
}
