#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-discard.sh - discards, as QEMU's balloon makes them, of resident and evicted pages.
#
# A discarded page reads as zeros or as what it was, never as anything else; what is written to it afterwards stays; its
# slot is freed. Under load with random eviction and with the zap sampler, whose own REMOVE events are not discards; and
# at rest, where every count can be checked.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

# under_load WHAT STANDIN-OPTION EBBD-ARGS...
under_load() {
	local what=$1 how=$2

	shift 2
	nat_ebbd "$@"
	standin_start "$how" 4 --dio 2 "$SWAP_DIR/dio" 96 6 120
	attach --limit 40M
	sleep "${EBB_SECONDS:-5}"
	[ "$(stat_of removes)" -gt 100 ] || it_fail "$what: no discards"
	[ "$(stat_of evictions)" -gt 1000 ] || it_fail "$what: no evictions"
	report+="$what: $(stat_of removes) REMOVEs, $(stat_of evictions) evictions, $(stat_of discarded) pages dropped; "
	standin_end
	nat_ebbd_end
}

used() {
	json_number used "$(ctl --json show a)"
}

all_out() {
	sin present 0 4096 && [ "$ANSWER" -le 3900 ] && [ "$(used)" -ge $((4000 * 4096)) ]
}

dropped() {
	[ "$(used)" = 0 ] && [ "$(show evicted)" = 0 ] && [ "$(show resident)" = 0 ] && [ "$(ram_pages "$RAM")" = 0 ]
}

at_rest() {
	nat_ebbd --debug-evict "random:$SEED"
	standin_start --keep 8192 32 0 120
	RAM=$(ram_fd)
	attach
	sin fill 0 8192 1
	ctl limit a 16M >/dev/null
	soon 20 all_out || it_fail "not enough was evicted"
	[ "$(stat_of discarded)" = 0 ] || it_fail "pages were dropped without a discard"
	sin discard 0 8192 || it_fail "discard: $ANSWER"
	soon 10 dropped || it_fail "after a discard of everything: store $(used), evicted $(show evicted), resident" \
		"$(show resident), in the memfd $(ram_pages "$RAM") pages"
	[ "$(stat_of discarded)" = 8192 ] || it_fail "$(stat_of discarded) of 8192 pages counted as discarded"
	sin fill 1000 500 3 # new bytes, in the middle
	standin_check 0 8192
	[ "$ZEROS" = $((8192 - 500)) ] || it_fail "$ZEROS pages are zeros, $((8192 - 500)) expected"
	standin_end
	nat_ebbd_end
}

nat_begin
report=
at_rest
under_load "random" --discard --debug-evict "random:$SEED"
under_load "zap sampler" --discard
under_load "madvise only" --discard-plain --debug-evict "random:$SEED"
it_pass "${report}0 mismatches"
