#!/usr/bin/env bash
# Runs Apache Kafka on the loopback interface, from Maven Central's jars. Each KRaft node is both a broker and a controller.
#
#   kafka.sh start [--nodes N] [--port P|free] [--secure]
#                                                fetches missing jars, formats a new cluster, starts the nodes that
#                                                do not run, waits until they answer, and prints
#                                                BOOTSTRAP=host:port,... and, with --secure, SECURITY=folder
#   kafka.sh stop                                shuts down cleanly, with SIGKILL after 20 s
#   kafka.sh kill --node I                       kills one node with SIGKILL
#   kafka.sh revive --node I                     starts one node again
#   kafka.sh status                              prints a line for each node; succeeds if all run and listen
#   kafka.sh wipe                                stops and deletes the cluster
#
# Node I of 1..N: broker at 127.0.0.1:P+I-1, controller at 127.0.0.1:P+I+99. The folder --dir holds the cluster
# with its nodes and ports, so only start needs these.
# --advertise P1,P2,... (start) is for proxies between clients and brokers. Node I has a further listener at 127.0.0.1:P+I+299,
# which advertises 127.0.0.1:P1, P2, ... to its clients. BOOTSTRAP and the brokers use the other listener. Not with --secure.
#
# With --secure brokers use SASL_SSL with PLAIN, SCRAM, and OAUTHBEARER with tokens that nobody has signed, and require a client
# certificate of a CA made for the cluster. Only the user admin may do everything; the users train, work, solve, subscribe and
# score need ACLs. Brokers reach each other by TLS, at P+I+199. The folder that start prints has the files for clients:
# client.yaml is the part of a configuration that connects as
# admin, brokers has the addresses, and there are ca.pem, client.pem, client.key and USER.password for each user.
#
# Further options: --version V, --heap 512m, --wait SECONDS. Environment: KAFKA_DIR, KAFKA_VERSION, KAFKA_HEAP, KAFKA_JARS
# (the folder of jars). It needs Java 17 and Maven, with --secure also openssl, and installs them if that needs no password.
set -euo pipefail
say() { echo "kafka: $*" >&2; }
fail() { say "$@"; exit 1; }
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"
# shellcheck source=scripts/java.sh
. "$(dirname "$0")/java.sh"
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

action=${1:-}
[ $# -eq 0 ] || shift
nodes='' port='' node='' secure='' advertise='' wait_seconds=90
dir=${KAFKA_DIR:-${TMPDIR:-/tmp}/stagewise-kafka}
version=${KAFKA_VERSION:-4.1.2}
heap=${KAFKA_HEAP:-512m}
while [ $# -gt 0 ]; do
  if [ "$1" = --secure ]; then
    secure=1
    shift
    continue
  fi
  [ $# -ge 2 ] || usage
  case $1 in
    --nodes) nodes=$2 ;;
    --port) port=$2 ;;
    --node) node=$2 ;;
    --advertise) advertise=$2 ;;
    --dir) dir=$2 ;;
    --version) version=$2 ;;
    --heap) heap=$2 ;;
    --wait) wait_seconds=$2 ;;
    *) usage ;;
  esac
  shift 2
done

# Kafka 4.1 is built with this version of log4j.
need_jars() {
  fetch_jars "kafka-$version" "Kafka $version (43 MB)" "org.apache.kafka:kafka_2.13:$version" org.apache.logging.log4j:log4j-slf4j-impl:2.24.3
}

need_openssl() {
  command -v openssl >/dev/null && return
  say "installing openssl"
  install_packages openssl openssl || fail "certificates need openssl: $(how_to_install openssl openssl)"
}

# --- The files of a secured cluster

users="admin train work solve subscribe score"

# certify NAME makes NAME.key and NAME.pem, signed by the CA, for servers and clients at this machine's addresses.
certify() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" &&
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -sha256 -out "$1.pem" -extfile names &&
    rm "$1.csr"
}

# Every step ends with &&, because errexit is off in a function whose result is tested.
make_security() {
  local user
  cd "$1" && umask 077 &&
    echo 'subjectAltName=IP:127.0.0.1,DNS:localhost' >names &&
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -sha256 -keyout ca.key -out ca.pem \
      -subj "/CN=stagewise throw-away CA" &&
    certify broker && certify client &&
    cat broker.key broker.pem >broker.keys.pem && # Kafka reads both from one file
    for user in $users; do
      head -c 18 /dev/urandom | base64 | tr '+/' '-_' >"$user.password" || return 1
    done
}

