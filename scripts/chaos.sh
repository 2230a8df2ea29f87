#!/usr/bin/env bash
# make chaos: kills, stops and restarts workers, solvers and brokers during runs, and checks that the weights stay the same to
# the bit. Arguments go to the campaign, such as --runs 100 --seed 7, or --chain for chains of versions, or --embedded for those of one process; --help lists them.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v go >/dev/null || { echo "chaos: Go is missing: https://go.dev/dl" >&2; exit 1; }
scripts/blas.sh
scripts/build.sh
mkdir -p .demo
go build -o .demo/chaos ./chaos
exec .demo/chaos "$@"
