#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-refuse.sh - what cannot be managed is refused by name, in one sentence, and left exactly as it was.
# run-tests: timeout=180
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

MOUNTED=
nat_cleanup() {
	[ -z "$MOUNTED" ] || umount -l "$MOUNTED" || true
}

refusals=0

# one_sentence STATUS FILE WORDS - of exit status 1 and in one line that holds WORDS
one_sentence() {
	[ "$1" = 1 ] || it_fail "'$3': exit $1, 1 expected: $(cat "$2")"
	[ "$(wc -l <"$2")" = 1 ] || it_fail "'$3': not one line: $(cat "$2")"
	grep -q -- "$3" "$2" || it_fail "'$3' is not said: $(cat "$2")"
	refusals=$((refusals + 1))
	echo "ok: $(cat "$2")"
}

# refused WORDS CTL-ARGUMENTS...
refused() {
	local words=$1 rc=0

	shift
	ctl "$@" >/dev/null 2>"$RUN_DIR/ctl.log" || rc=$?
	one_sentence "$rc" "$RUN_DIR/ctl.log" "$words"
}

# untouched WORDS CTL-ARGUMENTS... - refused, and the stand-in is as it was
untouched() {
	local fds flags words=$1

	fds=$(own_fds)
	flags=$(vm_flags)
	refused "$@"
	[ "$(own_fds)" = "$fds" ] || it_fail "'$words': descriptors were left: $(own_fds | diff - <(echo "$fds"))"
	[ "$(vm_flags)" = "$flags" ] || it_fail "'$words': VmFlags have changed: $(vm_flags) from $flags"
	grep -q '^TracerPid:.0$' "/proc/$SP/status" || it_fail "'$words': the process is traced"
	[ -z "$(state_of)" ] || it_fail "'$words': it is listed nevertheless"
	! compgen -G "$SWAP_DIR/*.swap" >/dev/null || it_fail "'$words': a swap file was left"
	! compgen -G "$RUN_DIR/state/*.state" >/dev/null || it_fail "'$words': a state file was left"
}

# a stand-in with OPTION cannot be attached
odd_process() {
	standin_start "$2" 16 1 60
	untouched "$1" attach "$SP" --name a
	standin_end
}

arguments() {
	local pid

	refused "no process" attach 4194303 --name a
	untouched "floor" attach "$SP" --name a --limit 15M
	untouched "above the guest's memory" attach "$SP" --name a --limit 1G
	untouched "letters" attach "$SP" --name 'a b'
	refused "no guest is called" limit nobody 64M
	refused "no guest is called" detach nobody
	pid=$SP
	kill -STOP "$SP"
	untouched "stopped" attach "$SP" --name a
	kill -CONT "$SP"
	attach
	refused "is managed already, as 'a'" attach "$SP" --name a
	refused "" attach "$pid" --name b
	refused "floor" limit a 15M
	refused "above the guest's memory" limit a 1G
	ctl detach a >/dev/null
}

# it holds the memory open, or maps it, before the attach
second_mapper() {
	local mapper fd

	exec {fd}<>"$(ram_fd)"
	untouched "process $$ .*holds open" attach "$SP" --name a
	exec {fd}>&-
	"$EBB_OUT/tests/integration/mapper" "$(ram_fd)" 32 60 >"$RUN_DIR/mapper.log" 2>&1 &
	mapper=$!
	EXTRA_PIDS+=("$mapper")
	soon 10 grep -qs MAPPED "$RUN_DIR/mapper.log" || it_fail "no mapper"
	untouched "process $mapper .*maps" attach "$SP" --name a
	kill -KILL "$mapper" && wait "$mapper" 2>/dev/null || true
}

# it comes when pages are out: all come back, the guest is let go, an event says why
late_mapper() {
	local mapper listener

	"$EBB_OUT/tests/integration/listen" "$SOCKET" 60 >"$RUN_DIR/events.log" &
	listener=$!
	EXTRA_PIDS+=("$listener")
	attach --limit 20M
	out() { [ "$(show evicted)" -gt $((8 << 20)) ]; }
	soon 20 out || it_fail "nothing was evicted"
	"$EBB_OUT/tests/integration/mapper" "$(ram_fd)" 32 60 >"$RUN_DIR/mapper.log" 2>&1 &
	mapper=$!
	EXTRA_PIDS+=("$mapper")
	let_go() { [ -z "$(state_of)" ]; }
	soon 20 let_go || it_fail "a second mapper came and the guest is still $(state_of)"
	[ "$(ram_pages "$(ram_fd)")" = 8192 ] || it_fail "let go, but $(ram_pages "$(ram_fd)") of 8192 pages are back"
	told() { grep -q "HAZARD.*process $mapper " "$RUN_DIR/events.log"; }
	soon 5 told || it_fail "no event names the mapper: $(cat "$RUN_DIR/events.log")"
	kill -KILL "$mapper" "$listener" && wait "$mapper" "$listener" 2>/dev/null || true
}

