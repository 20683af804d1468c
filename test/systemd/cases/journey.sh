# From an installation to its removal: the file tree and the machine are in the end as they were in the beginning.

inside() {
	local before pid journal exposure
	with_gpu
	quick ReadWritePaths=/run/fakenvml
	before=$(tree)

	step "install"
	ok "install --dry-run" /rig/bin/qunerctl install --dry-run
	equal "a dry run changes nothing" "$before" "$(tree)"
	install_quner
	active || fail "the service is $(property ActiveState)"
	ready
	ok "enabled at boot" systemctl is-enabled qunerd.service qunerd.socket qunerd-admin.socket
	ok "units verify" systemd-analyze verify --man=no qunerd.service qunerd.socket qunerd-admin.socket quner-retune.service quner-retune.timer
	exposure=$(systemd-analyze security --no-pager qunerd.service | awk '/Overall exposure/ { print $(NF - 2) }')
	ok "exposure of the running service: $exposure" awk -v e="$exposure" 'BEGIN { exit !(e > 0 && e <= 2.0) }'
	[ -n "$(property StatusText)" ] || fail "systemctl status has no line of the service's own"
	note "systemctl status says: $(property StatusText)"
	equal "no unit has failed" "" "$(systemctl list-units --failed --plain --no-legend)"

	step "look"
	ok "doctor" qunerctl doctor
	for what in cpufreq/policy rapl/package-0 nvml/GPU- ; do
		says "$what" qunerctl doctor || { qunerctl doctor; fail "doctor does not name $what"; }
	done
	note "doctor names governors, package caps and the board"
	ok "status" qunerctl status
	says '"simulated": false' qunerctl status --json || fail "status is not of this machine"
	eventually 5 "status.json is published" grep -q '"profile"' /run/quner/status.json
	equal "the public directory holds the socket and the status" "quner.sock status.json" "$(ls /run/quner | paste -sd' ')"
	host_as_found

	step "each lever moves inside the service's sandbox, and goes back"
	ok "selftest" qunerctl selftest
	host_as_found
	equal "the board's cap is back" 300000 "$(cat /run/fakenvml/0/limit_mw)"

	step "profile switch"
	train
	journal=/var/lib/quner/rollback.json
	grep -q '"schedutil"' "$journal" || { cat "$journal"; fail "the journal does not hold the values found"; }
	equal "journal: of root, for root" "600 root:root" "$(stat -c '%a %U:%G' "$journal")"
	equal "the switch is one line of the system's journal" 1 \
		"$(journalctl --no-pager --quiet -u qunerd.service | grep -c 'msg=mode from=auto to=training .*uid=0\|msg=call .*SetMode')"
	logged 'msg="lever moved" lever=cpufreq/policy7 from=schedutil to=performance' || fail "the write is not in the system's journal"
	says 'governor\|cpufreq' qunerctl history || fail "the writes are not in the history"
	note "the values found are journalled, the writes are logged"

	step "the timer for the machine at rest"
	ok "it waits" systemctl is-active quner-retune.timer
	ok "its service asks, and takes no for an answer" systemctl start quner-retune.service
	says 'not explored .*: the profile is set to training' qunerctl status || fail "why it was not explored is not remembered"

	step "metering"
	metered

	reload

	step "SIGKILL"
	pid=$(property MainPID)
	kill -KILL "$pid"
	eventually 5 "systemd has started it again" restarts_are 1
	eventually 3 "training again: the mode has survived" governors_are performance
	grep -q '"schedutil"' "$journal" || fail "the originals are lost"
	note "the originals are kept"

	step "stop"
	ok "stopped" systemctl stop qunerd.service
	host_as_found

	step "uninstall"
	ok "started again" systemctl start qunerd.service
	eventually 3 "training again" governors_are performance
	ok "uninstall --purge" qunerctl uninstall --purge --yes
	hash -r
	host_as_found
	equal "the file tree is as it was, byte for byte" "$before" "$(tree)"
	equal "no unit of ours is left" "" "$(systemctl list-units --all --plain --no-legend 'qunerd*')"
	ends 5 "there is nothing to remove any more" /rig/bin/qunerctl uninstall --yes
}

# ready: how long the start took, by systemd's own clock.
ready() {
	local began ended
	began=$(property ExecMainStartTimestampMonotonic)
	ended=$(property ActiveEnterTimestampMonotonic)
	note "from the start of the process to READY: $(((ended - began) / 1000)) ms"
}

# metered: what a command costs is what the package's counter says, less what passed before it began and after it ended.
metered() {
	local counter=/sys/class/powercap/intel-rapl:0/energy_uj before said energy passed
	before=$(cat "$counter")
	said=$(qunerctl meter --json -- sleep 1.2 2>&1) || fail "meter: exit $?"
	passed=$(($(cat "$counter") - before))
	grep -q '"method": "sampled"' <<<"$said" || { echo "$said"; fail "nothing was measured"; }
	energy=$(awk -F': *|,' '/"device": "cpu\/package-0"/ { here = 1 } here && /"energy_uj"/ { print $2; exit }' <<<"$said")
	((energy <= passed && energy > passed / 3)) || { echo "$said"; fail "metered $energy µJ of the $passed µJ that passed"; }
	note "metered $((energy / 1000)) mJ of the $((passed / 1000)) mJ that passed before, during and after the command"
}

# reload: a good configuration holds at once; a bad one is refused, and the old one stays.
reload() {
	local pid
	step "reload"
	pid=$(property MainPID)
	configure 'untuned_training="found"'
	ok "reload" systemctl reload qunerd.service
	eventually 3 "the new configuration holds: everything as found" as_found
	configure 'untuned_training="performance"'
	ok "reload" systemctl reload qunerd.service
	eventually 3 "and back: every governor is performance" governors_are performance
	cp /etc/quner/quner.toml /run/good.toml
	echo 'nonsense = 1' >>/etc/quner/quner.toml
	systemctl reload qunerd.service || true
	eventually 3 "a bad configuration is named in the journal" logged 'nonsense'
	active && governors_are performance || fail "a bad configuration has changed something"
	equal "it is the same process" "$pid" "$(property MainPID)"
	cat /run/good.toml >/etc/quner/quner.toml
	rm /run/good.toml
	ok "reload" systemctl reload qunerd.service
}
