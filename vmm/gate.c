// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gate.c - the safety gate: what ebb refuses to attach to, by name, before anything is changed.
 *
 * DOC: what is looked at
 *
 * Evicting a page is safe only if nobody can reach it but through the VMM's page tables, and if
 * nothing else plays with those. Each check here is one way in which that is not so: devices
 * that hold pages by their physical address (VFIO, vDPA, RDMA), an encrypted guest whose pages
 * mean nothing outside it, memory that is locked, another userfaultfd (post-copy migration, a
 * background snapshot, a second ebb), a second mapper. All are read from /proc, and from the
 * monitor where there is one; nothing is changed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <ebb/linux_compat.h>
#include "gate.h"
#include "qmp.h"
#include "uffd.h"

#define UFFD_LINK  "anon_inode:[userfaultfd]"
#define MONITOR_MS 2000
#define RAN_HERE_S 1 /* a guest whose vCPUs used this much is not waiting for its memory */

/* --- the host ------------------------------------------------------------------------------- */

static bool may_trace_others(void)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct cap[2] = {{0}};

	if (syscall(SYS_capget, &hdr, cap))
		return false;
	return cap[0].effective & 1u << CAP_SYS_PTRACE;
}

static int check_features(uint64_t have, struct ebb_err *err)
{
	static const struct {
		uint64_t feature;
		const char *what;
	} needed[] = {
		{UFFD_FEATURE_MISSING_SHMEM, "missing-page faults on shared memory"},
		{UFFD_FEATURE_PAGEFAULT_FLAG_WP, "write protection"},
		{UFFD_FEATURE_WP_HUGETLBFS_SHMEM, "write protection of shared memory"},
		{UFFD_FEATURE_EVENT_REMOVE, "events of discarded memory"},
		{UFFD_FEATURE_EVENT_UNMAP, "events of unmapped memory"},
		{UFFD_FEATURE_EVENT_REMAP, "events of moved memory"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (!(have & needed[i].feature))
			return ebb_err_set(err, -EOPNOTSUPP,
					   "this kernel's userfaultfd lacks %s: ebb "
					   "needs Linux 6.1 or newer (with CONFIG_USERFAULTFD and "
					   "PTE markers)",
					   needed[i].what);
	}
	return 0;
}

static int check_pidfd(struct ebb_err *err)
{
	_cleanup_close_ int self = sys_pidfd_open(getpid());
	_cleanup_close_ int copy = self >= 0 ? sys_pidfd_getfd(self, self) : -1;

	if (copy < 0)
		return ebb_err_set(err, -errno,
				   "pidfd_getfd does not work here (%s): a seccomp filter or "
				   "a very old kernel",
				   strerror(errno));
	return 0;
}

int gate_check_host(struct ebb_err *err)
{
	uint64_t features;
	int rc = uffd_probe(&features);

	if (rc == -ENOSYS)
		return ebb_err_set(err, rc, "this kernel has no userfaultfd (CONFIG_USERFAULTFD)");
	if (rc == -EPERM)
		return ebb_err_set(err, rc,
				   "no right to use userfaultfd: run as root, or with "
				   "CAP_SYS_PTRACE or access to /dev/userfaultfd");
	if (rc)
		return ebb_err_set(err, rc, "userfaultfd: %s", strerror(-rc));
	rc = check_features(features, err);
	if (!rc)
		rc = check_pidfd(err);
	if (!rc && !may_trace_others())
		rc = ebb_err_set(err, -EPERM,
				 "no right to trace other processes: run as root or with "
				 "CAP_SYS_PTRACE");
	return rc;
}

/* --- the process ---------------------------------------------------------------------------- */

static int check_state(const struct proc_id *id, struct ebb_err *err)
{
	long long tracer = 0;

	switch (id->state) {
	case 'Z':
	case 'X':
		return ebb_err_set(err, -ESRCH, "process %d (%s) has ended (it is a zombie)",
				   id->pid, id->comm);
	case 'T':
		return ebb_err_set(err, -EAGAIN,
				   "process %d (%s) is stopped (job control): continue it "
				   "first, for example with kill -CONT %d",
				   id->pid, id->comm, id->pid);
	default:
		break;
	}
	if (!proc_status_value(id->pid, "TracerPid", &tracer) && tracer)
		return ebb_err_set(err, -EBUSY,
				   "process %d (%s) is traced by process %lld (a debugger or "
				   "strace): end that first",
				   id->pid, id->comm, tracer);
	return 0;
}

/* What a link of /proc/PID/fd begins with, and why it is a reason to refuse. */
static const struct {
	const char *link;
	const char *what;
	const char *why;
} refused_fds[] = {
	{"/dev/vfio/", "a VFIO device", "it reaches guest memory behind the page tables"},
	{"anon_inode:[vfio-device]", "a VFIO device",
	 "it reaches guest memory behind the page tables"},
	{"/dev/iommu", "an iommufd", "its devices reach guest memory behind the page tables"},
	{"/dev/vhost-vdpa", "a vDPA device", "it reaches guest memory behind the page tables"},
	{"/dev/infiniband/uverbs", "an RDMA device",
	 "it reaches guest memory behind the page tables"},
	{"/dev/sev", "AMD SEV", "an encrypted guest's pages cannot be moved"},
	{"anon_inode:[kvm-gmem]", "private guest memory (guest_memfd)",
	 "a confidential guest's pages cannot be read"},
	{UFFD_LINK, "a userfaultfd",
	 "post-copy migration, a background snapshot or another ebb uses it"},
};

static int check_link(const struct proc_id *id, const char *link, struct ebb_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused_fds); i++) {
		if (!strncmp(link, refused_fds[i].link, strlen(refused_fds[i].link)))
			return ebb_err_set(err, -EBUSY, "process %d (%s) has %s open: %s", id->pid,
					   id->comm, refused_fds[i].what, refused_fds[i].why);
	}
	return 0;
}

