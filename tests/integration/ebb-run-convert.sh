#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# ebb-run-convert.sh - does a real QEMU take the converted command lines, and is all of its RAM then
# on shared memfds?
#
# For each command line: what `ebb-run --dry-run` prints is started with the guest held; its monitor
# must name every memory backend as shared with the size expected, and /proc/PID/maps must show that
# many bytes mapped shared from memfds and no private mapping as large as guest RAM. One plain line
# is also started unconverted, where the same checks must fail.
#
# Exit: 0 passed, 77 skipped, 1 failed.

set -u
O=${O:-build}
RUN=$O/ebb-run
QEMU=${QEMU:-qemu-system-x86_64}

skip()
{
	echo "SKIP: $1"
	exit 77
}

command -v "$QEMU" > /dev/null || skip "$QEMU is not installed"
[ -x "$RUN" ] || skip "$RUN has not been built"

DIR=$(mktemp -d) || exit 1
QEMU_PID=
FAILED=0
NR=0

stop_qemu()
{
	[ -n "$QEMU_PID" ] || return 0
	kill "$QEMU_PID" 2> /dev/null
	wait "$QEMU_PID" 2> /dev/null
	QEMU_PID=
}

cleanup()
{
	stop_qemu
	rm -rf "$DIR"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP
trap '' PIPE # a QEMU that ended at once is a failed read, not our end

fail()
{
	echo "FAIL: $1"
	[ -s "$DIR/err" ] && sed 's/^/  qemu: /' "$DIR/err"
	FAILED=1
}

# A monitor on QEMU's own input and output, so that no client program is needed: ask QUERY, wait for
# the reply, print it. The first line is the greeting; events are skipped.
ask()
{
	local line
	printf '{"execute":"%s"}\n' "$1" >&"${MON_IN}"
	while IFS= read -r -t 30 line <&"${MON_OUT}"; do
		case $line in
		*'"return"'* | *'"error"'*)
			printf '%s\n' "$line"
			return 0
			;;
		esac
	done
	return 1
}

# start WORDS...: QEMU held, with a monitor at MON_IN and MON_OUT
start()
{
	rm -f "$DIR/in" "$DIR/out"
	mkfifo "$DIR/in" "$DIR/out" || exit 1
	"$@" -S -display none -accel tcg -chardev stdio,id=test-mon,signal=off \
		-mon chardev=test-mon,mode=control < "$DIR/in" > "$DIR/out" 2> "$DIR/err" &
	QEMU_PID=$!
	exec {MON_IN}> "$DIR/in" {MON_OUT}< "$DIR/out"
	ask qmp_capabilities > /dev/null
}

finish()
{
	[ -n "$QEMU_PID" ] || return 0
	ask quit > /dev/null
	exec {MON_IN}>&- {MON_OUT}<&-
	wait "$QEMU_PID"
	QEMU_PID=
}

# Bytes mapped with PERMS (a pattern) of files whose name matches PATTERN
mapped_bytes()
{
	local range perms path total=0
	while read -r range perms _ _ _ path; do
		# shellcheck disable=SC2053 # patterns are wanted
		if [[ $perms == $1 && $path == $2 ]]; then
			total=$((total + 0x${range#*-} - 0x${range%-*}))
		fi
	done < "/proc/$QEMU_PID/maps"
	echo "$total"
}

# Largest private writable mapping without a file: an unconverted guest's RAM would be one
largest_private()
{
	local range perms path size most=0
	while read -r range perms _ _ _ path; do
		[[ $perms == rw-p && -z $path ]] || continue
		size=$((0x${range#*-} - 0x${range%-*}))
		[ "$size" -gt "$most" ] && most=$size
	done < "/proc/$QEMU_PID/maps"
	echo "$most"
}

# check MIB ALL_MIB WORDS...: base RAM, and RAM with pluggable modules, of the line
check()
{
	local base=$1 all=$2 line reply shared
	shift 2
	NR=$((NR + 1))
	if ! line=$("$RUN" --dry-run --name t --limit 50% -- "$QEMU" "$@" 2> "$DIR/err"); then
		fail "'$*' was not converted"
		return
	fi
	# The printed line is for a shell to read: that it can is part of the test.
	eval "set -- $line"
	echo "$line"
	if ! start "$@"; then
		fail "QEMU did not take it"
		stop_qemu
		return
	fi
	reply=$(ask query-memdev)
	case $reply in
	*'"share": false'*) fail "a backend is not shared: $reply" ;;
	*'"share": true'*) ;;
	*) fail "no memory backend: $reply" ;;
	esac
	reply=$(ask query-memory-size-summary)
	case $reply in
	*"\"base-memory\": $((base << 20))"[',}']*) ;;
	*) fail "base RAM is not $base MiB: $reply" ;;
	esac
	shared=$(mapped_bytes 'rw-s' '/memfd:memory-backend-memfd*')
	[ "$shared" -eq $((all << 20)) ] ||
		fail "$shared bytes are on shared memfds, $((all << 20)) expected"
	# TCG's translation buffer is mapped r-xp or rwxp or shared; nothing else comes near 96 MiB.
	[ "$(largest_private)" -lt $((96 << 20)) ] ||
		fail "a private mapping of $(largest_private) bytes may be guest RAM"
	finish
}

# control WORDS...: the check above must be able to fail
control()
{
	local reply shared
	if ! start "$QEMU" "$@"; then
		fail "QEMU did not take '$*'"
		stop_qemu
		return
	fi
	reply=$(ask query-memdev)
	[[ $reply == *'"share": false'* ]] || fail "unconverted RAM is shared already: $reply"
	shared=$(mapped_bytes 'rw-s' '/memfd:memory-backend-memfd*')
	[ "$shared" -eq 0 ] || fail "unconverted RAM is on a memfd already"
	[ "$(largest_private)" -ge $((192 << 20)) ] ||
		fail "unconverted RAM is not seen in the maps"
	finish
}

control -m 192

check 192 192 -m 192
check 128 128
check 256 256 -M q35,usb=off -m size=256M,slots=2,maxmem=1G -nodefaults
check 300 300 -m 200 -m 300 -name "a guest's name"
check 200 200 -machine pc -M memory.size=200M,graphics=off \
	-fw_cfg name=opt/t,string="it's -m 3 \$HOME"
check 192 192 -M q35,memory-backend=pc.ram -m 192 \
	-object '{"qom-type":"memory-backend-ram","id":"pc.ram","size":201326592,"merge":false}'
check 192 192 -M memory-backend=a -object memory-backend-ram,id=a,size=192M,share=off,dump=off
check 192 192 -m 192 -M memory-backend=a -object memory-backend-memfd,id=a,size=192M,seal=off
check 256 256 -m 256 -smp 2 -object memory-backend-ram,id=n0,size=128M \
	-object "{'qom-type':'memory-backend-memfd','id':'n1','size':134217728}" \
	-numa node,cpus=0,memdev=n0 -numa node,cpus=1,memdev=n1
check 192 320 -m 192,slots=1,maxmem=1G -object memory-backend-ram,id=dimm,size=128M \
	-device pc-dimm,memdev=dimm
check 192 192 -m 192 -object rng-random,id=ebb-ram,filename=/dev/urandom \
	-device virtio-rng,rng=ebb-ram

[ "$FAILED" = 0 ] && echo "PASS: $NR command lines"
exit "$FAILED"
