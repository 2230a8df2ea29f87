#!/usr/bin/env bash
# Runs examples/streams/Join.java, a program of Kafka Streams, until it is told to end:
#
#   streams.sh FILE.properties    joins two topics, as the file says: examples/streams/join.properties explains it
#
# It fetches Kafka Streams and a compiler, that of Eclipse, as jars of Maven Central (97 MB, once), so that a Java without a compiler will do.
# It needs Java 17 and Maven, and installs them if that needs no password. Environment: KAFKA_VERSION, KAFKA_JARS (the folder of jars),
# JAVA_OPTS.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/install.sh
. "$here/install.sh"

[ $# -eq 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=${KAFKA_VERSION:-4.1.2}
need_java
fetch_jars "kafka-streams-$version" "Kafka Streams $version (97 MB)" "org.apache.kafka:kafka-streams:$version" org.slf4j:slf4j-nop:1.7.36 \
  org.eclipse.jdt:ecj:3.37.0

# The folder of the classes has the program's checksum in its name, which it gets by a rename when it is complete.
source=$here/../examples/streams/Join.java
classes=$jars/classes-$(cksum <"$source" | cut -d ' ' -f 1)
if [ ! -d "$classes" ]; then
  work=$(mktemp -d "$jars/.classes.XXXXXX")
  "$java" -cp "$jars/*" org.eclipse.jdt.internal.compiler.batch.Main -17 -d "$work" "$source" || { rm -rf "$work"; fail "$source does not compile"; }
  mv "$work" "$classes" 2>/dev/null || [ -d "$classes" ]
  rm -rf "$work"
fi
# shellcheck disable=SC2086 # a list of options
exec "$java" ${JAVA_OPTS:-} -cp "$classes:$jars/*" Join "$1"
