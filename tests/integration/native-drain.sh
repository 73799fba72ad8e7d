#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-drain.sh - drain brings every page back beside a guest that works: refused without room, aborted, resumed.
# run-tests: timeout=240
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

GROUP=

nat_cleanup() {
	[ -z "$GROUP" ] || wait_until 5 rmdir "$GROUP" 2>/dev/null || true
}

mib_out() {
	echo $(($(show evicted) >> 20))
}

much_out() {
	[ "$(mib_out)" -gt 400 ]
}

# refused TEXT ARGUMENTS... - a drain that is not begun: the guest is as before
refused() {
	local text=$1 before

	shift
	before=$(stat_of evictions)
	! ctl drain a "$@" >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "drained although there is no room"
	grep -q "$text" "$RUN_DIR/ctl.log" || it_fail "it does not say '$text': $(cat "$RUN_DIR/ctl.log")"
	[ "$(state_of)" = managed ] && much_out || it_fail "a drain that was refused changed something"
	still_evicts() { [ "$(stat_of evictions)" -gt "$before" ]; }
	soon 20 still_evicts || it_fail "after a refused drain nothing is evicted"
}

# small_group - the stand-in in a memory cgroup with no room for what is out; 1 where none can be made
small_group() {
	local dir

	for dir in /sys/fs/cgroup/memory /sys/fs/cgroup; do
		GROUP=$dir/ebb-drain-$$
		mkdir "$GROUP" 2>/dev/null || continue
		echo "$SP" >"$GROUP/cgroup.procs"
		{ echo $((80 << 20)) >"$GROUP/memory.limit_in_bytes"; } 2>/dev/null && return 0
		{ echo $((80 << 20)) >"$GROUP/memory.max"; } 2>/dev/null && return 0
		echo "$SP" >"$dir/cgroup.procs"
		rmdir "$GROUP"
	done
	GROUP=
	return 1
}

leave_group() {
	echo "$SP" >"${GROUP%/*}/cgroup.procs"
	wait_until 5 rmdir "$GROUP" || it_fail "the cgroup does not go"
	GROUP=
}

# longest_ms - of the stand-in's accesses since the last question, the longest in ms
longest_ms() {
	sin stats
	echo $(($(line_number maxwait_us "$ANSWER") / 1000))
}

is_draining() {
	[ "$(state_of)" = draining ]
}

has_come_back() {
	[ "$(mib_out)" -lt $((out - 8)) ]
}

nat_begin
TOTAL=$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)

# no room in the host
nat_ebbd --debug-evict "random:$SEED" --drain-reserve "$TOTAL"K
standin_start --dio 2 "$SWAP_DIR/dio" 512 4 600 30 50
RAM=$(ram_fd)
attach --limit 64M
soon 60 much_out || it_fail "only $(mib_out) MiB are out"
refused "no room in the host: .* stay in reserve"
! ctl detach a >/dev/null 2>&1 || it_fail "detached although there is no room"
ctl detach a --force >/dev/null || it_fail "detach --force"
nat_ebbd_end

# no room in the VMM's cgroup
nat_ebbd --debug-evict "random:$SEED"
attach --limit 64M
soon 60 much_out || it_fail "only $(mib_out) MiB are out"
if small_group; then
	refused "no room in the VMM's memory cgroup"
	leave_group
else
	echo "no memory cgroup can be made here: not tried"
fi

# under load: progress, abort, resume
"$EBB_OUT/tests/integration/listen" "$SOCKET" 600 >"$RUN_DIR/events.log" &
EXTRA_PIDS+=($!)
plain=$(longest_ms)
out=$(mib_out) all=$out
ctl drain a >"$RUN_DIR/drain.log" 2>&1 &
DRAIN=$!
soon 10 is_draining || it_fail "no drain begins: $(cat "$RUN_DIR/drain.log")"
[ "$(show left)" -gt 0 ] && [ -n "$(show rate)" ] || it_fail "no progress is shown"
! ctl limit a 32M 2>/dev/null || it_fail "a limit can be set while the guest is drained"
soon 20 has_come_back || it_fail "nothing comes back"
ctl drain-abort a || it_fail "drain-abort"
! wait "$DRAIN" || it_fail "an aborted drain was answered as done"
grep -q "called off" "$RUN_DIR/drain.log" || it_fail "the drain says: $(cat "$RUN_DIR/drain.log")"
left=$(mib_out)
[ "$left" -gt 0 ] && [ "$left" -lt "$out" ] || it_fail "aborted with $left of $out MiB out"
[ "$(state_of)" = managed ] || it_fail "after the abort the guest is $(state_of)"
! ctl drain-abort a 2>/dev/null || it_fail "what is not being drained can be aborted"
sleep 1
[ "$(mib_out)" -le $((left + 16)) ] || it_fail "what had come back was evicted again: $left, now $(mib_out) MiB"
ctl drain a >"$RUN_DIR/drain.log" 2>&1 || it_fail "the second drain: $(cat "$RUN_DIR/drain.log")"
draining=$(longest_ms)
[ "$(show evicted)" = 0 ] && [ "$(show zero)" = 0 ] || it_fail "$(show evicted) bytes are still out"
[ "$(ram_pages "$RAM")" = $((512 * 256)) ] || it_fail "$(ram_pages "$RAM") pages are in memory"
[ "$(state_of)" = managed ] && [[ $(ctl --json show a) == *'"limit": null'* ]] || it_fail "$(ctl show a)"

for what in "aborted" "done"; do
	soon 5 grep -q "DRAIN_ENDED.*\"$what\"" "$RUN_DIR/events.log" || it_fail "no event says $what: $(cat "$RUN_DIR/events.log")"
done

# killed on the way: the next daemon has it under the limit from before
ctl limit a 64M >/dev/null
soon 60 much_out || it_fail "after the drain only $(mib_out) MiB are evicted"
out=$(mib_out)
ctl drain a >"$RUN_DIR/drain.log" 2>&1 &
DRAIN=$!
soon 10 is_draining || it_fail "no drain begins: $(cat "$RUN_DIR/drain.log")"
soon 20 has_come_back || it_fail "nothing comes back"
kill9
wait "$DRAIN" && it_fail "drained before it could be killed"
nat_ebbd --debug-evict "random:$SEED"
[ "$(state_of)" = managed ] && [ "$(json_number limit "$(ctl --json show a)")" = $((64 << 20)) ] ||
	it_fail "after a kill: $(ctl --json show a | head -c 300)"
soon 60 much_out || it_fail "after a kill only $(mib_out) MiB are evicted"

# and it can be drained with all others, and let go
ctl drain --detach >"$RUN_DIR/drain.log" || it_fail "drain of all"
grep -q "^a: drained .*, detached" "$RUN_DIR/drain.log" || it_fail "$(cat "$RUN_DIR/drain.log")"
[ -z "$(state_of)" ] || it_fail "it is still listed"
[ "$(ram_pages "$RAM")" = $((512 * 256)) ] || it_fail "$(ram_pages "$RAM") pages are in memory"
standin_end
nat_ebbd_end
it_pass "refused twice, aborted at $left of $all MiB, resumed, killed; longest access $plain ms before, $draining ms while draining, 0 mismatches"
