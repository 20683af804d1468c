#!/usr/bin/env bash
# Builds the .tar.gz, the .deb and the .rpm into dist/, from what "make man" has
# left in bin/. Twice from one commit gives the same bytes.
#   GO=go VERSION=v0.1.0 NFPM='go tool …' bash deploy/package/build.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

rm -rf dist
mkdir -p dist/stage/man/man1 dist/stage/man/man8
stage=dist/stage

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
ARCH=$($GO env GOARCH)
export SOURCE_DATE_EPOCH ARCH

# A version that package managers sort: 0.1.0, then 0.1.0+3.gabc1234 three
# commits later; before the first tag, 0.0.0+ the number of commits.
plain=${VERSION#v}
case $plain in
[0-9]*.[0-9]*.[0-9]*) plain=$(sed -E 's/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/; s/-dirty$/.dirty/' <<<"$plain") ;;
*) plain="0.0.0+$(git rev-list --count HEAD 2>/dev/null || echo 0).${plain//-/.}" ;;
esac
export PACKAGE_VERSION=$plain

$GO build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o $stage/ ./cmd/qunerd ./cmd/qunerctl
# The oldest C library that the programs run with, from the symbols they use.
GLIBC=$({ objdump -T $stage/qunerd || true; } | grep -oE 'GLIBC_[0-9.]+' | cut -d_ -f2 | sort -V | tail -1)
export GLIBC=${GLIBC:-2.31}

for section in 1 8; do
	for page in bin/man/*.$section; do
		gzip -9n <"$page" >"$stage/man/man$section/$(basename "$page").gz"
	done
done
cp -r bin/completions $stage/completions

name=quner-$PACKAGE_VERSION-linux-$ARCH
mkdir "dist/$name"
cp -r $stage/qunerd $stage/qunerctl $stage/man $stage/completions README.md CHANGELOG.md LICENSE "dist/$name/"
tar -C dist --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
for kind in deb rpm; do
	$NFPM package --config deploy/package/nfpm.yaml --packager $kind --target dist/
done
rm -r $stage "dist/$name"
(cd dist && sha256sum quner* >SHA256SUMS && cat SHA256SUMS)
