# Who may call what on an installed service, and what socket activation does.

inside() {
	training

	step "anyone"
	ok "status" as ada qunerctl status
	ok "doctor" as ada qunerctl doctor
	ok "meter" as ada qunerctl meter -- true
	ends 4 "profile is denied" as ada qunerctl profile idle
	ends 4 "pause is denied" as ada qunerctl pause
	ends 4 "tune is denied" as ada qunerctl tune -- true
	equal "every governor" performance "$(governors)"
	equal "admin directory" "700 root:root" "$(stat -c '%a %U:%G' /run/quner-admin)"
	equal "admin socket" "600 root:root" "$(stat -c '%a %U:%G' /run/quner-admin/admin.sock)"
	equal "public socket" "666 root:root" "$(stat -c '%a %U:%G' /run/quner/quner.sock)"
	if as ada ls /run/quner-admin >/dev/null 2>&1; then fail "the admin directory is open"; fi
	if as ada cat /var/lib/quner/rollback.json >/dev/null 2>&1; then fail "the state is open"; fi
	note "the admin directory and the state are closed"

	step "a member of the group quner"
	says '"coarse"' as ada qunerctl meter --json -- sleep 2.2 || { as ada qunerctl meter --json -- sleep 2.2; fail "CPU energy is exact for anyone"; }
	note "CPU energy is coarse for anyone"
	usermod --append --groups quner ada
	says '"method": "sampled"' as ada qunerctl meter --json -- sleep 1 || fail "nothing was measured"
	if says '"coarse"' as ada qunerctl meter --json -- sleep 1; then fail "CPU energy is coarse for a member"; fi
	note "and exact for a member"
	ends 4 "profile is denied all the same" as ada qunerctl profile idle

	step "an admin group"
	groupadd power
	usermod --append --groups power ada
	install_quner --admin-group power
	ok "a member moves the machine" as ada qunerctl profile idle
	equal "every governor" schedutil "$(governors)"
	equal "admin directory" "750 root:power" "$(stat -c '%a %U:%G' /run/quner-admin)"
	equal "admin socket" "660 root:power" "$(stat -c '%a %U:%G' /run/quner-admin/admin.sock)"
	ends 4 "anyone else does not" as bob qunerctl profile training
	install_quner --admin-group root
	ends 4 "root has taken it back" as ada qunerctl profile training
	ok "profile training" qunerctl profile training

	step "sockets outlive the daemon"
	local inode
	inode=$(stat -c %i /run/quner/quner.sock)
	ok "restarted" systemctl restart qunerd.service
	equal "the public socket is the same" "$inode" "$(stat -c %i /run/quner/quner.sock)"
	ok "service stopped" systemctl stop qunerd.service
	host_as_found
	ok "a call starts it" as ada qunerctl status
	eventually 5 "ready" active
	ok "all three stopped" systemctl stop qunerd.service qunerd.socket qunerd-admin.socket
	ends 3 "nobody answers" as ada qunerctl status
	host_as_found
	stopped_for_good
}

# stopped_for_good: what doctor names stops the service also while it is down for a moment and a caller waits at its
# socket, whom systemd would start it for.
stopped_for_good() {
	local command
	step "stopped for good"
	ok "all three started" systemctl start qunerd.socket qunerd-admin.socket qunerd.service
	command=$(qunerctl doctor | grep '^ *systemctl disable --now')
	printf '[Service]\nRestartSec=20s\n' >"$dropin/slow.conf"
	systemctl daemon-reload
	kill -KILL "$(property MainPID)"
	eventually 5 "it has died" dead_for_now
	as ada qunerctl status >/dev/null 2>&1 &
	eventually 5 "a caller waits at the socket" waiting_at /run/quner/quner.sock
	ok "stopped by:$command" bash -c "$command"
	sleep 1
	equal "all three are down" "inactive inactive inactive" \
		"$(systemctl show --property ActiveState --value qunerd.socket qunerd-admin.socket qunerd.service | paste -sd' ' | tr -s ' ')"
	host_as_found
}

dead_for_now() { [ "$(property SubState)" = auto-restart ]; }

# waiting_at SOCKET: a connection to it is there that nobody has accepted (its state in /proc/net/unix is 02).
waiting_at() { awk -v s="$1" '$NF == s && $6 == "02" { found = 1 } END { exit !found }' /proc/net/unix; }

as() {
	local who=$1
	shift
	runuser -u "$who" -- "$@"
}
