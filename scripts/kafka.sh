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
#   kafka.sh wipe                                stops and deletes the cluster
#
# Node I of 1..N: broker at 127.0.0.1:P+I-1, controller at P+I+99. The folder --dir holds the cluster with its nodes and ports, so only start needs
# these. With --advertise P1,P2,... (start), for proxies before brokers, node I has a listener at P+I+299 that advertises 127.0.0.1:P1, P2, ...
#
# With --secure brokers use SASL_SSL with PLAIN, SCRAM, and OAUTHBEARER with tokens that nobody has signed, and require a client certificate of a CA
# made for the cluster; they reach each other by TLS, at P+I+199. The user admin may do everything; train, work, solve, subscribe and score need ACLs.
# The folder that start prints has the files for clients: client.yaml, the part of a configuration that connects as admin, brokers, ca.pem,
# client.pem, client.key and USER.password.
#
# Further options: --heap 512m, --wait SECONDS. Environment: KAFKA_VERSION, KAFKA_JARS (the folder of jars). It needs Java 17 and Maven, with --secure
# also openssl, and installs them if that needs no password.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname "$0")/install.sh"
say() { echo "kafka: $*" >&2; }
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

action=${1:-}
[ $# -eq 0 ] || shift
nodes='' port='' node='' secure='' advertise='' id='' wait=90 heap=512m dir=${TMPDIR:-/tmp}/stagewise-kafka
while [ $# -gt 0 ]; do
  case $1 in
    --secure) secure=1; shift; continue ;;
    --nodes | --port | --node | --advertise | --dir | --heap | --wait) [ $# -ge 2 ] || usage ;;
    *) usage ;;
  esac
  printf -v "${1#--}" %s "$2"
  shift 2
done

# Kafka 4.1 is built with this version of log4j.
need_programs() {
  local version=${KAFKA_VERSION:-4.1.2}
  need_java
  fetch_jars "kafka-$version" "Kafka $version (43 MB)" "org.apache.kafka:kafka_2.13:$version" org.apache.logging.log4j:log4j-slf4j-impl:2.24.3
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
  need openssl openssl openssl
  rm -rf "$work"
  mkdir -m 700 "$work"
  (make_security "$work") >"$dir/openssl.log" 2>&1 || { cat "$dir/openssl.log" >&2; fail "openssl could not make the certificates"; }
  mv "$work" "$dir/security"
}

password() { cat "$dir/security/$1.password"; }

# --- One node

address() { echo "127.0.0.1:$((port + $1 + $2))"; } # NODE OFFSET
broker=-1 controller=99 inner=199 fronted=299       # offsets of ports
listens() { (exec 3<>"/dev/tcp/127.0.0.1/${1#*:}") 2>/dev/null; }
marker() { echo "-Dstagewise.kafka.node=$dir/n$1"; }

