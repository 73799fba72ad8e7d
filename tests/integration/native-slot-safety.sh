#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-slot-safety.sh - no inference turns a page that has a slot into zeros.
#
# Each part makes one situation in which a daemon could take a page for discarded, or bring back what is not it:
# events that are no discards, a page that somebody put into the hole, references that nobody can explain, zaps over
# split mappings, a damaged swap file.
# run-tests: timeout=180
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

# madvise alone, over memory that is all resident: a REMOVE that means nothing
unmatched_remove() {
	nat_ebbd --debug-evict "random:$SEED"
	standin_start --discard-harmless 5 64 6 120
	attach
	sleep 3
	[ "$(stat_of removes)" -gt 1000 ] || it_fail "unmatched REMOVE: only $(stat_of removes) came"
	[ "$(stat_of discarded)" = 0 ] || it_fail "unmatched REMOVE: $(stat_of discarded) pages were dropped"
	report+="$(stat_of removes) REMOVEs without a discard; "
	standin_end
	nat_ebbd_end
}

all_out() {
	sin present 0 2048 && [ "$ANSWER" = 0 ]
}

# a stand-in whose first 2048 pages are all evicted, written with GEN, and will be touched by commands only
evicted_pages() {
	nat_ebbd --debug-evict "random:$SEED"
	standin_start --keep 2048 40 2 120
	attach
	sin fill 0 2048 "$1"
	ctl limit a 16M >/dev/null
	soon 60 all_out || it_fail "$ANSWER of 2048 pages are still in memory"
}

stopped() {
	[ "$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$SP/status")" = T ]
}

# failed_because TEXT - the guest has failed, says TEXT, and is stopped
failed_because() {
	failed() { [ "$(state_of)" = failed ]; }
	soon 20 failed || it_fail "$part: the guest is $(state_of), not failed"
	soon 5 stopped || it_fail "$part: the process was not stopped"
	ctl --json show a | grep -q "\"failure\": *\".*$1" || it_fail "$part: the failure does not say '$1': $(ctl --json show a)"
}

# somebody else puts a page into the hole of an evicted one; HOW then needs the page
populated() {
	local fd page at=$((2048 / 2 + 7)) used left

	part="populated behind ebbd, then $1"
	evicted_pages "$2"
	sin at "$at"
	page=${ANSWER% *}
	[ "$2" != 0 ] || page=$((page / 16 * 16)) # these are all zeros
	at=$((at - ${ANSWER% *} + page))
	used=$(json_number used "$(ctl --json show a)")
	fd=$(ram_fd)
	tr '\0' x </dev/zero | dd of="$fd" bs=4096 count=1 seek="$page" conv=notrunc iflag=fullblock status=none
	case $1 in
	write) echo "fill $at 1 9" >&"$SIN" ;;
	detach) ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" && it_fail "$part: detached" ;;
	esac
	failed_because "somebody else writes"
	left=$(json_number used "$(ctl --json show a)")
	[ "$1" = detach ] || [ "$left" -ge $((used * 9 / 10)) ] || it_fail "$part: slots were dropped"
	[ "$left" -gt 0 ] || it_fail "$part: the page's slot was dropped"
	[ "$(dd if="$fd" bs=4096 count=1 skip="$page" status=none | tr -d x | wc -c)" = 0 ] ||
		it_fail "$part: the page is not what was put there"
	standin_kill
	soon 10 ended || it_fail "$part: the guest is listed after its end"
	nat_ebbd_end
}

ended() {
	[ -z "$(state_of)" ]
}

# references that are no pins and nobody can explain: pages in a pipe
unverifiable() {
	nat_ebbd --debug-evict "random:$SEED"
	standin_start --keep 2048 40 2 120
	attach
	sin fill 0 2048 1
	sin hold 512 16 || it_skip "vmsplice: $ANSWER"
	ctl limit a 16M >/dev/null
	others_out() { sin present 0 512 && [ "$ANSWER" = 0 ] && [ "$(show busy)" -gt 0 ]; }
	soon 60 others_out || it_fail "pages in a pipe: never met ($ANSWER around them left, $(show busy) called off)"
	sin present 512 16
	[ "$ANSWER" = 16 ] || it_fail "pages in a pipe: only $ANSWER of 16 stayed"
	sin release
	gone_too() { sin present 512 16 && [ "$ANSWER" = 0 ]; }
	soon 60 gone_too || it_fail "pages released from a pipe are never evicted"
	standin_check 0 2048
	standin_end
	nat_ebbd_end
}

