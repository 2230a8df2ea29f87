# shellcheck shell=bash
# Functions for the scripts in this folder: they install system packages if that needs no password.

# how_to_install APT BREW prints how a person can install the packages on this machine. The arguments are lists of names
# separated by spaces, of Debian's packages and of Homebrew's. An empty list means that the package manager has none.
how_to_install() {
  if command -v apt-get >/dev/null; then
    echo "run: sudo apt-get install $1"
  elif [ -n "$2" ] && command -v brew >/dev/null; then
    echo "run: brew install $2"
  else
    echo "install $1 with your package manager"
  fi
}

# install_packages APT BREW installs the packages. If that is not allowed or fails it returns an error, and the end of the
# package manager's output is on standard error.
install_packages() {
  local log status=0
  log=$(mktemp)
  if command -v apt-get >/dev/null; then
    # Only one at a time: apt-get update does not wait for another.
    (flock 9 && install_by_apt "$1") 9>"${TMPDIR:-/tmp}/stagewise-apt-$(id -u)" >"$log" 2>&1 || status=$?
  elif [ -n "$2" ] && command -v brew >/dev/null; then
    # shellcheck disable=SC2086 # a list of names
    HOMEBREW_NO_AUTO_UPDATE=1 brew install $2 >"$log" 2>&1 || status=$?
  else
    echo "found neither apt-get nor brew" >"$log"
    status=1
  fi
  [ $status -eq 0 ] || tail -n 5 "$log" >&2
  rm -f "$log"
  return $status
}

# need COMMAND APT BREW installs the packages with a command, unless it exists. The script defines say and fail.
need() {
  command -v "$1" >/dev/null && return
  say "installing $2" >&2
  install_packages "$2" "$3" || fail "$1 is missing, and could not be installed; $(how_to_install "$2" "$3")"
}

install_by_apt() {
  local as_root=env
  if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
      echo "not root, and sudo needs a password"
      return 1
    fi
    as_root="sudo -n env"
  fi
  # The time limits are for machines without a network. The lock's timeout is for machines that update themselves at boot.
  local apt="$as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y
    -o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=120"
  # The package lists may be missing on a new machine and out of date on an old one.
  # shellcheck disable=SC2086 # a command and a list of names
  $apt install --no-install-recommends $1 || { $apt update && $apt install --no-install-recommends $1; }
}