# Makes the folder security once; it gets its name by a rename when it is complete. Only this cluster uses its CA.
need_security() {
  local work=$dir/.security
  [ ! -d "$dir/security" ] || return 0
  need_openssl
  rm -rf "$work"
  mkdir -m 700 "$work"
  if ! (make_security "$work") >"$dir/openssl.log" 2>&1; then
    cat "$dir/openssl.log" >&2
    fail "openssl could not make the certificates"
  fi
  rm "$dir/openssl.log"
  mv "$work" "$dir/security"
}

password() { cat "$dir/security/$1.password"; }

# Prints the listeners of a secured node's configuration. Brokers and controllers trust each other's certificate.
secured_listeners() {
  local i=$1 user plain=''
  for user in $users; do plain+=" user_$user=\"$(password "$user")\""; done
  cat <<PROPERTIES
listeners=CLIENTS://127.0.0.1:$(broker_port "$i"),BROKERS://127.0.0.1:$(inner_port "$i"),CONTROLLER://127.0.0.1:$(controller_port "$i")
advertised.listeners=CLIENTS://127.0.0.1:$(broker_port "$i"),BROKERS://127.0.0.1:$(inner_port "$i")
listener.security.protocol.map=CLIENTS:SASL_SSL,BROKERS:SSL,CONTROLLER:SSL
inter.broker.listener.name=BROKERS
ssl.keystore.type=PEM
ssl.keystore.location=$dir/security/broker.keys.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/security/ca.pem
listener.name.clients.ssl.client.auth=required
listener.name.brokers.ssl.client.auth=required
listener.name.controller.ssl.client.auth=required
listener.name.clients.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.clients.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required$plain;
listener.name.clients.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.clients.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:CN=broker
PROPERTIES
}

plain_listeners() {
  local i=$1
  cat <<PROPERTIES
listeners=PLAINTEXT://127.0.0.1:$(broker_port "$i"),CONTROLLER://127.0.0.1:$(controller_port "$i")
advertised.listeners=PLAINTEXT://127.0.0.1:$(broker_port "$i")
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
PROPERTIES
}

# --- One node

broker_port() { echo $((port + $1 - 1)); }
controller_port() { echo $((port + $1 + 99)); }
inner_port() { echo $((port + $1 + 199)); }
fronted_port() { echo $((port + $1 + 299)); }
ports() {
  broker_port "$1"
  controller_port "$1"
  [ -z "$secure" ] || inner_port "$1"
  [ -z "$advertise" ] || fronted_port "$1"
}
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
marker() { echo "-Dstagewise.kafka.node=$dir/n$1"; }

# Prints a node's process id if it runs. The marker on the command line tells it from a later process with the same id.
process() {
  local pid
  [ -s "$dir/n$1/pid" ] || return 1
  pid=$(cat "$dir/n$1/pid")
  # Small images have /proc but no ps; macOS has ps but no /proc.
  { if [ -d /proc/self ]; then tr '\0' ' ' <"/proc/$pid/cmdline"; else ps -ww -o args= -p "$pid"; fi; } 2>/dev/null |
    grep -qF -- "$(marker "$1") " && echo "$pid"
}

# Writes a node's configuration. Message sizes and retention are Kafka's defaults, because what stagewise writes must fit these.
# Compaction and deletion are quick, so that tests see them.
configure() {
  local i=$1 replication=$((nodes < 3 ? nodes : 3)) voters='' k
  for ((k = 1; k <= nodes; k++)); do voters+=${voters:+,}$k@127.0.0.1:$(controller_port $k); done
  mkdir -p "$dir/n$i"
  cat >"$dir/n$i/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$i
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
$(if [ -n "$secure" ]; then secured_listeners "$i"; else plain_listeners "$i"; fi)
log.dirs=$dir/n$i/data

auto.create.topics.enable=false
default.replication.factor=$replication
min.insync.replicas=$((replication > 1 ? replication - 1 : 1))
offsets.topic.replication.factor=$replication
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=$replication
transaction.state.log.min.isr=$((replication > 1 ? replication - 1 : 1))
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$replication
share.coordinator.state.topic.min.isr=$((replication > 1 ? replication - 1 : 1))
group.initial.rebalance.delay.ms=0

broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
controller.quorum.request.timeout.ms=1000

num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.backoff.ms=1000
log.segment.delete.delay.ms=1000
PROPERTIES
  if [ -n "$advertise" ]; then
    cat >>"$dir/n$i/server.properties" <<PROPERTIES
listeners=PLAINTEXT://127.0.0.1:$(broker_port "$i"),CONTROLLER://127.0.0.1:$(controller_port "$i"),FRONTED://127.0.0.1:$(fronted_port "$i")
advertised.listeners=PLAINTEXT://127.0.0.1:$(broker_port "$i"),FRONTED://127.0.0.1:$(cut -d, -f "$i" <<<"$advertise")
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FRONTED:PLAINTEXT
PROPERTIES
  fi
  cat >"$dir/n$i/log4j2.properties" <<'PROPERTIES'
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %c{1}: %m%n
rootLogger.level=INFO
rootLogger.appenderRef.console.ref=console
PROPERTIES
}

