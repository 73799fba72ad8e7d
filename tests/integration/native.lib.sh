# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# native.lib.sh - what the native tests share: ebbd with a stand-in process instead of a QEMU. Sourced, never run.
#
# The stand-in (standin.c) is told what to do over a pipe: `sin discard 0 64` sends a command and puts the answer in
# ANSWER. One stand-in at a time, unless a test starts others itself.
#
# EBB_SEED makes the random choices of a run again.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

STANDIN=$EBB_OUT/tests/integration/standin
SP=     # the stand-in's pid
ANSWER= # to the last `sin`
SIN=    # to its standard input
SOUT=   # from it
SEED=${EBB_SEED:-$(($(date +%s%N) % 1000000))}
EXTRA_PIDS=() # also ended by nat_end

nat_begin() {
	[ "$(id -u)" = 0 ] || it_skip "ebbd needs root"
	[ -x "$STANDIN" ] || it_fail "$STANDIN is not built"
	trap nat_end EXIT
	trap 'exit 130' INT TERM
	run_begin
	mkfifo "$RUN_DIR/never" "$RUN_DIR/sin" "$RUN_DIR/sout"
	RANDOM=$SEED
	echo "seed: $SEED (EBB_SEED=$SEED repeats the test's own random choices)"
}

nat_end() {
	local rc=$? pid

	trap - EXIT INT TERM
	[ -z "$SP" ] || standin_kill
	for pid in "${EXTRA_PIDS[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	if [ -n "${EBB_KEEP_LOGS:-}" ] && [ -d "$RUN_DIR" ]; then
		mkdir -p "$EBB_KEEP_LOGS/$IT_NAME"
		cp "$RUN_DIR"/*.log "$EBB_KEEP_LOGS/$IT_NAME/" 2>/dev/null || true
	fi
	if declare -F nat_cleanup >/dev/null; then nat_cleanup; fi
	[ -z "$EBBD_PID" ] || kill -KILL "$EBBD_PID" 2>/dev/null || true
	[ -z "$EBBD_PID" ] || wait "$EBBD_PID" 2>/dev/null || true
	EBBD_PID=
	run_end
	exit "$rc"
}

# nat_ebbd [ARGUMENTS...] - the daemon, for any process; waits until it listens
nat_ebbd() {
	"$EBB_OUT/ebbd" --debug-any-process -v --socket "$SOCKET" --state-dir "$RUN_DIR/state" --swap-dir "$SWAP_DIR" \
		"$@" </dev/null >>"$RUN_DIR/ebbd.log" 2>&1 &
	EBBD_PID=$!
	nat_settled() { ctl list >/dev/null 2>&1 || gone "$EBBD_PID"; }
	soon 15 nat_settled && alive "$EBBD_PID" || it_fail "no daemon"
}

# nat_ebbd_end - SIGTERM, and it must end by itself
nat_ebbd_end() {
	local rc=0

	kill -TERM "$EBBD_PID"
	soon 30 gone "$EBBD_PID" || it_fail "ebbd does not end"
	wait "$EBBD_PID" || rc=$?
	EBBD_PID=
	[ "$rc" = 0 ] || it_fail "ebbd: exit $rc"
}

# standin_start [ARGUMENTS...] - sets SP; waits until its memory is written
standin_start() {
	[ -n "$SIN" ] || { exec {SIN}<>"$RUN_DIR/sin" {SOUT}<>"$RUN_DIR/sout"; }
	rm -f "$RUN_DIR/standin.log" # the child opens it anew later than we look
	"$STANDIN" "$@" <&"$SIN" 3>&"$SOUT" {SIN}>&- {SOUT}>&- >"$RUN_DIR/standin.log" 2>&1 &
	SP=$!
	standin_settled() { grep -qs ^READY "$RUN_DIR/standin.log" || gone "$SP"; }
	soon 60 standin_settled || true
	grep -qs ^READY "$RUN_DIR/standin.log" && return 0
	it_fail "the stand-in did not start ($(alive "$SP" && echo it hangs || echo it has ended))"
}

# sin COMMAND... - the stand-in obeys; 1 when it answers ERR. It answers within 60 s or the test has failed
sin() {
	echo "$*" >&"$SIN"
	read -r -t 60 -u "$SOUT" ANSWER || it_fail "the stand-in does not answer '$*'"
	case $ANSWER in
	OK*) ANSWER=${ANSWER#OK} ANSWER=${ANSWER# } ;;
	*) return 1 ;;
	esac
}

# standin_check FIRST N - its pages hold what they must; ZEROS: how many of them are zeros that once were written
standin_check() {
	sin check "$1" "$2" || it_fail "check: $ANSWER"
	# shellcheck disable=SC2034 # for the caller
	ZEROS=$(line_number zero "$ANSWER")
	[ "$(line_number bad "$ANSWER")" = 0 ] || it_fail "pages $1..$(($1 + $2 - 1)) of the stand-in's: $ANSWER"
}

# standin_end - SIGTERM, last check of all pages, verdict; RESULT: its last line
standin_end() {
	local rc=0

	kill -TERM "$SP"
	wait "$SP" || rc=$?
	SP=
	RESULT=$(grep '^STANDIN' "$RUN_DIR/standin.log" || true)
	[ "$rc" = 0 ] && [ "$(line_number mismatches "$RESULT")" = 0 ] || it_fail "the stand-in: exit $rc, $RESULT"
	[ "$(line_number ops "$RESULT")" -ge 0 ] || it_fail "the stand-in: $RESULT"
}

# standin_kill - for one whose verdict does not matter
standin_kill() {
	kill -KILL "$SP" 2>/dev/null || true
	wait "$SP" 2>/dev/null || true
	SP=
}

attach() {
	ctl --json attach "$SP" --name a "$@" >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "attach: $(cat "$RUN_DIR/ctl.log")"
}

show() {
	it_show a "$1"
}

# stat_of KEY - a counter
stat_of() {
	local n

	n=$(json_number "$1" "$(ctl --json stats a)")
	[ -n "$n" ] || it_fail "ebbctl stats gives no $1"
	echo "$n"
}

# state_of - managed, draining, failed; empty when there is no such guest
state_of() {
	ctl --json show a 2>/dev/null | sed -n 's/.*"state": *"\([a-z]*\)".*/\1/p' | head -n 1
}

