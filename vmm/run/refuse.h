/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * refuse.h - what ebb cannot run beside, recognised by its name on QEMU's command line.
 *
 * The daemon's own checks at attach are what keeps a guest safe; these come earlier and can name
 * the very option. Each returns 0, or -ENOTSUP with a sentence.
 */
#ifndef RUN_REFUSE_H
#define RUN_REFUSE_H

#include "optstr.h"

/** refuse_option() - an option @name (without dashes) that cannot be had at all */
int refuse_option(const char *name, struct ebb_err *err);

/** refuse_device() - @driver of -device */
int refuse_device(const char *driver, struct ebb_err *err);

/** refuse_netdev() - @type of -netdev, -nic or -net (@option) */
int refuse_netdev(const char *option, const char *type, struct ebb_err *err);

/** refuse_object() - @type of -object, memory backends apart from epc excluded */
int refuse_object(const char *type, struct ebb_err *err);

/** refuse_drive() - -drive or -blockdev (@option) whose driver maps guest RAM for a device */
int refuse_drive(const char *option, const struct optstr *o, struct ebb_err *err);

/** refuse_machine() - confidential guests, memory of another hypervisor, no memory at all */
int refuse_machine(const struct optstr *o, struct ebb_err *err);

/**
 * refuse_config() - a file of -readconfig that holds any of these, or options about RAM
 * @optional: a file that does not exist is fine
 */
int refuse_config(const char *path, bool optional, struct ebb_err *err);

#endif
