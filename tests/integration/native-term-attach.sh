#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-term-attach.sh - ebbd is asked to end while it attaches: the process was never attached, or is let go again.
# run-tests: timeout=180
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

TRIES=${EBB_TRIES:-25}

attach_begun() {
	compgen -G "$RUN_DIR/state/*" >/dev/null
}

# as if ebbd had never been there
clean() {
	[ "$(own_fds)" = "$FDS" ] || it_fail "$1: descriptors were left: $(own_fds | diff - <(echo "$FDS") | tr "\n" ";")"
	case " $(vm_flags) " in *" um "* | *" uw "*) it_fail "$1: the memory is still registered" ;; esac
	if compgen -G "$RUN_DIR/state/*.state*" >/dev/null || compgen -G "$SWAP_DIR/*.swap" >/dev/null; then
		it_fail "$1: a file was left"
	fi
	grep -q '^TracerPid:.0$' "/proc/$SP/status" || it_fail "$1: the process is traced"
	grep -q '^State:.[RSD]' "/proc/$SP/status" || it_fail "$1: the process is stopped: $(grep ^State "/proc/$SP/status")"
	[ "$(ram_pages "$RAM")" = 8192 ] || it_fail "$1: $(ram_pages "$RAM") of 8192 pages are in memory"
}

nat_begin
standin_start --keep 2048 32 2 600
sin fill 0 2048 1
FDS=$(own_fds)
RAM=$(ram_fd)
attached=0
for ((k = 1; k <= TRIES; k++)); do
	: >"$RUN_DIR/ebbd.log"
	nat_ebbd
	ctl attach "$SP" --name a --limit 16M >/dev/null 2>"$RUN_DIR/ctl.log" &
	ATTACH=$!
	[ $((k % 3)) = 0 ] || { state_begun() { attach_begun && [ "$(echo "$RUN_DIR"/state/*.state*)" != "$RUN_DIR/state/*.state*" ]; }
		soon 5 state_begun || true; }
	random_ms 0 "$((k % 2 ? 15 : 60))"
	nat_ebbd_end
	wait "$ATTACH" && attached=$((attached + 1)) || true
	clean "try $k"
	standin_check 0 2048
done
nat_ebbd
attach --limit 16M
standin_end
nat_ebbd_end
it_pass "$TRIES ends while attaching, $attached of them answered as attached; nothing left behind, 0 mismatches"
