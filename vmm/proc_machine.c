// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * proc_machine.c - where guest RAM lies in guest-physical space, told from the machine type
 * alone.
 *
 * DOC: the machine rule
 *
 * Used when no monitor can be asked, for a guest with one memfd at offset 0; with several
 * (NUMA, hot-plugged memory) or anything unusual the address stays unknown rather than guessed.
 * Below 4 GiB room is left for devices, and RAM that does not fit goes on at 4 GiB:
 *
 *   pc (i440FX)  below 3.5 GiB (0xe0000000) in one piece; from there on split at 3 GiB (0xc0000000)
 *   q35          below 2.75 GiB (0xb0000000) in one piece; from there on split at 2 GiB
 *   virt (arm64) one piece at 1 GiB
 *
 * Checked against `info mtree -f` of QEMU 7.2.22: pc with 1024, 3583, 3584 and 4096 MiB, q35
 * with 1024, 2815, 2816 and 4096 MiB. The rule of virt is QEMU's documented memory map and was
 * not run.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "procmem.h"

#define GIB	  (1ull << 30)
#define ABOVE_4G  (4 * GIB)
#define TOO_LARGE (900 * GIB) /* near 1 TiB some hosts move the upper part above a reserved range */

struct machine_rule {
	const char *name;
	uint64_t base;
	uint64_t split_from; /* RAM from this size on ... */
	uint64_t low;	     /* ... has this much below 4 GiB */
	uint64_t max;
};

static const struct machine_rule rules[] = {
	{"pc", 0, 0xe0000000, 0xc0000000, TOO_LARGE},
	{"pc-i440fx", 0, 0xe0000000, 0xc0000000, TOO_LARGE},
	{"q35", 0, 0xb0000000, 0x80000000, TOO_LARGE},
	{"pc-q35", 0, 0xb0000000, 0x80000000, TOO_LARGE},
	{"virt", GIB, UINT64_MAX, 0, 255 * GIB},
};

/* "pc-q35" is the rule of "pc-q35-7.2"; versions 1.x had another one. */
static const struct machine_rule *find_rule(const char *machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const char *rest = machine + strlen(rules[i].name);

		if (strncmp(machine, rules[i].name, strlen(rules[i].name)))
			continue;
		if (!*rest || (rest[0] == '-' && rest[1] >= '2' && rest[1] <= '9'))
			return &rules[i];
	}
	return NULL;
}

void proc_place_one(const char *machine, struct region_table *t)
{
	const struct machine_rule *rule = find_rule(machine);
	const uint64_t size = pages_to_bytes(t->nr_pages);
	struct region *low = &t->r[0], *high = &t->r[1];

	if (!rule || t->nr != 1 || low->file_off || size > rule->max)
		return;
	low->gpa = rule->base;
	if (size < rule->split_from)
		return;
	*high = *low;
	low->nr = (uint32_t)bytes_to_pages(rule->low);
	high->first = low->first + low->nr;
	high->nr = t->nr_pages - low->nr;
	high->hva += rule->low;
	high->file_off += rule->low;
	high->gpa = ABOVE_4G;
	t->nr = 2;
}

/* --- the command line ----------------------------------------------------------------------- */

#define CMDLINE_MAX (256 << 10)

char *proc_read_cmdline(pid_t pid, size_t *ret_len)
{
	_cleanup_close_ int fd = -1;
	char path[32], *buf;
	size_t len = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	buf = fd >= 0 ? malloc(CMDLINE_MAX + 1) : NULL;
	if (!buf)
		return NULL;
	while (len < CMDLINE_MAX && (n = read(fd, buf + len, CMDLINE_MAX - len)) > 0)
		len += (size_t)n;
	buf[len] = '\0';
	*ret_len = len;
	return buf;
}

const char *proc_cmdline_option(const char *cmdline, size_t len, const char *option,
				const char *after)
{
	const char *end = cmdline + len;

	for (const char *p = after ? after : cmdline; p < end; p += strlen(p) + 1) {
		const char *name = p;

		if (p == after || *name != '-')
			continue;
		name += name[1] == '-' ? 2 : 1;
		if (strcmp(name, option))
			continue;
		p += strlen(p) + 1;
		return MIN(p, end);
	}
	return NULL;
}

/* The machine type of one -machine argument: its first word, or type=. */
static void machine_type(const char *arg, char *type, size_t size, bool *ret_unusual)
{
	while (*arg) {
		const int len = (int)strcspn(arg, ",");

		if (!strncmp(arg, "type=", 5))
			snprintf(type, size, "%.*s", len - 5, arg + 5);
		else if (!memchr(arg, '=', (size_t)len))
			snprintf(type, size, "%.*s", len, arg);
		else if (!strncmp(arg, "max-ram-below-4g=", 17) || !strncmp(arg, "xen", 3))
			*ret_unusual = true;
		arg += len;
		arg += *arg == ',';
	}
}

void proc_place_by_machine(pid_t pid, struct region_table *t)
{
	static const char *const options[] = {"machine", "M"};
	_cleanup_free_ char *cmdline = NULL;
	char type[64] = "";
	bool unusual = false;
	struct proc_id id;
	size_t len;

	if (proc_identify(pid, &id, NULL) || !proc_is_qemu(&id))
		return;
	cmdline = proc_read_cmdline(pid, &len);
	if (!cmdline)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const char *arg = NULL;

		while ((arg = proc_cmdline_option(cmdline, len, options[i], arg)))
			machine_type(arg, type, sizeof(type), &unusual);
	}
	if (!type[0] && (strstr(id.exe, "x86_64") || strstr(id.exe, "i386")))
		snprintf(type, sizeof(type), "pc");
	if (!unusual)
		proc_place_one(type, t);
}
