#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-scan.sh - one pass over all memory (a backup, a virus scan) does not push out the working set.
# run-tests: timeout=400
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

mib=192
pages=$((mib * 256))
hot=$((pages * 40 / 100)) # what the threads touch, all the time
cold=$((pages - hot))	  # what only the scan touches
chunk=1024

# refaults of the next SECONDS, in which nobody touches anything but the hot set
refaults_in() {
	local before

	before=$(stat_of refaults)
	sleep "$1"
	echo $(($(stat_of refaults) - before))
}

# pages brought back so far, asked for or read ahead
fills() {
	echo $(($(stat_of refaults) + $(stat_of prefetched)))
}

settled() {
	[ "$(refaults_in 1)" -le $((hot / 200)) ]
}

nat_begin
nat_ebbd
standin_start --keep "$cold" $mib 2 300 10
attach --limit 60%
soon 90 settled || it_fail "the hot set of 40 % does not become resident under a limit of 60 %"
sleep "${EBB_SECONDS:-12}" # some passes, so that it is known what is hot
calm=$(refaults_in 4)
passes=$(stat_of sample-passes)
before=$(fills)
begun=$(date +%s%N)
out=0
for ((at = 0; at < cold; at += chunk)); do
	nr=$((at + chunk > cold ? cold - at : chunk))
	sin present $at $nr
	out=$((out + nr - ANSWER))
	standin_check $at $nr
done
took=$((($(date +%s%N) - begun) / 1000000))
during=$(($(fills) - before - out))
after=$(refaults_in 10)
lost=$((after + (during > 0 ? during : 0)))
echo "hot $hot of $pages pages, limit 60 %; $passes passes before; the scan took $took ms and brought back $out cold pages"
echo "refaults of the hot set: $calm in 4 s before the scan, $during in it, $after in 10 s after it"
[ "$out" -ge $((cold / 4)) ] || it_fail "only $out of $cold cold pages were out: it was no scan"
[ "$lost" -le $((hot * 5 / 100)) ] || it_fail "$lost of $hot hot pages had to come back, more than 5 %"
standin_end
nat_ebbd_end
it_pass "a scan over all memory cost $lost of $hot hot pages ($((lost * 1000 / hot)) in 1000; at most 50)"
