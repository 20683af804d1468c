# A daemon that hangs is ended by systemd's watchdog, the machine is put back, and it starts again. One that crashes over
# and over stays down, with the machine as found.

inside() {
	local pid
	training

	ok "the unit as installed has a watchdog" grep -q '^WatchdogSec=[1-9]' "$(property FragmentPath)"
	step "watchdog: a loop that makes no progress"
	pid=$(property MainPID)
	kill -STOP "$pid"
	eventually 10 "the watchdog has ended it" logged 'Watchdog timeout'
	eventually 10 "systemd has started it again" restarts_are 1
	logged 'code=.*status=.*/ABRT\|Failed with result .watchdog.' || fail "it was not the watchdog"
	eventually 3 "training again: the mode has survived" governors_are performance
	restored_between

	step "crash loop"
	for _ in $(seq 10); do
		[ "$(property ActiveState)" = failed ] && break
		pid=$(property MainPID)
		[ "$pid" -eq 0 ] || kill -KILL "$pid" 2>/dev/null || true
		sleep 0.2
	done
	eventually 5 "systemd gives up" is_failed
	logged 'Start request repeated too quickly\|start-limit-hit' || fail "it was not the start limit"
	note "after $(property NRestarts) restarts"
	host_as_found

	step "and back by hand"
	systemctl reset-failed qunerd.service qunerd.socket qunerd-admin.socket
	ok "started" systemctl start qunerd.socket qunerd-admin.socket qunerd.service
	ok "it answers" qunerctl status
	ok "stopped" systemctl stop qunerd.service qunerd.socket qunerd-admin.socket
	host_as_found
}

is_failed() { [ "$(property ActiveState)" = failed ]; }

# restored_between: the restore of ExecStopPost has said what it put back.
restored_between() {
	logged 'qunerd\[.*cpufreq/policy0: performance -> schedutil' || fail "ExecStopPost has put nothing back"
	note "ExecStopPost had put the machine back in between"
}
