#!/usr/bin/env bash
# make bench: measures stagewise, its kernel floor and its peers on this machine. Arguments go to bench/run.py, or to another PROGRAM.
# It installs what it needs: a fast BLAS, MNIST, Python packages in .demo/bench, liblinear, Java.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
. scripts/install.sh

need liblinear-train liblinear-tools liblinear
need java openjdk-17-jre-headless openjdk@17
need taskset util-linux util-linux
scripts/blas.sh
scripts/data.sh mnist .demo/mnist

python=$(scripts/python.sh bench/requirements.txt)
mkdir -p .demo/bench
scripts/build.sh
go build -o .demo/bench/floor ./bench/floor
exec "$python" "${PROGRAM:-bench/run.py}" "$@"
