// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * standin.c - a process that stands in for a VM: touches shared memory and checks every byte it reads.
 *
 * standin [OPTIONS] MIB THREADS SECONDS [WRITE% [HOT%]]: prints "READY pid" when all pages are written, then, at
 * the end or on SIGTERM, a line "STANDIN ops=N mismatches=N maxwait_us=N". Threads own disjoint pages; what a page
 * must hold is in standin.h. Commands on standard input make it do what VMs do now and then: standin_lab.h.
 */
#include <getopt.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include "standin_lab.h"

#define HUGE_SIZE (2ul << 20)

static struct {
	int write_pct, hot_pct, discard_pct, dio_pct;
	enum discard discard;
	uint64_t keep;
	const char *file, *dio;
	bool wait, empty, private, inherit, huge, alias, lock, uffd;
} opt = {.write_pct = 30};

static unsigned int nr_threads;
static int dio_fd = -1;
static _Atomic int stop;
static _Atomic uint64_t ops, max_wait;

static void usage(void)
{
	fputs("usage: standin [OPTIONS] MIB THREADS SECONDS [WRITE% [HOT%]]\n"
	      "  --keep PAGES      the last PAGES are for commands, not for the threads\n"
	      "  --discard PCT     as a balloon does: a hole, then madvise; --discard-plain: only madvise;\n"
	      "                    --discard-harmless: only madvise, of memory that is all resident\n"
	      "  --dio PCT FILE    direct I/O of single pages to FILE and back\n"
	      "  --empty           start with nothing written; --wait: threads begin at the command go\n"
	      "  --huge            ask for large pages; --file PATH: memory on a (tmpfs) file\n"
	      "  --private --inherit --alias --lock --uffd: what ebbd refuses\n", stderr);
	exit(2);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* A run of the thread's own pages; half of them are used again at once. */
static void discard_some(uint64_t page, uint64_t end, uint64_t seed)
{
	uint64_t nr = 1 + (seed >> 45) % 64;

	if (nr > end - page)
		nr = end - page;
	if (discard_pages(page, nr, opt.discard)) {
		perror("discard");
		atomic_fetch_add(&mismatches, 1);
	}
	for (uint64_t p = page; p < page + nr; p++)
		if (mix(seed + p) & 1)
			write_page(p, next_gen(p));
}

/* Out to the file, other words into the page, back in: it must be as before. */
static void direct_io(uint64_t page)
{
	off_t off = (off_t)(page * PAGE);

	if (minds[page] != EXACT)
		return;
	if (pwrite(dio_fd, page_at(page), PAGE, off) != PAGE)
		goto fail;
	fill_words(page_at(page), page, next_gen(page));
	if (pread(dio_fd, page_at(page), PAGE, off) == PAGE)
		return;
fail:
	perror("direct I/O");
	atomic_fetch_add(&mismatches, 1);
}

static void work_on(uint64_t page, uint64_t end, uint64_t seed)
{
	check_page(page);
	if ((int)((seed >> 24) % 1000) < opt.discard_pct * 10)
		discard_some(page, end, seed);
	else if ((int)((seed >> 28) % 100) < opt.dio_pct)
		direct_io(page);
	else if ((int)((seed >> 32) % 100) < opt.write_pct)
		write_page(page, next_gen(page));
}

static void *toucher(void *arg)
{
	uint64_t id = (uintptr_t)arg, share = nr_touched / nr_threads, seed = mix(id + 17);

	while (!atomic_load(&lab_go) && !atomic_load(&stop))
		usleep(1000);
	while (!atomic_load(&stop)) {
		uint64_t begun, took, old, page;

		seed = mix(seed + 0x9e3779b97f4a7c15ull);
		page = seed % share;
		if (opt.hot_pct && (seed >> 40) % 100 < 90)
			page = page % (share * (unsigned int)opt.hot_pct / 100 + 1);
		begun = now_us();
		work_on(id * share + page, (id + 1) * share, seed);
		took = now_us() - begun;
		old = atomic_load(&max_wait);
		while (took > old && !atomic_compare_exchange_weak(&max_wait, &old, took))
			;
		atomic_fetch_add(&ops, 1);
	}
	return NULL;
}

static char *stats(void)
{
	static char line[128];

	snprintf(line, sizeof(line), "ops=%llu mismatches=%llu maxwait_us=%llu",
		 (unsigned long long)atomic_load(&ops), (unsigned long long)atomic_load(&mismatches),
		 (unsigned long long)atomic_exchange(&max_wait, 0));
	return line;
}

static void on_term(int sig)
{
	(void)sig;
	atomic_store(&stop, 1);
}

static int add_uffd(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {
		.range = {(uintptr_t)mem, nr_pages * PAGE},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	return fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg);
}

/* The second memfd, where room was left for it: mapped anew it is what QEMU's hot-plug makes. */
static int map_dimm(void)
{
	size_t size = nr_dimm * PAGE;
	void *at = page_at(nr_pages - nr_dimm);

	dimm_fd = memfd_create("standin-dimm", 0);
	if (dimm_fd < 0 || ftruncate(dimm_fd, (off_t)size) ||
	    mmap(at, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, dimm_fd, 0) != at)
		return -1;
	return madvise(at, size, MADV_DONTFORK);
}

static int make_memory(void)
{
	size_t size = (nr_pages - nr_dimm) * PAGE;
	char *room;

	mem_fd = opt.file ? open(opt.file, O_RDWR | O_CREAT | O_TRUNC, 0600) :
			    memfd_create("standin-ram", 0);
	if (mem_fd < 0 || ftruncate(mem_fd, (off_t)size))
		return -1;
	room = mmap(NULL, nr_pages * PAGE + HUGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return -1;
	room += HUGE_SIZE - (uintptr_t)room % HUGE_SIZE;
	mem = mmap(room, size, PROT_READ | PROT_WRITE,
		   MAP_FIXED | (opt.private ? MAP_PRIVATE : MAP_SHARED), mem_fd, 0);
	gens = calloc(nr_pages, 1);
	minds = malloc(nr_pages);
	if (mem == MAP_FAILED || !gens || !minds)
		return -1;
	memset(minds, ZERO, nr_pages);
	if ((!opt.inherit && madvise(mem, size, MADV_DONTFORK)) ||
	    (opt.huge && madvise(mem, size, MADV_HUGEPAGE)) || (opt.lock && mlock(mem, size)) ||
	    (nr_dimm && map_dimm()))
		return -1;
	return opt.alias && mmap(NULL, size, PROT_READ, MAP_SHARED, mem_fd, 0) == MAP_FAILED;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"keep", required_argument, NULL, 'k'},	  {"discard", required_argument, NULL, 'd'},
		{"dimm", required_argument, NULL, 'D'},
		{"discard-plain", required_argument, NULL, 'p'},
		{"discard-harmless", required_argument, NULL, 'r'},
		{"dio", required_argument, NULL, 'o'},	  {"empty", no_argument, NULL, 'e'},
		{"wait", no_argument, NULL, 'w'},
		{"huge", no_argument, NULL, 'h'},	  {"file", required_argument, NULL, 'f'},
		{"private", no_argument, NULL, 'P'},	  {"inherit", no_argument, NULL, 'I'},
		{"alias", no_argument, NULL, 'A'},	  {"lock", no_argument, NULL, 'L'},
		{"uffd", no_argument, NULL, 'U'},	  {0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (c) {
		case 'D': nr_dimm = strtoull(optarg, NULL, 10) << 8; break;
		case 'k': opt.keep = strtoull(optarg, NULL, 10); break;
		case 'r': opt.discard = DISCARD_HARMLESS; opt.discard_pct = atoi(optarg); break;
		case 'p': opt.discard = DISCARD_PLAIN; opt.discard_pct = atoi(optarg); break;
		case 'd': opt.discard_pct = atoi(optarg); break;
		case 'o': opt.dio_pct = atoi(optarg); opt.dio = argv[optind++]; break;
		case 'f': opt.file = optarg; break;
		case 'e': opt.empty = true; break;
		case 'w': opt.wait = true; break;
		case 'h': opt.huge = true; break;
		case 'P': opt.private = true; break;
		case 'I': opt.inherit = true; break;
		case 'A': opt.alias = true; break;
		case 'L': opt.lock = true; break;
		case 'U': opt.uffd = true; break;
		default: usage();
		}
	}
}

/* Commands, until the time is over or SIGTERM. */
static void obey_for(unsigned int seconds)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t end = now_us() + seconds * 1000000ull;
	char line[512];

	while (!atomic_load(&stop) && now_us() < end) {
		ssize_t n;

		if (poll(&p, 1, 200) <= 0)
			continue;
		n = read(STDIN_FILENO, line, sizeof(line) - 1);
		if (n <= 0) {
			p.fd = -1; /* nobody will say anything */
			continue;
		}
		line[n] = '\0';
		lab_obey(line);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[256];
	struct sigaction term = {.sa_handler = on_term};
	unsigned int seconds;

	parse_options(argc, argv);
	argv += optind - 1;
	argc -= optind - 1;
	if (argc < 4)
		usage();
	nr_pages = (strtoull(argv[1], NULL, 10) << 8) + nr_dimm;
	if (opt.keep < nr_dimm)
		opt.keep = nr_dimm;
	nr_threads = (unsigned int)atoi(argv[2]);
	seconds = (unsigned int)atoi(argv[3]);
	if (argc > 4)
		opt.write_pct = atoi(argv[4]);
	if (argc > 5)
		opt.hot_pct = atoi(argv[5]);
	if (nr_threads > 256 || opt.keep > nr_pages)
		usage();
	nr_touched = nr_pages - opt.keep;
	lab_stats = stats;
	atomic_store(&lab_go, !opt.wait);
	sigaction(SIGTERM, &term, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	if (opt.dio && (dio_fd = open(opt.dio, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600)) < 0) {
		perror(opt.dio);
		return 1;
	}
	if (make_memory()) {
		perror("standin: memory");
		return 1;
	}
	for (uint64_t p = 0; p < nr_pages && !opt.empty; p++)
		write_page(p, 0);
	if (opt.uffd && add_uffd()) {
		perror("standin: userfaultfd");
		return 1;
	}
	printf("READY %d\n", getpid());
	fflush(stdout);
	for (uintptr_t i = 0; i < nr_threads; i++)
		pthread_create(&threads[i], NULL, toucher, (void *)i);
	obey_for(seconds);
	atomic_store(&stop, 1);
	for (unsigned int i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t p = 0; p < nr_pages; p++)
		check_page(p);
	printf("STANDIN %s\n", stats());
	return atomic_load(&mismatches) != 0;
}
