// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * remote_ring.c - submit to an io_uring that works in the address space of a VMM.
 *
 * DOC: counting
 *
 * The ring outlives this process, and its two tails in shared memory count everything ever
 * submitted and everything ever completed. So they tell what a count of our own could not: an
 * operation of a daemon that died is still under way exactly while the tails differ (each
 * operation posts one completion, and there is room for all: at most 64 are submitted, the
 * completion queue holds 128). An operation's user_data is the submission count at its place,
 * so that a completion that comes late, after its caller has given up, is told from the one
 * waited for and dropped.
 *
 * A ring is mapped again after a take-over with the library's own position at 0; it is set to
 * the tail in shared memory, or a submission would move that backwards. The index array between
 * positions and entries is filled here because the library fills it only for rings it made
 * itself.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "remote_ring.h"

#define REMOTE_WAIT_MS 5000
#define REMOTE_TAG     0xebb0000000000000ull /* in the upper half of user_data */

static uint32_t load(const unsigned int *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

int remote_ring_map(struct remote *rem)
{
	struct io_uring *ring = &rem->ring;
	int rc;

	if (rem->ring_fd < 0)
		return 0;
	rc = io_uring_queue_mmap(rem->ring_fd, &rem->ring_params, ring);
	if (rc)
		return rc;
	ring->features = rem->ring_params.features;
	for (unsigned int i = 0; i < ring->sq.ring_entries; i++)
		ring->sq.array[i] = i;
	ring->sq.sqe_head = ring->sq.sqe_tail = load(ring->sq.ktail);
	return 0;
}

/* Not io_uring_queue_exit(): that closes the descriptor too, which has an owner. */
void remote_ring_unmap(struct remote *rem)
{
	struct io_uring *ring = &rem->ring;

	if (!ring->sq.ring_ptr)
		return;
	munmap(ring->sq.sqes, ring->sq.ring_entries * sizeof(struct io_uring_sqe));
	munmap(ring->sq.ring_ptr, ring->sq.ring_sz);
	if (ring->cq.ring_ptr && ring->cq.ring_ptr != ring->sq.ring_ptr)
		munmap(ring->cq.ring_ptr, ring->cq.ring_sz);
	memset(ring, 0, sizeof(*ring));
}

/* Consumes what is there; true with *@ret_res when @user_data's completion was among it. */
static bool reap(struct remote *rem, uint64_t user_data, int *ret_res)
{
	struct io_uring_cqe *cqe;
	bool found = false;

	while (!io_uring_peek_cqe(&rem->ring, &cqe) && cqe) {
		if (cqe->user_data == user_data) {
			*ret_res = cqe->res;
			found = true;
		}
		io_uring_cqe_seen(&rem->ring, cqe);
	}
	return found;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/*
 * A VMM that dies takes the kernel thread with it and nothing completes any more: watch it as
 * well.
 */
static int await(struct remote *rem, uint64_t user_data, int *ret_res)
{
	const uint64_t deadline = now_ms() + REMOTE_WAIT_MS;
	struct pollfd fds[2] = {
		{.fd = rem->ring_fd, .events = POLLIN},
		{.fd = rem->pidfd, .events = POLLIN},
	};

	for (;;) {
		uint64_t now;

		if (reap(rem, user_data, ret_res))
			return 0;
		if (fds[1].revents)
			return -ESRCH;
		now = now_ms();
		if (now >= deadline)
			return -ETIMEDOUT;
		if (poll(fds, 2, (int)(deadline - now)) < 0 && errno != EINTR)
			return -errno;
	}
}

int remote_ring_madvise(struct remote *rem, uint64_t addr, uint64_t len, int advice)
{
	const uint64_t user_data = REMOTE_TAG | rem->ring.sq.sqe_tail;
	struct io_uring_sqe *sqe;
	int rc, res;

	/* Operations given up on fill the ring one by one: then there is no answer to be had. */
	sqe = io_uring_get_sqe(&rem->ring);
	if (!sqe)
		return -ETIMEDOUT;
	io_uring_prep_madvise(sqe, (void *)(uintptr_t)addr, (off_t)len, advice);
	io_uring_sqe_set_data64(sqe, user_data);
	rc = io_uring_submit(&rem->ring);
	if (rc == -EOWNERDEAD)
		return -ESRCH; /* the kernel thread went with the VMM */
	if (rc >= 0)
		rc = await(rem, user_data, &res);
	return rc ? rc : res;
}

bool remote_idle(struct remote *rem)
{
	const struct io_uring *ring = &rem->ring;
	int ignored;

	if (rem->ring_fd < 0)
		return true;
	/*
	 * The kernel thread sleeps when nothing comes for a while, and whoever submits wakes it: the
	 * daemon that died may have been about to.
	 */
	if (load(ring->sq.khead) != load(ring->sq.ktail))
		syscall(__NR_io_uring_enter, rem->ring_fd, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
	reap(rem, 0, &ignored);
	return load(ring->sq.ktail) == load(ring->cq.ktail);
}
