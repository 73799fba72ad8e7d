// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ioflow.c - collects what the guests' threads counted, and gives out the windows; see ioflow.h.
 */
#include <assert.h>
#include <pthread.h>
#include "guest.h"

static struct {
	pthread_mutex_t lock;
	struct io_flow *first;
	struct io_shares shares;
	uint64_t last_ns;
	_Atomic bool enabled;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .enabled = true};

static struct ioflow *flow_of(struct io_flow *share)
{
	static_assert(offsetof(struct ioflow, share) == 0, "the list links shares");
	return (struct ioflow *)share;
}

void ioflow_join(struct ioflow *flow)
{
	io_flow_init(&flow->share, 100);
	atomic_store(&flow->window, flow->share.window);
	pthread_mutex_lock(&disk.lock);
	flow->share.next = disk.first;
	disk.first = &flow->share;
	pthread_mutex_unlock(&disk.lock);
}

void ioflow_leave(struct ioflow *flow)
{
	struct io_flow **p;

	pthread_mutex_lock(&disk.lock);
	for (p = &disk.first; *p && *p != &flow->share; p = &(*p)->next)
		;
	if (*p)
		*p = flow->share.next;
	pthread_mutex_unlock(&disk.lock);
}

void ioflow_set_enabled(bool enabled)
{
	atomic_store(&disk.enabled, enabled);
}

/* Counted meanwhile: may miss what is counted between two of these, which comes next time. */
static void collect(struct ioflow *flow)
{
	struct io_facts *f = &flow->share.facts;

	for (int c = 0; c < IO_NR_CLASSES; c++) {
		f->ops[c] = atomic_exchange(&flow->ops[c], 0);
		f->pages[c] = atomic_exchange(&flow->pages[c], 0);
		f->ns[c] = atomic_exchange(&flow->ns[c], 0);
	}
}

void ioflow_update(uint64_t now_ns)
{
	pthread_mutex_lock(&disk.lock);
	for (struct io_flow *s = disk.first; s; s = s->next) {
		struct ioflow *flow = flow_of(s);

		if (s->window < IO_WINDOW_MAX)
			atomic_fetch_add(&flow->narrow_ns, now_ns - disk.last_ns);
		collect(flow);
	}
	if (atomic_load(&disk.enabled))
		io_shares_update(&disk.shares, disk.first, now_ns);
	else
		for (struct io_flow *s = disk.first; s; s = s->next)
			io_flow_init(s, s->weight);
	for (struct io_flow *s = disk.first; s; s = s->next) {
		atomic_store_explicit(&flow_of(s)->window, s->window, memory_order_relaxed);
		atomic_store_explicit(&flow_of(s)->pause_ns, s->pause_ns, memory_order_relaxed);
	}
	disk.last_ns = now_ns;
	pthread_mutex_unlock(&disk.lock);
}

void ioflow_note(struct ioflow *flow, enum io_class class, uint32_t pages, uint64_t ns)
{
	atomic_fetch_add_explicit(&flow->ops[class], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&flow->pages[class], pages, memory_order_relaxed);
	atomic_fetch_add_explicit(&flow->ns[class], ns, memory_order_relaxed);
}

uint32_t ioflow_batches(const struct ioflow *flow, uint32_t most)
{
	uint32_t window = atomic_load_explicit(&flow->window, memory_order_relaxed);

	return ioflow_pause(flow) ? 0 : MAX(window * most / IO_WINDOW_MAX, 1u);
}

uint64_t ioflow_pause(const struct ioflow *flow)
{
	uint64_t next = atomic_load_explicit(&flow->next_ns, memory_order_relaxed), now;

	if (!next)
		return 0;
	now = guest_now_ns();
	return next > now ? next - now : 0;
}

/* What two threads begin at once may overtake each other here: the pause is a mean, not a promise. */
void ioflow_begin(struct ioflow *flow, uint32_t pages)
{
	uint32_t pause = atomic_load_explicit(&flow->pause_ns, memory_order_relaxed);
	uint64_t now, next;

	if (!pause) {
		atomic_store_explicit(&flow->next_ns, 0, memory_order_relaxed);
		return;
	}
	now = guest_now_ns();
	next = MAX(atomic_load_explicit(&flow->next_ns, memory_order_relaxed), now);
	atomic_store_explicit(&flow->next_ns, next + (uint64_t)pause * (IO_OP_PAGES + pages),
			      memory_order_relaxed);
}
