// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_uffd_open_elsewhere_blocks.c - a killed daemon costs the guest waiting, not its memory.
 *
 * As long as the VMM itself holds the userfaultfd open, faults wait when the daemon is gone and the
 * next daemon fetches the same descriptor and serves them; also those whose message the dead one
 * had read, once it wakes them. Only when the last descriptor is closed do holes turn into zeros.
 */
#include <signal.h>
#include <sys/prctl.h>
#include "platform.h"

/* The faults, in the order they are raised. */
enum { BEFORE, TAKEN, UNREAD, CLOSED, PAGES };

/* Shared by owner (the "VMM"), daemons and the test. */
struct shared {
	struct area area;
	atomic_bool ready, close_it;
	struct touch touch[PAGES];
	atomic_bool go[PAGES];
	atomic_bool served;
	atomic_bool taken;
};

static void await(atomic_bool *flag, const char *what)
{
	check(done_within(flag, LONG_MS), "%s did not happen", what);
}

static void owner(struct shared *s)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	s->area = area_new(PAGES);
	area_register(&s->area);
	atomic_store(&s->ready, true);
	for (int i = 0; i < PAGES; i++) {
		while (!atomic_load(&s->go[i]))
			sleep_ms(1);
		touch_load(&s->touch[i], area_page(&s->area, (size_t)i));
	}
	while (!atomic_load(&s->close_it))
		sleep_ms(1);
	close(s->area.uffd);
	for (;;)
		pause();
}

/* The area as another process sees it: same addresses, the owner's descriptor fetched. */
static struct area adopt(const struct shared *s, pid_t pid)
{
	struct area a = s->area;
	int pidfd = sys_pidfd_open(pid);

	must(pidfd >= 0);
	a.uffd = sys_pidfd_getfd(pidfd, s->area.uffd);
	must(a.uffd >= 0);
	close(pidfd);
	return a;
}

static void first_daemon(struct shared *s, pid_t pid)
{
	struct area a = adopt(s, pid);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check(uf_fault(&a, BEFORE, LONG_MS) == FAULT_MISSING, "the daemon got no message");
	must(uf_copy_char(&a, BEFORE, '1') == 0);
	atomic_store(&s->served, true);
	check(uf_fault(&a, TAKEN, LONG_MS) == FAULT_MISSING, "the daemon got no second message");
	atomic_store(&s->taken, true);
	for (;;)
		pause();
}

static void second_daemon(struct shared *s, pid_t pid)
{
	struct area a = adopt(s, pid);

	check(uf_pending(a.uffd, LONG_MS), "no message waits for the new daemon");
	check(!done_within(&s->touch[TAKEN].done, SHORT_MS) && !atomic_load(&s->touch[UNREAD].done),
	      "a fault was served by nobody");
	finding("daemon killed: the faults wait");
	check(uf_fault(&a, UNREAD, LONG_MS) == FAULT_MISSING, "no message for the new daemon");
	must(uf_copy_char(&a, UNREAD, '2') == 0);
	await(&s->touch[UNREAD].done, "the fault after the kill");
	check(s->touch[UNREAD].value == '2', "wrong content");
	finding("new daemon, same descriptor: gets the message, serves it");

	check(!uf_pending(a.uffd, 0), "a message read by the dead daemon is still queued");
	must(uf_wake(&a, 0, PAGES) == 0);
	check(uf_fault(&a, TAKEN, LONG_MS) == FAULT_MISSING, "WAKE did not raise the lost message");
	must(uf_copy_char(&a, TAKEN, '3') == 0);
	await(&s->touch[TAKEN].done, "the fault the dead daemon had read");
	check(s->touch[TAKEN].value == '3', "wrong content");
	finding("WAKE raises the message again that the dead daemon had read");

	atomic_store(&s->go[CLOSED], true);
	check(uf_pending(a.uffd, LONG_MS), "no message");
	close(a.uffd);
	check(!done_within(&s->touch[CLOSED].done, SHORT_MS),
	      "served while the owner holds it open");
}

int main(void)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t vmm, daemon;

	plat_start("While the VMM holds the userfaultfd, a killed daemon leaves faults waiting.");
	close(uf_open(0,
		      UF_WP | UFFD_FEATURE_MISSING_SHMEM)); /* or skip, before there are children */
	must(s != MAP_FAILED);
	vmm = fork();
	must(vmm >= 0);
	if (vmm == 0)
		owner(s);
	await(&s->ready, "the owner's start");
	daemon = fork();
	must(daemon >= 0);
	if (daemon == 0)
		first_daemon(s, vmm);

	atomic_store(&s->go[BEFORE], true);
	await(&s->served, "the first fault");
	await(&s->touch[BEFORE].done, "the first fault's end");
	atomic_store(&s->go[TAKEN], true);
	await(&s->taken, "the second fault");
	must(kill(daemon, SIGKILL) == 0 && waitpid(daemon, NULL, 0) == daemon);

	atomic_store(&s->go[UNREAD], true);
	second_daemon(s, vmm);

	atomic_store(&s->close_it, true);
	await(&s->touch[CLOSED].done, "the end of the fault at the last close");
	check(s->touch[CLOSED].value == 0, "wrong content");
	finding("last descriptor closed: the waiter goes on and reads zeros");
	must(kill(vmm, SIGKILL) == 0 && waitpid(vmm, NULL, 0) == vmm);
	return 0;
}
