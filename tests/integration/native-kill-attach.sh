#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-kill-attach.sh - ebbd is killed in the middle of an attach, when its hands are in the process.
#
# The process lives on and loses nothing; the next ebbd leaves it as it was before, so that it can be attached again.
# run-tests: timeout=180
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

ATTACHES=${EBB_ATTACHES:-15}

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
	[ "$left$refused$files" = 000 ] || it_fail "of $ATTACHES kills in an attach $left left descriptors in the process," \
		"$files left files behind, after $refused the process could not be attached again"
}

nat_begin
while_attaching
it_pass "$ATTACHES kills while attaching, nothing left behind, 0 mismatches"
