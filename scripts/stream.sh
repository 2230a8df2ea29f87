#!/usr/bin/env bash
# make stream: MNIST as a stream whose labels change in the middle, through the embedded broker. Every 1024 images a version is made, and
# each image is predicted before it is learnt. All files are under .demo/, the figure too: bench/stream.svg is a copy of it.
# Arguments go to stagewise run.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "stream: $*"; }

command -v go >/dev/null || { say "Go is missing: https://go.dev/dl" >&2; exit 1; }
scripts/blas.sh
scripts/mnist.sh .demo/mnist || { say "the stream needs MNIST; the line above says what is missing" >&2; exit 1; }

scripts/build.sh
go run ./examples/drift .demo/mnist/train-labels-idx1-ubyte >.demo/mnist/drifting-labels-idx1-ubyte
rm -rf .demo/stream

run=(bin/stagewise run -c examples/stream.yaml --until end --report .demo/stream.json "$@")
say "${run[*]}"
"${run[@]}"
go run ./bench/stream .demo/stream.json >.demo/stream.svg
say "the figure is .demo/stream.svg, the report .demo/stream.json"
