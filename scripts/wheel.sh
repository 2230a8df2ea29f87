#!/usr/bin/env bash
# wheel.sh [FOLDER [SYSTEM/PROCESSOR...]], make wheel: Python wheels that carry the program, in dist/: for this machine, or for the given platforms,
# which may be linux/amd64, linux/arm64 and darwin/arm64. The same commit gives the same wheels, to the bit. Their version is the program's.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "wheel: $*"; }
fail() { say "$@" >&2; exit 1; }

command -v go >/dev/null || fail "Go is missing: https://go.dev/dl"
out=${1:-dist}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- "$(go env GOOS)/$(go env GOARCH)"
python=$(scripts/python.sh setuptools)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Python's form of the version of a Go program (PEP 440): v1.2.0-rc.1 is 1.2.0rc1, v1.2.1-0.20261127232901-8c2d0d9ac6e8+dirty is
# 1.2.1.dev20261127232901+8c2d0d9ac6e8.dirty.
version_of() { # PROGRAM
  go version -m "$1" | awk '$1 == "mod" { print $3 }' |
    sed -E 's/^\(devel\)$/0.0.0.dev0/; s/^v//; s/[-.](0\.)?([0-9]{14})-([0-9a-f]{12})/.dev\2+\3/; s/(\+[0-9a-f]+)\+/\1./; s/-(alpha|beta|rc)\.?/\1/'
}

say "compiling the program, which takes minutes if the build cache has nothing of it"
for platform in "$@"; do
  # The program needs no C library but for opening the BLAS, whose wheel is for glibc 2.17 and later too. Go needs macOS 12.
  case $platform in
    linux/amd64) tag=manylinux_2_17_x86_64 ;;
    linux/arm64) tag=manylinux_2_17_aarch64 ;;
    darwin/arm64) tag=macosx_12_0_arm64 ;;
    *) fail "no wheel for $platform: expected linux/amd64, linux/arm64 or darwin/arm64" ;;
  esac
  source=$work/$tag
  mkdir -p "$source/src"
  cp python/pyproject.toml python/README.md LICENSE "$source"
  cp -R python/src/stagewise "$source/src"
  find "$source" -name __pycache__ -prune -exec rm -rf {} +
  GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -ldflags="-s -w" -o "$source/src/stagewise/bin/stagewise" ./cmd/stagewise
  go run ./scripts/licences "$platform" >"$source/LICENCES"
  sed -i.template "s/^version = .*/version = \"$(version_of "$source/src/stagewise/bin/stagewise")\"/" "$source/pyproject.toml"
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --config-settings="--build-option=--plat-name=$tag" \
    --wheel-dir "$work/wheels" "$source" || fail "the wheel for $platform can't be made"
done
for wheel in "$work"/wheels/*.whl; do
  mv "$wheel" "$out"
  say "$out/$(basename "$wheel"), $(($(wc -c <"$out/$(basename "$wheel")") >> 20)) MB"
done
