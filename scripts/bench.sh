#!/usr/bin/env bash
# make bench: measures stagewise, its kernel floor and its peers on this machine. Arguments go to bench/run.py, or to another PROGRAM.
# It installs what it needs: a fast BLAS, MNIST, Python packages in .demo/bench, liblinear, Java.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
. scripts/install.sh

say() { echo "bench: $*"; }
fail() { say "$@" >&2; exit 1; }

# need COMMAND APT BREW installs the packages with a command, unless the command exists.
need() {
  command -v "$1" >/dev/null && return
  say "installing $2"
  install_packages "$2" "$3" || fail "$1 is missing: $(how_to_install "$2" "$3")"
}

command -v go >/dev/null || fail "Go is missing: https://go.dev/dl"
need python3 "python3 python3-venv" python
need liblinear-train liblinear-tools liblinear
need java openjdk-17-jre-headless openjdk@17
need taskset util-linux util-linux
scripts/blas.sh
scripts/data.sh mnist .demo/mnist

python=.demo/bench/venv/bin/python
if ! cmp -s bench/requirements.txt .demo/bench/requirements.txt; then
  say "installing Python packages into .demo/bench"
  mkdir -p .demo/bench
  python3 -m venv .demo/bench/venv || fail "python3 has no venv: $(how_to_install python3-venv python)"
  "$python" -m pip install -q --disable-pip-version-check -r bench/requirements.txt
  cp bench/requirements.txt .demo/bench/requirements.txt
fi
scripts/build.sh
go build -o .demo/bench/floor ./bench/floor
exec "$python" "${PROGRAM:-bench/run.py}" "$@"
