#!/usr/bin/env bash
# promtool.sh prints the path of promtool, which checks rules for Prometheus. If there is none it takes Debian's package of Prometheus apart
# into .demo/promtool: no server is installed or started.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
. scripts/install.sh

fail() { echo "promtool: $*" >&2; exit 1; }

if command -v promtool; then exit; fi
found=$PWD/.demo/promtool/usr/bin/promtool
if [ ! -x "$found" ]; then
  if ! command -v apt-get >/dev/null; then
    install_packages "" prometheus >&2 || fail "promtool is missing: $(how_to_install prometheus prometheus)"
    command -v promtool
    exit
  fi
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  chmod 755 "$folder"
  (cd "$folder" && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } && dpkg -x prometheus_*.deb out) >"$folder/log" 2>&1 ||
    { tail -n 5 "$folder/log" >&2; fail "promtool is missing: $(how_to_install prometheus prometheus)"; }
  mkdir -p .demo
  rm -rf .demo/promtool
  mv "$folder/out" .demo/promtool
fi
echo "$found"