format() {
  local i=$1 user
  local -a credentials=()
  [ -f "$dir/n$i/data/meta.properties" ] && return
  if [ -n "$secure" ]; then
    for user in $users; do
      credentials+=(--add-scram "SCRAM-SHA-256=[name=$user,password=$(password "$user")]")
      credentials+=(--add-scram "SCRAM-SHA-512=[name=$user,password=$(password "$user")]")
    done
  fi
  # The bash of macOS treats an empty array as unset.
  "$java" -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Dlog4j2.configurationFile="$dir/n$i/log4j2.properties" -cp "$jars/*" \
    kafka.tools.StorageTool format -t "$CLUSTER_ID" -c "$dir/n$i/server.properties" \
    ${credentials[@]+"${credentials[@]}"} >"$dir/n$i/format.log" 2>&1 ||
    { cat "$dir/n$i/format.log" >&2; return 1; }
}

# It waits for the ports: the command line of a killed node disappears before its sockets are closed.
launch() {
  local i=$1 p end=$((SECONDS + 10))
  process "$i" >/dev/null && return
  for p in $(ports "$i"); do
    while listens "$p"; do
      if [ $SECONDS -ge $end ]; then
        say "port $p is taken"
        return 1
      fi
      sleep 0.1
    done
  done
  [ ! -f "$dir/n$i/broker.log" ] || mv "$dir/n$i/broker.log" "$dir/n$i/broker.log.previous"
  # set -m and nohup give it its own process group, which the terminal's Ctrl-C and hang-up do not reach. 9<&- keeps it from
  # inheriting the lock.
  (
    set -m
    nohup "$java" -Xms"$heap" -Xmx"$heap" -XX:+UseSerialGC -XX:MaxDirectMemorySize=256m -XX:+ExitOnOutOfMemoryError \
      -Djava.awt.headless=true -Dlog4j2.configurationFile="$dir/n$i/log4j2.properties" "$(marker "$i")" -cp "$jars/*" \
      kafka.Kafka "$dir/n$i/server.properties" </dev/null >"$dir/n$i/broker.log" 2>&1 9<&- &
    echo $! >"$dir/n$i/pid"
  )
}

wait_ready() {
  local i=$1 end=$((SECONDS + wait_seconds)) trouble=''
  until grep -q 'Kafka Server started' "$dir/n$i/broker.log" 2>/dev/null && listens "$(broker_port "$i")"; do
    sleep 0.1
    # Between fork and exec a node's command line has no marker yet.
    process "$i" >/dev/null || { sleep 0.3; process "$i" >/dev/null; } || trouble="died"
    [ $SECONDS -lt $end ] || trouble="is not ready after $wait_seconds s"
    if [ -n "$trouble" ]; then
      say "node $i $trouble; the end of $dir/n$i/broker.log:"
      tail -n 25 "$dir/n$i/broker.log" >&2
      return 1
    fi
  done
}

# --- The cluster

# Locks the folder, so that only one command runs at a time. The lock ends with the last process that has it open.
lock() {
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd -P)
  exec 9<"$dir"
  if command -v flock >/dev/null; then
    flock -w 120 9
  else # macOS has no flock command, but perl
    perl -e 'use Fcntl ":flock"; open(my $folder, "<&=", 9) or die; alarm 120; flock($folder, LOCK_EX) or die'
  fi || fail "another command holds $dir"
}

# Reads nodes, port and CLUSTER_ID of the cluster in the folder, if there is one.
recall() {
  [ -f "$dir/cluster.env" ] || return 0
  # shellcheck source=/dev/null
  . "$dir/cluster.env"
  [ "${nodes:-$CLUSTER_NODES}" = "$CLUSTER_NODES" ] || fail "$dir has a cluster of $CLUSTER_NODES; wipe it first"
  case $port in '' | free | "$CLUSTER_PORT") ;; *) fail "$dir has a cluster on port $CLUSTER_PORT; wipe it first" ;; esac
  [ -z "$secure" ] || [ -n "${CLUSTER_SECURE:-}" ] || fail "$dir has a cluster that is not secured; wipe it first"
  nodes=$CLUSTER_NODES
  port=$CLUSTER_PORT
  secure=${CLUSTER_SECURE:-}
  advertise=${CLUSTER_ADVERTISE:-}
}

