#!/usr/bin/env bash
# make chaos: workers, solvers and brokers die, hang and come back while runs go on, and the weights stay the same bit for
# bit. Arguments go to the campaign: --runs 100 --seed 7, and what else chaos --help says.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v go >/dev/null || { echo "chaos: Go is missing: https://go.dev/dl" >&2; exit 1; }
scripts/blas.sh
go build -o bin/stagewise ./cmd/stagewise
mkdir -p .demo
go build -o .demo/chaos ./chaos
exec .demo/chaos "$@"
