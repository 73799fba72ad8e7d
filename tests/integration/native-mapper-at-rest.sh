#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-mapper-at-rest.sh - a second process maps the memory while nothing is being evicted: the guest is let go.
#
# Nobody touches anything, so that no batch comes by that would notice. With pages out and with none, with the pin
# guard and without.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

LISTENER=

listen() {
	"$EBB_OUT/tests/integration/listen" "$SOCKET" 60 >"$RUN_DIR/events.log" &
	LISTENER=$!
	EXTRA_PIDS+=("$LISTENER")
}

# map SECONDS - sets MAPPER
map() {
	"$EBB_OUT/tests/integration/mapper" "$RAM" 32 "$1" >"$RUN_DIR/mapper.log" 2>&1 &
	MAPPER=$!
	EXTRA_PIDS+=("$MAPPER")
	soon 10 grep -qs MAPPED "$RUN_DIR/mapper.log" || it_fail "no mapper"
}

stop() {
	kill -KILL "$@" 2>/dev/null || true
	wait "$@" 2>/dev/null || true
}

at_rest() {
	now=$(stat_of evictions)-$(stat_of refaults)
	sleep 0.5
	[ "$now" = "$(stat_of evictions)-$(stat_of refaults)" ]
}

# comes WHAT LIMIT PAGES-OUT - the mapper, with so many pages out
comes() {
	local begun

	attach --limit "$2"
	out() { [ "$(show evicted)" -ge $(($3 * 4096)) ]; }
	soon 30 out "$@" || it_fail "$1: only $(show evicted) bytes are evicted"
	soon 20 at_rest || it_fail "$1: evictions go on though nobody touches anything"
	listen
	begun=${EPOCHREALTIME/./}
	map 60
	let_go() { [ -z "$(state_of)" ]; }
	soon 20 let_go || it_fail "$1: a second mapper came and the guest is still $(state_of)"
	report+="$1: let go after $(((${EPOCHREALTIME/./} - begun) / 1000)) ms; "
	[ "$(ram_pages "$RAM")" = 8192 ] || it_fail "$1: let go, but $(ram_pages "$RAM") of 8192 pages are back"
	told() { grep -q "HAZARD.*process $MAPPER " "$RUN_DIR/events.log" && grep -q GUEST_DETACHED "$RUN_DIR/events.log"; }
	soon 5 told || it_fail "$1: no event names the mapper: $(cat "$RUN_DIR/events.log")"
	stop "$MAPPER" "$LISTENER"
	standin_check 0 8192
}

nat_begin
report=
guards=(bpf)
case $(cat /sys/kernel/mm/transparent_hugepage/shmem_enabled 2>/dev/null) in
"" | *"[never]"* | *"[deny]"*) guards+=(delay:1) ;;
*) left_out="; without the guard left out: shmem may have large pages here" ;;
esac
for guard in "${guards[@]}"; do
	nat_ebbd --pin-guard "$guard"
	standin_start --keep 8192 32 0 120
	sin fill 0 8192 1
	RAM=$(ram_fd)
	comes "$guard, pages out" 16M 3500
	comes "$guard, none out" none 0
	standin_end
	nat_ebbd_end
done
it_pass "${report}0 mismatches${left_out:-}"