# one madvise of the sampler raises a REMOVE for each mapping it crosses
split_mappings() {
	local passes

	nat_ebbd
	standin_start --keep 6144 96 6 120
	attach --limit 40M
	for how in split protect unsplit unprotect split protect unprotect unsplit split; do
		sin "$how" || it_fail "$how: $ANSWER"
		passes=$(stat_of sample-passes)
		sampled() { [ "$(stat_of sample-passes)" -gt "$passes" ]; }
		soon 20 sampled || it_fail "split mappings: no sampling pass after $how"
	done
	standin_check 0 6144
	[ "$(stat_of discarded)" = 0 ] || it_fail "split mappings: $(stat_of discarded) pages were dropped"
	[ "$(state_of)" = managed ] || it_fail "split mappings: the guest is $(state_of)"
	report+="$(stat_of sample-passes) passes over split mappings, $(stat_of removes) REMOVEs; "
	standin_end
	nat_ebbd_end
}

# a run of pages that crosses from one mapping to the next cannot be filled by one call: of zeros, from disk, at detach
borders() {
	nat_ebbd
	standin_start --empty --keep 10240 40 0 120
	sin split # at pages 3413 and 6826, which no alignment likes
	attach
	for page in 3408 6821; do
		sin fill "$page" 12 1
	done
	standin_check 0 10240
	sin fill 0 10240 1
	ctl limit a 16M >/dev/null
	much_out() { [ "$(show evicted)" -gt $((20 << 20)) ]; }
	soon 30 much_out || it_fail "borders: only $(show evicted) bytes are evicted"
	standin_check 0 10240 # in order: with read-ahead
	soon 30 much_out || it_fail "borders: only $(show evicted) bytes are evicted"
	ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "borders: $(cat "$RUN_DIR/ctl.log")"
	standin_end
	nat_ebbd_end
}

# every slot damaged: noticed by checksum, the guest stopped; with the slots as they were it goes on
damaged_slots() {
	local file

	part="damaged slots"
	evicted_pages 1
	kill -STOP "$SP" # the threads' pages come and go in the file: hold them while it is damaged and mended
	settled() { now=$(stat_of evictions)-$(stat_of refaults) && sleep 0.3 && [ "$now" = "$(stat_of evictions)-$(stat_of refaults)" ]; }
	soon 10 settled || it_fail "$part: evictions go on in a stopped process"
	file=$(echo "$SWAP_DIR"/*.swap)
	cp "$file" "$SWAP_DIR/good"
	tr '\0' y </dev/zero | dd of="$file" bs=1M count=$(($(stat -c %s "$file") >> 20)) conv=notrunc,fsync iflag=fullblock status=none
	echo "check 0 2048" >&"$SIN"
	kill -CONT "$SP"
	failed_because "$file"
	[ "$(stat_of read-errors)" -gt 0 ] || it_fail "$part: no read error was counted"
	dd if="$SWAP_DIR/good" of="$file" bs=1M conv=notrunc,fsync status=none
	kill -CONT "$SP"
	read -r -t 60 -u "$SOUT" ANSWER || it_fail "$part: mended, but the guest does not go on"
	[ "$(line_number bad "$ANSWER")" = 0 ] || it_fail "$part: $ANSWER"
	ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "$part: detach afterwards: $(cat "$RUN_DIR/ctl.log")"
	standin_end
	nat_ebbd_end
}

nat_begin
report=
[ -z "${EBB_PART:-}" ] || { $EBB_PART; it_pass "$EBB_PART"; }
parts=(unmatched_remove unverifiable split_mappings borders damaged_slots "populated write 1" "populated write 0"
	"populated detach 1")
for step in "${parts[@]}"; do
	echo "$SECONDS s: $step"
	# shellcheck disable=SC2086 # a function and its arguments
	$step
done
it_pass "${report}0 mismatches"
