# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# lib.sh - what the scripts share: messages, places, waiting, numbers from ebbctl, choice of accelerator.
#
# Sourced, never run. Sets EBB_TOP (the source tree) and EBB_OUT (the build directory, from O).

EBB_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
EBB_OUT=${O:-$EBB_TOP/build}
case $EBB_OUT in /*) ;; *) EBB_OUT=$EBB_TOP/$EBB_OUT ;; esac
EBB_ME=${0##*/}

# say TEXT - something a person waits for
say() {
	printf '%s: %s\n' "$EBB_ME" "$*" >&2
}

# die TEXT - one sentence and exit 1
die() {
	say "$*"
	exit 1
}

have() {
	command -v "$1" >/dev/null 2>&1
}

# ebb_cache_dir - where downloads are kept; made if missing
ebb_cache_dir() {
	local dir=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}

	if [ -n "${EBB_CACHE:-}" ]; then
		dir=$EBB_CACHE
	elif [ -n "$dir" ]; then
		dir=$dir/ebb
	fi
	if [ -z "$dir" ] || ! mkdir -p "$dir" 2>/dev/null || ! [ -w "$dir" ]; then
		dir=$EBB_OUT/cache
		mkdir -p "$dir"
	fi
	printf '%s\n' "$dir"
}

# wait_until SECONDS COMMAND... - poll COMMAND five times a second; 1 when it never succeeded
wait_until() {
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.2
	done
}

# alive PID - is the process there and not a zombie?
alive() {
	local state

	[ -n "${1:-}" ] && state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) &&
		[ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ]
}

gone() {
	! alive "$1"
}

# end_process PID [SECONDS] - TERM, and KILL when it is still there after SECONDS (5)
end_process() {
	alive "$1" || return 0
	kill -TERM "$1" 2>/dev/null || true
	kill -CONT "$1" 2>/dev/null || true
	wait_until "${2:-5}" gone "$1" && return 0
	kill -KILL "$1" 2>/dev/null || true
	wait_until 5 gone "$1" || say "process $1 does not end"
}

# json_number KEY JSON - the first "KEY": number in the text; empty when there is none
json_number() {
	local re="\"$1\":[[:space:]]*(-?[0-9]+)"

	if [[ $2 =~ $re ]]; then
		printf '%s\n' "${BASH_REMATCH[1]}"
	fi
}

# memfd_of PID BYTES - path below /proc of the process's memfd of that size, the guest's RAM
memfd_of() {
	local fd

	for fd in "/proc/$1/fd/"*; do
		case $(readlink "$fd" 2>/dev/null) in
		/memfd:*) ;;
		*) continue ;;
		esac
		[ "$(stat -L -c %s "$fd" 2>/dev/null)" = "$2" ] || continue
		printf '%s\n' "$fd"
		return 0
	done
	return 1
}

# memfd_mib PATH - memory in use by it, as the kernel counts (st_blocks)
memfd_mib() {
	local blocks

	blocks=$(stat -L -c %b "$1" 2>/dev/null) || blocks=0
	printf '%s\n' $((blocks / 2048))
}

# kvm_reason KERNEL INITRD - empty when /dev/kvm runs the test guest, else why not; slow (seconds)
kvm_reason() {
	local dir console qemu
	local seconds=${EBB_KVM_PROBE_SECONDS:-8}

	if ! [ -e /dev/kvm ]; then
		echo "there is no /dev/kvm"
		return
	fi
	if ! [ -r /dev/kvm ] || ! [ -w /dev/kvm ]; then
		echo "/dev/kvm may not be opened by $(id -un)"
		return
	fi
	dir=$(mktemp -d)
	console=$dir/console
	qemu-system-x86_64 -accel kvm -cpu host -m 256 -display none -nodefaults -no-reboot -serial "file:$console" \
		-kernel "$1" -initrd "$2" -append "console=ttyS0 quiet panic=-1 guest.probe" \
		</dev/null >"$dir/qemu" 2>&1 &
	qemu=$!
	probe_ended() { grep -aqs "ebb-guest: up" "$console" || gone "$qemu"; }
	wait_until "$seconds" probe_ended || true
	if grep -aqs "ebb-guest: up" "$console"; then
		:
	elif alive "$qemu"; then
		echo "with /dev/kvm the guest's kernel said nothing for $seconds s"
	else
		echo "QEMU cannot use /dev/kvm: $(head -n 1 "$dir/qemu")"
	fi
	end_process "$qemu" 2
	wait "$qemu" 2>/dev/null || true
	rm -rf "$dir"
}

