#!/usr/bin/env bash
# build.sh [PACKAGE...] builds commands of this module in bin/, by default stagewise. The first build on a machine downloads and compiles what they
# import, so it says how far it is. Tests, releases and wheels have the same flags: what one has compiled, the others find in the cache.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "build: $*"; }

command -v go >/dev/null || { say "Go is missing: https://go.dev/dl" >&2; exit 1; }
[ $# -gt 0 ] || set -- ./cmd/stagewise
export CGO_ENABLED=${CGO_ENABLED:-0} GOGC=${GOGC:-400} # the compiler takes an eighth less time with less garbage collection

of=$(go list -deps "$@" | wc -l) # downloads modules, and says which
mkdir -p bin
go build -v -trimpath -ldflags="-s -w" -o bin/ "$@" 2>&1 | awk -v of="$of" '
  /^[^ #:]+$/ { if (++n % 100 == 0 || n == 1) { print "build: compiling, " n - 1 " of at most " of + 0 " packages"; fflush() } next }
  { print; fflush() }'
