#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-stopped.sh - the process is stopped for longer than ebbd waits for its sampling, then goes on.
#
# Meanwhile ebbd answers; afterwards it samples and evicts as before, and notices the process's end.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

STOPPED=${EBB_STOPPED:-7} # seconds

# nothing ebbd does on behalf of a stopped process may take that long
answers() {
	local begun=${EPOCHREALTIME/./} us

	"$@" >/dev/null || it_fail "$*: no answer"
	us=$((${EPOCHREALTIME/./} - begun))
	[ "$us" -le "$slowest" ] || slowest=$us
	[ "$us" -lt 4000000 ] || it_fail "$*: took $((us / 1000)) ms while the process was stopped"
}

nat_begin
nat_ebbd
standin_start 96 4 120 30 25
attach --limit 40M
sampled() { [ "$(stat_of sample-passes)" -ge "$1" ]; }
soon 30 sampled 3 || it_fail "no sampling"
slowest=0
asked=0
kill -STOP "$SP"
end=$((SECONDS + STOPPED))
while [ "$SECONDS" -lt "$end" ]; do
	answers ctl --json list
	answers ctl --json show a
	answers ctl --json stats a
	answers ctl limit a $((32 + asked % 8))M
	asked=$((asked + 4))
	sleep 0.1
done
[ "$(state_of)" = managed ] || it_fail "the guest is $(state_of) because its process was stopped"
kill -CONT "$SP"
ctl limit a 32M >/dev/null
passes=$(stat_of sample-passes)
evictions=$(stat_of evictions)
soon 30 sampled $((passes + 5)) || it_fail "no sampling after the process went on: $(stat_of sample-passes) passes," \
	"$passes before"
evicts() { [ "$(stat_of evictions)" -gt $((evictions + 1000)) ]; }
soon 30 evicts || it_fail "no evictions after the process went on"
[ "$(stat_of discarded)" = 0 ] || it_fail "$(stat_of discarded) pages were dropped"
standin_end
reaped() { [ -z "$(state_of)" ] && ! compgen -G "$SWAP_DIR/*.swap" >/dev/null; }
soon 15 reaped || it_fail "the process has ended and is still listed, or has left a file"

# it is killed while it is stopped, with a zap on its way
standin_start 64 4 120 30 25
attach --limit 24M
soon 30 sampled 2 || it_fail "no sampling"
kill -STOP "$SP"
sleep 0.5
standin_kill
soon 15 reaped || it_fail "a stopped process was killed and is still listed, or has left a file"
nat_ebbd_end
it_pass "$asked queries of a process stopped for $STOPPED s, the slowest $((slowest / 1000)) ms; sampled again, 0 mismatches"