# choose_accel KERNEL INITRD - sets ACCEL (QEMU arguments) and ACCEL_WHY; asks the hardware once per boot
#
# EBB_ACCEL=kvm|tcg decides without asking.
choose_accel() {
	local cache key reason file

	case ${EBB_ACCEL:-} in
	kvm | tcg) reason=${EBB_ACCEL#kvm} && reason=${reason:+EBB_ACCEL=tcg is set} ;;
	*)
		cache=$(ebb_cache_dir)
		file=$cache/accel
		key="$(cat /proc/sys/kernel/random/boot_id) $(id -u) $1"
		if [ "$(sed -n 1p "$file" 2>/dev/null)" = "$key" ]; then
			reason=$(sed -n 2p "$file")
		else
			say "trying /dev/kvm ..."
			reason=$(kvm_reason "$1" "$2")
			printf '%s\n%s\n' "$key" "$reason" >"$file"
		fi
		;;
	esac
	# shellcheck disable=SC2034 # both are for the caller
	if [ -z "$reason" ]; then
		ACCEL=(-accel kvm -cpu host)
		ACCEL_WHY="KVM: /dev/kvm runs the guest"
	else
		ACCEL=(-accel "tcg,thread=multi")
		ACCEL_WHY="TCG, slow emulation: $reason"
	fi
}

# --- a private daemon and its guests ----------------------------------------------------------------
#
# run_begin makes the directories; ebbd_start and guest_start fill in the pids; run_end ends what was started, by
# pid, and removes the directories. The caller sets its own trap: trap run_end EXIT.

RUN_DIR=
SWAP_DIR=
SOCKET=
EBBD_PID=
declare -A GUEST_PID=() # by name: what ebb-run became, or its own pid

# run_begin - sockets want short paths, the swap file a real file system: /tmp for one, the build tree for the other
run_begin() {
	RUN_DIR=$(mktemp -d "${TMPDIR:-/tmp}/ebb.XXXXXX")
	mkdir -p "$EBB_OUT"
	SWAP_DIR=$(mktemp -d "$EBB_OUT/swap.XXXXXX")
	SOCKET=$RUN_DIR/ebb.sock
	mkdir -m 700 "$RUN_DIR/state"
}

run_end() {
	local name

	for name in "${!GUEST_PID[@]}"; do
		guest_end "$name"
	done
	[ -z "$EBBD_PID" ] || end_process "$EBBD_PID" 10
	EBBD_PID=
	[ -z "$RUN_DIR" ] || rm -rf "$RUN_DIR" "$SWAP_DIR"
	RUN_DIR=
}

ctl() {
	"$EBB_OUT/ebbctl" --socket "$SOCKET" "$@"
}

# ebbd_start [ARGUMENTS...] - start the daemon and wait until it listens; 1 when it does not
ebbd_start() {
	setsid "$EBB_OUT/ebbd" --socket "$SOCKET" --state-dir "$RUN_DIR/state" --swap-dir "$SWAP_DIR" "$@" \
		</dev/null >>"$RUN_DIR/ebbd.log" 2>&1 &
	EBBD_PID=$!
	ebbd_settled() { ctl list >/dev/null 2>&1 || gone "$EBBD_PID"; }
	wait_until 15 ebbd_settled && alive "$EBBD_PID" && return 0
	say "ebbd did not start:"
	tail -n 20 "$RUN_DIR/ebbd.log" >&2
	return 1
}

# guest_start NAME MIB LIMIT-MIB APPEND [QEMU ARGUMENTS...] - start a managed test guest; wants choose_accel's
# variables and KERNEL and INITRD. The console goes to $RUN_DIR/NAME.console.
guest_start() {
	local name=$1 mib=$2 limit=$3 append=${4//[$'\n\t']/ } pid

	shift 4
	setsid "$EBB_OUT/ebb-run" --name "$name" --limit "${limit}M" --socket "$SOCKET" \
		--state-dir "$RUN_DIR/state" --swap-dir "$SWAP_DIR" -- \
		qemu-system-x86_64 "${ACCEL[@]}" -machine q35 -m "$mib" -smp 2 -display none -nodefaults -no-reboot \
		-kernel "$KERNEL" -initrd "$INITRD" -append "console=ttyS0 quiet panic=-1 $append" \
		-serial "file:$RUN_DIR/$name.console" "$@" </dev/null >"$RUN_DIR/$name.log" 2>&1 &
	pid=$!
	GUEST_PID[$name]=$pid
	guest_settled() { ctl --json show "$name" >/dev/null 2>&1 || gone "$pid"; }
	if wait_until 30 guest_settled && alive "$pid"; then
		return 0
	fi
	say "the guest $name did not start:"
	tail -n 20 "$RUN_DIR/$name.log" "$RUN_DIR/ebbd.log" >&2
	return 1
}

# guest_end NAME - end the guest's QEMU, which may be a child of ebb-run
guest_end() {
	local pid=${GUEST_PID[$1]:-} qemu

	unset "GUEST_PID[$1]"
	[ -n "$pid" ] || return 0
	qemu=$(json_number pid "$(ctl --json show "$1" 2>/dev/null || true)")
	[ -z "$qemu" ] || end_process "$qemu"
	end_process "$pid"
	wait "$pid" 2>/dev/null || true
}

# guest_line NAME PATTERN - the last line of the guest's console that matches
guest_line() {
	grep -a -- "$2" "$RUN_DIR/$1.console" 2>/dev/null | tail -n 1 | tr -d '\r'
}

# line_number KEY LINE - the number in KEY=number; empty when there is none
line_number() {
	local re="(^| )$1=([0-9]+)"

	if [[ $2 =~ $re ]]; then
		printf '%s\n' "${BASH_REMATCH[2]}"
	fi
}