# killed during an attach: ebbd says so and goes on
dies_in_attach() {
	local k rc attached=0

	for ((k = 0; k < 15; k++)); do
		standin_start 16 1 60
		ctl attach "$SP" --name a >/dev/null 2>"$RUN_DIR/ctl.log" &
		random_ms 0 30
		kill -KILL "$SP"
		rc=0
		wait "$SP" 2>/dev/null || true
		wait $! || rc=$?
		[ "$rc" = 0 ] && attached=$((attached + 1)) || [ "$(wc -l <"$RUN_DIR/ctl.log")" = 1 ] ||
			it_fail "a death in attach: exit $rc, $(cat "$RUN_DIR/ctl.log")"
		SP=
		alive "$EBBD_PID" || it_fail "ebbd died when the process did"
		none_left() { [ -z "$(state_of)" ]; }
		soon 10 none_left || it_fail "a dead guest is listed"
		! compgen -G "$SWAP_DIR/*.swap" >/dev/null || it_fail "a dead process left a swap file"
	done
	echo "ok: 15 deaths in attach, $attached after it"
}

swap_places() {
	local small dir=$SWAP_DIR

	standin_start 32 1 60
	SWAP_DIR=$RUN_DIR/none
	nat_ebbd
	rmdir "$SWAP_DIR"
	untouched "swap directory" attach "$SP" --name a
	nat_ebbd_end

	SWAP_DIR=$(mktemp -d /dev/shm/ebb.XXXXXX)
	nat_ebbd
	untouched "tmpfs" attach "$SP" --name a
	nat_ebbd_end
	rmdir "$SWAP_DIR"

	small=$dir/small
	SWAP_DIR=$RUN_DIR/small
	truncate -s 24M "$small"
	mkdir -m 700 "$SWAP_DIR"
	if mkfs.ext4 -q "$small" && mount -o loop "$small" "$SWAP_DIR" 2>/dev/null; then
		MOUNTED=$SWAP_DIR
		nat_ebbd
		untouched "no room" attach "$SP" --name a
		mount -o remount,ro "$SWAP_DIR"
		untouched "swap directory" attach "$SP" --name a
		nat_ebbd_end
		umount "$SWAP_DIR"
		MOUNTED=
	else
		echo "left out: a full and a read-only swap directory (no loop mounts here)"
		left_out=", a full swap directory left out: no loop mounts"
	fi
	standin_end
	SWAP_DIR=$dir
}

# a broken state file is left alone and does not keep ebbd from starting
broken_state() {
	local file

	echo "no state file" >"$RUN_DIR/state/1-2.state"
	: >"$RUN_DIR/state/3-4.state"
	head -c 65536 /dev/urandom >"$RUN_DIR/state/5-6.state"
	nat_ebbd
	for file in 1-2 3-4 5-6; do
		grep -q "$file.state: not a state file" "$RUN_DIR/ebbd.log" || it_fail "nothing is said of $file.state"
		[ -e "$RUN_DIR/state/$file.state" ] || it_fail "$file.state was removed"
		rm "$RUN_DIR/state/$file.state"
	done
	echo "ok: $(grep -m 1 'not a state file' "$RUN_DIR/ebbd.log")"
}

# one daemon a state directory
second_daemon() {
	local rc=0

	"$EBB_OUT/ebbd" --socket "$RUN_DIR/other.sock" --state-dir "$RUN_DIR/state" --swap-dir "$SWAP_DIR" \
		>"$RUN_DIR/second.log" 2>&1 || rc=$?
	grep -q "waiting for another ebbd" "$RUN_DIR/second.log" || it_fail "silent while it waited"
	grep -v "waiting for another ebbd" "$RUN_DIR/second.log" >"$RUN_DIR/second.err"
	one_sentence "$rc" "$RUN_DIR/second.err" "another ebbd"
}

nat_begin
left_out=
broken_state
second_daemon
odd_process "no shared memory" --private
odd_process "second time\|twice" --alias
odd_process "inherited by fork" --inherit
odd_process "locked" --lock
odd_process "userfaultfd" --uffd
standin_start 32 2 120
arguments
second_mapper
late_mapper
standin_end
dies_in_attach
nat_ebbd_end
swap_places

ebbd_start || it_fail "no daemon"
standin_start 16 1 60
untouched "not a QEMU" attach "$SP" --name a
standin_end
it_pass "$refusals refusals, each one sentence, the process untouched$left_out"
