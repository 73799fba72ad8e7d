#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-term-room.sh - SIGTERM with two guests, one in a cgroup without room: that one is handed over, the other let go.
# run-tests: timeout=180
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

GROUP=
B= # the second guest, which the first stand-in's pipes know nothing of

nat_cleanup() {
	[ -z "$GROUP" ] || wait_until 5 rmdir "$GROUP" 2>/dev/null || true
}

small_group() {
	local dir

	for dir in /sys/fs/cgroup/memory /sys/fs/cgroup; do
		GROUP=$dir/ebb-term-$$
		mkdir "$GROUP" 2>/dev/null || continue
		echo "$1" >"$GROUP/cgroup.procs"
		{ echo $((72 << 20)) >"$GROUP/memory.limit_in_bytes"; } 2>/dev/null && return 0
		{ echo $((72 << 20)) >"$GROUP/memory.max"; } 2>/dev/null && return 0
		echo "$1" >"$dir/cgroup.procs"
		rmdir "$GROUP"
	done
	GROUP=
	it_skip "no memory cgroup can be made here"
}

out_of() {
	echo $(($(it_show "$1" evicted) >> 20))
}

both_out() {
	[ "$(out_of a)" -gt 60 ] && [ "$(out_of b)" -gt 60 ]
}

nat_begin
nat_ebbd
standin_start 96 2 600
"$STANDIN" 96 2 600 </dev/null >"$RUN_DIR/b.log" 2>&1 3>/dev/null &
B=$!
EXTRA_PIDS+=("$B")
soon 60 grep -qs ^READY "$RUN_DIR/b.log" || it_fail "the second stand-in did not start"
attach --limit 24M
ctl attach "$B" --name b --limit 24M >/dev/null || it_fail "attach b"
soon 60 both_out || it_fail "out are $(out_of a) and $(out_of b) MiB"
small_group "$B"

kill -TERM "$EBBD_PID"
rc=0
soon 30 gone "$EBBD_PID" || it_fail "ebbd does not end"
wait "$EBBD_PID" || rc=$?
EBBD_PID=
[ "$rc" = 3 ] || it_fail "exit $rc"
[ "$(ram_pages "$(ram_fd)")" = $((96 * 256)) ] || it_fail "a was not brought back"
grep -q "^ebbd: b: not brought back: .*memory cgroup" "$RUN_DIR/ebbd.log" || it_fail "the log does not name b"
! grep -q "^ebbd: a: handed over" "$RUN_DIR/ebbd.log" || it_fail "a was handed over"
[ "$(compgen -G "$RUN_DIR/state/*.state" | wc -l)" = 1 ] || it_fail "there are state files of $(ls "$RUN_DIR/state")"

nat_ebbd
[ -z "$(state_of)" ] || it_fail "a is managed again"
soon 20 ctl show b >/dev/null || it_fail "b was not taken over"
echo "$B" >"${GROUP%/*}/cgroup.procs"
nat_ebbd_end # with room, now
kill -TERM "$B"
wait "$B" || it_fail "b: $(cat "$RUN_DIR/b.log")"
standin_end
it_pass "a was let go, b handed over and let go by the next ebbd, 0 mismatches"
