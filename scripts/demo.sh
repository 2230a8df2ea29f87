#!/usr/bin/env bash
# demo.sh KIND [FLAG...]
# Trains a model from files, through the topics of the embedded broker. All files are under .demo/. The flags go to stagewise. KIND is
#   mnist   make demo: MNIST, or the digits of this repository if it can't be fetched
#   images  make demo-images: patches of images; the next argument may be mnist, fashion or cifar10
#   table   make demo-table: a table, and what its model has learnt: errors and losses stage by stage, and the importance of columns
#   stream  make stream: MNIST as a stream whose labels change in the middle. Every 1024 images a version is made, and each image is
#           predicted before it is learnt
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "demo: $*"; }
show() { say "$*"; "$@"; }

kind=${1:-}
case $kind in mnist | images | table | stream) shift ;; *) sed -n '2,8s/^# //p' scripts/demo.sh >&2; exit 2 ;; esac
command -v go >/dev/null || { say "Go is missing: https://go.dev/dl" >&2; exit 1; }
data=mnist
if [ $kind = table ]; then
  data=diamonds
elif [ $kind = images ]; then
  case ${1:-} in mnist | fashion | cifar10) data=$1; shift ;; esac
fi
{ scripts/blas.sh && scripts/data.sh "$data" ".demo/$data"; } & # packages and data come while the program is compiled
fetching=$!
trap 'kill $fetching 2>/dev/null || true' EXIT
scripts/build.sh
status=0
wait $fetching || status=$?
if [ $status = 3 ] && [ $kind = mnist ]; then
  say "MNIST could not be fetched; training on the 1,797 small digits in this repository instead"
  data=digits
elif [ $status != 0 ]; then
  say "a line above says what is missing" >&2
  exit $status
fi

if [ $kind = stream ]; then
  go run ./examples/idx drift .demo/mnist/train-labels-idx1-ubyte .demo/mnist/drifting-labels-idx1-ubyte
  rm -rf .demo/stream
  show bin/stagewise run -c examples/stream.yaml --until end --report .demo/stream.json "$@"
  say "the report is .demo/stream.json"
  exit
fi

case $data in
  mnist) test=.demo/mnist/t10k-images-idx3-ubyte ;;
  digits) test=examples/digits/digits-test.csv.gz ;;
  fashion) test=.demo/fashion/t10k-images-idx3-ubyte.gz ;;
  cifar10) test=.demo/cifar10/test-images-idx4-ubyte ;;
  diamonds) test=.demo/diamonds/diamonds-test.csv ;;
esac
name=$data
[ $kind != images ] || name=$data-patches
show bin/stagewise train -c "examples/$name.yaml" --report ".demo/$name.json" --model ".demo/$name.model" "$@"
if [ $kind = table ]; then
  explain=(bin/stagewise explain --model ".demo/$name.model" -i "$test" --curves 1 --top 9)
  show "${explain[@]}"
  "${explain[@]}" --html ".demo/$name.html" >/dev/null
  run=$(sed -n 's/^  "run": "\([0-9a-f]*\)",$/\1/p' ".demo/$name.json")
  bin/stagewise runs show -c "examples/$name.yaml" "$run" --html ".demo/$name-run.html" >/dev/null
  say "the importance of columns is in .demo/$name.html, the run with its curves in .demo/$name-run.html"
fi
say "the model is .demo/$name.model, the report .demo/$name.json; to predict:"
say "bin/stagewise predict --model .demo/$name.model -i $test"
