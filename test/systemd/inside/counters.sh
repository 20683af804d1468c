#!/bin/bash
# Energy counters that rise by about 20 W each. A counter's text keeps its length and is written in place, in one write,
# so that no reader meets an empty file.
set -euo pipefail
mapfile -t counters < <(find /rig/sys/devices/virtual/powercap -name energy_uj)
energy=100000000000
while :; do
	for c in "${counters[@]}"; do
		echo "$energy" 1<>"$c"
	done
	energy=$((energy + 2000000))
	sleep 0.1
done
