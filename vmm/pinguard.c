// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pinguard.c - loads the BPF program that counts page references, and asks it.
 *
 * DOC: how a question is put
 *
 * The program's .bss is mapped here: the request is written there, BPF_PROG_TEST_RUN runs the
 * program in the calling thread (whose descriptor table it uses), and the answer is read from the
 * same place, all under one lock. A ticket that the program hands back as its last act tells a
 * fresh answer from what an earlier call left. Nothing is ever attached to the kernel.
 */
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "pinguard.h"
#include "bpf/pinguard.h"

_Static_assert((int)PG_ABSENT == PIN_ABSENT && (int)PG_SWAPPED == PIN_SWAPPED &&
		       (int)PG_CLEAN == PIN_CLEAN && (int)PG_PINNED == PIN_PINNED &&
		       (int)PG_BUSY == PIN_BUSY && (int)PG_LARGE == PIN_LARGE &&
		       (int)PG_UNKNOWN == PIN_UNKNOWN && PG_MAX == PIN_MAX,
	       "bpf/pinguard.h and pinguard.h must count alike");

#define KERNEL_BTF   "/sys/kernel/btf/vmlinux"
#define LOCKDOWN     "/sys/kernel/security/lockdown"
#define PROGRAM	     "pinguard_look"
#define VERIFIER_LOG (64 * 1024)

#define FOREIGN_PROGRAM                                                                            \
	"the embedded pin guard is not the one this daemon was built with; rebuild ebb"

/* The object file, embedded by the Makefile. */
extern const char bpf_pinguard_start[], bpf_pinguard_end[];

struct pinguard {
	pthread_mutex_t lock; /* one request at a time: over @area and the run */
	struct bpf_object *object;
	int prog_fd;
	struct pg_area *area; /* the program's .bss */
	size_t area_size;
	uint64_t ticket;
	void *own_page; /* for pinguard_drain() */
};

/* libbpf's last warning, for the sentence; guarded by open_lock. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static char libbpf_said[256];

__printf(2, 0) static int keep_libbpf_line(enum libbpf_print_level level, const char *fmt,
					   va_list ap)
{
	char line[sizeof(libbpf_said)];

	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	if (line[0])
		memcpy(libbpf_said, line, strlen(line) + 1);
	return 0;
}

static bool may_load_bpf(void)
{
	unsigned long long caps = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	fclose(f);
	return (caps >> CAP_SYS_ADMIN & 1) || ((caps >> CAP_BPF & 1) && (caps >> CAP_PERFMON & 1));
}

static bool kernel_reads_locked_down(void)
{
	char line[128] = "";
	FILE *f = fopen(LOCKDOWN, "re");

	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	return strstr(line, "[confidentiality]") != NULL;
}

/* The verifier's verdict is near the end of its log: the last line that is no statistics. */
static const char *last_verifier_line(char *log)
{
	char *end = log + strlen(log), *line;

	while (end > log) {
		while (end > log && end[-1] == '\n')
			*--end = '\0';
		line = strrchr(log, '\n');
		line = line ? line + 1 : log;
		if (*line && strncmp(line, "processed ", 10) != 0 &&
		    strncmp(line, "verification time", 17) != 0 &&
		    strncmp(line, "stack depth", 11) != 0)
			return line;
		end = line;
		*end = '\0';
	}
	return libbpf_said;
}

/* why_not_loaded() - the cause in words; may put a better errno into *@rc */
static const char *why_not_loaded(int *rc, char *log)
{
	if (access(KERNEL_BTF, R_OK) < 0) {
		*rc = -ENOSYS;
		return "this kernel has no type information (" KERNEL_BTF
		       "); it must be built with CONFIG_DEBUG_INFO_BTF";
	}
	if (*rc == -ENOSYS)
		return "the kernel has no bpf(2); it must be built with CONFIG_BPF_SYSCALL";
	if (kernel_reads_locked_down()) {
		*rc = -EPERM;
		return "kernel lockdown is at \"confidentiality\", which forbids BPF to read "
		       "kernel memory; boot with lockdown=integrity or without";
	}
	if (*rc == -EPERM && !may_load_bpf())
		return "it needs CAP_BPF and CAP_PERFMON (or root); this process lacks them";
	if ((*rc == -EPERM || *rc == -EACCES) && !log[0])
		return "the kernel refuses BPF although the capabilities are there; run outside "
		       "of the container or lift the security policy that forbids it";
	return last_verifier_line(log);
}

