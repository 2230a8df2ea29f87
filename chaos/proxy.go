//go:build unix

package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// proxy is a TCP proxy between Kafka clients and one broker: it delays frames, resets connections and loses answers to Produce requests, as
// networks do. It listens on a port of the loopback interface and forwards requests and answers frame by frame. Its methods may be called
// from any goroutine. Make it with [newProxy]; the zero value can't be used.
type proxy struct {
	listener net.Listener
	group    sync.WaitGroup // the accept loop and all connections

	mutex       sync.Mutex
	connections map[*connection]struct{}
	closed      bool
	latency     time.Duration // of each frame, in both directions
	lose        int           // how many answers to Produce requests are still to be lost
}

// newProxy opens the port. Brokers advertise the ports of their proxies, so the port must be known before the brokers start;
// clients that connect meanwhile wait until Serve.
func newProxy() (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &proxy{listener: listener, connections: map[*connection]struct{}{}}, nil
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
	c := &connection{proxy: p, client: client, broker: broker}
	c.broken, c.end = context.WithCancel(context.Background())
	context.AfterFunc(c.broken, func() {
		abort(client)
		abort(broker)
	})
	p.mutex.Lock()
	p.connections[c] = struct{}{}
	if p.closed {
		c.end()
	}
	p.mutex.Unlock()

	var pumps sync.WaitGroup
	pumps.Go(c.requests)
	pumps.Go(c.answers)
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
	p.mutex.Lock()
	p.closed = true
	p.mutex.Unlock()
	p.Reset()
	p.group.Wait()
}

// connection is a client's connection to the proxy, and the proxy's connection to the broker for that client.
type connection struct {
	proxy          *proxy
	client, broker net.Conn
	broken         context.Context
	end            context.CancelFunc

	mutex   sync.Mutex
	produce map[uint32]struct{} // correlation ids of Produce requests without an answer yet
}

// Kafka frames: a length of 4 bytes, then in a request the API key (2), its version (2) and the correlation id (4), in an
// answer the correlation id. https://kafka.apache.org/protocol#protocol_messages
const (
	requestHead = 12
	answerHead  = 8
	produceKey  = 0
)

func (c *connection) requests() {
	defer c.end()
	head := make([]byte, requestHead)
	for c.frame(c.broker, c.client, head, func() bool {
		if binary.BigEndian.Uint16(head[4:]) == produceKey {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			if c.produce == nil {
				c.produce = map[uint32]struct{}{}
			}
			c.produce[binary.BigEndian.Uint32(head[8:])] = struct{}{}
		}
		return true
	}) {
	}
}

func (c *connection) answers() {
	defer c.end()
	head := make([]byte, answerHead)
	for c.frame(c.client, c.broker, head, func() bool { return !c.loses(binary.BigEndian.Uint32(head[4:])) }) {
	}
}

// frame reads a frame's head and, if allowed returns true, forwards the frame. It reports whether to go on.
func (c *connection) frame(to io.Writer, from io.Reader, head []byte, allowed func() bool) bool {
	if _, err := io.ReadFull(from, head); err != nil {
		return false
	}
	rest := int64(binary.BigEndian.Uint32(head)) - int64(len(head)-4)
	if rest < 0 || !allowed() || !c.wait() {
		return false
	}
	if _, err := to.Write(head); err != nil {
		return false
	}
	_, err := io.CopyN(to, from, rest)
	return err == nil
}

// loses reports whether to lose the answer with this correlation id, and counts it.
func (c *connection) loses(correlation uint32) bool {
	c.mutex.Lock()
	_, produce := c.produce[correlation]
	delete(c.produce, correlation)
	c.mutex.Unlock()
	if !produce {
		return false
	}
	p := c.proxy
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.lose == 0 {
		return false
	}
	p.lose--
	return true
}

// wait waits for the latency and reports whether the connection is still intact.
func (c *connection) wait() bool {
	c.proxy.mutex.Lock()
	latency := c.proxy.latency
	c.proxy.mutex.Unlock()
	if latency > 0 {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.broken.Done():
		}
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
