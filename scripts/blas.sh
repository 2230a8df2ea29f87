#!/usr/bin/env bash
# Installs a fast BLAS if there is none and this user may install packages, and prints one line about what it did.
# It always succeeds: without a BLAS stagewise computes in Go, about ten times slower.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"

package=libopenblas0-pthread

# Finds the path of a BLAS that internal/kernel opens. On Debian ldconfig is not on the PATH of ordinary users, and that of musl can't list libraries.
blas() {
  library=$({ PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '{ print $NF }'; ls -d /usr/local/lib/* /usr/lib/* /lib/*; } 2>/dev/null |
    grep -m 1 -E '/lib(openblas\.so(\.0)?|blis\.so(\.4)?|mkl_rt\.so(\.[23])?)$' || true)
  [ -n "$library" ]
}

if [ "$(uname)" = Darwin ]; then
  echo "blas: Accelerate, which comes with macOS"
elif blas; then
  echo "blas: found $library"
elif reason=$(install_packages $package '' 2>&1 | tail -n 1) && blas; then
  echo "blas: installed $library"
else
  echo "blas: none found, and none could be installed (${reason:-the package is installed, its library is not found});" \
    "stagewise will compute in Go, about ten times slower. To get one, $(how_to_install $package '')"
fi
