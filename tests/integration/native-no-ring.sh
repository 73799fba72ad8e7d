#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-no-ring.sh - where the process may not have an io_uring, sampling goes by one injected madvise a slice.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

knob=/proc/sys/kernel/io_uring_disabled
[ -w "$knob" ] || it_skip "this kernel cannot forbid io_uring to some ($knob)"
[ "$(cat "$knob")" = 0 ] || it_skip "io_uring is restricted here already"
command -v setpriv >/dev/null || it_skip "no setpriv (util-linux)"

nat_cleanup() {
	echo 0 >"$knob"
}

nat_begin
cp "$STANDIN" "$RUN_DIR/standin"
chmod 755 "$RUN_DIR" "$RUN_DIR/standin"
printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all %s "$@"\n' \
	"$RUN_DIR/standin" >"$RUN_DIR/unprivileged"
chmod 755 "$RUN_DIR/unprivileged"
STANDIN=$RUN_DIR/unprivileged
echo 1 >"$knob" # privileged processes only: ebbd is one
nat_ebbd
standin_start 96 4 120
attach --limit 40M
ctl --json show a | grep -q "by injection" || it_fail "the process has a ring: $(ctl --json show a)"
sampled() {
	[ "$(json_number sample-passes "$(ctl --json stats a)")" -ge 3 ]
}
soon 40 sampled || it_fail "no sampling: $(ctl --json stats a)"
[ "$(json_number discarded "$(ctl --json stats a)")" = 0 ] || it_fail "own zaps were taken for discards"
kill -KILL "$EBBD_PID" # perhaps in the middle of one: the next daemon distrusts REMOVEs until it has injected
wait "$EBBD_PID" 2>/dev/null || true
nat_ebbd
soon 40 sampled || it_fail "no sampling after the take-over"
[ "$(json_number discarded "$(ctl --json stats a)")" = 0 ] || it_fail "own zaps were taken for discards"
ctl detach a >/dev/null
standin_end
it_pass "sampled by injection, $(line_number ops "$RESULT") accesses, 0 mismatches"
