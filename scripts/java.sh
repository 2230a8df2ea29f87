# shellcheck shell=bash
# Functions for the scripts in this folder that run Java: they find or install one, and fetch jars from Maven Central. The script defines say
# and fail, and has the functions of install.sh.

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
  local cache=${KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/stagewise} name=$1 what=$2 artifact work
  shift 2
  jars=$cache/$name
  [ -d "$jars" ] && return
  need mvn maven maven
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/.kafka.XXXXXX")
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>stagewise</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
    for artifact in "$@"; do
      echo "<dependency><groupId>$(cut -d: -f1 <<<"$artifact")</groupId><artifactId>$(cut -d: -f2 <<<"$artifact")</artifactId>"
      echo "<version>$(cut -d: -f3 <<<"$artifact")</version></dependency>"
    done
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
