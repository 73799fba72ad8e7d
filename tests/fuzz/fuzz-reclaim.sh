#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# fuzz-reclaim.sh - a few seconds of the fuzz target; make fuzz runs it for longer.
exec "$(dirname "$0")/../../scripts/fuzz" reclaim "${EBB_SECONDS:-5}"