# soon SECONDS COMMAND... - the same as wait_until, but looks every 10 ms
soon() {
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		read -r -t 0.01 <>"$RUN_DIR/never" || true # sleeps, and is quick to start
	done
}

# ram_fd - /proc path of the stand-in's memory
ram_fd() {
	local fd

	for fd in "/proc/$SP/fd/"*; do
		case $(readlink "$fd") in
		/memfd:standin-ram*) echo "$fd" && return ;;
		esac
	done
	it_fail "the stand-in has no memory?"
}

# ram_pages - pages in it, as the kernel counts
ram_pages() {
	echo $(($(stat -L -c %b "$1") / 8))
}

# own_fds - the stand-in's descriptors, one a line, to see that none is left behind
own_fds() {
	local fd

	for fd in "/proc/$SP/fd/"*; do
		echo "${fd##*/} $(readlink "$fd")"
	done
}

# vm_flags - of the VMAs of its memory
vm_flags() {
	awk '/standin-ram/ { hit = 1 } /^VmFlags/ { if (hit) print; hit = 0 }' "/proc/$SP/smaps"
}

random_ms() {
	local ms=$(($1 + RANDOM % ($2 - $1 + 1)))

	sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
}

# kill9 - end the daemon without warning
kill9() {
	kill -KILL "$EBBD_PID"
	wait "$EBBD_PID" 2>/dev/null || true
	EBBD_PID=
}
