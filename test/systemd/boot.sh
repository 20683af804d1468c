#!/usr/bin/env bash
# boot.sh ROOT DIR: boot a copy-on-write view of ROOT in a container with its own systemd as PID 1, no network, and DIR as
# /rig. /rig/main.sh runs there as a service and ends the machine; what it leaves lies in DIR/out. The view, the mounts
# and the cgroup vanish with this process; nothing of the machine outside is touched.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
	exec unshare --mount --propagation private -- bash "$0" --inside "$@"
fi
root=$2 dir=$3
name=quner-test-$$

mount -t tmpfs -o mode=0755 quner-test /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/run
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" quner-test /mnt/root
cp "$dir"/units/* /mnt/root/etc/systemd/system/
# nspawn keeps its books below /run.
mkdir -p /run/systemd/nspawn && mount -t tmpfs quner-test /run/systemd/nspawn

# Where systemd runs outside, it makes a scope for the container. Elsewhere the container gets cgroups of its own, so that
# two at once do not share them.
options=()
cgroups=()
if [ ! -d /run/systemd/system ]; then
	options+=(--keep-unit)
	for h in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
		[ -w "$h/cgroup.procs" ] || continue
		mkdir "$h/$name" && echo $$ >"$h/$name/cgroup.procs" && cgroups+=("$h")
	done
fi
leave() {
	for h in "${cgroups[@]}"; do
		echo $$ >"$h/cgroup.procs" || true
		find "$h/$name" -depth -type d -exec rmdir {} + 2>/dev/null || true
	done
}
trap leave EXIT

# With the unified hierarchy the service manager can hold a service to its devices, which takes bpf. process_mrelease is
# among what the unit leaves to the service.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
# 133 is a machine that reboots.
code=133
while [ "$code" -eq 133 ]; do
	code=0
	timeout --kill-after=5 "${LIMIT:-120}" systemd-nspawn --quiet --directory=/mnt/root --boot --register=no "${options[@]}" \
		--machine="$name" --private-network --resolv-conf=off --timezone=off --link-journal=no \
		--capability=CAP_BPF --system-call-filter="bpf process_mrelease" --bind="$dir:/rig" \
		systemd.wants=rig.service systemd.show_status=0 </dev/null >>"$dir/out/console" 2>&1 || code=$?
done
exit "$code"
