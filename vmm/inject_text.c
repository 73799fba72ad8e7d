// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * inject_text.c - find, in a process, the instructions that injected calls run on.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "inject_arch.h"
#include "inject_text.h"
#include "procmem.h"

#define TEXT_MAX (4UL << 20) /* of a library: the C library's has 2 MiB at most */

ssize_t inject_peek(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = {buf, len}, remote = {(void *)(uintptr_t)addr, len};

	return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

struct text_search {
	pid_t pid;
	struct inject_text found;
};

static uint64_t text_find(const uint8_t *text, size_t len, uint64_t base, const uint8_t *insn,
			  size_t n)
{
	const uint8_t *p = memmem(text, len, insn, n);

	return p ? base + (uint64_t)(p - text) : 0;
}

static bool text_is_wanted(const char *path)
{
	return !strcmp(path, "[vdso]") || strstr(path, "/libc.so") || strstr(path, "/libc-") ||
	       strstr(path, "/ld-musl");
}

static int text_search_map(const struct proc_map *map, void *arg)
{
	struct text_search *s = arg;
	_cleanup_free_ uint8_t *text = NULL;
	size_t len = map->end - map->start;
	ssize_t n;

	if (map->perms[2] != 'x' || !text_is_wanted(map->path))
		return 0;
	len = MIN(len, TEXT_MAX);
	text = malloc(len);
	n = text ? inject_peek(s->pid, map->start, text, len) : -1;
	if (n <= 0)
		return 0;
	if (!s->found.syscall)
		s->found.syscall = text_find(text, (size_t)n, map->start, arch_syscall_insn,
					     sizeof(arch_syscall_insn));
#if ARCH_HAS_ESCAPE
	if (!s->found.syscall_ret)
		s->found.syscall_ret = text_find(text, (size_t)n, map->start, arch_syscall_ret,
						 sizeof(arch_syscall_ret));
	if (!s->found.restorer)
		s->found.restorer = text_find(text, (size_t)n, map->start, arch_restorer,
					      sizeof(arch_restorer));
#endif
	return s->found.syscall_ret && s->found.restorer;
}

void inject_find_text(pid_t pid, struct inject_text *ret)
{
	struct text_search s = {.pid = pid};

	proc_for_each_map(pid, text_search_map, &s);
	if (!s.found.syscall_ret || !s.found.restorer)
		s.found.syscall_ret = s.found.restorer = 0;
	*ret = s.found;
}
