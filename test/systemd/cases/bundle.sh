# A bug report of an installed machine: what is in it, that one board has one name in all of it, and that nothing in it
# names the machine or its people or tells a secret of theirs.

inside() {
	local said secrets
	with_gpu
	useradd --create-home --comment "Zephyrine Quartz" zephyrine
	mkdir -p "$dropin"
	printf '[Service]\nEnvironment=VAULT=tourmaline-of-the-service\n' >"$dropin/secret.conf"
	quick ReadWritePaths=/run/fakenvml
	install_quner
	sed -i '1i # for zephyrine at quner-test.lab.example, card 02:42:ac:11:00:02, serial number: SN4711XYZ' /etc/quner/quner.toml
	train
	(exec -a "trainer --password=tourmaline-of-a-process" sleep 300) &
	ok "meter" qunerctl meter -- sh -c ': tourmaline-of-a-command; sleep 0.1'

	step "as root, for somebody behind sudo"
	said=$(cd /home/zephyrine && SUDO_USER=zephyrine SUDO_UID=$(id -u zephyrine) SUDO_GID=$(id -g zephyrine) \
		TOKEN=tourmaline-of-the-caller qunerctl doctor --bundle /tmp/root.tar.gz 2>&1) || { echo "$said"; fail "bundle: exit $?"; }
	unpack root
	equal "what is in it" "README.txt doctor.json history.json journal.txt machine.txtar quner.toml status.json versions.txt" "$(ls | paste -sd' ')"
	for f in *; do
		grep -q "^ *$f  *$(stat -c %s "$f")  *[a-z]" <<<"$said" || { echo "$said"; fail "$f is not listed with its size"; }
	done
	note "each is listed, with its size"
	equal "it is whose sudo it was, and for nobody else" "600 zephyrine:zephyrine" "$(stat -c '%a %U:%G' /tmp/root.tar.gz)"
	private
	grep -q 'msg=mode from=auto to=training' journal.txt || fail "the journal is not in it"
	grep -q '^tick = "1s"$' quner.toml || { head -1 quner.toml; fail "the configuration is not in it"; }
	if grep '#' quner.toml; then fail "comments are in it"; fi
	grep -q '"NVIDIA A40"' doctor.json || fail "the board is not in it"
	equal "the board has one name in all of it" 1 "$(grep -oh 'GPU-[0-9a-f-]\{36\}' ./* | sort -u | wc -l)"
	grep -q 'GPU-[0-9a-f-]\{36\}' machine.txtar || fail "the board is not in machine.txtar"
	ok "the machine in it runs" qunerd doctor --simulate machine.txtar

	step "as anybody"
	ok "bundle" runuser -u ada -- env TOKEN=tourmaline-of-the-caller qunerctl doctor --bundle /tmp/ada.tar.gz
	unpack ada
	note "in it: $(ls | paste -sd' ')"
	for f in README.txt doctor.json quner.toml; do [ -s "$f" ] || fail "$f is missing"; done
	private
	kill %1
}

# unpack NAME: into a directory of its own, which becomes the current one.
unpack() {
	mkdir "/run/$1"
	tar -C "/run/$1" -xzf "/tmp/$1.tar.gz"
	cd "/run/$1/quner-bundle"
}

# private: nothing that names this machine or its people, or that only they know, is in the files here.
private() {
	local word
	for word in zephyrine quartz quner-test lab.example tourmaline SN4711XYZ 02:42:ac:11 6f1d2c44 \
		"$(cut -c1-8 /etc/machine-id)" "$(cut -d- -f1 /proc/sys/kernel/random/boot_id)"; do
		if grep -rni -- "$word" .; then fail "$word is in it"; fi
	done
	note "nothing private is in it"
}
