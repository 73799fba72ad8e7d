#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-limit.sh - the limit is kept, by the kernel's own count, while it is set, lowered, raised and lifted.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

pages_of() {
	echo $(($1 * 256))
}

# stays_below MIB SECONDS - st_blocks never more than 1 % above
stays_below() {
	local end=$((SECONDS + $2)) now max=0 looks=0

	while [ "$SECONDS" -lt "$end" ]; do
		now=$(ram_pages "$RAM")
		[ "$now" -le "$max" ] || max=$now
		looks=$((looks + 1))
	done
	echo "limit $1 MiB: at most $max pages in $looks looks, $(pages_of "$1") allowed"
	[ "$max" -le $(($(pages_of "$1") * 101 / 100)) ] ||
		it_fail "the memfd held $max pages under a limit of $1 MiB ($(pages_of "$1") pages)"
	most=$max
}

below() {
	[ "$(ram_pages "$RAM")" -le $(($(pages_of "$1") * 101 / 100)) ]
}

above() {
	[ "$(ram_pages "$RAM")" -ge $(($(pages_of "$1") * 9 / 10)) ]
}

agree() {
	[ "$(($(show resident) / 4096))" = "$(ram_pages "$RAM")" ]
}

# at_rest - nobody touches anything: the counts of ebbd and of the kernel are equal
at_rest() {
	kill -STOP "$SP"
	soon 10 agree || it_fail "ebbd counts $(($(show resident) / 4096)) resident pages, the kernel $(ram_pages "$RAM")"
	kill -CONT "$SP"
}

waits() {
	local us

	sin stats
	us=$(line_number maxwait_us "$ANSWER")
	[ "$us" -lt 10000000 ] || it_fail "$1: a touch took $us us"
	longest+="$1 $((us / 1000)) ms, "
}

nat_begin
longest=
nat_ebbd
standin_start --empty --wait 128 4 300
RAM=$(ram_fd)
attach --limit 32M # while it is small
sin go
stays_below 32 6
[ "$most" -ge $(($(pages_of 32) / 2)) ] || it_fail "only $most pages were ever there: nothing was limited"
waits "at 32 MiB"
at_rest
ctl limit a 64M >/dev/null
soon 20 above 64 || it_fail "the room of a raised limit is not used"
waits "raised to 64 MiB"
ctl limit a 24M >/dev/null
soon 20 below 24 || it_fail "a lowered limit is not reached"
waits "lowered to 24 MiB"
sleep 1 # on the way down faults may take back some of what went
stays_below 24 3
at_rest
[ "$(stat_of over-limit)" = 0 ] || it_fail "$(stat_of over-limit) fills were let over the limit"
ctl limit a none >/dev/null
soon 30 above 128 || it_fail "without a limit the memory does not come back"
at_rest
ctl limit a 50% >/dev/null
soon 20 below 64 || it_fail "a limit of 50% is not reached"
standin_end
nat_ebbd_end
it_pass "longest touch: ${longest}0 mismatches"
