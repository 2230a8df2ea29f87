#!/usr/bin/env bash
# make loop: a model that learns from what it answered. serve answers requests and writes the answers to a topic, what happened comes on
# another topic, and run learns from both: the error of what was served falls, version after version. All files are under .demo/.
#
#   loop.sh [--kafka] [FLAG...]    --kafka: on Apache Kafka, started for it; otherwise on the embedded broker, which serve has open.
#                                  Further arguments go to stagewise run.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "loop: $*"; }

kafka=''
if [ "${1:-}" = --kafka ]; then
  kafka=1
  shift
fi
scripts/blas.sh
say "building bin/stagewise and bin/loop"
scripts/build.sh ./cmd/stagewise ./examples/loop
mkdir -p .demo
rm -rf .demo/loop .demo/loop-run .demo/loop-history.jsonl

free_port() {
  local p=$((20000 + RANDOM % 12000))
  while (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; do p=$((p + 1)); done
  echo "$p"
}

serve='' run=''
finish() {
  local pid
  for pid in $run $serve; do kill -TERM "$pid" 2>/dev/null && wait "$pid" || true; done
  [ -z "$kafka" ] || scripts/kafka.sh wipe --dir .demo/loop-kafka
}
trap finish EXIT

listen=127.0.0.1:$(free_port)
if [ -n "$kafka" ]; then
  scripts/kafka.sh wipe --dir .demo/loop-kafka 2>/dev/null
  brokers=$(scripts/kafka.sh start --dir .demo/loop-kafka --port free)
  brokers=${brokers#BOOTSTRAP=}
  host=(--set "brokers=[$brokers]")
else
  brokers=127.0.0.1:$(free_port)
  host=(--set "listen=$brokers")
fi
others=(--set "brokers=[$brokers]" --set data_dir=.demo/loop-run)

# Waits for a page of the server.
await() {
  local end=$((SECONDS + 60))
  until curl -fs -o /dev/null "http://$listen/$1"; do
    kill -0 "$serve" || exit 1
    [ $SECONDS -lt $end ] || { say "/$1 of the server fails after 60 s" >&2; exit 1; }
    sleep 0.1
  done
}

bin/loop -history .demo/loop-history.jsonl
say "bin/stagewise ingest -c examples/loop/history.yaml ${host[*]}"
bin/stagewise ingest -c examples/loop/history.yaml "${host[@]}"
say "bin/stagewise serve -c examples/loop.yaml ${host[*]} --listen $listen &"
bin/stagewise serve -c examples/loop.yaml "${host[@]}" --listen "$listen" >.demo/loop-serve.log 2>&1 &
serve=$!
await live
bin/loop -brokers "$brokers" -create
say "bin/stagewise run -c examples/loop.yaml ${others[*]} $* &"
bin/stagewise run -c examples/loop.yaml "${others[@]}" "$@" &
run=$!
await ready
say "6,000 customers visit: they do no longer what version 1 has learnt"
bin/loop -brokers "$brokers" -url "http://$listen" -rows 6000
say "the last of them are learnt after five seconds"
sleep 7
kill -TERM "$run" && wait "$run" || true
run=''
curl -fs "http://$listen/metrics" | grep '^stagewise_answers_[a-z_]*{' || true
say "the topics are loop-answers (answers) and loop-outcomes (what happened); the log of the server is .demo/loop-serve.log"
