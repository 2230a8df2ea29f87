#!/usr/bin/env bash
# fashion.sh DIR
# Puts the four files of Fashion-MNIST into DIR, as Debian's package dataset-fashion-mnist has them: compressed, under the names of MNIST's. It
# takes them from the folder FASHION_DIR if that is set. It does nothing if DIR has them already. The package is not installed.
# Exit codes: 0 the files are in DIR; 1 a file is missing; 2 usage; 3 the files could not be fetched.
set -euo pipefail
package=dataset-fashion-mnist
[ $# -eq 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
target=$1
names="train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz"

say() { echo "fashion: $*"; }
fail() { echo "fashion: $2" >&2; exit "$1"; }

complete() {
  local name
  for name in $names; do gzip -t "$target/$name" 2>/dev/null || return 1; done
}

complete && { say "already in $target"; exit; }
mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$(dirname "$target")/.fashion.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
from=${FASHION_DIR:-}
if [ -z "$from" ]; then
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    fail 3 "the files are in Debian's package $package, and apt-get is missing: set FASHION_DIR to a folder with them"
  say "fetching Debian's package $package (31 MB, once)"
  (cd "$work" && apt-get download -qq "$package" >apt.log 2>&1) || fail 3 "apt-get could not fetch $package: $(tail -n 1 "$work/apt.log"); run: sudo apt-get update"
  dpkg-deb -x "$work/$package"_*.deb "$work/files"
  from=$work/files/usr/share/datasets/fashion-mnist
fi
mkdir -p "$target"
for name in $names; do
  [ -f "$from/$name" ] || fail 1 "$from has no $name"
  cp "$from/$name" "$work/$name"
  mv -f "$work/$name" "$target/$name"
done
say "60,000 + 10,000 images in $target"
