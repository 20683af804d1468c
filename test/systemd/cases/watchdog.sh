# A daemon that hangs is ended by systemd's watchdog, the machine is put back, and it starts again. One that crashes over
# and over stays down, with the machine as found.

inside() {
	local pid crash
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

	step "after the third crash it only looks on"
	for crash in 2 3; do
		kill -KILL "$(property MainPID)"
		eventually 5 "started again after crash $crash" restarts_are "$crash"
	done
	equal "every governor is as found" schedutil "$(governors)"
	says 'crashed 3 times' qunerctl status || { qunerctl status; fail "status does not say why nothing is moved"; }
	logged 'would move a lever' || fail "what would be moved is not in the journal"
	note "status says why, the journal what it would do"
	ends 5 "levers are not moved by anybody" qunerctl profile idle
	ok "metering goes on" qunerctl meter -- true
	ok "restarted in order" systemctl restart qunerd.service
	eventually 3 "a new beginning: training again" governors_are performance

	step "crash loop"
	for _ in $(seq 20); do
		if is_failed; then break; fi
		pid=$(property MainPID)
		[ "$pid" -eq 0 ] || kill -KILL "$pid" 2>/dev/null || true
		sleep 0.2
	done
	eventually 5 "systemd gives up" is_failed
	logged 'Start request repeated too quickly' || fail "it was not the start limit"
	note "after $(property NRestarts) restarts in a row"
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
