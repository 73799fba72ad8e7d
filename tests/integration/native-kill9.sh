#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-kill9.sh - ebbd is killed at random moments under load and started again: nothing is lost.
#
# Twice: with random eviction, and with generations and the zap sampler, where each kill waits until a zap is seen in
# flight. Discards and direct I/O go on all the time.
# run-tests: timeout=240
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

KILLS=${EBB_KILLS:-10} # of each kind

# took_over - ms of the slowest take-over in the log
took_over() {
	sed -n 's/.*took over pid [0-9]* in \([0-9]*\) us.*/\1/p' "$RUN_DIR/ebbd.log" | sort -n | tail -n 1
}

# zap_waits - a zap of the sampler runs in the stand-in and waits until its REMOVE is read
zap_waits() {
	local task name stack

	for task in "/proc/$SP/task/"*; do
		# the kernel's worker that obeys the ring, not a thread that discards
		read -r name 2>/dev/null <"$task/comm" && [[ $name == iou-* ]] || continue
		mapfile -t stack 2>/dev/null <"$task/stack" || continue
		[[ ${stack[*]} != *userfaultfd_event_wait* ]] || return 0
	done
	return 1
}

# moment - when to kill: at random, or as soon as a zap is seen in flight
moment() {
	local tries

	random_ms 100 1200
	[ "$aim" = zap ] || return 0
	for ((tries = 0; tries < 3000; tries++)); do
		! zap_waits || return 0
	done
}

# under_load WHAT AIM STANDIN-ARGS -- EBBD-ARGS
under_load() {
	local what=$1 aim=$2 args=() k before zaps=0

	shift 2
	while [ "$1" != -- ]; do args+=("$1") && shift; done
	shift
	: >"$RUN_DIR/ebbd.log"
	nat_ebbd "$@"
	standin_start --discard 1 --dio 2 "$SWAP_DIR/dio" "${args[@]}"
	attach --limit 48M
	for ((k = 1; k <= KILLS; k++)); do
		moment
		kill9
		! zap_waits || zaps=$((zaps + 1))
		nat_ebbd "$@"
		[ "$(state_of)" = managed ] || it_fail "$what: after kill $k the guest is not managed"
	done
	before=$(stat_of evictions)
	more() { [ "$(stat_of evictions)" -gt "$before" ]; }
	soon 10 more || it_fail "$what: nothing is evicted after the last take-over"
	[ "$(grep -c 'took over' "$RUN_DIR/ebbd.log")" = "$KILLS" ] || it_fail "$what: not $KILLS take-overs"
	sin stats
	standin_end
	report+="$what: $KILLS kills, $(line_number ops "$RESULT") accesses, longest wait since the start"
	report+=" $(($(line_number maxwait_us "$ANSWER") / 1000)) ms, slowest take-over $(($(took_over) / 1000)) ms; "
	[ "$zaps" = 0 ] || report+="$zaps kills with a zap in flight; "
	nat_ebbd_end
	[ "$aim" != zap ] || [ "$zaps" -gt 0 ] || it_fail "no kill hit a zap in flight"
}

nat_begin
report=
under_load "random" any 128 8 600 -- --debug-evict "random:$SEED"
under_load "zap sampler" zap 256 8 600 40 25 --
it_pass "${report}0 mismatches"
