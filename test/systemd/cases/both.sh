# A package comes to an installation by qunerctl, and either of them goes: the other keeps what it needs.

inside() {
	local pid
	if [ ! -e /rig/new.deb ]; then
		note "skipped: there is no dist/*.deb of this build (make dist)"
		return
	fi
	quick
	step "a package over it, and gone again"
	install_quner
	pid=$(property MainPID)
	ok "dpkg --install" dpkg --install /rig/new.deb
	ok "dpkg --purge" dpkg --purge quner
	equal "the same process" "$pid" "$(property MainPID)"
	ok "enabled at boot" systemctl is-enabled qunerd.service qunerd.socket qunerd-admin.socket
	ok "uninstall --purge" qunerctl uninstall --purge --yes
	hash -r

	step "a package over it, which stays"
	install_quner
	ok "dpkg --install" dpkg --install /rig/new.deb
	ok "uninstall --purge" /usr/local/bin/qunerctl uninstall --purge --yes
	hash -r
	equal "its configuration is there" /etc/quner/quner.toml "$(ls /etc/quner/quner.toml)"
	ok "its group is there" getent group quner
	ok "its service starts" systemctl enable --now qunerd.socket qunerd-admin.socket qunerd.service
	ok "and answers" qunerctl status
	ok "dpkg --purge" dpkg --purge quner
	host_as_found
}
