# What the service's sandbox refuses. A copy of the unit, with all its properties, runs a probe in the daemon's place; the
# same probe outside shows that it is the sandbox that refuses.

inside() {
	local kind action want got free
	quick
	install_quner
	systemctl stop qunerd.service qunerd.socket qunerd-admin.socket
	cp "$(property FragmentPath)" /run/systemd/system/probe.service
	mkdir -p /run/systemd/system/probe.service.d
	cat >/run/systemd/system/probe.service.d/probe.conf <<-'U'
		[Service]
		Type=oneshot
		ExecStart=
		ExecStart=/rig/probe
		ExecStopPost=
		Sockets=
		Restart=no
		WatchdogSec=0
		StandardOutput=append:/rig/out/inside
	U
	systemctl daemon-reload
	/rig/probe >/rig/out/free
	ok "probe inside the sandbox" systemctl start probe.service

	step "what the sandbox refuses, what it leaves, and what the same does outside"
	printf '   %-8s %-44s %-14s %s\n' "" ACTION INSIDE OUTSIDE
	while IFS=$'\t' read -r kind action want got; do
		free=$(awk -F'\t' -v a="$action" '$2 == a { print $4 }' /rig/out/free)
		printf '   %-8s %-44s %-14s %s\n' "$kind" "$action" "$got" "$free"
		[[ ",$want," = *,"$got",* ]] || fail "$action: $got, want $want"
		case $kind in
		refused) [ "$got" != "$free" ] || twice "$action" || fail "$action: refused outside too, which proves nothing" ;;
		left) [ "$got" = "$free" ] || fail "$action: $free outside" ;;
		esac
	done </rig/out/inside
	[ "$(cut -f2 /rig/out/inside | sort -u | wc -l)" -ge 45 ] || fail "the probe has ended early"

	step "a driver that is loaded only after the service has started"
	umount /proc/devices
	: >/rig/out/inside
	ok "probe inside the sandbox" systemctl start probe.service
	for action in "open NVIDIA's board" "open NVIDIA's control node"; do
		equal "$action" ENXIO "$(awk -F'\t' -v a="$action" '$2 == a { print $4 }' /rig/out/inside)"
	done
}

# twice ACTION: the container refuses it by itself.
twice() {
	case $1 in
	"load a kernel module" | "set the clock" | "read the kernel's log" | "replace the kernel") return 0 ;;
	esac
	return 1
}
