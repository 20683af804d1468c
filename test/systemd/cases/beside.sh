# Beside other power daemons: their levers are left to them, they run on untouched, and the predecessor is refused.

inside() {
	local said
	quick
	stand_in tuned
	systemctl start tuned.service

	step "beside a daemon that sets the governor"
	ends 5 "without an answer nothing is installed" /rig/bin/qunerctl install </dev/null
	[ ! -e /etc/systemd/system/qunerd.service ] || fail "a unit was written"
	said=$(/rig/bin/qunerctl install --yes 2>&1) || { echo "$said"; fail "install: exit $?"; }
	for word in "tuned runs" "systemctl disable --now tuned" "qunerctl levers take governor"; do
		grep -q "$word" <<<"$said" || { echo "$said"; fail "install does not say: $word"; }
	done
	note "install names it, and the two commands to choose"
	configure 'tick="1s"' 'untuned_training="performance"' 'load=10.0'
	systemctl restart qunerd.service
	ok "profile training" qunerctl profile training
	equal "the governor is left to it" schedutil "$(governors)"
	ok "taken by hand" qunerctl levers take governor
	eventually 3 "now it moves" governors_are performance
	ok "uninstall" qunerctl uninstall --purge --yes
	host_as_found
	ok "the other daemon runs on" systemctl is-active tuned.service
	systemctl stop tuned.service

	step "beside the predecessor"
	stand_in quner
	systemctl start quner.service
	ends 5 "refused" /rig/bin/qunerctl install --yes
	grep -q 'systemctl disable --now quner.service' <<<"$said" || { echo "$said"; fail "the command that stops it is not named"; }
	[ ! -e /etc/systemd/system/qunerd.service ] || fail "a unit was written"
	ok "the predecessor runs on" systemctl is-active quner.service
}

# stand_in NAME: a service of that name.
stand_in() {
	printf '[Unit]\nDescription=stands in for %s\n[Service]\nExecStart=/usr/bin/sleep infinity\n' "$1" \
		>"/etc/systemd/system/$1.service"
	systemctl daemon-reload
}
