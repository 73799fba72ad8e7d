// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * host_rotation.c - which guest to visit next.
 *
 * DOC: rotation
 *
 * The structure is that of the memcg LRU, by which the kernel chooses among thousands of cgroups
 * (Yu Zhao, "mm: multi-gen LRU: memcg LRU", 2022, in mm/vmscan.c): guests are in generations,
 * each of several bins; the old generation is emptied, the young ones fill, and when it is empty
 * the next one is the old one. A turn costs the same however many guests there are, and a round
 * is finite whoever comes meanwhile.
 *
 * Three things differ:
 *
 * - There, a bin is chosen at random, so that CPUs do not meet at one lock, and head and tail of
 *   its list mean urgency. Here is one thread, and bins are the urgency: head, body, tail.
 * - There, two generations suffice, and what was fruitless once is tried a second time in the
 *   same round. Here it waits for 1, 2, then 4 rounds, in a generation that many ahead:
 *   generations are the slots of a timing wheel (Varghese and Lauck, SOSP 1987). Hence a guest
 *   has one turn a round at most.
 * - A guest with nothing to do is parked: it is in no generation and costs nothing until it is
 *   woken. Nobody looks for it, so whoever has news of a guest must call host_rotation_wake().
 *
 * All operations take constant time. The invariant: a guest that is not parked is in the
 * generation of the present round or one of the HOST_DELAY_MAX after it; having had its turn, in
 * one after it.
 */
#include <assert.h>
#include <string.h>
#include <ebb/reclaim_host.h>

_Static_assert((HOST_NR_GENS & (HOST_NR_GENS - 1)) == 0, "generations are found by a mask");
_Static_assert(HOST_DELAY_MAX < HOST_NR_GENS, "nobody may wait for a generation that is in use");

static uint32_t slot_of(uint64_t seq)
{
	return seq & (HOST_NR_GENS - 1);
}

static bool is_in(const struct host_node *node)
{
	return node->next || node->is_parked;
}

static bool was_visited(const struct host_rotation *rot, const struct host_node *node)
{
	return node->visited_seq == rot->seq + 1;
}

static void take_out(struct host_rotation *rot, struct host_node *node)
{
	if (node->is_parked) {
		node->is_parked = false;
		rot->nr_parked--;
		return;
	}
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->prev = node->next = NULL;
	rot->nr[slot_of(node->seq)]--;
}

static void put_in(struct host_rotation *rot, struct host_node *node, uint64_t seq,
		   enum host_bin bin)
{
	struct host_node *head = &rot->lists[slot_of(seq)][bin];

	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
	node->seq = seq;
	node->bin = (uint8_t)bin;
	rot->nr[slot_of(seq)]++;
}

static void move_to(struct host_rotation *rot, struct host_node *node, uint64_t seq,
		    enum host_bin bin)
{
	take_out(rot, node);
	put_in(rot, node, seq, bin);
}

void host_rotation_init(struct host_rotation *rot)
{
	memset(rot, 0, sizeof(*rot));
	for (uint32_t gen = 0; gen < HOST_NR_GENS; gen++) {
		for (uint32_t bin = 0; bin < HOST_NR_BINS; bin++) {
			struct host_node *head = &rot->lists[gen][bin];

			head->prev = head->next = head;
		}
	}
}

void host_rotation_enter(struct host_rotation *rot, struct host_node *node)
{
	memset(node, 0, sizeof(*node));
	put_in(rot, node, rot->seq + 1, HOST_BIN_BODY);
	rot->nr_guests++;
}

void host_rotation_leave(struct host_rotation *rot, struct host_node *node)
{
	if (!is_in(node))
		return;
	take_out(rot, node);
	rot->nr_guests--;
}

struct host_node *host_rotation_next(struct host_rotation *rot)
{
	uint32_t gen = slot_of(rot->seq);

	for (uint32_t bin = 0; rot->nr[gen] && bin < HOST_NR_BINS; bin++) {
		struct host_node *head = &rot->lists[gen][bin], *node = head->next;

		if (node == head)
			continue;
		move_to(rot, node, rot->seq + 1, HOST_BIN_BODY);
		node->visited_seq = rot->seq + 1;
		rot->visits++;
		return node;
	}
	rot->seq++;
	rot->rounds++;
	return NULL;
}

void host_rotation_note(struct host_rotation *rot, struct host_node *node,
			enum host_outcome outcome)
{
	uint64_t soonest = rot->seq + was_visited(rot, node);

	assert(is_in(node));
	switch (outcome) {
	case HOST_WORKED:
		node->delay = 0;
		move_to(rot, node, soonest, HOST_BIN_BODY);
		break;
	case HOST_FRUITLESS:
		node->delay = (uint8_t)MIN(MAX(2 * node->delay, 1), HOST_DELAY_MAX);
		move_to(rot, node, rot->seq + node->delay, HOST_BIN_TAIL);
		break;
	case HOST_IDLE:
		node->delay = 0;
		if (node->is_parked)
			break;
		take_out(rot, node);
		node->is_parked = true;
		rot->nr_parked++;
		break;
	case HOST_EXCESS:
		node->delay = 0;
		move_to(rot, node, soonest, HOST_BIN_HEAD);
		break;
	}
}

void host_rotation_wake(struct host_rotation *rot, struct host_node *node)
{
	if (node->is_parked)
		move_to(rot, node, rot->seq + 1, HOST_BIN_BODY);
}

/* Walk one list; its length, or UINT32_MAX if something is wrong with it. */
static uint32_t verify_list(const struct host_rotation *rot, uint32_t gen, uint32_t bin)
{
	const struct host_node *head = &rot->lists[gen][bin];
	uint32_t count = 0;

	for (const struct host_node *node = head->next; node != head; node = node->next) {
		if (!node || node->next->prev != node || node->prev->next != node ||
		    slot_of(node->seq) != gen || node->bin != bin || node->is_parked ||
		    node->seq < rot->seq + was_visited(rot, node) ||
		    node->seq > rot->seq + HOST_DELAY_MAX || ++count > rot->nr_guests)
			return UINT32_MAX;
	}
	return count;
}

bool host_rotation_verify(const struct host_rotation *rot)
{
	uint32_t total = rot->nr_parked;

	for (uint32_t gen = 0; gen < HOST_NR_GENS; gen++) {
		uint32_t in_gen = 0;

		for (uint32_t bin = 0; bin < HOST_NR_BINS; bin++) {
			uint32_t count = verify_list(rot, gen, bin);

			if (count == UINT32_MAX)
				return false;
			in_gen += count;
		}
		if (in_gen != rot->nr[gen])
			return false;
		total += in_gen;
	}
	return total == rot->nr_guests;
}
