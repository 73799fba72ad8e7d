#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guest-handover.sh - a real guest with direct I/O through upgrades, ends without room, drains, and the last end.
# run-tests: timeout=420
set -eu
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

upgrades=${EBB_UPGRADES:-5}

# ended PID STATUS - of a daemon
ended() {
	local rc=0

	wait_until 30 gone "$1" || it_fail "ebbd does not end"
	wait "$1" || rc=$?
	[ "$rc" = "$2" ] || it_fail "ebbd: exit $rc instead of $2"
}

# managed - under its limit, and pages go out
managed() {
	local before

	before=$(it_show vm evictions)
	goes_on() { [ "$(it_show vm evictions)" -gt "$before" ]; }
	wait_until 30 goes_on || it_fail "$1: nothing is evicted"
	[ "$(it_show vm resident)" -le $((161 << 20)) ] || it_fail "$1: above its limit"
	evictions=$((evictions + $(it_show vm evictions)))
}

it_begin
it_disk "$SWAP_DIR/disk.img" 256 "cache=none,aio=native"
evictions=0
ebbd_start --debug-evict random || it_fail "no daemon"
guest_start vm 512 160 "verify.procs=2 verify.mib=380 verify.seconds=60 verify.scan-every=20 verify.disk=/dev/vda
	guest.linger=60" "${DISK[@]}" || it_fail "no guest"
it_wait_console vm '^FILLED ' 120
managed "at first"

for ((k = 1; k <= upgrades; k++)); do
	old=$EBBD_PID
	ebbd_start --debug-evict random --replace --drain-reserve 1T || it_fail "upgrade $k"
	ended "$old" 0
	wait_until 15 ebbd_settled && alive "$EBBD_PID" || it_fail "upgrade $k: no new daemon"
	managed "upgrade $k"
done

kill -TERM "$EBBD_PID" # without room, by its reserve
ended "$EBBD_PID" 3
grep -q "vm: not brought back: .*no room in the host" "$RUN_DIR/ebbd.log" || it_fail "the log does not say why"
sleep 2 # some of its threads wait
ebbd_start --debug-evict random || it_fail "no daemon"
managed "after an end without room"

for k in 1 2; do
	out=$(($(it_show vm evicted) >> 20))
	begin=$(date +%s%N)
	ctl drain vm >/dev/null || it_fail "drain"
	took=$((($(date +%s%N) - begin) / 1000000))
	[ "$(it_show vm evicted)" = 0 ] || it_fail "drained, and $(it_show vm evicted) bytes are out"
	echo "drain: $out MiB in $took ms"
	[ "$out" -gt 100 ] || it_fail "only $out MiB were out"
	ctl limit vm 160M >/dev/null
	below() { [ "$(it_show vm resident)" -le $((160 << 20)) ]; }
	wait_until 60 below || it_fail "not back at its limit"
	managed "after drain $k"
done

kill -TERM "$EBBD_PID" # with room: all comes back, the guest is on its own
ended "$EBBD_PID" 0
EBBD_PID=
! compgen -G "$SWAP_DIR/*.swap" >/dev/null || it_fail "the swap file is still there"
it_verdict vm 240
line=$(guest_line vm '^VERIFY ')
it_pass "$upgrades upgrades, an end without room, 2 drains, an end with room; $evictions evictions seen on the way," \
	"longest wait of the guest $(line_number maxwait_ms "$line") ms, 0 mismatches"
