# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# disk-aio.lib.sh - direct I/O into cold pages while they are evicted at random: the race that loses data in naive designs.
#
# Sourced by disk-aio-native.sh and disk-aio-uring.sh. A guest of 512 MiB under 160 MiB, two processes that write and
# check patterns, and a virtio-blk disk whose reads land in pages nobody touched before. The daemon evicts at random
# (--debug-evict random), so that pages under I/O are victims as often as others. At least EBB_EVICTIONS evictions
# (300000) must have happened, or the run has shown nothing.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# disk_aio MODE - native or io_uring
disk_aio() {
	local length=${EBB_SECONDS:-60} evictions wanted=${EBB_EVICTIONS:-300000} line

	it_begin
	it_disk "$SWAP_DIR/disk.img" 256 "cache=none,aio=$1"
	ebbd_start --debug-evict random || it_fail "no daemon"
	guest_start vm 512 160 "verify.procs=2 verify.mib=400 verify.seconds=$length verify.scan-every=20
		verify.disk=/dev/vda guest.linger=60" "${DISK[@]}" || it_fail "no guest"

	it_verdict vm $((length * 4 + 120))
	line=$(guest_line vm '^VERIFY ')
	[ "$(line_number dma "$line")" -gt 0 ] || it_fail "no direct I/O was done"
	evictions=$(it_show vm evictions)
	ctl --json show vm
	[ "$evictions" -ge "$wanted" ] || it_fail "only $evictions evictions, $wanted wanted"
	it_pass "aio=$1, $length s, $evictions evictions, $(it_show vm refaults) refaults, $(line_number dma "$line") direct" \
		"I/Os of 64 KiB, $(line_number pages "$line") pages verified, 0 mismatches"
}
