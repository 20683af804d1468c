# What goes wrong with installations: two at once, one that is killed, a daemon whose program is gone, and a lever
# that cannot be put back. In the end nothing is left.

# completes COMMAND…: it does what one that was killed has begun, once no child of that one is at work any more.
completes() {
	local code
	for _ in $(seq 60); do
		code=0
		"$@" >/tmp/second 2>&1 || code=$?
		if [ "$code" -ne 5 ] || ! grep -q 'under way' /tmp/second; then
			return "$code"
		fi
		sleep 0.2
	done
	return 5
}

inside() {
	local before first
	quick StartLimitBurst=100
	before=$(tree)

	step "two at once"
	/rig/bin/qunerctl install --yes >/tmp/first 2>&1 &
	first=$!
	eventually 5 "one is under way" test -e /run/qunerctl-install.lock
	ends 5 "the other is refused" /rig/bin/qunerctl uninstall --yes
	wait "$first" || { cat /tmp/first; fail "the first has failed"; }
	ok "uninstall --purge" qunerctl uninstall --purge --yes
	hash -r
	equal "the file tree is as it was, byte for byte" "$before" "$(tree)"

	step "killed midway"
	for ms in 300; do
		/rig/bin/qunerctl install --yes >/tmp/first 2>&1 &
		first=$!
		sleep "0.$ms"
		kill -KILL "$first" 2>/dev/null || true
		wait "$first" 2>/dev/null || true
		ok "killed after $ms ms, and completed" completes /rig/bin/qunerctl install --yes
		/rig/bin/qunerctl uninstall --purge --yes >/tmp/first 2>&1 &
		first=$!
		sleep "0.$ms"
		kill -KILL "$first" 2>/dev/null || true
		wait "$first" 2>/dev/null || true
		completes /rig/bin/qunerctl uninstall --purge --yes || grep -q 'no installation' /tmp/second || { cat /tmp/second; fail "not to be completed"; }
		hash -r
		equal "the file tree is as it was, byte for byte" "$before" "$(tree)"
	done

	step "the daemon is killed, and its program is gone"
	install_quner
	train
	mkdir /run/alone
	cp /rig/bin/qunerctl /run/alone/
	rm /usr/local/bin/qunerd
	kill -KILL "$(property MainPID)"
	ends 5 "refused: nothing could put the machine back" /run/alone/qunerctl uninstall --purge --yes
	grep -q '"schedutil"' /var/lib/quner/rollback.json || fail "the values found are lost"
	ok "uninstall by a build of quner" /rig/bin/qunerctl uninstall --purge --yes
	rm -r /run/alone
	hash -r
	host_as_found
	equal "the file tree is as it was, byte for byte" "$before" "$(tree)"

	step "a lever cannot be read any more"
	install_quner
	train
	mv "$policies/policy3/scaling_governor" /rig/governor
	mkdir "$policies/policy3/scaling_governor"
	ends 0 "uninstall --purge" qunerctl uninstall --purge --yes
	says 'but for what is said above' echo "$said" || { echo "$said"; fail "it says that all is as it was"; }
	rmdir "$policies/policy3/scaling_governor"
	mv /rig/governor "$policies/policy3/scaling_governor"
	grep -q '"schedutil"' /var/lib/quner/rollback.json || fail "the value found is lost"
	install_quner
	ok "stopped" systemctl stop qunerd.service
	host_as_found
	ok "uninstall --purge" qunerctl uninstall --purge --yes
	hash -r
	equal "the file tree is as it was, byte for byte" "$before" "$(tree)"
}
