# The .deb: installed, upgraded from an older one, removed, installed again, purged.

inside() {
	local before
	if [ ! -e /rig/new.deb ]; then
		note "skipped: there is no dist/*.deb of this build (make dist)"
		return
	fi
	quick
	before=$(package_tree)

	step "the older package"
	ok "dpkg --install" dpkg --install /rig/older.deb
	active || fail "the service is $(property ActiveState)"
	ok "enabled at boot" systemctl is-enabled qunerd.service qunerd.socket qunerd-admin.socket
	ok "units verify" systemd-analyze verify --man=no qunerd.service qunerd.socket qunerd-admin.socket quner-retune.service quner-retune.timer
	says v0.0.1-older qunerctl version || fail "it is not the older build"
	train

	step "upgrade"
	ok "dpkg --install" dpkg --install /rig/new.deb
	active || fail "the service is $(property ActiveState)"
	if says v0.0.1-older qunerctl status --json; then fail "the older daemon still runs"; fi
	eventually 3 "training still: mode and configuration are kept" governors_are performance

	step "remove"
	ok "dpkg --remove" dpkg --remove quner
	host_as_found
	equal "what stays: configuration, what was learned, the group, and by Debian's custom that it was enabled" \
		"/etc/group /etc/gshadow /etc/quner /etc/quner/quner.toml /var/lib/quner" \
		"$(more_than "$before" | grep -v -e '^/var/lib/quner/' -e '^/etc/systemd/system/.*\.wants' | paste -sd' ')"

	step "and again, to the last trace"
	ok "dpkg --install" dpkg --install /rig/new.deb
	eventually 3 "training again: what was learned is known" governors_are performance
	ok "dpkg --purge" dpkg --purge quner
	host_as_found
	equal "what stays: the group, by Debian's custom" "/etc/group /etc/gshadow" "$(more_than "$before" | paste -sd' ')"
	equal "no unit of ours is left" "" "$(systemctl list-units --all --plain --no-legend 'qunerd*')"
}

# package_tree: dpkg's own books are not of interest.
package_tree() { tree | grep -v '[ /]var/lib/dpkg'; }

# more_than TREE: the files that are there now and were not, or were otherwise.
more_than() { diff <(echo "$1") <(package_tree) | awk '/^[<>]/ { print $2 ~ /^\// ? $2 : $3 }' | sort -u; }
