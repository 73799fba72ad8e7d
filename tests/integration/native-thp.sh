#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-thp.sh - memory in large folios: never punched in part, but split, or left.
#
# On a tmpfs of its own mounted with huge=always, so that no setting of the host is changed. A file is taken for RAM only
# in a QEMU, so the stand-in runs under such a name.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

HUGE=
nat_cleanup() {
	[ -z "$HUGE" ] || umount -l "$HUGE" || true
}

huge_kib() {
	awk '/^ShmemPmdMapped|^FilePmdMapped/ { n += $2 } /VmFlags/ { if (hit) print n; n = 0; hit = 0 } /huge-ram/ { hit = 1; n = 0 }' \
		"/proc/$SP/smaps"
}

evicted_much() {
	[ "$(show evicted)" -gt $((40 << 20)) ]
}

nat_begin
mkdir "$RUN_DIR/huge"
mount -t tmpfs -o huge=always,size=200m ebb-test "$RUN_DIR/huge" 2>/dev/null || it_skip "no tmpfs with huge=always here"
HUGE=$RUN_DIR/huge
cp "$STANDIN" "$RUN_DIR/qemu-system-standin"
STANDIN=$RUN_DIR/qemu-system-standin
report=
for args in "--debug-evict random:$SEED" ""; do
	# shellcheck disable=SC2086 # two words or none
	nat_ebbd $args
	standin_start --huge --wait --file "$HUGE/huge-ram" --discard 1 96 6 120
	large=$(huge_kib)
	[ "${large:-0}" -gt 0 ] || it_skip "the kernel gave no large pages on tmpfs"
	attach --limit 48M
	sin go
	soon 60 evicted_much || it_fail "large pages: only $(show evicted) bytes evicted, $(show large) cancels"
	sleep 3
	[ "$(show large)" -gt 0 ] || it_fail "no large folio was ever met"
	report+="$((large / 1024)) MiB mapped large at first, $(show large) eviction(s) called off, $(show evictions) done; "
	ctl detach a >/dev/null
	standin_end
	nat_ebbd_end
	rm -f "$HUGE/huge-ram"
done
it_pass "${report}0 mismatches"
