// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_kernel_faults_served.c - the kernel's access to a missing page waits for COPY as well.
 *
 * read(2) and O_DIRECT into an evicted page are what a VMM does for the guest's disk. With
 * UFFD_USER_MODE_ONLY they fail with EFAULT instead, which a guest sees as an I/O error: so ebb
 * needs the privileged kind.
 */
#include "platform.h"

struct io {
	pthread_t thread;
	int fd;
	bool out; /* write() from the page, not read() into it */
	void *buf;
	ssize_t rc;
	atomic_bool done;
};

static void *io_run(void *arg)
{
	struct io *io = arg;

	io->rc = io->out ? write(io->fd, io->buf, PG) : pread(io->fd, io->buf, PG, 0);
	if (!io->out && io->rc < 0 && errno == ESPIPE)
		io->rc = read(io->fd, io->buf, PG);
	if (io->rc < 0)
		io->rc = -errno;
	atomic_store(&io->done, true);
	return NULL;
}

static void io_start(struct io *io, int fd, void *buf, bool out)
{
	*io = (struct io) {.fd = fd, .buf = buf, .out = out};
	must(pthread_create(&io->thread, NULL, io_run, io) == 0);
}

static void io_served(struct area *a, int fd, size_t page, bool out, const char *what)
{
	struct io io;

	io_start(&io, fd, area_page(a, page), out);
	check(uf_fault(a, page, LONG_MS) == FAULT_MISSING, "%s: no MISSING message", what);
	check(!atomic_load(&io.done), "%s: went on without the page", what);
	must(uf_copy_char(a, page, 'c') == 0);
	check(done_within(&io.done, LONG_MS), "%s: stays blocked", what);
	pthread_join(io.thread, NULL);
	check(io.rc == (ssize_t)PG, "%s: returned %zd", what, io.rc);
	finding("%s: waits, and is served", what);
}

int main(void)
{
	static char sink[EBB_PAGE_SIZE];
	struct area a = area_new(8), u = area_new(8);
	int p[2], direct = plat_direct_page('d');
	struct io io;

	plat_start("Kernel accesses to a missing page are served; with UFFD_USER_MODE_ONLY they "
		   "fail.");
	must(pipe(p) == 0);
	area_register(&a);
	must(write(p[1], sink, PG) == (ssize_t)PG);
	io_served(&a, p[0], 0, false, "read(2) into a missing page");
	io_served(&a, p[1], 1, true, "write(2) from a missing page");
	must(read(p[0], sink, PG) == (ssize_t)PG);
	check(sink[0] == 'c', "write(2) took another content");
	if (direct >= 0) {
		io_served(&a, direct, 2, false, "O_DIRECT pread into a missing page");
		check(area_pread(&a, 2) == 'd', "the data read did not arrive");
	} else {
		finding("O_DIRECT: no file system here that can, not tried");
	}

	area_register_fd(&u, uf_open(UFFD_USER_MODE_ONLY, UF_WP | UFFD_FEATURE_MISSING_SHMEM),
			 UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
	must(write(p[1], sink, PG) == (ssize_t)PG);
	io_start(&io, p[0], area_page(&u, 0), false);
	check(done_within(&io.done, LONG_MS), "USER_MODE_ONLY: read(2) blocks");
	pthread_join(io.thread, NULL);
	check(io.rc == -EFAULT, "USER_MODE_ONLY: read(2) returned %zd", io.rc);
	check(!uf_pending(u.uffd, 0), "USER_MODE_ONLY: a message");
	finding("UFFD_USER_MODE_ONLY: EFAULT, no message");
	return 0;
}
