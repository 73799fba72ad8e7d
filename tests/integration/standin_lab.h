/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standin_lab.h - what the stand-in does when told to: commands on its standard input, replies on descriptor 3.
 *
 * A line in, a line out ("OK ..." or "ERR ..."). The main thread carries them out, as it is QEMU's main thread
 * that discards. Pages are numbered from the first the threads do not touch, so they belong to the commands.
 *
 *   fill FIRST N GEN       write pages
 *   check FIRST N          OK bad=N zero=N: how many are wrong, how many hold zeros that once were written
 *   present FIRST N        OK N: in the memfd, without touching any (mincore)
 *   discard FIRST N        hole and madvise
 *   zap FIRST N            madvise alone
 *   pin PAGE / unpin       a registered buffer with a read from an empty pipe in flight / let data come
 *   hold FIRST N / release references from a pipe (vmsplice)
 *   dio FILE FIRST N       direct write of pages to the file and back
 *   split / unsplit        three VMAs by an madvise on the middle third of all memory / one again
 *   protect / unprotect    three VMAs, the middle third of the commands' pages read-only / back
 *   fork MS                a child that sleeps
 *   unplug                 the second memfd (--dimm) is unmapped and closed
 *   anon                   private memory where it was; its pages are the commands' from now on
 *   swap                   unplug, anon and a first write to each page, without a pause between
 *   remap / move           it is mapped over itself (MAP_FIXED) / moved by mremap
 *   at PAGE                OK PAGE HVA: its number in the memfd, its address
 *   stats                  OK ops=N mismatches=N maxwait_us=N; starts maxwait_us anew
 *   go                     the threads begin, where --wait kept them from it
 *   exit                   at once, without a last check
 */
#ifndef TESTS_STANDIN_LAB_H
#define TESTS_STANDIN_LAB_H

#include <errno.h>
#include <liburing.h>
#include <stdarg.h>
#include <sys/uio.h>
#include "standin.h"

#define REPLY_FD 3

static struct {
	struct io_uring ring;
	int pipe[2];
	uint64_t page;
	bool pinned;
} pin;

static int held[2] = {-1, -1};
static char *(*lab_stats)(void);
static atomic_bool lab_go;

static inline __attribute__((format(printf, 1, 2))) void reply(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vdprintf(REPLY_FD, fmt, ap);
	va_end(ap);
}

static inline void reply_rc(int rc)
{
	if (rc)
		reply("ERR %s\n", strerror(errno));
	else
		reply("OK\n");
}

static inline void lab_check(uint64_t first, uint64_t nr)
{
	uint64_t bad = 0, zero = 0;

	for (uint64_t p = first; p < first + nr; p++) {
		bad += !check_page(p);
		zero += minds[p] == ZERO;
	}
	reply("OK bad=%llu zero=%llu\n", (unsigned long long)bad, (unsigned long long)zero);
}

static inline void lab_present(uint64_t first, uint64_t nr)
{
	unsigned char *vec = malloc(nr);
	uint64_t n = 0;

	if (!vec || mincore(page_at(first), nr * PAGE, vec)) {
		reply_rc(-1);
	} else {
		for (uint64_t i = 0; i < nr; i++)
			n += vec[i] & 1;
		reply("OK %llu\n", (unsigned long long)n);
	}
	free(vec);
}

static inline int lab_pin(uint64_t page)
{
	struct iovec iov = {page_at(page), PAGE};

	if (pin.pinned || pipe(pin.pipe) || io_uring_queue_init(2, &pin.ring, 0) ||
	    io_uring_register_buffers(&pin.ring, &iov, 1))
		return -1;
	io_uring_prep_read_fixed(io_uring_get_sqe(&pin.ring), pin.pipe[0], page_at(page), PAGE, 0, 0);
	if (io_uring_submit(&pin.ring) != 1)
		return -1;
	pin.page = page;
	pin.pinned = true;
	return 0;
}

/* The data that comes is the page's next generation; what is in the page then, check tells. */
static inline int lab_unpin(void)
{
	static char data[PAGE];
	struct io_uring_cqe *cqe;

	if (!pin.pinned)
		return -1;
	fill_words(data, pin.page, next_gen(pin.page));
	if (write(pin.pipe[1], data, PAGE) != PAGE || io_uring_wait_cqe(&pin.ring, &cqe) ||
	    cqe->res != PAGE)
		return -1;
	gens[pin.page]++;
	minds[pin.page] = EXACT;
	io_uring_queue_exit(&pin.ring);
	close(pin.pipe[0]);
	close(pin.pipe[1]);
	pin.pinned = false;
	return 0;
}

static inline int lab_hold(uint64_t first, uint64_t nr)
{
	struct iovec iov = {page_at(first), nr * PAGE};

	if (held[0] >= 0 || pipe(held) || fcntl(held[0], F_SETPIPE_SZ, (int)(nr * PAGE)) < 0)
		return -1;
	return vmsplice(held[1], &iov, 1, SPLICE_F_NONBLOCK) == (ssize_t)(nr * PAGE) ? 0 : -1;
}

static inline int lab_release(void)
{
	close(held[0]);
	close(held[1]);
	held[0] = held[1] = -1;
	return 0;
}

/* Out to the file, other words into the pages, back in: the pages must be as before. */
static inline int lab_dio(const char *path, uint64_t first, uint64_t nr)
{
	int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600), rc = 0;

	if (fd < 0)
		return -1;
	for (uint64_t p = first; p < first + nr && !rc; p++) {
		off_t off = (off_t)((p - first) * PAGE);

		if (pwrite(fd, page_at(p), PAGE, off) != PAGE)
			rc = -1;
		fill_words(page_at(p), p, next_gen(p));
		if (!rc && pread(fd, page_at(p), PAGE, off) != PAGE)
			rc = -1;
	}
	close(fd);
	return rc;
}

