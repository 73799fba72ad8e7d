#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guest-unprivileged.sh - a sandboxed QEMU of another user is attached while it runs, limited, and let go.
# run-tests: timeout=400
set -eu
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

it_begin
command -v setpriv >/dev/null || it_skip "no setpriv (util-linux)"
ebbd_start || it_fail "no daemon"
chmod 711 "$RUN_DIR"
touch "$RUN_DIR/vm.console"
chown nobody "$RUN_DIR/vm.console"
cp "$KERNEL" "$RUN_DIR/kernel"
cp "$INITRD" "$RUN_DIR/initrd"
chmod 644 "$RUN_DIR/kernel" "$RUN_DIR/initrd"
# No capability, no new privileges, QEMU's seccomp filter; an ordinary command line of its own.
setsid setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --no-new-privs \
	qemu-system-x86_64 -accel tcg,thread=multi -machine q35,memory-backend=ram -m 384 -smp 2 \
	-object memory-backend-memfd,id=ram,size=384M,share=on -display none -nodefaults -no-reboot \
	-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny \
	-kernel "$RUN_DIR/kernel" -initrd "$RUN_DIR/initrd" -serial "file:$RUN_DIR/vm.console" \
	-append "console=ttyS0 quiet panic=-1 verify.procs=2 verify.mib=256 verify.seconds=${EBB_SECONDS:-30} guest.linger=60" \
	</dev/null >"$RUN_DIR/vm.log" 2>&1 &
pid=$!
GUEST_PID[vm]=$pid
it_wait_console vm '^FILLED ' 120
sleep 5 # it runs
[ "$(stat -c %u "/proc/$pid")" = 65534 ] || it_fail "QEMU does not run as nobody"
grep -q '^Seccomp:[[:space:]]*2' "/proc/$pid/status" || it_fail "QEMU is not sandboxed"
before=$(find "/proc/$pid/fd" -mindepth 1 | wc -l)

ctl attach "$pid" --name vm --limit 128M || it_fail "attach was refused"
out() { [ "$(it_show vm evicted)" -gt 0 ]; }
wait_until 30 out || it_fail "nothing was evicted"
below() { [ "$(it_show vm resident)" -le "$(it_show vm limit)" ]; }
wait_until 60 below || it_fail "the limit was not reached"
ctl show vm
sleep 10
evictions=$(it_show vm evictions)
refaults=$(it_show vm refaults)
ctl detach vm || it_fail "detach failed"
after=$(find "/proc/$pid/fd" -mindepth 1 | wc -l)
[ "$after" -le "$before" ] || it_fail "QEMU has $after descriptors after detach, $before before attach"
it_verdict vm 240
it_pass "uid 65534, sandbox on: $evictions evictions, $refaults refaults, 0 mismatches"
