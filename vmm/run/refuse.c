// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * refuse.c - names of devices, back ends and settings that share, pin or encrypt guest RAM.
 *
 * Three reasons are behind nearly all of them. A second process that maps the RAM reads zeros where
 * a page is on disk. A device that does DMA through an IOMMU has all of the RAM pinned, so nothing
 * can be reclaimed, and what it writes does not show in any page table. Memory of a confidential
 * guest is ciphertext to the host and cannot be moved.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "refuse.h"
#include "strlist.h"

#define WHY_SHARED                                                                                 \
	"shares guest RAM with another process, which would read zeros where ebb has moved a "     \
	"page to disk"
#define WHY_PINNED "keeps all of guest RAM pinned for a device, so that ebb could reclaim nothing"
#define WHY_SECRET "makes guest memory that the host cannot read or move"

/** struct refusal - @name: pattern for fnmatch() */
struct refusal {
	const char *name;
	const char *why;
	const char *way_out;
};

static const struct refusal refused_devices[] = {
	{"vfio-user*", WHY_SHARED, "use a device emulated by QEMU"},
	{"vfio-*", WHY_PINNED, "use a virtio device"},
	{"vhost-vdpa*", WHY_PINNED, "use a virtio device"},
	{"vhost-user-*", WHY_SHARED, "use the virtio device emulated by QEMU"},
	{"*-vhost-user", WHY_SHARED, "use the virtio device emulated by QEMU"},
	{"ivshmem-*", WHY_SHARED, "remove it"},
	{"x-pci-proxy-dev", WHY_SHARED, "use the device inside QEMU"},
	{"pvrdma", "maps guest RAM a second time", "use a virtio device"},
	{NULL, NULL, NULL},
};

static const struct refusal refused_netdevs[] = {
	{"vhost-user", WHY_SHARED, "use tap, with vhost=on if speed matters"},
	{"vhost-vdpa", WHY_PINNED, "use tap, with vhost=on if speed matters"},
	{NULL, NULL, NULL},
};

static const struct refusal refused_objects[] = {
	{"sev-*guest", WHY_SECRET, "start this guest without ebb-run"},
	{"tdx-guest", WHY_SECRET, "start this guest without ebb-run"},
	{"pef-guest", WHY_SECRET, "start this guest without ebb-run"},
	{"s390-pv-guest", WHY_SECRET, "start this guest without ebb-run"},
	{"arm-rme-guest", WHY_SECRET, "start this guest without ebb-run"},
	{"rme-guest", WHY_SECRET, "start this guest without ebb-run"},
	{"memory-backend-epc", WHY_SECRET, "remove the SGX enclave memory"},
	{"x-remote-object", WHY_SHARED, "remove it"},
	{"x-vfio-user-server", WHY_SHARED, "remove it"},
	{NULL, NULL, NULL},
};

static const struct refusal refused_drivers[] = {
	{"nvme", WHY_PINNED, "use the host's nvme driver and host_device"},
	{"nvme://*", WHY_PINNED, "use the host's nvme driver and host_device"},
	{"nvme-io_uring", WHY_PINNED, "use host_device"},
	{"virtio-blk-vfio-pci", WHY_PINNED, "use host_device"},
	{"virtio-blk-vhost-vdpa", WHY_PINNED, "use host_device"},
	{"virtio-blk-vhost-user", WHY_SHARED, "use a file or host_device"},
	{NULL, NULL, NULL},
};

static const struct refusal refused_machines[] = {
	{"none", "has no RAM", "name a machine with RAM, such as q35"},
	{"x-remote", WHY_SHARED, "name an ordinary machine, such as q35"},
	{"xenpv", "leaves guest RAM to Xen", "use KVM or TCG"},
	{"xenfv*", "leaves guest RAM to Xen", "use KVM or TCG"},
	{NULL, NULL, NULL},
};

static const struct refusal refused_machine_keys[] = {
	{"confidential-guest-support", WHY_SECRET, "start this guest without ebb-run"},
	{"memory-encryption", WHY_SECRET, "start this guest without ebb-run"},
	{NULL, NULL, NULL},
};

/* Options refused whatever their argument; the sentence follows the name. */
static const struct refusal refused_options[] = {
	{"mem-prealloc", "fills all of guest RAM at start, which is what ebb is there to avoid",
	 "remove it"},
	{"incoming", "keeps ebb from attaching before the migration is complete",
	 "start QEMU by itself with its RAM on a shared memfd, and attach it with ebbctl when the "
	 "migration is done"},
	{"daemonize", "makes QEMU another process than the one ebb-run started",
	 "remove it and put ebb-run itself in the background"},
	{"preconfig", "leaves the machine without RAM when ebb-run wants to attach",
	 "remove it, or attach the running guest with ebbctl"},
	{"xen-attach", "leaves guest RAM to Xen", "use KVM or TCG"},
	{"xen-domid", "leaves guest RAM to Xen", "use KVM or TCG"},
	{NULL, NULL, NULL},
};

static int refuse_listed(const struct refusal *r, const char *option, const char *name,
			 struct ebb_err *err)
{
	if (!name)
		return 0;
	for (; r->name; r++)
		if (!fnmatch(r->name, name, 0))
			return ebb_err_set(err, -ENOTSUP, "%s %s %s; %s", option, name, r->why,
					   r->way_out);
	return 0;
}

