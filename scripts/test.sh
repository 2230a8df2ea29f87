#!/usr/bin/env bash
# test.sh STEP... runs the steps in the given order and stops at the first that fails.
# CONTRIBUTING.md says what each step does. Variables: SCHEDULES (500) of simulate, RUNS (1) of chaos, FUZZTIME (20s) of each target of fuzz.
# No step skips a test: it installs what it needs, or fails and prints what to install.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
. scripts/install.sh

# As releases and wheels are built: they and the tests share what is compiled, which a second clone finds in the cache too.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"
unset MAKEFLAGS # of the make that runs other steps at the same time

# The packages whose tests run goroutines, but for numeric ones: kernels are twenty times slower under the detector.
concurrent="./internal/kafkalog ./ingest ./pipeline ./pipeline/event ./pipeline/protocol ./pipeline/solver
./pipeline/worker/visit ./client ./serve/... ./score ./page"

# No file is left out of vet and lint because of a tag of tests. The tests with a tag are compiled with all of them too: once.
tags=kafka,cluster,mnist,python,page

# tagged TAG NAME [FLAG...] runs the tests with a build tag, whose names begin with Test and NAME. If there are none it fails, as the tag may be
# mistyped. -count=1: the cache of go test does not depend on the BLAS and the broker.
tagged() {
  local tag=$1 name=$2 files
  shift 2
  files=$(grep -rlE --include='*_test.go' "^//go:build (.*[^a-z])?$tag\$" .) || fail "no test has the tag $tag"
  # shellcheck disable=SC2046 # a list of packages
  go test -tags $tags -run "^Test$name" -count=1 -timeout 30m "$@" $(xargs -n 1 dirname <<<"$files" | sort -u)
}

# less_garbage makes Go's tools, and tests of small data, collect garbage less often: the tests of pipeline take a fifth less processor time. Steps
# that run the program on all of MNIST or on real brokers leave it to the program, as users do.
less_garbage() { export GOGC=400; }

# files_in_memory has tests collect garbage less often, and make their files in memory if there is room. A broker's log is a file for each partition, which takes several
# times as long to make on a disk. What go test compiles is there too, about a gigabyte. The folder has one name for each clone, as the cache of
# go test depends on it, and is removed when nothing uses it.
files_in_memory() {
  local free
  less_garbage
  free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
  [ "${free:-0}" -gt $((4 << 20)) ] || return 0
  files=/dev/shm/stagewise-$(id -u)-$(pwd | cksum | cut -d ' ' -f 1)
  mkdir -p -m 700 "$files" 2>/dev/null && [ -O "$files" ] || return 0
  trap 'rmdir "$files" 2>/dev/null || true' EXIT
  printf '#!/bin/sh\n' >"$files/program"
  chmod +x "$files/program"
  if "$files/program" 2>/dev/null; then # in some containers nothing there can be run, and tests run what they compile
    export TMPDIR=$files GOTMPDIR=$files
  fi
  rm "$files/program"
}

format() {
  local files
  files=$("$(go env GOROOT)/bin/gofmt" -l . | tr '\n' ' ')
  [ -z "$files" ] || fail "not formatted by gofmt: $files"
}

# Other processors have other files of the kernels.
vet() {
  less_garbage
  go vet -tags $tags ./...
  GOARCH=arm64 CGO_ENABLED=0 go vet ./internal/kernel
}

# As vet. The tag noblas exchanges files of the kernels: a name there is unused if it is so with and without it, so staticcheck merges what it
# finds.
lint() {
  less_garbage
  # shellcheck disable=SC2046 # a list of packages
  go tool staticcheck -tags $tags $(go list -tags $tags ./... | grep -v "/internal/kernel$")
  printf '%s\n' 'blas:' 'noblas: -tags=noblas' | go tool staticcheck -matrix ./internal/kernel
}

# The program that writes the assembly is a module of its own. What go test would vet, the step vet has, here and in race; the simulation is
# left to simulate.
unit() {
  files_in_memory
  go test -vet=off -skip '^TestSimulation$' -timeout 30m ./...
  (cd internal/kernel/generate && go vet . && go test .)
}

# The everyday tests: what trains a while, waits for processes or tries each byte is left to unit.
quick() {
  files_in_memory
  go test -vet=off -short -timeout 10m ./...
}

simulate() { go test -count=1 -run '^TestSimulation$' -timeout 3h ./pipeline -v -schedules "${SCHEDULES:-500}"; }

