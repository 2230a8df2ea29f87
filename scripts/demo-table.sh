#!/usr/bin/env bash
# make demo-table: trains on a table, and shows what the model has learnt: errors and losses stage by stage, and the importance of columns.
# All files are under .demo/. Arguments go to stagewise train.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "demo: $*"; }

command -v go >/dev/null || { say "Go is missing: https://go.dev/dl" >&2; exit 1; }
scripts/diamonds.sh .demo/diamonds & # while the program is compiled
fetching=$!
trap 'kill $fetching 2>/dev/null || true' EXIT
scripts/build.sh
wait $fetching || { say "a line above says what is missing" >&2; exit 1; }

model=.demo/diamonds.model report=.demo/diamonds.json test=.demo/diamonds/diamonds-test.csv
train=(bin/stagewise train -c examples/diamonds.yaml --report "$report" --model "$model" "$@")
say "${train[*]}"
"${train[@]}"
explain=(bin/stagewise explain --model "$model" -i "$test" --curves 1 --top 9)
say "${explain[*]}"
"${explain[@]}"
"${explain[@]}" --html .demo/diamonds.html >/dev/null
run=$(sed -n 's/^  "run": "\([0-9a-f]*\)",$/\1/p' "$report")
bin/stagewise runs show -c examples/diamonds.yaml "$run" --html .demo/diamonds-run.html >/dev/null
say "the importance of columns is in .demo/diamonds.html, the run with its curves in .demo/diamonds-run.html"
say "the model is $model, the report $report; to predict:"
say "bin/stagewise predict --model $model -i $test"
