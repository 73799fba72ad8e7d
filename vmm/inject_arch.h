/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inject_arch.h - what differs between architectures when calls are injected; for inject*.c only.
 */
#ifndef VMM_INJECT_ARCH_H
#define VMM_INJECT_ARCH_H

#if defined(__x86_64__)
#include "inject_x86_64.h"
#elif defined(__aarch64__)
#include "inject_aarch64.h"
#else
#error "no system call injection for this architecture"
#endif

#if !ARCH_HAS_ESCAPE
#define ARCH_ESCAPE_SIZE 0
#endif

#endif