/*
 * A userfaultfd that was never enabled watches nothing: what an ebb that was killed while it attached
 * may leave. Its fdinfo says "API: aa:FEATURES:IOCTLS", and no features.
 */
static bool is_idle_uffd(pid_t pid, const char *fd)
{
	_cleanup_free_ char *line = NULL;
	unsigned long long features = 1;
	char path[64];
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", pid, fd);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		if (sscanf(line, "API: %*x:%llx", &features) == 1)
			break;
	}
	if (f)
		fclose(f);
	return features == 0;
}

static int check_descriptors(const struct proc_id *id, struct ebb_err *err)
{
	char path[32], link[256];
	struct dirent *e;
	int rc = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", id->pid);
	d = opendir(path);
	if (!d)
		return ebb_err_set(err, -errno,
				   "cannot look at the descriptors of process %d (%s): %s%s",
				   id->pid, id->comm, strerror(errno),
				   errno == EACCES ? "; run as root or with CAP_SYS_PTRACE" : "");
	while (!rc && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = '\0';
		if (strcmp(link, UFFD_LINK) || !is_idle_uffd(id->pid, e->d_name))
			rc = check_link(id, link, err);
	}
	closedir(d);
	return rc;
}

static int check_locked(const struct proc_id *id, struct ebb_err *err)
{
	long long locked = 0, pinned = 0;

	proc_status_value(id->pid, "VmLck", &locked);
	proc_status_value(id->pid, "VmPin", &pinned);
	if (locked)
		return ebb_err_set(err, -EBUSY,
				   "process %d (%s) has %lld KiB locked in memory: restart it "
				   "without -overcommit mem-lock=on (libvirt: without <locked/>)",
				   id->pid, id->comm, locked);
	if (pinned)
		return ebb_err_set(err, -EBUSY,
				   "process %d (%s) has %lld KiB pinned for a device: "
				   "something reaches guest memory behind the page tables",
				   id->pid, id->comm, pinned);
	return 0;
}

