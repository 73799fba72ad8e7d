// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_zap_keeps_content.c - MADV_DONTNEED on a shared memfd takes the PTEs and nothing else.
 *
 * The zap sampler does this to a guest's memory all the time. The pages stay in the page cache, the
 * markers of write-protected pages stay in the page table; also when another process does it
 * through an io_uring with an SQPOLL thread, which acts on the memory of the process that made the
 * ring.
 */
#include <liburing.h>
#include <signal.h>
#include <sys/prctl.h>
#include "platform.h"

#define PAGES 64u

static void zap_here(void)
{
	struct area a = area_new(PAGES);
	struct touch t;

	area_register(&a);
	for (size_t i = 0; i < PAGES; i++)
		must(uf_copy_char(&a, i, (char)(i + 1)) == 0);
	must(uf_wp(&a, 5, 1, true) == 0);
	must(area_zap(&a, 0, PAGES) == 0);
	check(cached_pages(a.memfd) == PAGES, "the zap took pages out of the page cache");
	for (size_t i = 0; i < PAGES; i++) {
		check(!(pagemap(area_page(&a, i)) & PAGEMAP_PRESENT), "the zap left a PTE");
		check(*(volatile char *)area_page(&a, i) == (char)(i + 1), "content changed");
	}
	check(!uf_pending(a.uffd, 0), "the re-touch gave a message");
	finding("zapped: no PTE, all content, no message when touched again");

	must(area_zap(&a, 0, PAGES) == 0);
	check(pagemap(area_page(&a, 5)) & PAGEMAP_UFFD_WP, "the marker is gone");
	touch_store(&t, area_page(&a, 5), 'n');
	check(uf_fault(&a, 5, LONG_MS) == FAULT_WP, "a store after the zap is not reported");
	check(area_pread(&a, 5) == 6, "the store landed unreported");
	must(uf_wp(&a, 5, 1, false) == 0);
	touch_finish(&t);
	finding("a protected page stays so: the store after the zap is a WP fault");
}

/* What the owner of the ring tells us about it. */
struct owner {
	struct area area;
	int ring_fd;
	int error;
	struct io_uring_params params;
	atomic_bool ready;
};

static void owner_run(struct owner *o)
{
	struct io_uring ring;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	o->area = area_new(PAGES);
	area_fill(&o->area, 0, PAGES, 'o');
	o->params.flags = IORING_SETUP_SQPOLL;
	o->params.sq_thread_idle = 10;
	o->error = io_uring_queue_init_params(4, &ring, &o->params);
	o->ring_fd = ring.ring_fd;
	atomic_store(&o->ready, true);
	for (;;)
		pause();
}

static void zap_through(struct io_uring *ring, const struct area *a, size_t first, size_t nr)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe = NULL;

	must(sqe);
	io_uring_prep_madvise(sqe, area_page(a, first), (off_t)(nr * PG), MADV_DONTNEED);
	must(io_uring_submit(ring) == 1);
	for (int i = 0; i < LONG_MS && io_uring_peek_cqe(ring, &cqe) != 0; i++)
		sleep_ms(1);
	check(cqe, "the ring does not answer");
	check(cqe->res == 0, "madvise through the ring: %d", cqe->res);
	io_uring_cqe_seen(ring, cqe);
}

static void zap_remotely(struct owner *o, pid_t pid)
{
	int pidfd = sys_pidfd_open(pid), ring_fd, memfd;
	struct io_uring ring;
	char file[64];

	must(pidfd >= 0);
	ring_fd = sys_pidfd_getfd(pidfd, o->ring_fd);
	memfd = sys_pidfd_getfd(pidfd, o->area.memfd);
	must(ring_fd >= 0 && memfd >= 0);
	must(io_uring_queue_mmap(ring_fd, &o->params, &ring) == 0);
	/* Older liburing leaves the index array of a ring it did not make at zero. */
	for (unsigned int i = 0; i < o->params.sq_entries; i++)
		ring.sq.array[i] = i;

	snprintf(file, sizeof(file), "/proc/%d/pagemap", (int)pid);
	zap_through(&ring, &o->area, 0, 8);
	zap_through(&ring, &o->area, 16, 8);
	for (size_t i = 0; i < PAGES; i++) {
		bool present = pagemap_of(file, area_page(&o->area, i)) & PAGEMAP_PRESENT;
		bool zapped = i < 8 || (i >= 16 && i < 24);
		char c;

		check(present != zapped, "page %zu %s", i,
		      present ? "kept its PTE" : "lost its PTE");
		must(pread(memfd, &c, 1, (off_t)(i * PG)) == 1);
		check(c == 'o', "content changed");
	}
	check(cached_pages(memfd) == PAGES, "the zap took pages out of the page cache");
	finding("through another process's SQPOLL ring: just those PTEs gone, there, content kept");
}

int main(void)
{
	struct owner *o =
		mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	plat_start("MADV_DONTNEED on a shared memfd drops PTEs; content and WP markers stay.");
	zap_here();
	must(o != MAP_FAILED);
	pid = fork();
	must(pid >= 0);
	if (pid == 0)
		owner_run(o);
	check(done_within(&o->ready, LONG_MS), "the owner did not start");
	if (o->error < 0)
		finding("io_uring: %s, the remote zap is not tried", strerror(-o->error));
	else
		zap_remotely(o, pid);
	must(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	return 0;
}
