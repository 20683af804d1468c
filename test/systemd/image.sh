#!/usr/bin/env bash
# image.sh: a Debian with systemd as PID 1 for containers, from the packages that this machine's own apt sources offer.
# Built once, below .rig, and again when this file, the release or the package list changes. Prints where it lies.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rig=${RIG:-$top/.rig}/systemd
packages=systemd,systemd-sysv,dbus,procps,util-linux,rpm
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
recipe=$(cat "${BASH_SOURCE[0]}" <(echo "$release $packages $(dpkg --print-architecture)") | sha256sum | cut -d' ' -f1)

built() { [ "$(cat "$rig/recipe" 2>/dev/null)" = "$recipe" ]; }
if ! built; then
	mkdir -p "$rig"
	exec 9>"$rig/lock"
	flock 9
fi
# Another run may have built it meanwhile, and run in it now.
if built; then
	echo "$rig/root"
	exit
fi
began=$SECONDS
rm -rf --one-file-system "$rig/root" "$rig/recipe"
sources=()
for s in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
	if [ -s "$s" ]; then sources=("$s"); break; fi
done
((${#sources[@]})) || { echo "image: this machine has no apt sources" >&2; exit 1; }
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
	--aptopt='APT::Install-Recommends "false"' --dpkgopt='force-unsafe-io' \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	"$release" "$rig/root" "${sources[@]}" >&2
root=$rig/root
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*

# What a container has no use for would only make boots longer and the state of the system "degraded".
for u in getty.target console-getty.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer \
	e2scrub_all.timer e2scrub_reap.service systemd-networkd-wait-online.service systemd-pstore.service \
	systemd-firstboot.service systemd-hwdb-update.service ldconfig.service systemd-journal-catalog-update.service \
	systemd-update-done.service systemd-binfmt.service systemd-random-seed.service systemd-journal-flush.service \
	systemd-machine-id-commit.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
	sys-fs-fuse-connections.mount dev-hugepages.mount systemd-remount-fs.service; do
	ln -sf /dev/null "$root/etc/systemd/system/$u"
done
ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
echo quner-test >"$root/etc/hostname"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >"$root/etc/systemd/journald.conf.d/test.conf"
# Two people who are in no group.
for p in ada bob; do chroot "$root" useradd --create-home --shell /bin/bash "$p"; done
touch "$root/etc/.updated" "$root/var/.updated"
echo "$recipe" >"$rig/recipe"
echo "image: built in $((SECONDS - began)) s, $(du -sh "$root" | cut -f1)" >&2
echo "$root"
