#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-or-later
# init.sh - init of the test guest: load the modules, run the verifying workload, power off.
#
# The kernel's command line steers it:
#   verify.KEY=VALUE   becomes --KEY VALUE for /bin/verify (verify.procs=2 verify.seconds=60)
#   guest.probe        say "ebb-guest: up" and power off: can this host run the guest at all?
#   guest.repeat       start the workload again and again instead of powering off
#   guest.linger=N     wait N seconds before powering off
#   guest.idle         no workload: sleep until somebody ends the machine
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
/bin/busybox --install -s /bin
PATH=/bin

# Huge pages make the kernel hold back 44 MiB; the workload should have them.
echo 8192 >/proc/sys/vm/min_free_kbytes

echo "ebb-guest: up, kernel $(uname -r)"

args=
mode=once
linger=0
read -r cmdline </proc/cmdline
for word in $cmdline; do
	case $word in
	verify.*=*)
		key=${word%%=*}
		args="$args --${key#verify.} ${word#*=}"
		;;
	guest.probe) mode=probe ;;
	guest.linger=*) linger=${word#*=} ;;
	guest.repeat) mode=repeat ;;
	guest.idle) mode=idle ;;
	esac
done

# The order in the list is the order of their dependencies; what a kernel has built in is not there.
if [ "$mode" != probe ]; then
	while read -r module; do
		insmod "/modules/$module" || echo "ebb-guest: cannot load $module"
	done </modules/order
fi

run() {
	# shellcheck disable=SC2086 # words on purpose
	verify $args
	echo "ebb-guest: verify ended with $?"
}

case $mode in
once)
	run
	sleep "$linger"
	;;
repeat) while run; do sleep 1; done ;;
idle) while :; do sleep 3600; done ;;
esac
echo "ebb-guest: power off"
poweroff -f
