#!/usr/bin/env bash
# release.sh [--wheels] [FOLDER [SYSTEM/PROCESSOR...]], make release: archives for Linux and macOS, amd64 and arm64, and Python wheels, in dist/, with
# checksums, a formula for Homebrew, and a list of what the program is made of (SBOM, CycloneDX). With --wheels, make wheel: wheels alone, by default that
# for this machine. The same commit gives the same files, to the bit. The version of a wheel is the program's.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "release: $*"; }
fail() { say "$@" >&2; exit 1; }

command -v go >/dev/null || fail "Go is missing: https://go.dev/dl"
only='' platforms="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"
if [ "${1:-}" = --wheels ]; then
  only=1 platforms=$(go env GOOS)/$(go env GOARCH)
  shift
fi
out=${1:-dist}
[ $# -eq 0 ] || shift
[ $# -eq 0 ] || platforms=$*
python=$(scripts/python.sh setuptools)
version=$(git describe --tags --always --dirty)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# bsdtar of macOS has no --sort: the list of files is sorted before.
pack() { # FOLDER ARCHIVE
  local owner
  if tar --version 2>/dev/null | grep -q GNU; then
    owner=(--owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX)
  else
    owner=(--uid 0 --gid 0)
    (cd "$work" && find "$1" -type f -exec touch -t "$(date -u -r "$SOURCE_DATE_EPOCH" +%Y%m%d%H%M.%S)" {} +)
  fi
  (cd "$work" && find "$1" -type f | LC_ALL=C sort | tar --create --no-recursion --files-from - --numeric-owner "${owner[@]}" --file -) | gzip -n >"$2"
}

# Python's form of the version of a Go program (PEP 440): v1.2.0-rc.1 is 1.2.0rc1, v1.2.1-0.20261127232901-8c2d0d9ac6e8+dirty is
# 1.2.1.dev20261127232901+8c2d0d9ac6e8.dirty.
version_of() { # PROGRAM
  go version -m "$1" | awk '$1 == "mod" { print $3 }' |
    sed -E 's/^\(devel\)$/0.0.0.dev0/; s/^v//; s/[-.](0\.)?([0-9]{14})-([0-9a-f]{12})/.dev\2+\3/; s/(\+[0-9a-f]+)\+/\1./; s/-(alpha|beta|rc)\.?/\1/'
}

# The program needs no C library but for opening the BLAS, whose wheel is for glibc 2.17 and later too. Go needs macOS 12.
wheel() { # PLATFORM FOLDER
  local tag source=$work/wheel
  case $1 in
    linux/amd64) tag=manylinux_2_17_x86_64 ;;
    linux/arm64) tag=manylinux_2_17_aarch64 ;;
    darwin/arm64) tag=macosx_12_0_arm64 ;;
    *)
      [ -n "$only" ] || [ "$1" != darwin/amd64 ] || return 0 # pyarrow and scikit-learn have none for it
      fail "no wheel for $1: expected linux/amd64, linux/arm64 or darwin/arm64"
      ;;
  esac
  rm -rf "$source"
  mkdir -p "$source/src"
  cp python/pyproject.toml python/README.md LICENSE "$2/LICENCES" "$source"
  cp -R python/src/stagewise "$source/src"
  find "$source" -name __pycache__ -prune -exec rm -rf {} +
  mkdir -p "$source/src/stagewise/bin"
  cp "$2/stagewise" "$source/src/stagewise/bin"
  sed -i.template "s/^version = .*/version = \"$(version_of "$2/stagewise")\"/" "$source/pyproject.toml"
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --config-settings="--build-option=--plat-name=$tag" \
    --wheel-dir "$work/wheels" "$source" || fail "the wheel for $1 can't be made"
}

say "compiling the program, which takes minutes if the build cache has nothing of it"
[ -n "$only" ] || go build -trimpath -ldflags="-s -w" -o "$work/stagewise" ./cmd/stagewise # writes manual pages
for platform in $platforms; do
  name=stagewise-$version-${platform%/*}-${platform#*/}
  folder=$work/$name
  mkdir -p "$folder/completions"
  GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -ldflags="-s -w" -o "$folder/stagewise" ./cmd/stagewise
  go run ./scripts/licences "$platform" >"$folder/LICENCES"
  wheel "$platform" "$folder"
  [ -z "$only" ] || continue
  cp LICENSE README.md CHANGELOG.md "$folder"
  "$work/stagewise" man "$folder/man"
  for shell in bash zsh fish; do "$work/stagewise" completion "$shell" >"$folder/completions/stagewise.$shell"; done
  pack "$name" "$work/$name.tar.gz"
done
[ -n "$only" ] || rm -f "$out"/stagewise-*.tar.gz "$out"/stagewise-*.whl "$out"/stagewise.rb "$out"/stagewise-*.cdx.json "$out/SHA256SUMS"
for file in "$work"/wheels/*.whl "$work"/*.tar.gz; do
  [ -f "$file" ] || continue
  mv "$file" "$out"
  say "$out/${file##*/}, $(($(wc -c <"$out/${file##*/}") >> 20)) MB"
done
[ -z "$only" ] || exit 0
(cd deploy && go tool cyclonedx-gomod app -json -noserial -output "$out/stagewise-$version.cdx.json" -main cmd/stagewise ..) 2>"$work/sbom.log" ||
  { cat "$work/sbom.log" >&2; fail "the list of what the program is made of can't be made"; }
cp deploy/homebrew/stagewise.rb "$out"
cd "$out"
sums() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
sums stagewise-*.tar.gz stagewise-*.whl stagewise-*.cdx.json >SHA256SUMS
awk -v version="$version" 'NR == FNR { if (match($2, /(linux|darwin)-(amd64|arm64)\.tar/)) {
      key = toupper(substr($2, RSTART, RLENGTH - 4)); sub("-", "_", key); sums["SHA256_OF_" key] = $1 } next }
  { gsub("VERSION_OF_RELEASE", version); for (key in sums) gsub(key, sums[key]); print }' SHA256SUMS stagewise.rb >"$work/filled.rb"
mv "$work/filled.rb" stagewise.rb
say "$out/SHA256SUMS"
