#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# disk-aio-native.sh - direct I/O into evicted pages, QEMU with aio=native.
# run-tests: timeout=600
set -eu
# shellcheck source=tests/integration/disk-aio.lib.sh
. "$(dirname "$0")/disk-aio.lib.sh"
disk_aio native