# Prints the listeners of a node's configuration. Brokers and controllers of a secured cluster trust each other's certificate.
listeners() {
  local i=$1 user plain='' between=CLIENTS open protocols=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,FRONTED:PLAINTEXT
  open=CLIENTS://$(address "$i" $broker)
  if [ -n "$secure" ]; then
    open+=,BROKERS://$(address "$i" $inner) between=BROKERS protocols=CLIENTS:SASL_SSL,BROKERS:SSL,CONTROLLER:SSL
  fi
  echo "listeners=$open,CONTROLLER://$(address "$i" $controller)${advertise:+,FRONTED://$(address "$i" $fronted)}"
  echo "advertised.listeners=$open${advertise:+,FRONTED://127.0.0.1:$(cut -d, -f "$i" <<<"$advertise")}"
  echo "listener.security.protocol.map=$protocols"
  echo "inter.broker.listener.name=$between"
  [ -n "$secure" ] || return 0
  for user in $users; do plain+=" user_$user=\"$(password "$user")\""; done
  cat <<PROPERTIES
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

# Prints a node's process id if it runs. The marker on the command line tells it from a later process with the same id.
process() {
  local pid
  [ -s "$dir/n$1/pid" ] || return 1
  pid=$(cat "$dir/n$1/pid")
  # Small images have /proc but no ps; macOS has ps but no /proc.
  { if [ -d /proc/self ]; then tr '\0' ' ' <"/proc/$pid/cmdline"; else ps -ww -o args= -p "$pid"; fi; } 2>/dev/null |
    grep -qF -- "$(marker "$1") " && echo "$pid"
}

# Writes a node's configuration, and formats its folder. Message sizes and retention are Kafka's defaults, because what stagewise writes must
# fit these. Compaction and deletion are quick, so that tests see them.
configure() {
  local i=$1 replication=$((nodes < 3 ? nodes : 3)) voters='' k user
  local in_sync=$((replication > 1 ? replication - 1 : 1))
  local -a credentials=()
  for ((k = 1; k <= nodes; k++)); do voters+=${voters:+,}$k@$(address $k $controller); done
  mkdir -p "$dir/n$i"
  cat >"$dir/n$i/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$i
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
$(listeners "$i")
log.dirs=$dir/n$i/data
auto.create.topics.enable=false
default.replication.factor=$replication
min.insync.replicas=$in_sync
offsets.topic.replication.factor=$replication
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=$replication
transaction.state.log.min.isr=$in_sync
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$replication
share.coordinator.state.topic.min.isr=$in_sync
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
  [ ! -f "$dir/n$i/data/meta.properties" ] || return 0
  for user in ${secure:+$users}; do
    for k in 256 512; do credentials+=(--add-scram "SCRAM-SHA-$k=[name=$user,password=$(password "$user")]"); done
  done
  # The bash of macOS treats an empty array as unset.
  "$java" -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$jars/*" \
    kafka.tools.StorageTool format -t "$id" -c "$dir/n$i/server.properties" ${credentials[@]+"${credentials[@]}"} >"$dir/n$i/format.log" 2>&1 ||
    { cat "$dir/n$i/format.log" >&2; fail "node $i could not be formatted"; }
}

# It waits for the ports: the command line of a killed node disappears before its sockets are closed.
launch() {
  local i=$1 offset end=$((SECONDS + 10))
  process "$i" >/dev/null && return
  for offset in $broker $controller ${secure:+$inner} ${advertise:+$fronted}; do
    while listens "$(address "$i" "$offset")"; do
      [ $SECONDS -lt $end ] || { say "$(address "$i" "$offset") is taken"; return 1; }
      sleep 0.1
    done
  done
  [ ! -f "$dir/n$i/broker.log" ] || mv "$dir/n$i/broker.log" "$dir/n$i/broker.log.previous"
  # set -m and nohup give it its own process group, which the terminal's Ctrl-C and hang-up do not reach. 9<&- keeps it from
  # inheriting the lock.
  (
    set -m
    nohup "$java" -Xms"$heap" -Xmx"$heap" -XX:+UseSerialGC -XX:MaxDirectMemorySize=256m -XX:+ExitOnOutOfMemoryError \
      -Djava.awt.headless=true -Dorg.apache.logging.log4j.level=INFO "$(marker "$i")" -cp "$jars/*" \
      kafka.Kafka "$dir/n$i/server.properties" </dev/null >"$dir/n$i/broker.log" 2>&1 9<&- &
    echo $! >"$dir/n$i/pid"
  )
}

wait_ready() {
  local i=$1 end=$((SECONDS + wait)) trouble=''
  until grep -q 'Kafka Server started' "$dir/n$i/broker.log" 2>/dev/null && listens "$(address "$i" $broker)"; do
    sleep 0.1
    # Between fork and exec a node's command line has no marker yet.
    process "$i" >/dev/null || { sleep 0.3; process "$i" >/dev/null; } || trouble="died"
    [ $SECONDS -lt $end ] || trouble="is not ready after $wait s"
    if [ -n "$trouble" ]; then
      say "node $i $trouble; the end of $dir/n$i/broker.log:"
      tail -n 25 "$dir/n$i/broker.log" >&2
      return 1
    fi
  done
}

# end SIGNAL NODE... sends a signal, and waits until the nodes have ended. After 20 s it kills them.
end() {
  local signal=$1 i pid end=$((SECONDS + 20))
  shift
  for i; do
    if pid=$(process "$i"); then kill "-$signal" "$pid" 2>/dev/null || true; fi
  done
  for i; do
    while pid=$(process "$i"); do
      [ $SECONDS -lt $end ] || kill -KILL "$pid" 2>/dev/null || true
      sleep 0.1
    done
    rm -f "$dir/n$i/pid"
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

# Reads nodes, port and id of the cluster in the folder, if there is one.
recall() {
  local some=$nodes at=${port/free/} secured=$secure
  [ -f "$dir/cluster.env" ] || return 0
  # shellcheck source=/dev/null
  . "$dir/cluster.env"
  [ "${some:-$nodes} ${at:-$port} ${secured:-$secure}" = "$nodes $port $secure" ] ||
    fail "$dir has another cluster, of $nodes nodes on port $port${secure:+, secured}; wipe it first"
}

# Chooses a port below 32768: Linux and macOS use the higher ones for outgoing connections.
free_port() {
  local i offset
  while :; do
    port=$((20000 + RANDOM % 12000))
    for ((i = 1; i <= nodes; i++)); do
      for offset in $broker $controller $inner $fronted; do ! listens "$(address $i "$offset")" || continue 3; done
    done
    return
  done
}

start() {
  local i bootstrap='' files=$dir/security
  [ -z "$secure" ] || [ -z "$advertise" ] || fail "--advertise is for brokers without --secure"
  need_programs
  if [ ! -f "$dir/cluster.env" ]; then
    [ "$port" != free ] || free_port
    id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d '=') # 16 bytes in base64
    printf '%s=%s\n' nodes "$nodes" port "$port" id "$id" secure "$secure" advertise "$advertise" >"$dir/cluster.env"
  fi
  [ -z "$secure" ] || need_security
  for ((i = 1; i <= nodes; i++)); do configure $i; done
  for ((i = 1; i <= nodes; i++)); do launch $i || { stop; exit 1; }; done
  for ((i = 1; i <= nodes; i++)); do wait_ready $i || { stop; exit 1; }; done
  for ((i = 1; i <= nodes; i++)); do bootstrap+=${bootstrap:+,}$(address $i $broker); done
  echo "BOOTSTRAP=$bootstrap"
  [ -n "$secure" ] || return 0
  echo "$bootstrap" >"$files/brokers"
  cat >"$files/client.yaml" <<YAML
brokers: [$bootstrap]
security:
  tls: {enabled: true, ca: $files/ca.pem, certificate: $files/client.pem, key: $files/client.key}
  sasl: {mechanism: SCRAM-SHA-512, username: admin, password_file: $files/admin.password}
YAML
  echo "SECURITY=$files"
}

# shellcheck disable=SC2046 # numbers
stop() { end TERM $(seq "$nodes" -1 1); }

kill_node() {
  process "$node" >/dev/null || fail "node $node does not run"
  end KILL "$node"
}

revive() {
  need_programs
  launch "$node"
  wait_ready "$node"
}

# Deletes only files that this script made, so that a wrong --dir does no harm.
wipe() {
  [ -f "$dir/cluster.env" ] || return 0
  stop
  rm -rf "$dir"/n[0-9]* "$dir/cluster.env" "$dir"/security "$dir"/.security "$dir/openssl.log"
  cd / && { rmdir "$dir" 2>/dev/null || true; }
}

case $action in start | stop | kill | revive | wipe) ;; *) usage ;; esac
if [ "$action" != start ] && [ ! -f "$dir/cluster.env" ]; then
  say "no cluster in $dir"
  case $action in stop | wipe) exit 0 ;; *) exit 1 ;; esac
fi
lock
recall
: "${nodes:=1}" "${port:=9092}"
case $action in
  kill | revive) [[ $node =~ ^[1-9][0-9]?$ ]] && [ "$node" -le "$nodes" ] || fail "--node is 1..$nodes" ;;
esac
[ "$action" != kill ] || action=kill_node
"$action"
