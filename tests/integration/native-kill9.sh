#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-kill9.sh - ebbd is killed at random moments under load and started again: nothing is lost.
#
# Three times: random eviction; generations with the zap sampler, so that kills hit zaps in flight; and kills in the
# milliseconds of an attach when ebbd's hands are in the process.
# run-tests: timeout=240
set -eu
# shellcheck source=tests/integration/native-lib.sh
. "$(dirname "$0")/native-lib.sh"

KILLS=${EBB_KILLS:-10} # of each of the first two kinds
ATTACHES=${EBB_ATTACHES:-15}

# took_over - ms of the slowest take-over in the log
took_over() {
	sed -n 's/.*took over pid [0-9]* in \([0-9]*\) us.*/\1/p' "$RUN_DIR/ebbd.log" | sort -n | tail -n 1
}

# zap_waits - a zap of the sampler runs in the stand-in and waits until its REMOVE is read
zap_waits() {
	local task stack

	for task in "/proc/$SP/task/"*/stack; do
		mapfile -t stack 2>/dev/null <"$task" || continue
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

attach_begun() {
	compgen -G "$RUN_DIR/state/*.state" >/dev/null
}

# spin N - some 10 us for each N: shorter than a sleep can be
spin() {
	local i

	for ((i = 0; i < $1; i++)); do
		[ -p "$RUN_DIR/sin" ]
	done
}

# Killed while attaching: the process lives on unharmed, and the next daemon manages it, or leaves it as it was.
while_attaching() {
	local k managed=0 refused=0 left=0 files=0 fds

	for ((k = 1; k <= ATTACHES; k++)); do
		standin_start 16 2 600 # a fresh one each time, or one bad end would hide the next
		fds=$(own_fds)
		nat_ebbd --debug-evict "random:$SEED"
		ctl attach "$SP" --name a >/dev/null 2>&1 &
		soon 5 attach_begun || true
		spin $((RANDOM % 400 * (RANDOM % 3)))
		kill9
		wait $! 2>/dev/null || true
		alive "$SP" || it_fail "the stand-in died when ebbd was killed in attach $k"
		nat_ebbd --debug-evict "random:$SEED"
		sin stats || it_fail "the stand-in does not answer after kill $k"
		if [ "$(state_of)" = managed ]; then
			managed=$((managed + 1))
		elif ! ctl attach "$SP" --name a >/dev/null 2>"$RUN_DIR/ctl.log"; then
			refused=$((refused + 1))
			echo "kill $k: $(cat "$RUN_DIR/ctl.log")"
		fi
		[ -z "$(state_of)" ] || ctl detach a >/dev/null || it_fail "detach after kill $k"
		if [ "$(own_fds)" != "$fds" ]; then
			left=$((left + 1))
			echo "kill $k left behind: $(comm -13 <(echo "$fds" | sort) <(own_fds | sort) | tr '\n' ';')"
		fi
		standin_end
		nat_ebbd_end
		if compgen -G "$RUN_DIR/*/*.state" >/dev/null || compgen -G "$SWAP_DIR/*.swap" >/dev/null; then
			files=$((files + 1))
			echo "kill $k left behind: $(cd "$RUN_DIR/state" && echo *.state) $(cd "$SWAP_DIR" && echo *.swap)"
			rm -f "$RUN_DIR"/state/*.state "$SWAP_DIR"/*.swap
		fi
	done
	report+="$ATTACHES kills while attaching ($managed managed by then)"
	[ "$left$refused$files" = 000 ] || it_fail "of $ATTACHES kills in an attach $left left descriptors in the process," \
		"$files left files behind, after $refused the process could not be attached again"
}

nat_begin
report=
[ "${EBB_ONLY:-}" ] || under_load "random" any 128 8 600 -- --debug-evict "random:$SEED"
[ "${EBB_ONLY:-}" ] || under_load "zap sampler" zap 256 8 600 40 25 --
while_attaching
it_pass "$report; 0 mismatches"
