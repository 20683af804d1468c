#!/usr/bin/env bash
# The whole journey on a simulated machine: the commands are real, the machine is not. Unprivileged; leaves nothing behind.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${BIN:-$top/bin}
host=${1:-workstation}
work=$(mktemp -d)
export QUNER_SOCKET=$work/q
daemon=

cleanup() {
	status=$?
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null || true
		for _ in $(seq 100); do kill -0 "$daemon" 2>/dev/null || break; sleep 0.1; done
		kill -9 "$daemon" 2>/dev/null || true
	fi
	[ "$status" -eq 0 ] || { echo "demo: ended with status $status; the daemon's log:" >&2; tail -n 40 "$work/log" >&2 || true; }
	rm -rf "$work"
}
trap cleanup EXIT

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

(cd "$top" && go build -o "$work/machine" ./test/demo/machine)
"$work/machine" new "$host" "$QUNER_SOCKET"
before=$("$work/machine" digest "$QUNER_SOCKET")

say "1. A daemon on the simulated $host"
echo "The commands below are the real ones; the machine is simulated, in $QUNER_SOCKET."
trace=()
# With -D the tracer is nobody's parent, so that $! is the daemon itself.
if command -v strace >/dev/null && strace -D -f -o /dev/null true 2>/dev/null; then
	trace=(strace -D -f --seccomp-bpf -q -e trace=open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,truncate -o "$work/opens")
fi
"${trace[@]}" "$bin/qunerd" run --simulate "$host" --dir "$QUNER_SOCKET" >"$work/out" 2>"$work/log" &
daemon=$!
for _ in $(seq 100); do
	grep -q QUNER_SOCKET "$work/out" 2>/dev/null && break
	kill -0 "$daemon" 2>/dev/null || exit 1
	sleep 0.1
done
show "$bin/qunerctl" status

say "2. What this machine exposes"
show "$bin/qunerctl" doctor

say "3. Find the power cap that does most work per joule for this command"
show "$bin/qunerctl" tune --no-cpu --apply -- "$bin/qunerd" simulate-work --units 25

say "4. What does one run of it cost now?"
show "$bin/qunerctl" meter --idle-watts gpu=30 --work 100 --unit batch -- "$bin/qunerd" simulate-work --units 100

say "5. The machine as quner keeps it"
show "$bin/qunerctl" status

say "6. Stop: the machine must be as it was found"
pid=$daemon
kill "$pid"
wait "$pid" || { echo "the daemon ended with status $?"; exit 1; }
daemon=
after=$("$work/machine" digest "$QUNER_SOCKET")
echo "before  $before"
echo "after   $after"
if [ "$before" != "$after" ]; then
	echo "NOT the same"
	exit 1
fi
echo "The simulated machine is byte-identical to how it began."
if [ ${#trace[@]} -gt 0 ]; then
	for _ in $(seq 50); do grep -q "^$pid .*+++ exited" "$work/opens" && break; sleep 0.1; done
	touched=$(grep -cE '"/sys/' "$work/opens" || true)
	written=$(grep -E '"/sys/' "$work/opens" | grep -cE 'O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|^[0-9]+ +(creat|rename|unlink|truncate)' || true)
	echo "Of this machine's own /sys, strace saw $touched files opened, $written of them for writing."
	[ "$written" -eq 0 ]
else
	echo "(Without strace there is no record of this machine's own /sys; install it to see that none of it is written.)"
fi

say "7. Was the choice right?"
echo "The board's measured curve, with the simulated host's other watts added and no noise; the tuner did not see this:"
"$work/machine" truth "$QUNER_SOCKET"