/* --- incoming migration --------------------------------------------------------------------- */

static int refuse_incoming(const struct proc_id *id, const char *state, struct ebb_err *err)
{
	return ebb_err_set(err, -EBUSY,
			   "process %d (%s) is receiving a guest (%s): attach when the "
			   "migration is complete",
			   id->pid, id->comm, state);
}

static int check_incoming_by_monitor(const struct proc_id *id, const char *monitor,
				     struct ebb_err *err)
{
	json_t *run = NULL, *mig = NULL;
	const char *state, *status;
	int rc = qmp_execute(monitor, "query-status", NULL, MONITOR_MS, &run, err);

	if (rc)
		return rc;
	state = json_string_value(json_object_get(run, "status"));
	if (state && !strcmp(state, "inmigrate"))
		rc = refuse_incoming(id, state, err);
	json_decref(run);
	if (rc)
		return rc;
	rc = qmp_execute(monitor, "query-migrate", NULL, MONITOR_MS, &mig, err);
	if (rc)
		return rc;
	status = json_string_value(json_object_get(mig, "status"));
	if (status && !strncmp(status, "postcopy", 8))
		rc = refuse_incoming(id, status, err);
	json_decref(mig);
	return rc;
}

/* CPU time of a thread named like a vCPU ("CPU 0/KVM"), in clock ticks; 0 for others. */
static uint64_t vcpu_ticks(int dir, const char *tid)
{
	unsigned long long user, sys;
	char path[32], line[512];
	_cleanup_close_ int fd = -1;
	const char *close_paren;
	ssize_t n;

	snprintf(path, sizeof(path), "%.16s/stat", tid);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;
	if (n <= 0)
		return 0;
	line[n] = '\0';
	close_paren = strrchr(line, ')');
	if (!strstr(line, "(CPU ") || !close_paren ||
	    sscanf(close_paren + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
		   &sys) != 2)
		return 0;
	return user + sys;
}

static bool guest_ran_here(pid_t pid)
{
	const uint64_t enough = RAN_HERE_S * (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t ticks = 0;
	struct dirent *e;
	char path[32];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && ticks < enough && (e = readdir(d)))
		ticks += vcpu_ticks(dirfd(d), e->d_name);
	if (d)
		closedir(d);
	return ticks >= enough;
}

/*
 * A discard during an incoming migration means "zeros", not "whatever"; so no guest is taken
 * over before it runs. Without a monitor -incoming on the command line says that there was a
 * migration, and the vCPUs' CPU time that it is over (a post-copy one shows its userfaultfd).
 */
static int check_incoming(const struct proc_id *id, const struct gate_options *opt,
			  struct ebb_err *err)
{
	_cleanup_free_ char *cmdline = NULL;
	size_t len;

	if (opt->monitor && opt->monitor[0])
		return check_incoming_by_monitor(id, opt->monitor, err);
	cmdline = proc_read_cmdline(id->pid, &len);
	if (!cmdline || !proc_cmdline_option(cmdline, len, "incoming", NULL) ||
	    guest_ran_here(id->pid))
		return 0;
	return ebb_err_set(
		err, -EBUSY,
		"process %d (%s) was started to receive a guest (-incoming) and "
		"whether that is complete cannot be told: name its monitor, or try again when "
		"the guest has run for some seconds with named threads (-name "
		"debug-threads=on)",
		id->pid, id->comm);
}

int gate_check_process(const struct proc_id *id, const struct gate_options *opt,
		       struct ebb_err *err)
{
	int rc;

	if (!opt->any_process && !proc_is_qemu(id))
		return ebb_err_set(err, -EINVAL, "process %d (%s) is not a QEMU system emulator",
				   id->pid, id->exe[0] ? id->exe : id->comm);
	rc = check_state(id, err);
	if (!rc)
		rc = check_descriptors(id, err);
	if (!rc)
		rc = check_locked(id, err);
	if (!rc)
		rc = check_incoming(id, opt, err);
	return rc;
}