race() {
  files_in_memory
  need "$(go env CC)" "gcc libc6-dev" gcc # for the race detector
  # With -short, long tests are left out that start no goroutine that shorter tests do not start: of readers of files and of messages, a few
  # rows do what thousands do; of servers, a few requests do what floods do. The simulation has a single thread, and so have the inputs of fuzzing.
  # shellcheck disable=SC2086 # a list of packages
  CGO_ENABLED=1 go test -race -short -vet=off -skip '^Fuzz' -timeout 20m $concurrent
}

fuzz() {
  local package target
  for package in $(go list ./...); do
    for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
      say "$package $target"
      go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-20s}" -fuzzminimizetime 1s "$package"
    done
  done
}

mnist() {
  scripts/blas.sh
  scripts/data.sh mnist .demo/mnist || fail "the accuracy tests need MNIST; the line above says what is missing"
  STAGEWISE_MNIST=$PWD/.demo/mnist tagged mnist MNIST -p 1
}

python() {
  local python
  python=$(scripts/python.sh)
  files_in_memory
  STAGEWISE_PYTHON=$python tagged python Python
}

kafka() {
  local bootstrap secured python
  python=$(scripts/python.sh)
  broker=$(mktemp -d)
  trap 'scripts/kafka.sh wipe --dir "$broker/open"; scripts/kafka.sh wipe --dir "$broker/secured"; rmdir "$broker"' EXIT
  trap 'exit 1' INT TERM
  bootstrap=$(scripts/kafka.sh start --dir "$broker/open" --port free)
  secured=$(scripts/kafka.sh start --dir "$broker/secured" --port free --secure)
  say "Kafka is at ${bootstrap#BOOTSTRAP=}, the files for a secured one are in ${secured#*SECURITY=}"
  STAGEWISE_PYTHON=$python STAGEWISE_KAFKA=${bootstrap#BOOTSTRAP=} STAGEWISE_KAFKA_SECURITY=${secured#*SECURITY=} tagged kafka Kafka
}

# browser reports whether there is a browser that chromedp finds.
browser() { command -v headless-shell chromium chromium-browser google-chrome google-chrome-stable >/dev/null || [ -d "/Applications/Google Chrome.app" ]; }

page() {
  browser || { say "installing Chromium" && install_packages chromium "" && browser; } ||
    fail "the tests of the page need Chromium: $(how_to_install chromium "")"
  tagged page Page
}

# The tests start their own brokers.
cluster() { tagged cluster Cluster; }

chaos() {
  local kind
  for kind in "" --chain --embedded; do make --no-print-directory chaos ARGS="$kind --runs ${RUNS:-1}"; done
}

# The loops are in Go there. The BLAS of that processor is not installed: products run in Go too.
arm64() {
  local folder report
  need qemu-aarch64-static "qemu-user-static libc6-arm64-cross" ""
  export CGO_ENABLED=0 QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
  GOARCH=arm64 go test -count=1 -timeout 15m -exec qemu-aarch64-static ./internal/kernel
  folder=$(mktemp -d)
  go build -o "$folder/here" ./cmd/stagewise
  GOARCH=arm64 go build -o "$folder/there" ./cmd/stagewise
  report=(train -c examples/digits.yaml --quiet --report -)
  "$folder/here" "${report[@]}" --set "data_dir=$folder/a" >"$folder/here.json"
  qemu-aarch64-static "$folder/there" "${report[@]}" --set "data_dir=$folder/b" >"$folder/there.json"
  # Rounding may change the label of a row or two of the 500.
  sed -n 's/^  "test_error": \([0-9.]*\),*$/\1/p' "$folder/here.json" "$folder/there.json" |
    awk '{ e[NR] = $1 } END { print "test: errors of digits here and on arm64: " e[1] " and " e[2] " %"; d = e[1] - e[2]; exit !(NR == 2 && d <= 0.41 && d >= -0.41) }' ||
    fail "digits have another error on arm64, or no error: the reports are in $folder"
  rm -rf "$folder"
}

# find_promtool prints the path of promtool, which checks rules for Prometheus. If there is none it takes Debian's package of Prometheus apart: no server
# is installed or started.
find_promtool() {
  local found=$PWD/.demo/promtool/usr/bin/promtool
  if command -v promtool; then return; fi
  if [ ! -x "$found" ]; then
    say "fetching promtool" >&2
    mkdir -p .demo/promtool
    (cd .demo/promtool && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } && dpkg -x prometheus_*.deb .) >&2 ||
      fail "promtool is missing: $(how_to_install prometheus prometheus)"
  fi
  echo "$found"
}

