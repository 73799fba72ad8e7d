#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-pin.sh - data that a device brings to a page while it is being evicted is not lost.
#
# Not a race but a certainty: a read from an empty pipe into a registered buffer holds its page pinned until something
# is written to the pipe. Meanwhile everything around the page is evicted. With no guard but a delay the page is
# evicted too, and the data must be LOST, or this test could not fail.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

PAGE_NO=100

begin() {
	nat_ebbd --debug-evict "random:$SEED" "$@"
	standin_start --keep 4096 48 2 120
	attach
	sin fill 0 4096 1
	sin pin $PAGE_NO || it_skip "no registered buffers: $ANSWER"
	[ "$zapped" = 0 ] || sin zap $PAGE_NO 1
	ctl limit a 16M >/dev/null
}

end() {
	if [ "$1" = lost ]; then
		standin_kill
	else
		standin_end
	fi
	nat_ebbd_end
}

present() {
	sin present "$1" "$2" && [ "$ANSWER" = "$3" ]
}

refused() {
	[ "$(show pinned)" -gt 0 ]
}

with_guard() {
	local i

	begin
	soon 30 refused || it_fail "the pinned page was never picked"
	for i in $((PAGE_NO - 1)) $((PAGE_NO + 1)); do # these may come back no more: nobody touches them
		soon 30 present "$i" 1 0 || it_fail "page $i, beside the pinned one, is not evicted"
	done
	present $PAGE_NO 1 1 || it_fail "the pinned page is not in memory"
	sin unpin || it_fail "the read failed: $ANSWER"
	standin_check 0 4096
	cancels=$((cancels + $(show pinned)))
	end kept
}

with_delay() {
	begin --pin-guard delay:1
	soon 60 present $PAGE_NO 1 0 || it_fail "the pinned page was not evicted without a guard"
	sin unpin || it_fail "the read failed: $ANSWER"
	sin check $PAGE_NO 1
	[ "$(line_number bad "$ANSWER")" = 1 ] ||
		it_fail "nothing was lost without a guard, so this test proves nothing ($ANSWER)"
	end lost
}

nat_begin
cancels=0
for zapped in 0 1; do
	with_guard
	with_delay
done
it_pass "mapped and zapped: kept with the guard ($cancels evictions called off), lost without"
