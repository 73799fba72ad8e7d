#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-unplug.sh - a part of the memory is unmapped, as when a DIMM is unplugged, while it is sampled and evicted.
#
# What is mapped at the same address afterwards is not the guest's memory: nothing may happen to it. The rest is managed
# as before, also by a daemon that was dead when it happened. Memory that is mapped anew or moved instead cannot be
# watched any more: the guest is stopped, for a reason that is told.
# run-tests: timeout=180
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

MIB=${EBB_MIB:-96}
DIMM=64 # MiB
DIMM_PAGES=$((DIMM * 256))
LIMIT=$((MIB / 4))

# both memories are written, and mostly out
begin() {
	part=$1
	shift
	nat_ebbd "$@"
	standin_start --dimm "$DIMM" "$MIB" 4 300 30 10
	attach --limit "${LIMIT}M"
	RAM=$(ram_fd)
	much_out() { [ "$(show evicted)" -gt $(((MIB + DIMM / 2) << 19)) ] && sin present 0 "$DIMM_PAGES" &&
		[ "$ANSWER" -lt $((DIMM_PAGES / 2)) ]; }
	soon 30 much_out || it_fail "$part: only $(show evicted) bytes are evicted, ${ANSWER:-?} pages of the DIMM are in"
	standin_check $((DIMM_PAGES / 2)) 1000 # some are back
}

# passes_more N - sampling goes on
passes_more() {
	local passes

	passes=$(stat_of sample-passes)
	more_passes() { [ "$(stat_of sample-passes)" -ge $((passes + $1)) ]; }
	soon 30 more_passes "$1" || it_fail "$part: sampling does not go on"
}

forgotten() {
	grep -q "region .* was unplugged" "$RUN_DIR/ebbd.log"
}

no_more_than_there_is() {
	[ $(($(show evicted) + $(show resident))) -le $((MIB << 20)) ]
}

# held_by PID - does it keep the DIMM's memory from being freed?
held_by() {
	local fd

	for fd in "/proc/$1/fd/"*; do
		case $(readlink "$fd") in
		/memfd:standin-dimm*) return 0 ;;
		esac
	done
	return 1
}

dimm_is_free() {
	! held_by "$EBBD_PID"
}

# what is where the DIMM was holds what was written there; the rest is managed as before
unharmed() {
	[ "$(state_of)" = managed ] || it_fail "$part: the guest is $(state_of)"
	soon 10 no_more_than_there_is || it_fail "$part: $(show evicted) bytes evicted and $(show resident) resident of" \
		"$((MIB << 20))"
	standin_check 0 "$DIMM_PAGES"
	[ "$ZEROS" = 0 ] || it_fail "$part: $ZEROS pages of private memory were zeroed"
	passes_more 2
	standin_check 0 "$DIMM_PAGES"
	before=$(stat_of evictions)
	evicts() { [ "$(stat_of evictions)" -gt $((before + 100)) ]; }
	soon 20 evicts || it_fail "$part: the rest is not evicted any more"
	limited() { [ "$(ram_pages "$RAM")" -le $((LIMIT * 259)) ]; }
	soon 20 limited || it_fail "$part: $(ram_pages "$RAM") pages of the rest are in, above the limit"
	part_end
}

part_end() {
	ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "$part: $(cat "$RUN_DIR/ctl.log")"
	standin_end
	nat_ebbd_end
	! compgen -G "$SWAP_DIR/*.swap" >/dev/null || it_fail "$part: the swap file is still there"
}

restart() {
	kill9
	nat_ebbd
	[ "$(state_of)" = managed ] || it_fail "$part: after a restart the guest is not managed: $(state_of)"
}

unplug() {
	local evicted resident

	begin "unplug"
	evicted=$(show evicted)
	resident=$(show resident)
	sin unplug || it_fail "$part: unplug: $ANSWER"
	sin anon || it_skip "private memory cannot be had where the DIMM was: $ANSWER"
	sin fill 0 "$DIMM_PAGES" 3
	soon 10 forgotten || it_fail "$part: not said"
	soon 10 no_more_than_there_is || it_fail "$part: was $evicted evicted and $resident resident, is $(show evicted)" \
		"and $(show resident)"
	soon 10 dimm_is_free || it_fail "$part: ebbd keeps the DIMM's memory open, so the host does not get it back"
	passes_more 3
	restart
	unharmed
}

# while nobody reads the events: the munmap waits for the next daemon
unplug_while_dead() {
	begin "unplug without a daemon"
	kill9
	echo unplug >&"$SIN"
	random_ms 0 300
	nat_ebbd
	read -r -t 60 -u "$SOUT" ANSWER && [ "$ANSWER" = OK ] || it_fail "$part: munmap does not return: $ANSWER"
	sin anon || it_skip "private memory cannot be had where the DIMM was: $ANSWER"
	sin fill 0 "$DIMM_PAGES" 3
	managed() { [ "$(state_of)" = managed ]; }
	soon 20 managed || it_fail "$part: the guest is not managed: $(state_of)"
	unharmed
}

# unmapped, mapped and written at once, with zaps of the sampler under way
unplug_in_haste() {
	local k

	for ((k = 1; k <= ${EBB_SWAPS:-1}; k++)); do
		begin "unplug in haste $k"
		random_ms 0 300
		sin swap || it_skip "private memory cannot be had where the DIMM was: $ANSWER"
		standin_check 0 "$DIMM_PAGES"
		[ "$ZEROS" = 0 ] || it_fail "$part: $ZEROS pages of private memory were zeroed"
		soon 10 forgotten || it_fail "$part: not said"
		passes_more 2
		standin_check 0 "$DIMM_PAGES"
		part_end
		: >"$RUN_DIR/ebbd.log"
	done
}

stopped() {
	[ "$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$SP/status")" = T ]
}

# HOW the memory goes elsewhere; WORDS must be told
mapped_anew() {
	begin "$1"
	echo "$1" >&"$SIN"
	failed() { [ "$(state_of)" = failed ]; }
	soon 20 failed || it_fail "$part: the guest is $(state_of), not failed"
	soon 5 stopped || it_fail "$part: the process was not stopped"
	ctl --json show a | grep -q "\"failure\": *\".*$2" || it_fail "$part: the failure does not say '$2': $(ctl --json show a)"
	standin_kill
	while read -r -t 0.1 -u "$SOUT" ANSWER; do :; done # it may have answered before it was stopped
	ended() { [ -z "$(state_of)" ]; }
	soon 10 ended || it_fail "$part: the guest is listed after its end"
	nat_ebbd_end
}

nat_begin
[ -z "${EBB_PART:-}" ] || { $EBB_PART; it_pass "$EBB_PART"; }
for step in unplug unplug_while_dead unplug_in_haste "mapped_anew remap anew" "mapped_anew move moved"; do
	echo "$SECONDS s: $step"
	# shellcheck disable=SC2086 # a function and its arguments
	$step
done
it_pass "private memory where a DIMM was stays as it is, the rest managed, memory mapped anew stops the guest"
