# shellcheck shell=bash
# Functions for the scripts in this folder: they install system packages if that needs no password, and fetch jars from Maven Central.

script=${0##*/}
say() { echo "${script%.sh}: $*"; }
fail() { say "$@" >&2; exit 1; }

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

# need COMMAND APT BREW installs the packages with a command, unless it exists.
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

# Sets java to a Java that Kafka 4 runs on, from any place where package managers install one.
find_java() {
  local major
  for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} "$(command -v java || true)" /usr/lib/jvm/*/bin/java \
    /opt/homebrew/opt/openjdk/bin/java /usr/local/opt/openjdk/bin/java; do
    [ -x "$java" ] || continue
    # The java of macOS only prints that no Java is installed.
    major=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') || continue
    [ "${major:-0}" -lt 17 ] || return 0
  done
  return 1
}

need_java() {
  find_java && return
  say "installing Java"
  # Some releases of Debian and Ubuntu have 17 beside an older default; later releases have no 17.
  install_packages openjdk-17-jre-headless openjdk || install_packages default-jre-headless openjdk || true
  find_java || fail "Kafka needs Java 17 or newer, which could not be installed;" \
    "$(how_to_install openjdk-17-jre-headless openjdk)"
}

# fetch_jars NAME WHAT GROUP:ARTIFACT:VERSION... sets jars to the folder of that name with the jars of artifacts, and of all that they need.
# The folder is made once, and gets its name by a rename when it is complete.
fetch_jars() {
  local cache=${KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/stagewise} name=$1 what=$2 work
  shift 2
  jars=$cache/$name
  [ -d "$jars" ] && return
  need mvn maven maven
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/.kafka.XXXXXX")
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>stagewise</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
    # shellcheck disable=SC2086 # three words of each
    printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n' ${*//:/ }
    echo '</dependencies></project>'
  } >"$work/pom.xml"
  say "fetching the jars of $what, once"
  if ! PATH=$(dirname "$java"):$PATH mvn -B -q -f "$work/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$work/jars" >"$work/mvn.log" 2>&1; then
    tail -n 20 "$work/mvn.log" >&2
    rm -rf "$work"
    fail "Maven could not fetch the jars of $what"
  fi
  # If two processes do this at once, the second rename moves into the first one's folder or fails. Both are harmless.
  mv "$work/jars" "$jars" 2>/dev/null || [ -d "$jars" ]
  rm -rf "$work" "$jars/jars"
}
