#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guest-limit.sh - the limit holds from the first instruction, and follows when it is changed.
# run-tests: timeout=400
set -eu
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

mib=512
it_begin
ebbd_start || it_fail "no daemon"
guest_start vm $mib 200 "verify.procs=2 verify.mib=400 verify.seconds=${EBB_SECONDS:-45} guest.linger=60" ||
	it_fail "no guest"
qemu=$(it_show vm pid)
memfd=$(memfd_of "$qemu" $((mib << 20))) || it_fail "no memfd of $mib MiB"

# watch SECONDS LIMIT-MIB - the memfd, seen from outside, stays at or under the limit and 1 %
watch() {
	local end=$((SECONDS + $1)) blocks peak=0

	while [ $SECONDS -lt "$end" ]; do
		blocks=$(stat -L -c %b "$memfd") || it_fail "the guest is gone"
		peak=$((blocks > peak ? blocks : peak))
		sleep 0.02
	done
	echo "limit $2 MiB: peak $((peak / 2048)) MiB in $1 s"
	[ $peak -le $(($2 * 2048 * 101 / 100)) ] || it_fail "peak of $((peak / 2048)) MiB over a limit of $2 MiB"
}

# settle LIMIT-MIB - wait until the memfd is under a new limit
settle() {
	under() { [ "$(memfd_mib "$memfd")" -le "$1" ]; }
	wait_until 60 under "$1" || it_fail "$(memfd_mib "$memfd") MiB 60 s after a limit of $1 MiB was set"
}

watch 25 200
[ "$(it_show vm evictions)" -gt 0 ] || it_fail "nothing was evicted"
ctl limit vm 120M
settle 120
watch 6 120
ctl limit vm 50%
[ "$(it_show vm limit)" = $((mib << 19)) ] || it_fail "50 % is $(it_show vm limit)"
watch 6 256
if ctl limit vm 1M 2>"$RUN_DIR/refusal"; then it_fail "a limit of 1 MiB was taken"; fi
grep -q floor "$RUN_DIR/refusal" || it_fail "no reason: $(cat "$RUN_DIR/refusal")"
if ctl limit vm 1G 2>"$RUN_DIR/refusal"; then it_fail "a limit above the guest was taken"; fi
grep -q above "$RUN_DIR/refusal" || it_fail "no reason: $(cat "$RUN_DIR/refusal")"
[ "$(it_show vm limit)" = $((mib << 19)) ] || it_fail "a refused limit changed it"
ctl limit vm none
it_verdict vm 240
[ "$(it_show vm resident)" -gt $((300 << 20)) ] || it_fail "without a limit the guest did not grow"
it_pass "0 mismatches"
