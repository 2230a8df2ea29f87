#!/usr/bin/env bash
# make demo-images: trains on patches of images. All files are under .demo/.
# The first argument is mnist, fashion or cifar10; mnist if it is another. The other arguments go to stagewise train.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "demo: $*"; }

command -v go >/dev/null || { say "Go is missing: https://go.dev/dl" >&2; exit 1; }
scripts/blas.sh
data=mnist
case ${1:-} in
  mnist | fashion | cifar10)
    data=$1
    shift
    ;;
esac
case $data in
  mnist) test=.demo/mnist/t10k-images-idx3-ubyte ;;
  fashion) test=.demo/fashion/t10k-images-idx3-ubyte.gz ;;
  cifar10) test=.demo/cifar10/test-images-idx4-ubyte ;;
esac
"scripts/$data.sh" ".demo/$data" || { say "the line above says what is missing" >&2; exit 1; }

scripts/build.sh

train=(bin/stagewise train -c "examples/$data-patches.yaml" --report ".demo/$data-patches.json" --model ".demo/$data-patches.model" "$@")
say "${train[*]}"
"${train[@]}"
say "the model is .demo/$data-patches.model, the report .demo/$data-patches.json; to predict:"
say "bin/stagewise predict --model .demo/$data-patches.model -i $test"
