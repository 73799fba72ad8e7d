#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# native-enomem.sh - no memory is left to bring a page back to: who touches it waits until there is some again.
#
# The RAM is a file on a small tmpfs of its own; while its pages are out, something else takes their room. A file is taken
# for RAM only in a QEMU, so the stand-in runs under such a name.
set -eu
# shellcheck source=tests/integration/native.lib.sh
. "$(dirname "$0")/native.lib.sh"

PAGES=4096 # for commands; the thread has as many: whichever 9/16 of all are evicted, some of both are
SMALL=
nat_cleanup() {
	[ -z "$SMALL" ] || umount -l "$SMALL" || true
}

much_out() {
	[ "$(show evicted)" -gt $((12 << 20)) ]
}

ops() {
	sin stats
	line_number ops "$ANSWER"
}

# all room is taken; the thread and a command that touch evicted pages wait, however long it takes
starve() {
	sin present 0 $PAGES
	[ "$ANSWER" -lt $PAGES ] || it_fail "$what: none of the pages for commands is out"
	cat /dev/zero >"$SMALL/other" 2>/dev/null || true
	sin go
	quiet() { before=$(ops) && sleep 0.5 && [ "$(ops)" = "$before" ]; }
	soon 20 quiet || it_fail "$what: touches of evicted pages do not wait for room"
	sleep 1
	[ "$(ops)" = "$before" ] || it_fail "$what: touches of evicted pages do not wait for room"
	echo "check 0 $PAGES" >&"$SIN"
	! read -r -t 1 -u "$SOUT" ANSWER || it_fail "$what: evicted pages came without room for them: $ANSWER"
	[ "$(state_of)" = managed ] || it_fail "$what: the guest is $(state_of)"
}

relieve() {
	rm "$SMALL/other"
	read -r -t 20 -u "$SOUT" ANSWER || it_fail "$what: there is room again, but the waiting touch does not go on"
	[ "$(line_number bad "$ANSWER")" = 0 ] || it_fail "$what: $ANSWER"
	before=$(ops)
	going() { [ "$(ops)" -gt $((before + 1000)) ]; }
	soon 20 going || it_fail "$what: there is room again, but the threads do not go on"
}

nat_begin
mkdir "$RUN_DIR/small"
mount -t tmpfs -o size=40m ebb-test "$RUN_DIR/small" 2>/dev/null || it_skip "no tmpfs can be mounted here"
SMALL=$RUN_DIR/small
cp "$STANDIN" "$RUN_DIR/qemu-system-standin"
STANDIN=$RUN_DIR/qemu-system-standin
report=
for args in "--debug-evict random:$SEED" ""; do
	# shellcheck disable=SC2086 # two words or none
	nat_ebbd $args
	what="ebbd $args"
	standin_start --wait --keep $PAGES --file "$SMALL/ram" 32 1 120
	sin fill 0 $PAGES 2 # every 16th page is zeros: those come back another way
	attach --limit 16M
	soon 30 much_out || it_fail "$what: only $(show evicted) bytes evicted"
	ctl limit a none >/dev/null
	starve
	relieve
	report+="$(stat_of refaults) refaults, $(stat_of zero-filled) with zeros; "
	ctl detach a >/dev/null 2>"$RUN_DIR/ctl.log" || it_fail "$what: $(cat "$RUN_DIR/ctl.log")"
	standin_end
	nat_ebbd_end
	rm -f "$SMALL/ram"
done
it_pass "${report}0 mismatches"
