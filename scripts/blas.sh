#!/usr/bin/env bash
# Installs a fast BLAS if there is none and this user may install packages, and prints one line about what it did.
# It always succeeds: without a BLAS stagewise computes in Go, about ten times slower.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"

package=libopenblas0-pthread

# Prints the path of the first BLAS found, by the names and in the order of internal/kernel.
blas() {
  local name folder known
  # On Debian ldconfig is not on the PATH of ordinary users. The ldconfig of musl can't list libraries.
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
  echo "blas: found $library"
elif reason=$(install_packages $package '' 2>&1 | tail -n 1) && library=$(blas); then
  echo "blas: installed $library"
else
  echo "blas: none found, and none could be installed (${reason:-the package is installed, its library is not found});" \
    "stagewise will compute in Go, about ten times slower. To get one, $(how_to_install $package '')"
fi