# Ports below 32768: Linux and macOS use the higher ones for outgoing connections.
free_port() {
  local p i taken
  while :; do
    p=$((20000 + RANDOM % 12000)) taken=''
    for ((i = 0; i < nodes; i++)); do
      if listens $((p + i)) || listens $((p + i + 100)) || listens $((p + i + 200)) || listens $((p + i + 300)); then taken=1; fi
    done
    [ -n "$taken" ] || { echo $p; return; }
  done
}

found() {
  [ "$port" != free ] || port=$(free_port)
  # Kafka writes a UUID as 16 bytes in URL-safe base64. A leading "-" would look like an option.
  CLUSTER_ID=-
  while [ "${CLUSTER_ID#-}" != "$CLUSTER_ID" ]; do
    CLUSTER_ID=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
  done
  printf 'CLUSTER_NODES=%s\nCLUSTER_PORT=%s\nCLUSTER_ID=%s\nCLUSTER_SECURE=%s\nCLUSTER_ADVERTISE=%s\n' \
    "$nodes" "$port" "$CLUSTER_ID" "$secure" "$advertise" >"$dir/cluster.env"
}

start() {
  local i bootstrap=''
  [ -z "$secure" ] || [ -z "$advertise" ] || fail "--advertise is for brokers without --secure"
  need_java
  need_jars
  [ -f "$dir/cluster.env" ] || found
  [ -z "$secure" ] || need_security
  for ((i = 1; i <= nodes; i++)); do configure $i; done
  for ((i = 1; i <= nodes; i++)); do format $i || fail "node $i could not be formatted"; done
  for ((i = 1; i <= nodes; i++)); do launch $i || { stop; exit 1; }; done
  for ((i = 1; i <= nodes; i++)); do wait_ready $i || { stop; exit 1; }; done
  for ((i = 1; i <= nodes; i++)); do bootstrap+=${bootstrap:+,}127.0.0.1:$(broker_port $i); done
  echo "BOOTSTRAP=$bootstrap"
  [ -z "$secure" ] || tell "$bootstrap"
}

# Writes the files that clients need besides the certificates.
tell() {
  local files=$dir/security
  echo "$1" >"$files/brokers"
  cat >"$files/client.yaml" <<YAML
brokers: [$1]
security:
  tls: {enabled: true, ca: $files/ca.pem, certificate: $files/client.pem, key: $files/client.key}
  sasl: {mechanism: SCRAM-SHA-512, username: admin, password_file: $files/admin.password}
YAML
  echo "SECURITY=$files"
}

stop() {
  local i pid end=$((SECONDS + 20))
  for ((i = nodes; i >= 1; i--)); do
    if pid=$(process $i); then kill -TERM "$pid" 2>/dev/null || true; fi
  done
  for ((i = 1; i <= nodes; i++)); do
    while pid=$(process $i); do
      if [ $SECONDS -ge $end ]; then
        say "node $i: SIGKILL"
        kill -KILL "$pid" 2>/dev/null || true
      fi
      sleep 0.1
    done
    rm -f "$dir/n$i/pid"
  done
}

kill_node() {
  local pid
  pid=$(process "$node") || fail "node $node does not run"
  kill -KILL "$pid"
  while process "$node" >/dev/null; do sleep 0.05; done
  rm -f "$dir/n$node/pid"
}

revive() {
  need_java
  need_jars
  launch "$node"
  wait_ready "$node"
}

status() {
  local i pid state all=0
  for ((i = 1; i <= nodes; i++)); do
    if ! pid=$(process $i); then
      state=stopped all=1
    elif listens "$(broker_port $i)"; then
      state="listens, process $pid"
    else
      state="does not listen, process $pid" all=1
    fi
    echo "node $i 127.0.0.1:$(broker_port $i) $state"
  done
  return $all
}

# Deletes only files that this script made, so that a wrong --dir does no harm.
wipe() {
  [ -f "$dir/cluster.env" ] || return 0
  stop
  rm -rf "$dir"/n[0-9]* "$dir/cluster.env" "$dir"/security "$dir"/.security "$dir/openssl.log"
  cd / && { rmdir "$dir" 2>/dev/null || true; }
}

case $action in start | stop | kill | revive | status | wipe) ;; *) usage ;; esac
if [ "$action" != start ] && [ ! -f "$dir/cluster.env" ]; then
  say "no cluster in $dir"
  case $action in stop | wipe) exit 0 ;; *) exit 1 ;; esac
fi
lock
recall
: "${nodes:=1}" "${port:=9092}"
case $action in
  kill | revive)
    case $node in [1-9] | [1-9][0-9]) ;; *) usage ;; esac
    [ "$node" -le "$nodes" ] || fail "--node is 1..$nodes"
    ;;
esac
case $action in
  kill) kill_node ;;
  *) "$action" ;;
esac
