#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guest-kill9.sh - the daemon is killed 20 times at random moments under a guest with direct I/O; nothing is lost.
# run-tests: timeout=600
set -eu
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

kills=${EBB_KILLS:-20}
seed=${EBB_SEED:-$$}
RANDOM=$seed

it_begin
echo "seed $seed"
it_disk "$SWAP_DIR/disk.img" 256 "cache=none,aio=native"
ebbd_start --debug-evict random || it_fail "no daemon"
guest_start vm 512 160 "verify.procs=2 verify.mib=380 verify.seconds=$((kills * 3 + 5)) verify.scan-every=20
	verify.disk=/dev/vda guest.linger=60" "${DISK[@]}" || it_fail "no guest"
it_wait_console vm '^FILLED ' 120

evictions=0
slowest=0
for ((k = 1; k <= kills; k++)); do
	sleep "$((RANDOM % 3)).$((RANDOM % 10))"
	evictions=$((evictions + $(it_show vm evictions)))
	begin=$(date +%s%N)
	kill -KILL "$EBBD_PID"
	wait "$EBBD_PID" 2>/dev/null || true
	ebbd_start --debug-evict random || it_fail "no daemon after kill $k"
	took=$((($(date +%s%N) - begin) / 1000000))
	slowest=$((took > slowest ? took : slowest))
	ctl --json show vm >/dev/null || it_fail "the guest was not taken over after kill $k"
	echo "kill $k: ready again after $took ms; $(grep -a 'took over' "$RUN_DIR/ebbd.log" | tail -n 1)"
done
it_verdict vm $((kills * 12 + 180))
line=$(guest_line vm '^VERIFY ')
[ "$evictions" -gt 0 ] || it_fail "nothing was evicted"
it_pass "$kills kills, $evictions evictions before them, slowest restart $slowest ms," \
	"longest wait of the guest $(line_number maxwait_ms "$line") ms, 0 mismatches"
