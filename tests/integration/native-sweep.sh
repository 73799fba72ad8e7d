#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-sweep.sh - what dead daemons and dead VMs left is removed at start, and nothing else.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

NS=$(stat -L -c %i /proc/self/ns/pid)

# start_of PID - its start time, as in the names of its files
start_of() {
	sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20
}

# a pid that nobody has
free_pid() {
	local pid

	sleep 0 &
	pid=$!
	wait "$pid"
	echo "$pid"
}

stores() {
	local dead=$(($1)) ours=$BASHPID

	old=("$dead-1-$NS.swap" "$dead-99999-$NS.swap" "$ours-1-$NS.swap") # the last: of an earlier process of our pid
	kept=("$dead-2-$((NS + 1)).swap"    # of another pid namespace
		"$dead-3-$NS.swap"          # locked: somebody works on it
		"$ours-$(start_of "$ours")-$NS.swap" # of a process that lives
		"$dead-4-$NS.swap.old" "x$dead-5-$NS.swap" "$dead-6.swap" notes.swap)
	(cd "$SWAP_DIR" && touch "${old[@]}" "${kept[@]}")
	exec {LOCK}<>"$SWAP_DIR/$dead-3-$NS.swap"
	flock -n "$LOCK"
	touch "$RUN_DIR/state/$dead-1.state.tmp" "$RUN_DIR/state/$dead-1.other"
	nat_ebbd {LOCK}>&-
	for file in "${old[@]}"; do
		[ ! -e "$SWAP_DIR/$file" ] || it_fail "$file of a dead process is still there"
	done
	for file in "${kept[@]}"; do
		[ -e "$SWAP_DIR/$file" ] || it_fail "$file was removed"
	done
	[ ! -e "$RUN_DIR/state/$dead-1.state.tmp" ] || it_fail "an unfinished state file is still there"
	[ -e "$RUN_DIR/state/$dead-1.other" ] || it_fail "a file that is not ours was removed"
	nat_ebbd_end
	exec {LOCK}>&-
	rm -f "$SWAP_DIR"/*.swap*
}

# a state file of the process that is none: the process has no pages out, and can be attached
broken_state() {
	local name

	standin_start --keep 4096 32 2 60
	name=$RUN_DIR/state/$SP-$(start_of "$SP").state
	for how in empty text half; do
		case $how in
		empty) : >"$name" ;;
		text) echo "no state file" >"$name" ;;
		half) head -c 8192 "$RUN_DIR/good" >"$name" ;;
		esac
		touch "$name.tmp"
		nat_ebbd
		[ ! -e "$name.tmp" ] || it_fail "$how: an unfinished state file is still there"
		touch "$name.tmp" # of an attach that this daemon's predecessor did not even begin
		ctl --json attach "$SP" --name a --limit 16M >/dev/null 2>"$RUN_DIR/ctl.log" ||
			it_fail "a state file that is $how keeps its process from being attached: $(cat "$RUN_DIR/ctl.log")"
		out() { [ "$(show evicted)" -gt $((8 << 20)) ]; }
		soon 20 out || it_fail "$how: nothing is evicted"
		kill9
		nat_ebbd
		[ "$(state_of)" = managed ] || it_fail "$how: the guest is not managed by the next ebbd"
		ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "$how: $(cat "$RUN_DIR/ctl.log")"
		nat_ebbd_end
		[ ! -e "$name" ] || it_fail "$how: the state file is still there"
	done
	standin_end
}

# the file of a guest that is managed, to make half of one
good_state() {
	nat_ebbd
	standin_start 32 0 60
	attach
	cp "$RUN_DIR/state/$SP-$(start_of "$SP").state" "$RUN_DIR/good"
	standin_kill
	nat_ebbd_end
}

nat_begin
stores "$(free_pid)"
good_state
broken_state
it_pass "${#old[@]} stores of dead processes removed, ${#kept[@]} others kept, 3 broken state files in nobody's way"
