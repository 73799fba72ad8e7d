/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backend.h - QEMU's memory backends, and which of them ebb can work with.
 */
#ifndef RUN_BACKEND_H
#define RUN_BACKEND_H

#include "optstr.h"

/**
 * backend_check_path() - may RAM be on a file in @path (a file or directory, there or not yet)?
 * @option: what names the path, for the sentence
 *
 * Returns 0 on tmpfs, else -ENOTSUP.
 */
int backend_check_path(const char *option, const char *path, struct ebb_err *err);

/** backend_check() - can the backend @o of @type ("memory-backend-...") be used or converted? */
int backend_check(const char *type, const struct optstr *o, struct ebb_err *err);

#endif
