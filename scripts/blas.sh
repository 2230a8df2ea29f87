#!/usr/bin/env bash
# Makes sure of a fast system BLAS where this user may install one, and says in one line what it did.
# It always succeeds: without one stagewise computes in Go, about ten times slower.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"

package=libopenblas0-pthread

# Prints the first BLAS found. The names are those that internal/kernel opens, in its order.
blas() {
  local name folder known
  # ldconfig is not on the PATH of ordinary users of Debian; musl has none that can list.
  known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null) || known=''
  for name in libopenblas.so.0 libopenblas.so libblis.so.4 libblis.so libmkl_rt.so.3 libmkl_rt.so.2 libmkl_rt.so; do
    awk -v name="$name" '$1 == name { print $NF; found = 1; exit } END { exit !found }' <<<"$known" && return
    for folder in /usr/local/lib /usr/lib /lib; do
      [ ! -e "$folder/$name" ] || { echo "$folder/$name"; return; }
    done
  done
  return 1
}

if [ "$(uname)" = Darwin ]; then
  echo "blas: Accelerate, which comes with macOS"
elif library=$(blas); then
  echo "blas: $library is here"
elif reason=$(install_packages $package '' 2>&1 | tail -n 1) && library=$(blas); then
  echo "blas: installed $library"
else
  echo "blas: none here, and none could be installed (${reason:-its library is not where it should be});" \
    "going on in Go, about ten times slower. For speed, $(how_to_install $package '')"
fi
