# What the cases share: steps, checks, the installation, and looks at the machine under test. Sourced inside the container,
# and outside once the container has gone.
rig=${rig:-/rig}
policies=$rig/sys/devices/system/cpu/cpufreq
dropin=/run/systemd/system/qunerd.service.d
export LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root

outside() { :; } # a case may have its own

step() { echo "-- $*"; }
note() { echo "   $*"; }
fail() { echo "   FAILED: $*"; exit 1; }

# ok WHAT COMMAND…: the command must succeed; its output is shown if it does not.
ok() {
	local what=$1 said code=0
	shift
	said=$("$@" 2>&1) || code=$?
	[ "$code" -eq 0 ] || { echo "$said"; fail "$what: exit $code from: $*"; }
	note "$what"
}

# ends N WHAT COMMAND…: the command must end with N; what it said is in $said.
ends() {
	local want=$1 what=$2 got=0
	shift 2
	said=$("$@" 2>&1) || got=$?
	[ "$got" -eq "$want" ] || { echo "$said"; fail "$what: exit $got, want $want, from: $*"; }
	note "$what (exit $got)"
}

# equal WHAT WANT GOT
equal() {
	[ "$2" = "$3" ] || { diff <(echo "$2") <(echo "$3") || true; fail "$1"; }
	case $2 in
	"" | *$'\n'*) note "$1" ;;
	*) note "$1: $2" ;;
	esac
}

# eventually SECONDS WHAT COMMAND…: the command must come to succeed.
eventually() {
	local limit=$1 what=$2 began
	shift 2
	began=$(date +%s%N)
	until "$@" >/dev/null 2>&1; do
		(($(date +%s%N) - began < limit * 1000000000)) || fail "$what: not within $limit s: $*"
		sleep 0.05
	done
	note "$what ($((($(date +%s%N) - began) / 1000000)) ms)"
}

# says PATTERN COMMAND…: the command's output holds the pattern. No pipe: a reader that stops early would end the command.
says() {
	local pattern=$1 said
	shift
	said=$("$@" 2>&1) || true
	grep -q -- "$pattern" <<<"$said"
}

# logged PATTERN: the service's journal holds it.
logged() { says "$1" journalctl --no-pager --quiet -u qunerd.service; }

governors() { sort -u "$policies"/policy*/scaling_governor | paste -sd' '; }
governors_are() { [ "$(governors)" = "$1" ]; }

# levers: every setting of the machine; the counters run on.
levers() {
	(cd "$rig/${1:-sys}" && find . -type f ! -name energy_uj ! -name scaling_cur_freq -exec sha256sum {} + | sort -k2)
}
as_found() { [ "$(levers)" = "$(levers firmware)" ]; }
host_as_found() { equal "the machine is as it was found, byte for byte" "$(levers firmware)" "$(levers)"; }

property() { systemctl show qunerd.service --property "$1" --value; }
active() { [ "$(property ActiveState)" = active ]; }
restarts_are() { [ "$(property NRestarts)" -eq "$1" ] && active; }

# tree [DIR…]: every file of the container that an installation or a package could touch, with mode, owner and content.
# What the system itself writes while it runs is left out: logs, its own bookkeeping, backups of the account files.
tree() {
	local listed=/run/rig.tree
	find "${@:-/}" -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /rig -o -path /tmp -o -path /var/tmp \
		-o -path /var/log -o -path /var/lib/systemd \) -prune -o ! -name .pwd.lock ! -path /etc/group- ! -path /etc/gshadow- \
		-printf '%p %M %U:%G %l\n' | sort >"$listed"
	awk '$2 ~ /^-/ { print $1 }' "$listed" | tr '\n' '\0' | xargs -0 sha256sum | cat "$listed" -
	rm "$listed"
	find /run -maxdepth 1 -printf '%p %M %U:%G\n' | sort
}

# quick: intervals for a test. The drop-in lies in /run, so that it is no part of the tree.
quick() {
	mkdir -p "$dropin"
	printf '[Service]\nRestartSec=300ms\nWatchdogSec=3\n%s\n' "$*" >"$dropin/quick.conf"
	systemctl daemon-reload
}

# with_gpu: a board, through the fake driver library; its state lies where the service may write.
with_gpu() {
	local v
	cp "$rig/libnvidia-ml.so.1" /usr/lib/
	mkdir -p /run/fakenvml/0
	echo 550.54.15 >/run/fakenvml/driver
	for v in uuid=GPU-6f1d2c44-90ab-4e57-8a3b-c2d1e0f94a40 "name=NVIDIA A40" vbios=94.02.5C.00.03 pci=0:41:0 power_mw=31000 \
		instant_mw=31000 util_pct=0 mem_pct=0 pstate=8 limit_mw=300000 min_mw=100000 max_mw=300000 default_mw=300000; do
		echo "${v#*=}" >"/run/fakenvml/0/${v%%=*}"
	done
}

# configure KEY=VALUE…: set keys of the installed configuration.
configure() {
	local kv
	for kv; do
		sed -i "s/^${kv%%=*} = .*/${kv%%=*} = ${kv#*=}/" /etc/quner/quner.toml
		grep -q "^${kv%%=*} = ${kv#*=}\$" /etc/quner/quner.toml || fail "quner.toml has no key ${kv%%=*}"
	done
}

install_quner() { ok "installed" "$rig/bin/qunerctl" install --yes "$@"; }

# train: the service with a quick tick, holding the governors away from where they were found. The load of the machine
# outside, which is seen inside, must not decide.
train() {
	configure 'tick="1s"' 'untuned_training="performance"' 'load=10.0'
	systemctl restart qunerd.service
	equal "at rest every governor is as found" schedutil "$(governors)"
	ok "profile training" qunerctl profile training
	equal "every governor moves" performance "$(governors)"
}

training() {
	quick
	install_quner
	train
}