# Of the archives only that of this machine is made: those for others are compiled in the same way.
package() {
  local promtool folder archive
  (cd deploy && go vet . && go test -count=1 .)
  promtool=$(find_promtool)
  "$promtool" check rules deploy/monitoring/alerts.yaml
  "$promtool" test rules deploy/monitoring/alerts_test.yaml
  # The queries of the dashboard, as rules: a text in JSON is one in YAML, and a variable is a text within a selector.
  sed -n 's/\$pipeline/clicks/g; s/^ *"expr": \(".*"\),*$/\1/p' deploy/monitoring/dashboard.json |
    awk 'BEGIN { print "groups:\n- name: dashboard\n  rules:" } { print "  - {record: dashboard:query:" NR ", expr: " $0 "}" } END { exit !NR }' >.demo/expressions.yaml
  "$promtool" check rules .demo/expressions.yaml
  folder=$(mktemp -d)
  scripts/release.sh "$folder" "$(go env GOOS)/$(go env GOARCH)"
  (cd "$folder" && sha256sum --check --quiet SHA256SUMS)
  archive=$(basename "$folder"/*.tar.gz .tar.gz)
  tar -xzf "$folder/$archive.tar.gz" -C "$folder"
  "$folder/$archive/stagewise" check -c deploy/kubernetes/job.yaml >/dev/null
  grep -q '"bomFormat": "CycloneDX"' "$folder"/*.cdx.json || fail "the list of what the program is made of is not CycloneDX"
  grep -q segmentio/kafka-go "$folder"/*.cdx.json || fail "the list of what the program is made of lacks its modules"
  [ -s "$folder/$archive/man/stagewise-train.1" ] && [ -s "$folder/$archive/completions/stagewise.zsh" ] || fail "the archive lacks manual pages or completions"
  "$(scripts/python.sh setuptools)" -m zipfile -e "$folder"/*.whl "$folder/wheel"
  cmp "$folder/$archive/LICENCES" "$folder"/wheel/*.dist-info/licenses/LICENCES || fail "the wheel lacks the licences of the archive"
  go version -m "$folder/$archive/stagewise" | awk '$1 == "dep" { print $2 " " $3 ": " }' | while read -r module; do
    grep -qF "$module " "$folder/$archive/LICENCES" || fail "the archive lacks the licence of ${module%:}"
  done
  grep -q 'COPY --from=build .*/LICENCES' deploy/Containerfile || fail "the image lacks the licences"
  grep -q "$(sha256sum <"$folder/$archive.tar.gz" | cut -d ' ' -f 1)" "$folder/stagewise.rb" || fail "the formula lacks the checksum of the archive"
  rm -rf "$folder"
}

# The bound is 0.6 above the error of the demo, which is the same on every machine with the same instructions.
loop() {
  local log
  log=$(mktemp)
  scripts/loop.sh --kafka >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "make loop failed: the lines above say why"; }
  # The first error of what was served and the last: of the version that answered for most rows.
  awk '/served error/ { e = 0; n = 0; s = $0; sub(/.*served error /, "", s); c = split(s, parts, "), ")
      for (i = 1; i <= c; i++) { match(parts[i], /, [0-9]+ row/); rows = substr(parts[i], RSTART + 2) + 0; if (rows > n) { n = rows; e = parts[i] + 0 } }
      if (first == "") first = e; last = e; count++ }
    END { print "test: served error of " count " updates: " first " to " last " %"; exit !(count >= 5 && first > 30 && last < 5) }' "$log" ||
    { cat "$log" >&2; fail "the error of what was served did not fall"; }
  rm "$log"
}

table() {
  make --no-print-directory demo-table ARGS=--quiet || fail "make demo-table failed: the lines above say why"
  sed -n 's/^  "test_error": \([0-9.]*\),*$/\1/p' .demo/diamonds.json |
    awk '{ e = $1 } END { print "test: error of diamonds: " e " %"; exit !(NR == 1 && e <= 22.7) }' || fail "the error is above 22.7 %, or the report has none"
  grep -q 'Importance of columns' .demo/diamonds.html && grep -q '"train_error":' .demo/diamonds-run.html || fail "the pages lack the importance of columns, or the curves"
}

command -v go >/dev/null || fail "Go is missing: https://go.dev/dl"
[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
for step in "$@"; do
  case $step in
    format | vet | lint | unit | quick | simulate | race | fuzz | mnist | python | kafka | page | cluster | chaos | arm64 | table | loop | package) ;;
    *) fail "unknown step $step" ;;
  esac
done
trap '[ $? = 0 ] || say "$step failed" >&2' EXIT
for step in "$@"; do
  say "--- $step"
  began=$SECONDS
  "$step" 2>&1 | awk -v step="$step" '{ print step ": " $0; fflush() }' # in a process of its own, with which its brokers end
  say "$step took $((SECONDS - began)) s"
done
say "passed: $*"
