/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gate.h - the safety gate: what ebb refuses to attach to, by name, before anything is changed.
 */
#ifndef VMM_GATE_H
#define VMM_GATE_H

#include "procmem.h"

struct gate_options {
	bool any_process;  /* debugging: accept a program that is not QEMU */
	const char *monitor; /* QMP socket of the VMM, NULL if none */
};

/** gate_check_host() - kernel features: userfaultfd with what is needed, pidfd_getfd, tracing rights */
int gate_check_host(struct ebb_err *err);

/**
 * gate_check_process() - before the RAM is looked for
 *
 * Not QEMU; a zombie or stopped (job control); traced by somebody; VFIO, vDPA, iommufd or SEV
 * descriptors open; locked memory (mlock, -overcommit mem-lock); another userfaultfd open; incoming
 * migration (with a monitor).
 */
int gate_check_process(const struct proc_id *id, const struct gate_options *opt,
		       struct ebb_err *err);

/** gate_check_regions() - a second mapper, hugetlb, VMAs inherited by fork */
int gate_check_regions(pid_t pid, const struct region_table *t, struct ebb_err *err);

/**
 * gate_warn_cgroup() - a memory limit on the VMM's cgroup too near to ours?
 * @limit_bytes: ebb's limit for the guest
 *
 * UFFDIO_COPY charges the VMM's cgroup; at its limit the kernel kills the VMM. Returns true and a
 * sentence when there is less than limit + 25 % + 64 MiB of room.
 */
bool gate_warn_cgroup(pid_t pid, uint64_t limit_bytes, struct ebb_err *ret_warning);

#endif
