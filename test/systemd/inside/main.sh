#!/bin/bash
# Runs the case that /rig/case names, leaves its exit code in /rig/out/rc, and ends the machine.
set -uo pipefail
cd /rig
finish() {
	code=$?
	echo "$code" >/rig/out/rc
	if [ "$code" -ne 0 ]; then
		echo "--- journal"
		journalctl --no-pager --quiet --output=short-precise -u 'qunerd*' -u rig-machine -n 120
	fi
	systemctl exit "$code"
}
trap finish EXIT
. /rig/lib.sh
. "/rig/cases/$(cat /rig/case).sh"
inside
