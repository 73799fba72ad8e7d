#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-policy.sh - knobs of the policy, changed while a guest runs: they act, wrong ones change nothing, no byte is lost.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

knob() {
	ctl policy a | awk -v knob="knobs.$1" '$1 == knob { print $2 }'
}

# grows STAT - does the counter move within two seconds?
grows() {
	local before

	before=$(stat_of "$1")
	sleep 2
	[ "$(stat_of "$1")" -gt "$before" ]
}

passes() {
	ctl policy a | awk '$1 ~ /^state.passes/ { sum += $2 } END { print sum }'
}

refused() {
	local before

	before=$(ctl policy a | grep ^knobs)
	! ctl policy a "$@" >/dev/null 2>"$RUN_DIR/refusal" || it_fail "'$*' was taken"
	[ "$(ctl policy a | grep ^knobs)" = "$before" ] || it_fail "'$*' was refused and changed something"
	[ -s "$RUN_DIR/refusal" ] || it_fail "'$*' was refused without a reason"
}

nat_begin
nat_ebbd --policy period-ms=500 --policy readahead-max=8
standin_start 96 2 300
attach --limit 48M
[ "$(knob period-ms)/$(knob readahead-max)" = 500/8 ] || it_fail "--policy of ebbd: period-ms $(knob period-ms)"
grows evictions || it_fail "nothing is evicted"
ctl policy a eviction=off >/dev/null
sleep 1
! grows evictions || it_fail "evictions go on with eviction=off"
[ "$(ctl show a | grep -c managed)" -ge 1 ] || it_fail "the guest is not managed any more"
ctl policy a eviction=on >/dev/null
grows evictions || it_fail "evictions do not go on with eviction=on"
ctl policy a aging=off >/dev/null
sleep 1
before=$(passes)
sleep 3
[ "$(passes)" = "$before" ] || it_fail "passes go on with aging=off"
ctl policy a aging=on order=generations min-ttl-ms=100 >/dev/null
moved() { [ "$(passes)" -gt "$before" ]; }
soon 20 moved || it_fail "no passes with aging=on"
[ "$(knob order)/$(knob min-ttl-ms)" = generations/100 ] || it_fail "order $(knob order), min-ttl-ms $(knob min-ttl-ms)"
refused period-ms=0
refused tiers=off period-ms=100000000
refused speed=1
refused order=random
refused min-period-ms=9000
! "$EBB_OUT/ebbd" --policy period-ms=never </dev/null 2>"$RUN_DIR/refusal" || it_fail "ebbd takes any --policy"
grep -q period-ms "$RUN_DIR/refusal" || it_fail "no reason: $(cat "$RUN_DIR/refusal")"
standin_end
nat_ebbd_end
it_pass "$RESULT"
