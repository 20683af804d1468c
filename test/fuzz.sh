#!/usr/bin/env bash
# Fuzz every FuzzXxx target of the module for a short time each, in turn, until
# the budget is spent. With more targets than fit, the start moves by the seed
# (the day of the year unless told), so that all of them have their day.
#
#   test/fuzz.sh TIME_PER_TARGET BUDGET SEED      e.g. 5s 60s 334
set -euo pipefail

each=$1 budget=${2%s} seed=$((10#$3))
go=${GO:-go}

# `go test -list` prints the names of a package, then a line "ok <package> …".
listing=$("$go" test -list '^Fuzz' ./...)
mapfile -t targets < <(awk '
	/^Fuzz/     { names[n++] = $1 }
	$1 == "ok"  { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' <<<"$listing")
count=${#targets[@]}
if ((count == 0)); then
	echo "fuzz: no target found" >&2
	exit 1
fi

began=$SECONDS done=0
while ((done < count && (done == 0 || SECONDS - began < budget))); do
	read -r package name <<<"${targets[(seed + done) % count]}"
	"$go" test -run '^$' -fuzz "^$name\$" -fuzztime "$each" "$package"
	done=$((done + 1))
done
echo "fuzz: $done of $count targets in $((SECONDS - began)) s"
