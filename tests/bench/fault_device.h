/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault_device.h - the floor of the fault benchmark: how long the device alone takes to read a page.
 */
#ifndef TESTS_BENCH_FAULT_DEVICE_H
#define TESTS_BENCH_FAULT_DEVICE_H

#include <liburing.h>
#include "fault_report.h"

#define DEVICE_CHUNK (1ull << 20)

/** device_prepare() - *@ret_fd: a written file of @bytes in @dir, O_DIRECT, without a name */
static int device_prepare(const char *dir, uint64_t bytes, int *ret_fd)
{
	static _Alignas(4096) uint64_t chunk[DEVICE_CHUNK / sizeof(uint64_t)];
	_cleanup_close_ int fd = -1;
	char path[512];

	snprintf(path, sizeof(path), "%s/device", dir);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	unlink(path);
	for (uint64_t at = 0; at < bytes; at += DEVICE_CHUNK) {
		for (uint64_t i = 0; i < DEVICE_CHUNK / sizeof(*chunk); i++)
			chunk[i] = standin_mix(at + i);
		if (pwrite(fd, chunk, DEVICE_CHUNK, (off_t)at) != (ssize_t)DEVICE_CHUNK)
			return errno ? -errno : -EIO;
	}
	if (fsync(fd))
		return -errno;
	*ret_fd = fd;
	fd = -1;
	return 0;
}

static int device_read(struct io_uring *ring, int fd, void *buf, uint64_t at)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	int rc;

	io_uring_prep_read(sqe, fd, buf, EBB_PAGE_SIZE, at);
	io_uring_submit_and_wait(ring, 1);
	rc = io_uring_wait_cqe(ring, &cqe);
	if (rc)
		return rc;
	rc = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return rc == (int)EBB_PAGE_SIZE ? 0 : rc < 0 ? rc : -EIO;
}

/** device_measure() - reads at random, one at a time, for @seconds */
static int device_measure(int fd, uint64_t bytes, double seconds, struct bench_sample *ret)
{
	static _Alignas(4096) char buf[EBB_PAGE_SIZE];
	static struct bench_hist hist;
	struct bench_hist *h = &hist;
	uint64_t begin = standin_now_ns(), now = begin, state = begin;
	struct io_uring ring;
	int rc = io_uring_queue_init(8, &ring, 0);

	if (rc)
		return rc;
	memset(h, 0, sizeof(*h));
	while (!rc && now - begin < seconds * 1e9) {
		uint64_t page = standin_mix(state += 0x9e3779b97f4a7c15) % bytes_to_pages(bytes);
		uint64_t before = standin_now_ns();

		rc = device_read(&ring, fd, buf, pages_to_bytes(page));
		now = standin_now_ns();
		bench_hist_add(h, now - before);
	}
	io_uring_queue_exit(&ring);
	*ret = (struct bench_sample){
		.p50 = bench_hist_quantile(h, .5), .p99 = bench_hist_quantile(h, .99),
		.mean = (double)h->sum_ns / (double)h->total / 1e3,
		.faults = (double)h->total * 1e9 / (double)(now - begin),
	};
	return rc;
}

#endif
