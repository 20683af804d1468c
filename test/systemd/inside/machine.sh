#!/bin/bash
# Puts the machine under test over /sys: what is below /rig/sys is seen first, what is not is the container's. A bind
# mount from outside would be hidden by the container's own mounts of /sys, so this runs inside, early at boot.
set -euo pipefail
# Firmware sets the levers at every boot; how the machine had gone down is noted first.
sort -u /rig/sys/devices/system/cpu/cpufreq/policy*/scaling_governor | paste -sd' ' >>/rig/out/boots
cp -r /rig/firmware/. /rig/sys/
for d in devices class bus; do
	mkdir -p "/run/rig/$d"
	mount -t overlay -o "ro,lowerdir=/rig/sys/$d:/sys/$d" rig "/run/rig/$d"
	mount --bind "/run/rig/$d" "/sys/$d"
	umount "/run/rig/$d"
	rmdir "/run/rig/$d"
done
rmdir /run/rig
# What is written must land in /rig, for the test to see from outside too.
for d in devices/system/cpu/cpufreq devices/virtual/powercap; do
	mount --bind "/rig/sys/$d" "/sys/$d"
done
# The driver's device numbers, and nodes of a board that is not there: opening one is refused with ENXIO by the kernel,
# with EPERM by the service's device policy.
mount --bind /rig/devices /proc/devices
mknod -m 0666 /dev/nvidia0 c 195 0
mknod -m 0666 /dev/nvidiactl c 195 255
mknod -m 0666 /dev/nvidia-uvm c 511 0
# nspawn lays a boot id of its own over the kernel's, which only those see who have no /proc of their own: a daemon and a
# "qunerd restore" beside it must be of one boot.
umount /proc/sys/kernel/random/boot_id 2>/dev/null || true