static inline int lab_split(int advice)
{
	uint64_t third = nr_pages / 3;

	return madvise(page_at(third), third * PAGE, advice);
}

static inline int lab_protect(int prot)
{
	uint64_t third = (nr_pages - nr_touched) / 3;

	return mprotect(page_at(nr_touched + third), third * PAGE, prot);
}

/* Its pages do not exist any more, until `anon`. */
static inline int lab_unplug(void)
{
	if (dimm_fd < 0 || munmap(page_at(nr_pages - nr_dimm), nr_dimm * PAGE) || close(dimm_fd))
		return -1;
	dimm_fd = -1;
	nr_pages -= nr_dimm;
	return 0;
}

static inline int lab_anon(void)
{
	void *at = page_at(nr_pages);

	if (dimm_fd >= 0 || mmap(at, nr_dimm * PAGE, PROT_READ | PROT_WRITE,
				 MAP_FIXED_NOREPLACE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != at)
		return -1;
	memset(minds + nr_pages, ZERO, nr_dimm);
	nr_pages += nr_dimm;
	return 0;
}

static inline int lab_swap(void)
{
	if (lab_unplug() || lab_anon())
		return -1;
	for (uint64_t p = nr_pages - nr_dimm; p < nr_pages; p++)
		write_page(p, 5);
	return 0;
}

static inline int lab_remap(bool move)
{
	void *at = page_at(nr_pages - nr_dimm), *now;
	size_t size = nr_dimm * PAGE;

	if (dimm_fd < 0)
		return -1;
	if (move)
		now = mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
			     mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	else
		now = mmap(at, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, dimm_fd, 0);
	return now == MAP_FAILED ? -1 : madvise(now, size, MADV_DONTFORK);
}

static inline void lab_fork(unsigned int ms)
{
	pid_t pid = fork();

	if (pid == 0) {
		usleep(ms * 1000);
		_exit(0);
	}
	if (pid < 0)
		reply_rc(-1);
	else
		reply("OK %d\n", pid);
}

/* Returns false for an unknown command. */
static inline bool lab_obey_pages(const char *name, uint64_t first, uint64_t nr, unsigned int gen)
{
	if (!strcmp(name, "fill")) {
		for (uint64_t p = first; p < first + nr; p++)
			write_page(p, (uint8_t)gen);
		reply_rc(0);
	} else if (!strcmp(name, "check")) {
		lab_check(first, nr);
	} else if (!strcmp(name, "present")) {
		lab_present(first, nr);
	} else if (!strcmp(name, "discard")) {
		reply_rc(discard_pages(first, nr, DISCARD_BALLOON));
	} else if (!strcmp(name, "zap")) {
		reply_rc(discard_pages(first, nr, DISCARD_HARMLESS));
	} else if (!strcmp(name, "pin")) {
		reply_rc(lab_pin(first));
	} else if (!strcmp(name, "hold")) {
		reply_rc(lab_hold(first, nr));
	} else if (!strcmp(name, "at")) {
		reply("OK %llu %#lx\n", (unsigned long long)first, (unsigned long)page_at(first));
	} else {
		return false;
	}
	return true;
}

static inline bool lab_obey_plain(const char *name)
{
	if (!strcmp(name, "unpin"))
		reply_rc(lab_unpin());
	else if (!strcmp(name, "release"))
		reply_rc(lab_release());
	else if (!strcmp(name, "split"))
		reply_rc(lab_split(MADV_SEQUENTIAL));
	else if (!strcmp(name, "unsplit"))
		reply_rc(lab_split(MADV_NORMAL));
	else if (!strcmp(name, "protect"))
		reply_rc(lab_protect(PROT_READ));
	else if (!strcmp(name, "unprotect"))
		reply_rc(lab_protect(PROT_READ | PROT_WRITE));
	else if (!strcmp(name, "unplug"))
		reply_rc(lab_unplug());
	else if (!strcmp(name, "anon"))
		reply_rc(lab_anon());
	else if (!strcmp(name, "swap"))
		reply_rc(lab_swap());
	else if (!strcmp(name, "remap"))
		reply_rc(lab_remap(false));
	else if (!strcmp(name, "move"))
		reply_rc(lab_remap(true));
	else if (!strcmp(name, "stats"))
		reply("OK %s\n", lab_stats());
	else if (!strcmp(name, "go"))
		atomic_store(&lab_go, true), reply_rc(0);
	else if (!strcmp(name, "exit"))
		_exit(0);
	else
		return false;
	return true;
}

static inline void lab_obey(char *line)
{
	unsigned long long first = 0, nr = 1;
	char name[32] = "", path[256];
	unsigned int gen = 0, ms;

	if (sscanf(line, "fork %u", &ms) == 1) {
		lab_fork(ms);
		return;
	}
	if (sscanf(line, "dio %255s %llu %llu", path, &first, &nr) == 3) {
		reply_rc(lab_dio(path, nr_touched + first, nr));
		return;
	}
	sscanf(line, "%31s %llu %llu %u", name, &first, &nr, &gen);
	if (lab_obey_plain(name))
		return;
	first += nr_touched;
	if (first + nr > nr_pages)
		reply("ERR beyond the last page\n");
	else if (!lab_obey_pages(name, first, nr, gen))
		reply("ERR no such command: %s\n", name);
}

#endif
