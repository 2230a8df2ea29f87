#!/usr/bin/env bash
# make demo: trains a model on MNIST, from files through Kafka topics. All files are under .demo/.
# Arguments go to stagewise train.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "demo: $*"; }

command -v go >/dev/null || { say "Go is missing: https://go.dev/dl" >&2; exit 1; }
data=mnist images=.demo/mnist/t10k-images-idx3-ubyte
{ scripts/blas.sh && scripts/mnist.sh .demo/mnist; } & # packages and data come while the program is compiled
fetching=$!
trap 'kill $fetching 2>/dev/null || true' EXIT
scripts/build.sh
status=0
wait $fetching || status=$?
case $status in
  0) ;;
  3)
    say "MNIST could not be fetched; training on the 1,797 small digits in this repository instead"
    data=digits images=examples/digits/digits-test.csv.gz
    ;;
  *) exit $status ;;
esac

train=(bin/stagewise train -c "examples/$data.yaml" --report ".demo/$data.json" --model ".demo/$data.model" "$@")
say "${train[*]}"
"${train[@]}"
say "the model is .demo/$data.model, the report .demo/$data.json; to predict:"
say "bin/stagewise predict --model .demo/$data.model -i $images"
