/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * units.h - sizes as people write them: 512M, 1.5G, 65536; suffixes are powers of 1024.
 */
#ifndef VMM_UNITS_H
#define VMM_UNITS_H

#include <stdint.h>
#include <stddef.h>

/** units_parse_bytes() - -EINVAL for anything but a whole, positive or zero size; -ERANGE beyond 2^63 */
int units_parse_bytes(const char *text, uint64_t *ret_bytes);

/** units_format_bytes() - "512 MiB", "1.5 GiB"; returns @buf */
char *units_format_bytes(uint64_t bytes, char *buf, size_t size);

#endif
