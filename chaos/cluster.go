//go:build unix

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	nodes = 3
	// heap is the JVM heap of a broker. The topics are small, and three brokers share the machine with all their clients.
	heap = "256m"
	// startTimeout is the number of seconds that a broker may take to start on a busy machine.
	startTimeout = "300"
	// proxiedOffset is the distance from a broker's port to the port of the listener behind its proxy (kafka.sh, --advertise).
	proxiedOffset = 300
)

// cluster is Kafka brokers, each with a proxy between it and its clients.
type cluster struct {
	dir       string
	direct    []string // the brokers' addresses without proxies, for connections that faults must not reach
	proxies   []*proxy
	addresses []string // of the proxies, which clients connect to
}

// startCluster starts brokers whose data are in a folder, which close deletes. Also call close after an error.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{dir: dir}
	var ports []string
	for range nodes {
		p, err := newProxy()
		if err != nil {
			return c, err
		}
		c.proxies, c.addresses = append(c.proxies, p), append(c.addresses, p.Addr())
		ports = append(ports, strconv.Itoa(p.listener.Addr().(*net.TCPAddr).Port))
	}
	out, err := c.kafka(ctx, "start", "--nodes", strconv.Itoa(nodes), "--port", "free", "--heap", heap, "--wait", startTimeout,
		"--advertise", strings.Join(ports, ","))
	if err != nil {
		return c, err
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(out), "BOOTSTRAP=")
	if c.direct = strings.Split(list, ","); !ok || len(c.direct) != nodes {
		return c, fmt.Errorf("start Kafka: got %q, want %d addresses", out, nodes)
	}
	for i, p := range c.proxies {
		direct, err := netip.ParseAddrPort(c.direct[i])
		if err != nil {
			return c, fmt.Errorf("start Kafka: %w", err)
		}
		broker := netip.AddrPortFrom(direct.Addr(), direct.Port()+proxiedOffset).String()
		p.Serve(func() (net.Conn, error) { return net.DialTimeout("tcp", broker, time.Second) })
	}
	return c, nil
}

// kill kills the process of a broker (0 is the first) with SIGKILL.
func (c *cluster) kill(ctx context.Context, node int) error {
	_, err := c.kafka(ctx, "kill", "--node", strconv.Itoa(node+1))
	return err
}

// revive starts a killed broker again, and returns when it has caught up with the cluster's metadata.
func (c *cluster) revive(ctx context.Context, node int) error {
	_, err := c.kafka(ctx, "revive", "--node", strconv.Itoa(node+1), "--heap", heap, "--wait", startTimeout)
	return err
}

// close kills the brokers, and deletes their data and logs unless keep is set. It has no context, because it must also
// run after an interrupt.
func (c *cluster) close(keep bool) error {
	for _, p := range c.proxies {
		p.Close()
	}
	if c.dir == "" {
		return nil // none was started
	}
	for node := range nodes { // a clean shutdown would take seconds to save data that is deleted next
		c.kafka(context.Background(), "kill", "--node", strconv.Itoa(node+1)) //nolint:errcheck // the broker may be down already
	}
	if keep {
		return nil
	}
	_, err := c.kafka(context.Background(), "wipe")
	return err
}

// kafka runs scripts/kafka.sh, which owns the brokers' processes, and returns its output.
func (c *cluster) kafka(ctx context.Context, action string, args ...string) (string, error) {
	return output(ctx, append([]string{"scripts/kafka.sh", action, "--dir", c.dir}, args...)...)
}

// proxy is a TCP proxy between Kafka clients and one broker: it delays frames, resets connections and loses answers to Produce requests, as
// networks do. It listens on a port of the loopback interface and forwards requests and answers frame by frame. Its methods may be called
// from any goroutine. Make it with [newProxy]; the zero value can't be used.
type proxy struct {
	listener net.Listener
	group    sync.WaitGroup // the accept loop and all connections
	running  context.Context
	end      context.CancelFunc

	mutex       sync.Mutex
	connections map[*connection]struct{}
	latency     time.Duration // of each frame, in both directions
	lose        int           // number of answers to Produce requests that it still loses
}

// newProxy opens the port. Brokers advertise the ports of their proxies, so the port must be known before the brokers start;
// clients that connect meanwhile wait until Serve.
func newProxy() (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := unconnected()
	p.listener = listener
	return p, nil
}

