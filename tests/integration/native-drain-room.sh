#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-drain-room.sh - memory runs short while a guest is drained: the drain ends in time, and can be gone on with.
#
# The room is that of a memory cgroup, in which a file on tmpfs grows meanwhile; the kernel must not kill anybody.
# run-tests: timeout=240
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

GROUP=
HOG=/dev/shm/ebb-hog-$$

nat_cleanup() {
	rm -f "$HOG"
	[ -z "$GROUP" ] || wait_until 5 rmdir "$GROUP" 2>/dev/null || true
}

make_group() {
	local dir

	for dir in /sys/fs/cgroup/memory /sys/fs/cgroup; do
		GROUP=$dir/ebb-room-$$
		mkdir "$GROUP" 2>/dev/null || continue
		{ echo $((1150 << 20)) >"$GROUP/memory.limit_in_bytes"; } 2>/dev/null && return 0
		{ echo $((1150 << 20)) >"$GROUP/memory.max"; } 2>/dev/null && return 0
		rmdir "$GROUP"
	done
	GROUP=
	it_skip "no memory cgroup can be made here"
}

kills() {
	sed -n 's/^oom_kill //p' "$GROUP/memory.oom_control" "$GROUP/memory.events" 2>/dev/null | head -n 1
}

# in the group, 400 MiB
hog() {
	sh -c 'echo $$ >"$1/cgroup.procs" && exec head -c 400M /dev/zero' hog "$GROUP" >"$HOG" || it_fail "no memory for the file"
}

is_draining() {
	[ "$(state_of)" = draining ]
}

much_out() {
	[ "$(show evicted)" -gt $((900 << 20)) ]
}

nat_begin
make_group
nat_ebbd
echo $$ >"$GROUP/cgroup.procs"
standin_start 1024 2 600
echo $$ >"${GROUP%/*}/cgroup.procs"
attach --limit 64M
soon 90 much_out || it_fail "only $(show evicted) bytes are out"
ctl drain a >"$RUN_DIR/drain.log" 2>&1 &
DRAIN=$!
soon 10 is_draining || it_fail "no drain begins: $(cat "$RUN_DIR/drain.log")"
hog
! wait "$DRAIN" || it_fail "it was drained without room"
grep -q "MiB still out: no room in the VMM's memory cgroup" "$RUN_DIR/drain.log" || it_fail "it says: $(cat "$RUN_DIR/drain.log")"
left=$(($(show evicted) >> 20))
[ "$left" -gt 100 ] && [ "$left" -lt 850 ] || it_fail "$left MiB are out"
[ "$(state_of)" = managed ] || it_fail "the guest is $(state_of)"
sleep 3 # it works on, and takes no more
[ "$(kills)" = 0 ] && alive "$SP" || it_fail "the kernel has killed somebody"
[ $(($(show evicted) >> 20)) -gt $((left - 32)) ] || it_fail "it took more memory: $left MiB were out, now $(show evicted) bytes"
rm "$HOG"
ctl drain a >/dev/null || it_fail "a second drain does not go on"
[ "$(show evicted)" = 0 ] || it_fail "$(show evicted) bytes are still out"
standin_end
nat_ebbd_end
it_pass "ended with $left MiB out, nobody was killed, and gone on with; 0 mismatches"
