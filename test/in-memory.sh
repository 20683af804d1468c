#!/usr/bin/env bash
# in-memory.sh GO ARG…: run the go command with the tests' temporary files in memory, where there is room for them and
# programs may run. The tests simulate machines whose /sys is a tree of files, and journals that are synced: on a disk
# they take twice the time. What Go itself builds stays on the disk, which its environment file says: a GOTMPDIR in the
# environment would reach the tests, whose T.TempDir obeys it.
set -euo pipefail

settings=$(mktemp)
trap 'rm -f "$settings"; [[ -z ${dir:-} ]] || rm -rf "$dir"' EXIT
if dir=$(mktemp -d /dev/shm/quner.XXXXXX 2>/dev/null) && cp /bin/true "$dir/true" && "$dir/true"; then
	cat "$("$1" env GOENV)" >"$settings" 2>/dev/null || true
	printf '\nGOTMPDIR=%s\n' "${GOTMPDIR:-${TMPDIR:-/tmp}}" >>"$settings"
	unset GOTMPDIR
	export GOENV=$settings TMPDIR=/dev/shm
fi
"$@"
