# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# lib.sh - what the integration tests share: a private ebbd, test guests, verdicts. Sourced, never run.
#
# A test sources this, calls it_begin, starts what it needs and ends with it_pass. Everything it started is ended, by
# pid, however it ends. Functions of scripts/lib.sh (ebbd_start, guest_start, ctl, guest_line ...) are there too.
#
# EBB_SECONDS changes how long guests work; EBB_KEEP_LOGS=DIR keeps consoles and logs.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

IT_NAME=$(basename "$0" .sh)

it_skip() {
	echo "skipped: $*"
	exit 77
}

# it_fail TEXT - with the logs, which are all that is left afterwards
it_fail() {
	local file

	echo "FAILED: $*"
	for file in "${RUN_DIR:-/nonexistent}"/*.{log,console}; do
		[ -s "$file" ] || continue
		echo "--- ${file##*/}"
		tail -n 40 "$file" | tr -d '\r'
	done
	exit 1
}

it_pass() {
	echo "$IT_NAME: ${*:-passed}"
	exit 0
}

it_end() {
	local rc=$?

	trap - EXIT INT TERM
	if [ -n "${EBB_KEEP_LOGS:-}" ] && [ -d "$RUN_DIR" ]; then
		mkdir -p "$EBB_KEEP_LOGS/$IT_NAME"
		cp "$RUN_DIR"/*.log "$RUN_DIR"/*.console "$EBB_KEEP_LOGS/$IT_NAME/" 2>/dev/null || true
	fi
	run_end
	exit "$rc"
}

# it_begin - the guest's image and the directories; skips where guests cannot be managed
it_begin() {
	local image

	[ "$(id -u)" = 0 ] || it_skip "ebbd needs root"
	have qemu-system-x86_64 || it_skip "no qemu-system-x86_64; scripts/install-deps installs it"
	trap it_end EXIT
	trap 'exit 130' INT TERM
	run_begin
	image=$("$EBB_TOP/scripts/guest-image") || it_fail "no guest image"
	eval "$image" # KERNEL, INITRD
	choose_accel "$KERNEL" "$INITRD"
	echo "accelerator: $ACCEL_WHY"
}

# it_wait_console NAME PATTERN SECONDS - wait for a line of the guest's console
it_wait_console() {
	it_line_or_gone() { [ -n "$(guest_line "$1" "$2")" ] || gone "${GUEST_PID[$1]:-}"; }
	wait_until "$3" it_line_or_gone "$1" "$2" || true
	[ -n "$(guest_line "$1" "$2")" ] || it_fail "guest $1 did not say '$2' within $3 s"
}

# it_show NAME KEY - a number from the daemon about a guest
it_show() {
	local n

	n=$(json_number "$2" "$(ctl --json show "$1")")
	[ -n "$n" ] || it_fail "ebbctl show $1 gives no $2"
	echo "$n"
}

# it_verdict NAME SECONDS - wait for the guest's VERIFY line, fail unless all was right; prints it
it_verdict() {
	local line

	it_wait_console "$1" '^VERIFY ' "$2"
	line=$(guest_line "$1" '^VERIFY ')
	echo "$1: $line"
	[ "$(line_number mismatches "$line")" = 0 ] || it_fail "guest $1 lost data: $line"
	[ "$(line_number errors "$line")" = 0 ] || it_fail "the workload in guest $1 met errors: $line"
	[ "$(line_number pages "$line")" -gt 0 ] || it_fail "guest $1 verified nothing"
}

# it_disk FILE MIB - an image for verify.disk; the QEMU arguments go to the array DISK. ARGS after that are added to
# -drive, as in: it_disk d.img 256 cache=none,aio=native
it_disk() {
	"$EBB_OUT/tests/guest/verify" --make-disk "$1" "$2" || it_fail "no disk image"
	# shellcheck disable=SC2034 # for the caller
	DISK=(-drive "file=$1,if=none,id=disk0,format=raw,$3" -device "virtio-blk-pci,drive=disk0")
}
