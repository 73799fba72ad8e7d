/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * procmem.h - what /proc says about a VMM: who it is, where its RAM is, who else maps it.
 */
#ifndef VMM_PROCMEM_H
#define VMM_PROCMEM_H

#include <sys/types.h>
#include <ebb/types.h>
#include "region.h"

/** struct proc_id - a process, told apart from a later one with the same pid */
struct proc_id {
	pid_t pid;
	uint64_t start_time; /* clock ticks since boot, field 22 of /proc/PID/stat */
	uid_t uid;
	char state;	 /* R S D T t Z ... */
	char exe[256];	 /* link of /proc/PID/exe, "" if unreadable */
	char comm[32];
};

/** proc_identify() - -ESRCH with a sentence when there is no such process */
int proc_identify(pid_t pid, struct proc_id *ret, struct ebb_err *err);

/** proc_is_qemu() - is the program a QEMU system emulator? */
bool proc_is_qemu(const struct proc_id *id);

/** proc_status_value() - a number of /proc/PID/status; -ESRCH no process, -ENOENT no such line */
int proc_status_value(pid_t pid, const char *key, long long *ret);

/** struct proc_map - one line of /proc/PID/maps */
struct proc_map {
	uint64_t start, end, offset;
	dev_t dev;
	ino_t ino;
	char perms[5];
	char path[256];
};

/** proc_for_each_map() - calls @fn for each line; stops and returns what @fn returns when non-zero */
int proc_for_each_map(pid_t pid, int (*fn)(const struct proc_map *map, void *arg), void *arg);

/**
 * proc_find_regions() - the shared memory regions that are the guest's RAM
 * @ret: regions with hva, file_off, memfd (fetched by pidfd_getfd; one descriptor for each inode, and
 *       regions of the same inode share it), name; gpa by the machine rule below; indexes assigned
 *
 * RAM is what is mapped shared and writable from a memfd that a QEMU memory backend made, or from a
 * file on tmpfs. One memfd mapped by one VMA or by several adjoining ones is one piece. Refused by name
 * (with the way out): guest RAM that is private, hugetlb, or on a disk file; none found.
 */
int proc_find_regions(pid_t pid, int pidfd, struct region_table *ret, struct ebb_err *err);

/** proc_read_cmdline() - the arguments of @pid, each ended by a NUL; malloc'ed, NULL on failure */
char *proc_read_cmdline(pid_t pid, size_t *ret_len);

/**
 * proc_cmdline_option() - the argument after -@option (or --@option), "" for one that is last
 * @after: what this function returned before, to find the next one; NULL for the first
 */
const char *proc_cmdline_option(const char *cmdline, size_t len, const char *option,
				const char *after);

/** proc_place_by_machine() - the machine rule alone: set gpa from the type in /proc/PID/cmdline */
void proc_place_by_machine(pid_t pid, struct region_table *t);

/** proc_place_one() - the rule for @machine ("pc", "q35", "pc-q35-7.2", ...), for tests */
void proc_place_one(const char *machine, struct region_table *t);

/** proc_close_regions() - close the descriptors */
void proc_close_regions(struct region_table *t);

/**
 * proc_foreign_mapper() - does another process map or hold open one of the regions' memfds?
 *
 * Returns 0: nobody; -EBUSY with a sentence naming pid and program. This process and @pid are not
 * foreign.
 */
int proc_foreign_mapper(pid_t pid, const struct region_table *t, struct ebb_err *err);

/** proc_overlap() - bytes of @map that belong to regions */
uint64_t proc_overlap(const struct proc_map *map, const struct region_table *t);

/** proc_vmflag() - is the two-letter @flag in a VmFlags line? */
bool proc_vmflag(const char *flags, const char *flag);

/**
 * proc_for_each_region_flags() - calls @fn with the VmFlags of each VMA that overlaps a region
 *
 * Returns what @fn returns when non-zero, -ENOENT when the VMAs do not cover the regions.
 */
int proc_for_each_region_flags(pid_t pid, const struct region_table *t,
			       int (*fn)(const struct proc_map *map, const char *flags, void *arg),
			       void *arg);

/**
 * proc_check_vmflags() - do all VMAs of the regions say dc um uw in /proc/PID/smaps?
 *
 * (Not inherited by fork, and registered with MISSING and WP.) -EINVAL with a sentence otherwise.
 */
int proc_check_vmflags(pid_t pid, const struct region_table *t, struct ebb_err *err);

#endif
