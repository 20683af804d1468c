# From an older build to this one, in place: the machine is kept as it was kept, and an upgrade that cannot be leaves
# everything as it is.

inside() {
	local pid now before
	quick
	before=$(tree /etc /usr/local /var)
	step "the older build"
	ok "installed" /rig/older/qunerctl install --yes
	train
	says v0.0.1-older qunerctl version || fail "it is not the older build"

	step "upgrade"
	install_quner
	hash -r
	equal "both programs are this build" "$(cd /rig/bin && sha256sum qunerctl qunerd)" \
		"$(cd "$(dirname "$(command -v qunerd)")" && sha256sum qunerctl qunerd)"
	says '"v0.0.1-older"' qunerctl status --json && fail "the older daemon still runs"
	eventually 3 "training still: the mode is kept" governors_are performance
	grep -q '^untuned_training = "performance"$' /etc/quner/quner.toml || fail "the configuration is not kept"
	note "the configuration is kept"

	step "twice does no harm"
	pid=$(property MainPID) now=$(tree /etc /usr/local /var)
	install_quner
	equal "the same process" "$pid" "$(property MainPID)"
	equal "no file has changed" "$now" "$(tree /etc /usr/local /var)"

	step "an upgrade that cannot be"
	mkdir /run/broken
	cp /rig/older/qunerctl /run/broken/
	printf '#!/bin/sh\necho broken; exit 1\n' >/run/broken/qunerd
	chmod 755 /run/broken/qunerd
	now=$(tree /etc /usr/local /var)
	if said=$(/run/broken/qunerctl install --yes 2>&1); then fail "a broken build was installed: $said"; fi
	note "refused: $(tail -n 1 <<<"$said")"
	equal "no file has changed" "$now" "$(tree /etc /usr/local /var)"
	equal "the same process" "$pid" "$(property MainPID)"
	equal "every governor" performance "$(governors)"
	rm -r /run/broken

	step "uninstall, for another time"
	ok "uninstall" qunerctl uninstall --yes
	hash -r
	host_as_found
	equal "what stays: the configuration that was changed, and what was learned" \
		"/etc/quner /etc/quner/quner.toml /var/lib/quner" "$(more_than "$before" | grep -v '^/var/lib/quner/' | paste -sd' ')"
	note "of what was learned: $(cd /var/lib/quner && ls | paste -sd' ')"
	if grep -qs schedutil /var/lib/quner/rollback.json; then fail "the journal says that a lever is held"; fi

	step "and again"
	install_quner
	eventually 3 "training again: what was learned is known" governors_are performance
	ok "uninstall --purge" qunerctl uninstall --purge --yes
	hash -r
	host_as_found
	equal "nothing stays: the configuration that was changed was quner's" "" "$(more_than "$before" | paste -sd' ')"

	step "a configuration that a person had made before"
	mkdir -m 755 /etc/quner
	echo 'tick = "4s"' >/etc/quner/quner.toml
	before=$(tree /etc /usr/local /var)
	install_quner
	sed -i 's/4s/3s/' /etc/quner/quner.toml
	ok "uninstall" qunerctl uninstall --yes
	hash -r
	install_quner
	ok "uninstall --purge" qunerctl uninstall --purge --yes
	hash -r
	sed -i 's/3s/4s/' /etc/quner/quner.toml
	equal "it stays, and nothing else" "$before" "$(tree /etc /usr/local /var)"
}

# more_than TREE: the files that are there now and were not.
more_than() { diff <(echo "$1") <(tree /etc /usr/local /var) | awk '/^>/ && $2 ~ /^\// { print $2 }'; }
