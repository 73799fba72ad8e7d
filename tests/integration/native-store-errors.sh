#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-store-errors.sh - the store cannot be written, or not be read: nothing is lost, nobody hangs.
#
# Writes fail because ebbd's own files may not grow beyond a few slots (RLIMIT_FSIZE, set from outside; its signal is
# ignored): a device that fails in every other way looks the same to it. Reads fail because somebody writes garbage over
# the slots.
# run-tests: timeout=120
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

have prlimit || it_skip "no prlimit (util-linux)"
trap '' XFSZ # inherited by ebbd: a write beyond RLIMIT_FSIZE is an error, not a signal

# only the soft limit: whoever sets it may raise it again
writes() {
	prlimit --pid "$EBBD_PID" --fsize="$1" || it_skip "cannot set a limit of ebbd's"
}

above() {
	[ "$(ram_pages "$RAM")" -ge $(($1 * 256)) ]
}

below() {
	[ "$(ram_pages "$RAM")" -le $(($1 * 259)) ]
}

ops() {
	sin stats
	line_number ops "$ANSWER"
}

no_writes() {
	local before

	nat_ebbd "$@"
	what="no writes, ebbd $*"
	standin_start --empty --wait 64 4 300 30
	RAM=$(ram_fd)
	attach --limit 20M
	writes 65536:
	sin go
	# every page goes over the limit. One in 2 s would take hours
	soon 40 above 60 || it_fail "$what: with a store that fails only $(ram_pages "$RAM") pages came in"
	[ "$(stat_of write-errors)" -gt 0 ] || it_fail "$what: no write failed"
	[ "$(stat_of over-limit)" -gt 0 ] || it_fail "$what: no page was let over the limit"
	[ "$(state_of)" = managed ] || it_fail "$what: the guest is $(state_of)"
	before=$(ops)
	fast() { [ "$(ops)" -gt $((before + 20000)) ]; }
	soon 20 fast || it_fail "$what: only $(($(ops) - before)) accesses in 20 s"
	writes unlimited:
	soon 30 below 20 || it_fail "$what: the store works again, but the limit is not reached: $(ram_pages "$RAM") pages"
	report+="$(stat_of write-errors) writes failed, $(stat_of over-limit) pages over the limit; "
	standin_end
	nat_ebbd_end
}

settled() {
	now=$(stat_of evictions)-$(stat_of refaults)
	sleep 0.3
	[ "$now" = "$(stat_of evictions)-$(stat_of refaults)" ]
}

# garbage over COUNT pages of the store from SKIP on; the good ones are kept
damage() {
	file=$(echo "$SWAP_DIR"/*.swap)
	cp "$file" "$SWAP_DIR/good"
	tr '\0' y </dev/zero | dd of="$file" bs=4096 count="$2" seek="$1" conv=notrunc,fsync iflag=fullblock status=none
}

mend() {
	dd if="$SWAP_DIR/good" of="$file" bs=1M conv=notrunc,fsync status=none
}

# detach fails for REASON, the guest is STATE
no_detach() {
	local rc=0

	ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || rc=$?
	[ "$rc" = 1 ] && [ "$(wc -l <"$RUN_DIR/ctl.log")" = 1 ] && grep -q "can't be read" "$RUN_DIR/ctl.log" ||
		it_fail "$what: detach: exit $rc, $(cat "$RUN_DIR/ctl.log")"
	[[ $(state_of) =~ $1 ]] || it_fail "$what: the guest is $(state_of)"
}

bad_slots() {
	nat_ebbd --debug-evict "random:$SEED"
	standin_start --keep 8192 32 0 120
	RAM=$(ram_fd)
	sin fill 0 8192 1
	attach --limit 16M
	soon 20 below 16 || it_fail "not enough was evicted"
	soon 20 settled || it_fail "evictions go on at rest"

	what="detach with bad slots"
	damage 0 9000
	no_detach managed
	mend
	[ "$(show limit)" = $((16 << 20)) ] || it_fail "$what: the limit is $(show limit)"
	# it goes on as before: what came back until it failed is evicted again
	standin_check 0 8192
	soon 20 below 16 || it_fail "$what: the limit is not kept afterwards: $(ram_pages "$RAM") pages"
	soon 20 settled || it_fail "$what: evictions go on at rest"

	what="detach with bad slots, and somebody waits for them"
	damage 0 9000
	echo "check 0 8192" >&"$SIN"
	for _ in 1 2 3; do
		no_detach 'managed|failed'
	done
	failed() { [ "$(state_of)" = failed ]; }
	soon 20 failed || it_fail "$what: the guest is $(state_of)"
	no_detach failed
	mend
	kill -CONT "$SP"
	read -r -t 30 -u "$SOUT" ANSWER || it_fail "$what: mended, but who waited does not go on"
	[ "$(line_number bad "$ANSWER")" = 0 ] || it_fail "$what: $ANSWER"
	ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "$what: mended: $(cat "$RUN_DIR/ctl.log")"
	[ "$(ram_pages "$RAM")" = 8192 ] || it_fail "$what: $(ram_pages "$RAM") of 8192 pages are back"
	standin_end
	nat_ebbd_end
}

nat_begin
report=
no_writes --debug-evict "random:$SEED"
no_writes
bad_slots
it_pass "${report}detach from bad slots refused, 0 mismatches"
