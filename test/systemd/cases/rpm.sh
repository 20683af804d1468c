# The .rpm: installed as where services wait to be enabled and as where they do not, upgraded from an older one, removed.

inside() {
	local before pid said
	if [ ! -e /rig/new.rpm ]; then
		note "skipped: there is no dist/*.rpm of this build (make dist)"
		return
	fi
	quick
	rpm --initdb
	mkdir -p /usr/share/{licenses,man/man1,man/man8} # the base system of a distribution with rpm has them
	before=$(package_tree)

	step "the older package, where nothing is enabled unless somebody says so"
	mkdir -p /run/systemd/system-preset
	echo 'disable *' >/run/systemd/system-preset/00-test.preset
	said=$(manage --install /rig/older.rpm 2>&1) || { echo "$said"; fail "rpm --install: exit $?"; }
	grep -q 'To start it: sudo systemctl enable --now qunerd.socket' <<<"$said" || { echo "$said"; fail "how to start it is not said"; }
	note "how to start it is said"
	ends 1 "not enabled" systemctl is-enabled --quiet qunerd.service
	equal "not started" inactive "$(property ActiveState)"
	ok "files, modes and owners are those of the package" manage --verify --nodeps quner
	equal "what has which mode" "$(modes)" "$(stat -c '%a %U:%G %n' $(modes | cut -d' ' -f3))"
	ok "there is the group" getent group quner
	ok "units verify" systemd-analyze verify --man=no qunerd.service qunerd.socket qunerd-admin.socket quner-retune.service quner-retune.timer
	ok "enabled and started as it says" systemctl enable --now qunerd.socket qunerd-admin.socket qunerd.service
	says v0.0.1-older qunerctl version || fail "it is not the older build"
	train
	pid=$(property MainPID)

	step "upgrade"
	ok "rpm --upgrade" manage --upgrade /rig/new.rpm
	active || fail "the service is $(property ActiveState)"
	[ "$(property MainPID)" != "$pid" ] || fail "the older daemon still runs"
	if says v0.0.1-older qunerctl status --json; then fail "the older daemon still runs"; fi
	ok "enabled still" systemctl is-enabled qunerd.service qunerd.socket qunerd-admin.socket
	eventually 3 "training still: mode and configuration are kept" governors_are performance
	equal "the new configuration lies beside it" "quner.toml quner.toml.rpmnew" "$(ls /etc/quner | paste -sd' ')"
	ok "it is good" qunerd check-config /etc/quner
	rm /etc/quner/quner.toml.rpmnew

	step "erase"
	ok "rpm --erase" manage --erase quner
	host_as_found
	equal "what stays: the configuration that was changed, what was learned, and the group" \
		"/etc/group /etc/gshadow /etc/quner /etc/quner/quner.toml.rpmsave /var/lib/quner" \
		"$(more_than "$before" | grep -v '^/var/lib/quner/' | paste -sd' ')"
	rm -r /etc/quner

	step "and again, where services are enabled"
	echo 'enable *' >/run/systemd/system-preset/00-test.preset
	ok "rpm --install" manage --install /rig/new.rpm
	active || fail "the service is $(property ActiveState)"
	eventually 3 "training again: what was learned is known" grep -q '"profile": *"training"' /run/quner/status.json
	ok "rpm --erase" manage --erase quner
	host_as_found
	rm -r /var/lib/quner
	equal "what stays: the group" "/etc/group /etc/gshadow" "$(more_than "$before" | paste -sd' ')"
	equal "no unit of ours is left" "" "$(systemctl list-units --all --plain --no-legend 'qunerd*')"
}

# manage ARGUMENT…: rpm on a machine whose packages it knows nothing of. What a script says against itself is a failure.
manage() {
	local said
	said=$(rpm --force-debian --nodeps "$@" 2>&1) || { echo "$said"; return 1; }
	[ -z "$said" ] || echo "$said"
	! grep -qi 'scriptlet failed\|^warning:.*failed\|^error' <<<"$said"
}

modes() {
	cat <<-'M'
		755 root:root /usr/bin/qunerd
		755 root:root /usr/bin/qunerctl
		755 root:root /etc/quner
		644 root:root /etc/quner/quner.toml
		644 root:root /usr/lib/systemd/system/qunerd.service
		644 root:root /usr/lib/systemd/system/qunerd.socket
		644 root:root /usr/lib/systemd/system/qunerd-admin.socket
		644 root:root /usr/lib/sysusers.d/quner.conf
		644 root:root /usr/lib/tmpfiles.d/quner.conf
		644 root:root /usr/share/man/man8/qunerd.8.gz
		644 root:root /usr/share/licenses/quner/LICENSE
	M
}

# package_tree: rpm's own books are not of interest.
package_tree() { tree | grep -v '[ /]var/lib/rpm\|[ /]root/.rpmdb\|[ /]usr/lib/sysimage'; }

# more_than TREE: the files that are there now and were not, or were otherwise.
more_than() { diff <(echo "$1") <(package_tree) | awk '/^[<>]/ { print $2 ~ /^\// ? $2 : $3 }' | sort -u; }
