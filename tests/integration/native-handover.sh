#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-handover.sh - one ebbd follows another under load: replaced, refused to, ended without room, killed on the way.
# run-tests: timeout=240
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

TIMES=${EBB_TIMES:-6}
LIMIT=$((48 << 20))

# works WHAT - managed under its limit, and pages come and go
works() {
	local before

	[ "$(state_of)" = managed ] || it_fail "$1: the guest is not managed: $(state_of)"
	[ "$(json_number limit "$(ctl --json show a)")" = $LIMIT ] || it_fail "$1: its limit is gone"
	before=$(stat_of evictions)
	goes_on() { [ "$(stat_of evictions)" -gt "$before" ]; }
	soon 20 goes_on || it_fail "$1: nothing is evicted"
}

# replace - a new daemon takes the place of the old; OLD has ended as it should
replace() {
	local rc=0

	OLD=$EBBD_PID
	nat_ebbd --debug-evict "random:$SEED" --replace
	soon 30 gone "$OLD" || it_fail "the old ebbd is still there"
	wait "$OLD" || rc=$?
	[ "$rc" = 0 ] || it_fail "the old ebbd: exit $rc"
	soon 15 nat_settled && alive "$EBBD_PID" || it_fail "no new ebbd" # nat_ebbd had an answer from the old one
}

# not_replaced TEXT ARGUMENTS... - the new one refuses, the old one works on
not_replaced() {
	local text=$1

	shift
	! "${DAEMON[@]}" --replace "$@" >"$RUN_DIR/new.log" 2>&1 || it_fail "it ended with status 0"
	grep -q "$text" "$RUN_DIR/new.log" || it_fail "it does not say '$text'"
	alive "$EBBD_PID" || it_fail "'$text': the old ebbd has gone"
	works "'$text'"
}

longest_ms() {
	sin stats
	echo $(($(line_number maxwait_us "$ANSWER") / 1000))
}

# ends_with STATUS - the daemon ends by itself
ends_with() {
	local rc=0

	soon 30 gone "$EBBD_PID" || it_fail "ebbd does not end"
	wait "$EBBD_PID" || rc=$?
	EBBD_PID=
	[ "$rc" = "$1" ] || it_fail "ebbd: exit $rc instead of $1"
}

nat_begin
DAEMON=("$EBB_OUT/ebbd" --debug-any-process --socket "$SOCKET" --swap-dir "$SWAP_DIR" --debug-evict "random:$SEED")
nat_ebbd --debug-evict "random:$SEED" --replace # nothing is there: it just begins
standin_start --discard 1 --dio 2 "$SWAP_DIR/dio" 128 6 600
attach --limit $LIMIT
works "at first"

rc=0
"${DAEMON[@]}" --on-term sometimes 2>/dev/null || rc=$?
[ "$rc" = 2 ] || it_fail "--on-term sometimes: exit $rc"
! ctl quit sometimes 2>"$RUN_DIR/ctl.log" || it_fail "quit sometimes"
grep -q "no way to end" "$RUN_DIR/ctl.log" || it_fail "quit sometimes: $(cat "$RUN_DIR/ctl.log")"

# replaced
gap=0
for ((k = 1; k <= TIMES; k++)); do
	random_ms 100 700
	longest_ms >/dev/null
	replace
	works "replaced $k times"
	now=$(longest_ms)
	gap=$((now > gap ? now : gap))
done
[ "$(grep -c 'a: took over' "$RUN_DIR/ebbd.log")" = "$TIMES" ] || it_fail "not $TIMES take-overs"

# refused: by the new one's own checks, and by the old one
"${DAEMON[@]}" --check --state-dir "$RUN_DIR/state" >"$RUN_DIR/new.log" 2>&1 || it_fail "--check"
echo garbage >"$RUN_DIR/state/1-1.state"
not_replaced "not a state file of this version" --state-dir "$RUN_DIR/state"
! "${DAEMON[@]}" --check --state-dir "$RUN_DIR/state" >/dev/null 2>&1 || it_fail "--check finds nothing"
rm "$RUN_DIR/state/1-1.state"
mkdir -m 700 "$RUN_DIR/other"
not_replaced "works on another state directory" --state-dir "$RUN_DIR/other"

# the new one fails when the old has gone: it says so, and any other can go on
exec {LOCK}<"$RUN_DIR"
flock "$LOCK"
OLD=$EBBD_PID
! "${DAEMON[@]}" --replace --state-dir "$RUN_DIR/state" {LOCK}<&- >"$RUN_DIR/new.log" 2>&1 || it_fail "no failure"
grep -q "HAS GONE, and this one cannot work" "$RUN_DIR/new.log" || it_fail "it is not said that the old one has gone"
exec {LOCK}<&-
ends_with 0
nat_ebbd --debug-evict "random:$SEED"
works "after a failed replacement"

# SIGTERM without room: handed over, with a status and a line that say so
kill9
nat_ebbd --debug-evict "random:$SEED" --drain-reserve 1T
works "before the end without room"
kill -TERM "$EBBD_PID"
ends_with 3
grep -q "a: not brought back: .*no room in the host" "$RUN_DIR/ebbd.log" && grep -q "a: handed over to the next" "$RUN_DIR/ebbd.log" ||
	it_fail "the log does not name the guest"

# SIGTERM while it is drained, and while it is let go
for what in drain detach; do
	nat_ebbd --debug-evict "random:$SEED" --on-term hand-over
	works "before the end within a $what"
	ctl "$what" a >"$RUN_DIR/ctl.log" 2>&1 &
	EXTRA=$!
	random_ms 0 60
	kill -TERM "$EBBD_PID"
	ends_with 0
	wait "$EXTRA" || true
	nat_ebbd --debug-evict "random:$SEED"
	case $(state_of) in
	managed) [ "$(json_number limit "$(ctl --json show a)")" != "" ] || ctl limit a $LIMIT >/dev/null ;; # drained in time
	"") attach --limit $LIMIT ;; # let go in time
	*) it_fail "after the end within a $what the guest is $(state_of)" ;;
	esac
	ctl limit a $LIMIT >/dev/null # a drain raises it to what came back
	works "after the end within a $what"
	kill9
done

# killed in the middle of a hand-over
for ((k = 1; k <= TIMES * 2; k++)); do
	nat_ebbd --debug-evict "random:$SEED"
	[ -n "$(state_of)" ] || attach --limit $LIMIT # SIGTERM may have brought all back
	works "before kill $k"
	if [ $((k % 2)) = 0 ]; then ctl quit hand-over; else kill -TERM "$EBBD_PID"; fi
	random_ms 0 $((k % 4 < 2 ? 8 : 40))
	# it may have ended; a second SIGTERM ends it at once, too
	if [ $((k % 3)) = 0 ]; then
		kill -TERM "$EBBD_PID" 2>/dev/null || true
		wait "$EBBD_PID" 2>/dev/null || true
	else
		kill9 2>/dev/null || true
	fi
done
nat_ebbd --debug-evict "random:$SEED"
[ -n "$(state_of)" ] || attach --limit $LIMIT
works "after the last kill"
standin_end
kill -TERM "$EBBD_PID"
ends_with 0
it_pass "replaced $TIMES times, longest access meanwhile $gap ms; 3 refusals, 1 end without room, $((TIMES * 2)) kills or second signals," \
	"$(line_number ops "$RESULT") accesses, 0 mismatches"