static int map_area(struct pinguard *pg, struct ebb_err *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct bpf_map *map = NULL;
	void *p;

	while ((map = bpf_object__next_map(pg->object, map))) {
		const char *dot = strrchr(bpf_map__name(map), '.');

		if (dot && strcmp(dot, ".bss") == 0)
			break;
	}
	if (!map || bpf_map__value_size(map) < sizeof(struct pg_area))
		return ebb_err_set(err, -EINVAL, "%s", FOREIGN_PROGRAM);
	pg->area_size = (bpf_map__value_size(map) + page - 1) & ~(page - 1);
	p = mmap(NULL, pg->area_size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (p == MAP_FAILED)
		return ebb_err_set(err, -errno, "the pin guard's memory cannot be mapped: %s",
				   strerror(errno));
	pg->area = p;
	return 0;
}

static int load_object(struct pinguard *pg, char *log, struct ebb_err *err)
{
	size_t size = (uintptr_t)bpf_pinguard_end - (uintptr_t)bpf_pinguard_start;
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "ebb_pinguard",
		    .kernel_log_buf = log, .kernel_log_size = VERIFIER_LOG);
	struct bpf_program *prog;
	int rc;

	pg->object = bpf_object__open_mem(bpf_pinguard_start, size, &opts);
	if (!pg->object)
		return ebb_err_set(err, -errno, "the pin guard's program cannot be read: %s (%s)",
				   strerror(errno), libbpf_said);
	rc = bpf_object__load(pg->object);
	if (rc < 0) {
		const char *why = why_not_loaded(&rc, log);

		return ebb_err_set(err, rc, "the pin guard cannot be loaded: %s (%s)", why,
				   strerror(-rc));
	}
	prog = bpf_object__find_program_by_name(pg->object, PROGRAM);
	if (!prog)
		return ebb_err_set(err, -EINVAL, "%s", FOREIGN_PROGRAM);
	pg->prog_fd = bpf_program__fd(prog);
	return map_area(pg, err);
}

static int load_quietly(struct pinguard *pg, struct ebb_err *err)
{
	_cleanup_free_ char *log = calloc(1, VERIFIER_LOG);
	libbpf_print_fn_t before;
	int rc;

	if (!log)
		return ebb_err_set(err, -ENOMEM, "no memory to load the pin guard");
	pthread_mutex_lock(&open_lock);
	libbpf_said[0] = '\0';
	before = libbpf_set_print(keep_libbpf_line);
	rc = load_object(pg, log, err);
	libbpf_set_print(before);
	pthread_mutex_unlock(&open_lock);
	return rc;
}

static int status_errno(uint32_t status)
{
	switch (status) {
	case PG_OK:
		return 0;
	case PG_E_FD:
		return -EBADF;
	case PG_E_FS:
		return -EINVAL;
	case PG_E_LAYOUT:
		return -ENOSYS;
	default:
		return -EIO;
	}
}

int pinguard_check(struct pinguard *pg, int memfd, uint64_t first, uint32_t nr,
		   uint8_t *ret_verdicts, struct pin_mappers *ret_mappers)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	struct pg_area *area = pg->area;
	int rc;

	if (nr == 0 || nr > PIN_MAX)
		return -EINVAL;
	if (memfd < 0)
		return -EBADF;
	pthread_mutex_lock(&pg->lock);
	area->fd = (uint32_t)memfd;
	area->nr = nr;
	area->first = first;
	area->ticket = ++pg->ticket;
	rc = bpf_prog_test_run_opts(pg->prog_fd, &run);
	if (rc == 0)
		rc = status_errno(run.retval);
	if (rc == 0 && area->done != pg->ticket)
		rc = -EIO;
	if (rc == 0)
		memcpy(ret_verdicts, area->verdict, nr);
	if (rc == 0 && ret_mappers) {
		ret_mappers->mmap_writable = area->mmap_writable;
		ret_mappers->mmap_tree = area->mmap_tree;
		ret_mappers->dentry_count = area->dentry_count;
		ret_mappers->file_count = area->file_count;
		ret_mappers->nr_pages = area->nr_pages;
	}
	pthread_mutex_unlock(&pg->lock);
	return rc;
}

/*
 * No call says "drain the LRU batches of all CPUs", but migrating a page begins with just that,
 * before it looks at the page or the node.
 */
void pinguard_drain(struct pinguard *pg)
{
	int node = 0, status;
	void *page = pg->own_page;

	syscall(SYS_move_pages, 0, 1UL, &page, &node, &status, 2 /* MPOL_MF_MOVE */);
}

const char *pin_verdict_name(enum pin_verdict v)
{
	static const char *const names[PIN_NR_VERDICTS] = {
		[PIN_ABSENT] = "absent",   [PIN_SWAPPED] = "swapped", [PIN_CLEAN] = "clean",
		[PIN_PINNED] = "pinned",   [PIN_BUSY] = "busy",	      [PIN_LARGE] = "large",
		[PIN_UNKNOWN] = "unknown",
	};

	return (unsigned int)v < PIN_NR_VERDICTS ? names[v] : "unknown";
}

int pinguard_open(struct pinguard **ret, struct ebb_err *err)
{
	struct pinguard *pg = calloc(1, sizeof(*pg));
	int rc;

	if (!pg)
		return ebb_err_set(err, -ENOMEM, "no memory to load the pin guard");
	pg->prog_fd = -1;
	pthread_mutex_init(&pg->lock, NULL);
	pg->own_page = mmap(NULL, EBB_PAGE_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (pg->own_page == MAP_FAILED) {
		pg->own_page = NULL;
		rc = ebb_err_set(err, -ENOMEM, "no memory to load the pin guard");
	} else {
		rc = load_quietly(pg, err);
	}
	if (rc == 0)
		rc = pinguard_selftest(pg, err);
	if (rc < 0) {
		pinguard_close(pg);
		return rc;
	}
	*ret = pg;
	return 0;
}

void pinguard_close(struct pinguard *pg)
{
	if (!pg)
		return;
	if (pg->area)
		munmap(pg->area, pg->area_size);
	if (pg->own_page)
		munmap(pg->own_page, EBB_PAGE_SIZE);
	bpf_object__close(pg->object);
	pthread_mutex_destroy(&pg->lock);
	free(pg);
}
