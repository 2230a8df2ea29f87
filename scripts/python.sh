#!/usr/bin/env bash
# python.sh [FILE | PACKAGE...] makes a virtual environment in .demo/python, once, and prints the path of its Python. It has the packages that a file lists, or
# the given ones of the list below; without arguments all of them: those of docs/your-own-data.md, docs/producers.md, docs/exports.md, and of the tests of the package in python,
# of exports and of tables. It needs Python 3.11 or newer with venv, and installs it if that needs no password.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
. scripts/install.sh

packages="alembic==1.20.1 confluent-kafka[avro,json,protobuf]==2.16.1 deltalake==1.6.6 matplotlib==3.11.2 mlflow-skinny==3.17.2 mypy==2.4.1 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0 openlineage-python==1.54.0 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1 pyiceberg[sql-sqlite]==0.12.0 safetensors==0.8.0 scikit-learn==1.9.1 scipy-openblas32==0.3.34.481.3 setuptools==84.2.1 tritonclient[grpc,http]==2.73.0"

if [ -f "${1:-}" ]; then
  packages=$(tr '\n' ' ' <"$1")
elif [ $# -gt 0 ]; then
  all=$packages packages=
  for name in "$@"; do
    version=$(tr ' ' '\n' <<<"$all" | grep "^$name==") || fail "no version of $name is chosen here"
    packages="${packages:+$packages }$version"
  done
fi

# Python with venv. On Debian ensurepip, which venv needs, is a package of its own.
usable() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The folder's name has the packages, so another version is another folder. It gets its name when it is complete.
folder=$PWD/.demo/python/$(echo "$packages" | cksum | cut -d ' ' -f 1)
if [ ! -d "$folder" ]; then
  usable || install_packages "python3 python3-venv" python3 || true
  usable || fail "needs Python 3.11 or newer with venv: $(how_to_install "python3 python3-venv" python3)"
  mkdir -p "${folder%/*}"
  work=$(mktemp -d "${folder%/*}/.python.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "python: downloading and installing $packages" >&2
  python3 -m venv "$work"
  # shellcheck disable=SC2086 # a list of packages
  "$work/bin/python" -m pip install --quiet --disable-pip-version-check $packages >&2 ||
    fail "pip could not install the packages: $packages"
  mv "$work" "$folder"
fi
echo "$folder/bin/python"
