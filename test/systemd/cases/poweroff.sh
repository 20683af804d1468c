# Levers on the way down: a machine that is powered off keeps them as they are until firmware sets them anew; so does one
# that reboots, and the next boot begins from what firmware has set. A stop of the service alone puts them back.

inside() {
	local boots
	boots=$(wc -l </rig/out/boots)
	if [ "$boots" -eq 1 ]; then
		training
		step "stop: levers are put back"
		ok "stopped" systemctl stop qunerd.service
		host_as_found
		ok "started again" systemctl start qunerd.service
		eventually 3 "training again" governors_are performance
		step "reboot"
		go_down reboot
	fi
	step "after the reboot"
	equal "until the machine went down, levers were left as they were" performance "$(tail -n 1 /rig/out/boots)"
	eventually 10 "the service has started at boot" active
	eventually 5 "training, from what firmware had set" governors_are performance
	grep -q '"schedutil"' /var/lib/quner/rollback.json || fail "the journal does not hold this boot's values"
	step "poweroff"
	go_down poweroff
}

# go_down VERB: the machine goes down; a service manager that hangs is the runner's time limit's business.
go_down() {
	trap - EXIT
	echo 0 >/rig/out/rc
	systemctl "$1"
	sleep infinity
}

outside() {
	equal "powered off: levers were left as they were" performance "$(governors)"
}
