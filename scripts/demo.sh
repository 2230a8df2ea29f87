#!/usr/bin/env bash
# make demo: trains a model on MNIST, from files through Kafka topics. All files are under .demo/.
# Arguments go to stagewise train.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "demo: $*"; }

command -v go >/dev/null || { say "Go is missing: https://go.dev/dl" >&2; exit 1; }
scripts/blas.sh

data=mnist images=.demo/mnist/t10k-images-idx3-ubyte
status=0
scripts/mnist.sh .demo/mnist || status=$?
case $status in
  0) ;;
  3)
    say "MNIST could not be fetched; training on the 1,797 small digits in this repository instead"
    data=digits images=examples/digits/digits-test.csv.gz
    ;;
  *) exit $status ;;
esac

say "building bin/stagewise"
go build -o bin/stagewise ./cmd/stagewise

train=(bin/stagewise train -c "examples/$data.yaml" --report ".demo/$data.json" --model ".demo/$data.model" "$@")
say "${train[*]}"
"${train[@]}"
say "the model is .demo/$data.model, the report .demo/$data.json; to predict:"
say "bin/stagewise predict --model .demo/$data.model -i $images"