int refuse_option(const char *name, struct ebb_err *err)
{
	for (const struct refusal *r = refused_options; r->name; r++)
		if (!strcmp(r->name, name))
			return ebb_err_set(err, -ENOTSUP, "-%s %s; %s", name, r->why, r->way_out);
	return 0;
}

int refuse_device(const char *driver, struct ebb_err *err)
{
	return refuse_listed(refused_devices, "-device", driver, err);
}

int refuse_netdev(const char *option, const char *type, struct ebb_err *err)
{
	return refuse_listed(refused_netdevs, option, type, err);
}

int refuse_object(const char *type, struct ebb_err *err)
{
	return refuse_listed(refused_objects, "-object", type, err);
}

/** refuse_nested() - "driver" may stand at any depth of a -blockdev in JSON */
static int refuse_nested(const char *option, const json_t *value, struct ebb_err *err)
{
	const char *key;
	json_t *member;
	int rc;

	json_object_foreach((json_t *)value, key, member)
	{
		rc = refuse_nested(option, member, err);
		if (!rc && !strcmp(key, "driver"))
			rc = refuse_listed(refused_drivers, option, json_string_value(member), err);
		if (rc)
			return rc;
	}
	return 0;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

int refuse_drive(const char *option, const struct optstr *o, struct ebb_err *err)
{
	int rc = 0;

	if (o->json)
		return refuse_nested(option, o->json, err);
	for (size_t i = 0; i < o->nr && !rc; i++) {
		const char *key = o->v[i].key;

		if (!strcmp(key, "file") || !strcmp(key, "driver") || !strcmp(key, "format") ||
		    ends_with(key, ".driver"))
			rc = refuse_listed(refused_drivers, option, o->v[i].value, err);
	}
	return rc;
}

int refuse_machine(const struct optstr *o, struct ebb_err *err)
{
	int rc = refuse_listed(refused_machines, "-machine", optstr_get(o, "type"), err);

	for (size_t i = 0; i < o->nr && !rc; i++)
		rc = refuse_listed(refused_machine_keys, "-machine", o->v[i].key, err);
	return rc;
}

/* --- configuration files ---------------------------------------------------------------------- */

/** struct config_line - where refuse_config() is; @group is "" before the first one */
struct config_line {
	const char *path;
	unsigned int nr;
	char group[64];
};

static int refuse_config_key(const struct config_line *at, const char *key, const char *value,
			     struct ebb_err *err)
{
	static const char *const groups[] = {"memory", "object", "numa", "overcommit", "realtime"};
	struct ebb_err why;
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (!strcmp(at->group, groups[i]))
			return ebb_err_set(
				err, -ENOTSUP,
				"%s:%u: the section [%s] is about guest RAM and cannot be "
				"converted there; give it on the command line instead",
				at->path, at->nr, at->group);
	if (!strcmp(at->group, "machine") && !strncmp(key, "memory", 6))
		return ebb_err_set(err, -ENOTSUP,
				   "%s:%u: %s of [machine] is about guest RAM and cannot be "
				   "converted there; give it on the command line instead",
				   at->path, at->nr, key);
	if (!strcmp(at->group, "machine"))
		rc = refuse_listed(!strcmp(key, "type") ? refused_machines : refused_machine_keys,
				   "-machine", !strcmp(key, "type") ? value : key, &why);
	else if (!strcmp(at->group, "device") && !strcmp(key, "driver"))
		rc = refuse_device(value, &why);
	else if (!strcmp(at->group, "netdev") && !strcmp(key, "type"))
		rc = refuse_netdev("-netdev", value, &why);
	else if (!strcmp(at->group, "drive") && (!strcmp(key, "file") || !strcmp(key, "driver")))
		rc = refuse_listed(refused_drivers, "-drive", value, &why);
	if (rc)
		ebb_err_set(err, rc, "%s:%u: %s", at->path, at->nr, why.msg);
	return rc;
}

static int refuse_config_line(struct config_line *at, const char *line, struct ebb_err *err)
{
	char key[64], value[1024];

	if (sscanf(line, "[%63[^] ]", key) == 1) {
		strcpy(at->group, key);
		/* A section counts even when it is empty: what it does is QEMU's to know. */
		return refuse_config_key(at, "", "", err);
	}
	value[0] = '\0';
	if (sscanf(line, " %63[^= ] = \"%1023[^\"]\"", key, value) < 1 || key[0] == '#')
		return 0;
	return refuse_config_key(at, key, value, err);
}

int refuse_config(const char *path, bool optional, struct ebb_err *err)
{
	struct config_line at = {.path = path};
	char *line = NULL;
	size_t size = 0;
	int rc = 0;
	FILE *f;

	f = fopen(path, "re");
	if (!f) {
		if (optional && errno == ENOENT)
			return 0;
		return ebb_err_set(
			err, -ENOTSUP,
			"-readconfig %s cannot be read (%s), so it may hide options about "
			"guest RAM",
			path, strerror(errno));
	}
	while (!rc && getline(&line, &size, f) > 0) {
		at.nr++;
		rc = refuse_config_line(&at, line, err);
	}
	free(line);
	fclose(f);
	return rc;
}
