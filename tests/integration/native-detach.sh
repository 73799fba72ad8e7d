#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-detach.sh - detach, and the end of ebbd by SIGTERM, bring every page back and leave nothing behind.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

# clean WHAT - as if ebbd had never been there
clean() {
	[ "$(own_fds)" = "$FDS" ] || it_fail "$1: descriptors were left: $(own_fds | diff - <(echo "$FDS"))"
	case " $(vm_flags) " in *" um "* | *" uw "*) it_fail "$1: the memory is still registered" ;; esac
	[ "$(ram_pages "$RAM")" = $((96 * 256)) ] || it_fail "$1: $(ram_pages "$RAM") pages of $((96 * 256)) are back"
	! compgen -G "$SWAP_DIR/*.swap" >/dev/null || it_fail "$1: the swap file is still there"
	! compgen -G "$RUN_DIR/state/*.state" >/dev/null || it_fail "$1: the state file is still there"
	grep -q '^TracerPid:.0$' "/proc/$SP/status" || it_fail "$1: the process is traced"
}

evicting() {
	[ "$(show evicted)" -gt $((30 << 20)) ]
}

nat_begin
for args in "--debug-evict random:$SEED" ""; do
	# shellcheck disable=SC2086 # two words or none
	nat_ebbd $args
	standin_start --dio 2 "$SWAP_DIR/dio" 96 6 120
	FDS=$(own_fds)
	RAM=$(ram_fd)
	for k in 1 2 3; do
		attach --limit 40M
		soon 20 evicting || it_fail "nothing is evicted"
		ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "detach: $(cat "$RUN_DIR/ctl.log")"
		[ -z "$(state_of)" ] || it_fail "the guest is still listed"
		clean "detach $k"
	done
	attach --limit 40M
	soon 20 evicting || it_fail "nothing is evicted"
	nat_ebbd_end
	clean "SIGTERM"
	standin_end
done
it_pass "6 detaches and 2 SIGTERMs under load, nothing left behind, $(line_number ops "$RESULT") accesses, 0 mismatches"
