#!/usr/bin/env bash
# release.sh [FOLDER [SYSTEM/PROCESSOR...]], make release: archives for Linux and macOS, amd64 and arm64, and Python wheels, in dist/, with
# checksums, a formula for Homebrew, and a list of what the program is made of (SBOM, CycloneDX). The same commit gives the same files, to the bit.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "release: $*"; }
fail() { say "$@" >&2; exit 1; }

out=${1:-dist}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
command -v go >/dev/null || fail "Go is missing: https://go.dev/dl"
version=$(git describe --tags --always --dirty)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/stagewise-*.tar.gz "$out"/stagewise-*.whl "$out"/stagewise.rb "$out"/stagewise-*.cdx.json "$out/SHA256SUMS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# bsdtar of macOS has no --sort: the list of files is sorted before.
pack() { # FOLDER ARCHIVE
  if tar --version 2>/dev/null | grep -q GNU; then
    (cd "$work" && find "$1" -type f | LC_ALL=C sort | tar --create --no-recursion --files-from - --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX) | gzip -n >"$2"
  else
    (cd "$work" && find "$1" -type f -exec touch -t "$(date -u -r "$SOURCE_DATE_EPOCH" +%Y%m%d%H%M.%S)" {} + && find "$1" -type f | LC_ALL=C sort | tar --create --no-recursion --files-from - --uid 0 --gid 0 --numeric-owner --file -) | gzip -n >"$2"
  fi
}

go build -trimpath -o "$work/stagewise" ./cmd/stagewise
for platform in "$@"; do
  name=stagewise-$version-${platform%/*}-${platform#*/}
  folder=$work/$name
  mkdir -p "$folder/completions"
  GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -ldflags="-s -w" -o "$folder/stagewise" ./cmd/stagewise
  cp LICENSE README.md CHANGELOG.md "$folder"
  go run ./scripts/licences "$platform" >"$folder/LICENCES"
  "$work/stagewise" man "$folder/man"
  for shell in bash zsh fish; do "$work/stagewise" completion "$shell" >"$folder/completions/stagewise.$shell"; done
  pack "$name" "$out/$name.tar.gz"
  say "$name.tar.gz"
done
(cd deploy && go tool cyclonedx-gomod app -json -noserial -output "$out/stagewise-$version.cdx.json" -main cmd/stagewise ..) 2>"$work/sbom.log" || { cat "$work/sbom.log" >&2; fail "the list of what the program is made of can't be made"; }
wheels=()
for platform in "$@"; do
  [ "$platform" = darwin/amd64 ] || wheels+=("$platform") # pyarrow and scikit-learn have none for it
done
[ ${#wheels[@]} -eq 0 ] || scripts/wheel.sh "$out" "${wheels[@]}"
formula=$PWD/deploy/homebrew/stagewise.rb
cd "$out"
sums() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
sums stagewise-*.tar.gz stagewise-*.whl stagewise-*.cdx.json >SHA256SUMS
cp "$formula" "$work/stagewise.rb"
while read -r sum file; do
  case $file in
    *-darwin-arm64.tar.gz) key=DARWIN_ARM64 ;; *-darwin-amd64.tar.gz) key=DARWIN_AMD64 ;;
    *-linux-arm64.tar.gz) key=LINUX_ARM64 ;; *-linux-amd64.tar.gz) key=LINUX_AMD64 ;; *) continue ;;
  esac
  sed "s/SHA256_OF_$key/$sum/" "$work/stagewise.rb" >"$work/filled.rb" && mv "$work/filled.rb" "$work/stagewise.rb"
done <SHA256SUMS
sed "s/VERSION_OF_RELEASE/$version/g" "$work/stagewise.rb" >stagewise.rb
say "$out/SHA256SUMS"