// unconnected returns a proxy without a port.
func unconnected() *proxy {
	p := &proxy{connections: map[*connection]struct{}{}}
	p.running, p.end = context.WithCancel(context.Background())
	return p
}

// Addr returns the host:port that clients connect to.
func (p *proxy) Addr() string { return p.listener.Addr().String() }

// Serve connects each client with the broker that dial reaches, in goroutines that end with Close. A client is reset if
// dial fails, as if the broker were down.
func (p *proxy) Serve(dial func() (net.Conn, error)) {
	p.group.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return // closed
			}
			p.group.Go(func() {
				broker, err := dial()
				if err != nil {
					abort(client)
					return
				}
				p.relay(client, broker)
			})
		}
	})
}

// relay forwards frames in both directions until either side ends or the connection is broken.
func (p *proxy) relay(client, broker net.Conn) {
	c := &connection{proxy: p, client: client, broker: broker, produce: map[uint32]struct{}{}}
	c.broken, c.end = context.WithCancel(p.running)
	context.AfterFunc(c.broken, func() {
		abort(client)
		abort(broker)
	})
	p.mutex.Lock()
	p.connections[c] = struct{}{}
	p.mutex.Unlock()

	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(broker, client, requestHead, c.request) })
	pumps.Go(func() { c.pump(client, broker, answerHead, c.answer) })
	pumps.Wait()
	p.mutex.Lock()
	delete(p.connections, c)
	p.mutex.Unlock()
}

// Delay holds back every frame by latency, in both directions, from now on; 0 ends the delay.
func (p *proxy) Delay(latency time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.latency = latency
}

// Reset breaks all open connections and returns their number.
func (p *proxy) Reset() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for c := range p.connections {
		c.end()
	}
	return len(p.connections)
}

// LoseAnswers loses the next count answers to Produce requests: the connection breaks instead. The broker has appended the
// messages, but the client must assume that it has not, and sends them again. A new count replaces the rest of an earlier one.
func (p *proxy) LoseAnswers(count int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lose = count
}

// Close closes the port, ends all connections, and waits until all goroutines of the proxy have ended.
func (p *proxy) Close() {
	p.listener.Close()
	p.end()
	p.group.Wait()
}

// connection is a client's connection to the proxy, and the proxy's connection to the broker for that client.
type connection struct {
	proxy          *proxy
	client, broker net.Conn
	broken         context.Context
	end            context.CancelFunc
	produce        map[uint32]struct{} // correlation ids of Produce requests without an answer yet, guarded by the proxy's mutex
}

// Kafka frames: a length of 4 bytes, then in a request the API key (2), its version (2) and the correlation id (4), in an
// answer the correlation id. https://kafka.apache.org/protocol#protocol_messages
const (
	requestHead = 12
	answerHead  = 8
	produceKey  = 0
)

// pump forwards frames with heads of the given size until either side ends, the connection is broken, or passes, called
// with the head of a frame, returns false.
func (c *connection) pump(to io.Writer, from io.Reader, size int, passes func(head []byte) bool) {
	defer c.end()
	for head := make([]byte, size); ; {
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		rest := int64(binary.BigEndian.Uint32(head)) - int64(len(head)-4)
		if rest < 0 || !passes(head) || !c.wait() {
			return
		}
		if _, err := to.Write(head); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, rest); err != nil {
			return
		}
	}
}

// request records Produce requests, to recognise their answers.
func (c *connection) request(head []byte) bool {
	if binary.BigEndian.Uint16(head[4:]) == produceKey {
		c.proxy.mutex.Lock()
		defer c.proxy.mutex.Unlock()
		c.produce[binary.BigEndian.Uint32(head[8:])] = struct{}{}
	}
	return true
}

// answer reports whether to forward an answer. It counts the answers that are lost.
func (c *connection) answer(head []byte) bool {
	p, correlation := c.proxy, binary.BigEndian.Uint32(head[4:])
	p.mutex.Lock()
	defer p.mutex.Unlock()
	_, produce := c.produce[correlation]
	delete(c.produce, correlation)
	if !produce || p.lose == 0 {
		return true
	}
	p.lose--
	return false
}

// wait waits for the latency and reports whether the connection is still intact.
func (c *connection) wait() bool {
	c.proxy.mutex.Lock()
	latency := c.proxy.latency
	c.proxy.mutex.Unlock()
	if latency > 0 {
		sleep(latency, c.broken.Done())
	}
	return c.broken.Err() == nil
}

// abort closes a connection with a reset, as a crashed peer does: unsent data is dropped.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
