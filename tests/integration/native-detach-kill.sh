#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-detach-kill.sh - ebbd is killed while it lets a guest go.
#
# The next one either manages the guest under the limit it had, or has let it go completely: memory that was never
# touched can be, nothing is left in the process, and it can be attached again.
# run-tests: timeout=180
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

KILLS=${EBB_KILLS:-30}
LIMIT=$((16 << 20))
NEW=0 # the first page that was never touched

much_out() {
	[ "$(show evicted)" -gt $((16 << 20)) ]
}

# pages nobody has touched before, and those there are
touch_new() {
	sin fill $NEW 8 1 || it_fail "$1: $ANSWER"
	NEW=$((NEW + 8))
	standin_check 0 $NEW
}

let_go() {
	[ "$(own_fds)" = "$FDS" ] || it_fail "$1: descriptors were left: $(own_fds | diff - <(echo "$FDS") | tr "\n" ";")"
	case " $(vm_flags) " in *" um "* | *" uw "*) it_fail "$1: the memory is still registered" ;; esac
	if compgen -G "$RUN_DIR/state/*.state" >/dev/null || compgen -G "$SWAP_DIR/*.swap" >/dev/null; then
		it_fail "$1: a file was left"
	fi
}

begin_detach() {
	if [ $((RANDOM % 4)) = 0 ]; then
		kill -TERM "$EBBD_PID" # its end lets go as well
	else
		ctl detach a >/dev/null 2>&1 &
		DETACH=$!
	fi
}

nat_begin
nat_ebbd --debug-evict "random:$SEED"
standin_start --empty --keep 8192 64 2 600
FDS=$(own_fds)
limited=0 free=0
attach --limit $LIMIT
soon 20 much_out || it_fail "only $(show evicted) bytes are evicted"
took=${EPOCHREALTIME/./}
ctl detach a >/dev/null || it_fail "detach"
took=$(((${EPOCHREALTIME/./} - took) / 1000)) # ms
for ((k = 1; k <= KILLS; k++)); do
	[ "$(state_of)" = managed ] || attach --limit $LIMIT
	soon 20 much_out || it_fail "before kill $k: only $(show evicted) bytes are evicted"
	DETACH=
	begin_detach
	# half of them around its end
	random_ms "$((k % 2 ? took * 2 / 3 : 0))" "$((k % 2 ? took * 4 / 3 : took))"
	kill9 2>/dev/null || true # it may have ended
	[ -z "$DETACH" ] || wait "$DETACH" || true
	nat_ebbd --debug-evict "random:$SEED"
	case $(state_of) in
	managed)
		limited=$((limited + 1))
		[ "$(json_number limit "$(ctl --json show a)")" = $LIMIT ] ||
			it_fail "after kill $k the guest is managed without its limit: $(ctl --json show a | head -c 300)"
		;;
	"")
		free=$((free + 1))
		let_go "after kill $k the guest is not managed"
		;;
	*) it_fail "after kill $k the guest is $(state_of)" ;;
	esac
	touch_new "after kill $k"
done
standin_end
nat_ebbd_end
[ "$limited" -gt 0 ] && [ "$free" -gt 0 ] || echo "only one of the two ends was met"
it_pass "$KILLS kills while letting go, which takes $took ms: $limited times managed again, $free times let go, 0 mismatches"
