#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# verify-detects.sh - the workload that all guest tests trust notices damage: a lost page, one byte, an old page.
#
# Runs on the host, no guest: its memory is written to from outside while it works.
set -eu
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

VERIFY=$EBB_OUT/tests/guest/verify
MIB=32
[ -x "$VERIFY" ] || it_fail "$VERIFY is not built"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# area PID - start and length of the mapping that holds the pages, in pages
area() {
	local range from to rest

	while read -r range rest; do
		from=$((0x${range%-*}))
		to=$((0x${range#*-}))
		if [ $((to - from)) -ge $((MIB << 20)) ]; then
			echo $((from / 4096)) $(((to - from) / 4096))
			return
		fi
	done <"/proc/$1/maps"
	return 1
}

# Nothing may happen between a look and the damage.
hold() {
	kill -STOP "$worker"
}

resume() {
	kill -CONT "$worker"
}

poke() {
	dd of="/proc/$worker/mem" conv=notrunc status=none "$@"
}

started() {
	grep -q '^FILLED' "$work/out"
}

# damaged NAME - run the workload, damage one page in the middle by calling NAME, expect exactly one mismatch
damaged() {
	local parent rc=0 line

	rm -f "$work/out" # or the last run seems to be this one
	"$VERIFY" --procs 1 --mib $MIB --seconds 3 --interval 1 --zero 0 >"$work/out" &
	parent=$!
	wait_until 20 started || it_fail "the workload did not start"
	read -r worker _ <"/proc/$parent/task/$parent/children" || true # there is no newline
	read -r first pages < <(area "$worker")
	page=$((first + pages / 2))
	"$1"
	! grep -q phase=scan "$work/out" || it_fail "$1: came too late"
	wait "$parent" || rc=$?
	line=$(grep '^VERIFY ' "$work/out")
	echo "$1: exit $rc, $(grep '^MISMATCH' "$work/out" || echo 'nothing noticed')"
	[ "$rc" != 0 ] || { cat "$work/out"; it_fail "$1: exit 0"; }
	[ "$(line_number mismatches "$line")" = "$2" ] || it_fail "$1: $line, $2 mismatches wanted"
}

lost_page() {
	poke if=/dev/zero bs=4096 count=1 seek="$page"
}

one_byte() {
	hold
	# whatever stands there, one of the two bytes is another
	printf '\125' >"$work/byte"
	dd if="/proc/$worker/mem" bs=1 count=1 skip=$((page * 4096 + 2077)) status=none | cmp -s - "$work/byte" &&
		printf '\252' >"$work/byte"
	poke if="$work/byte" bs=1 seek=$((page * 4096 + 2077))
	resume
}

# what a write lost by an eviction looks like
old_page() {
	dd if="/proc/$worker/mem" of="$work/old" bs=4096 count=1 skip="$page" status=none
	changed() { ! dd if="/proc/$worker/mem" bs=4096 count=1 skip="$page" status=none | cmp -s - "$work/old"; }
	wait_until 2 changed || it_fail "the page was not written meanwhile"
	poke if="$work/old" bs=4096 seek="$page"
}

damaged lost_page 1
damaged one_byte 1
damaged old_page 1
it_pass "a lost page, a wrong byte and an old page were each noticed"
