// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * walk.c - tells options, their arguments and disk images of a QEMU command line apart.
 */
#include <string.h>
#include "walk.h"

/* Options without an argument; all versions of QEMU since 2.0. */
static const char *const plain_options[] = {
	"h", "help", "version", "S", "s", "snapshot", "nographic", "daemonize", "preconfig",
	"mem-prealloc", "nodefaults", "no-user-config", "nodefconfig", "enable-kvm", "no-kvm",
	"no-kvm-irqchip", "no-kvm-pit", "no-kvm-pit-reinjection", "no-reboot", "no-shutdown",
	"no-acpi", "no-hpet", "no-fd-bootchk", "win2k-hack", "rtc-td-hack", "localtime", "tdf",
	"usb", "portrait", "full-screen", "no-frame", "alt-grab", "ctrl-grab", "no-quit", "sdl",
	"curses", "singlestep", "only-migratable", "enable-fips", "enable-sync-profile",
	"async-teardown", "audio-help", "semihosting", "old-param", "perfmap", "jitdump",
	"xen-attach", "xen-create", "xen-domid-restrict", "enable-hax", "hax",
};

/* Options whose argument may begin with "-" or matters to be told from an option. */
static const char *const argument_options[] = {
	"machine", "M", "cpu", "accel", "smp", "numa", "add-fd", "set", "global", "boot", "m",
	"mem-path", "k", "audio", "audiodev", "device", "name", "uuid", "fda", "fdb", "hda", "hdb",
	"hdc", "hdd", "cdrom", "blockdev", "drive", "mtdblock", "sd", "pflash", "fsdev", "virtfs",
	"iscsi", "usbdevice", "display", "spice", "rotate", "vga", "g", "vnc", "acpitable",
	"smbios", "netdev", "nic", "net", "chardev", "tpmdev", "bios", "kernel", "shim", "append",
	"initrd", "dtb", "compat", "fw_cfg", "serial", "parallel", "monitor", "qmp", "qmp-pretty",
	"mon", "debugcon", "pidfile", "overcommit", "realtime", "gdb", "d", "D", "dfilter", "seed",
	"L", "xen-domid", "action", "loadvm", "option-rom", "rtc", "icount", "watchdog",
	"watchdog-action", "echr", "incoming", "chroot", "runas", "run-with", "sandbox",
	"readconfig", "writeconfig", "trace", "plugin", "msg", "dump-vmstate", "object", "prom-env",
	"semihosting-config", "qtest", "qtest-log", "soundhw", "balloon", "bt", "tb-size",
	"virtioconsole", "no-kvm-clock", "smb", "tftp", "bootp", "redir", "clock", "startdate",
};

static bool is_listed(const char *name, const char *const *list, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

bool walk_next(struct walk *w)
{
	const char *word;

	w->at += w->nr;
	if (w->at >= w->argc)
		return false;
	word = w->argv[w->at];
	w->nr = 1;
	w->name = w->arg = NULL;
	w->wants_arg = false;
	if (*word != '-')
		return true;
	w->name = word + (word[1] == '-' ? 2 : 1);
	w->wants_arg = is_listed(w->name, argument_options, ARRAY_SIZE(argument_options));
	if (is_listed(w->name, plain_options, ARRAY_SIZE(plain_options)) || w->at + 1 >= w->argc)
		return true;
	if (w->wants_arg || *w->argv[w->at + 1] != '-') {
		w->arg = w->argv[w->at + 1];
		w->nr = 2;
	}
	return true;
}

static bool is_help(const char *arg)
{
	const char *last = strrchr(arg, ',');

	last = last ? last + 1 : arg;
	return !strcmp(last, "help") || !strcmp(last, "?");
}

bool walk_asks_for_help(int argc, char *const argv[])
{
	static const char *const with_help[] = { "machine", "M", "cpu", "accel", "device", "object",
						 "netdev", "chardev", "audiodev", "audio", "d",
						 "trace", "display", "vga", "watchdog", "drive",
						 "soundhw", "k", "nic", "net", "tpmdev", "global" };
	struct walk w = { .argc = argc, .argv = argv, .nr = 1 };

	while (walk_next(&w)) {
		if (!w.name)
			continue;
		if (!strcmp(w.name, "h") || !strcmp(w.name, "help") || !strcmp(w.name, "version") ||
		    !strcmp(w.name, "audio-help"))
			return true;
		if (w.arg && is_listed(w.name, with_help, ARRAY_SIZE(with_help)) && is_help(w.arg))
			return true;
	}
	return false;
}
