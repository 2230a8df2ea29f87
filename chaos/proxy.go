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

// proxy stands on loopback between clients and one broker. It passes requests and answers on frame by frame, until it is
// told to delay them, to break the connections, or to lose answers.
type proxy struct {
	listener net.Listener
	group    sync.WaitGroup // of links, and of whoever accepts them

	mutex   sync.Mutex
	links   map[*link]struct{}
	closed  bool
	latency time.Duration // of each frame, in both directions
	lose    int           // answers to Produce requests
	lost    int
}

// newProxy has a port of its own, which a broker has to know before it starts. Clients wait until serve.
func newProxy() (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &proxy{listener: listener, links: map[*link]struct{}{}}, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// serve connects clients with the broker until close.
func (p *proxy) serve(dial func() (net.Conn, error)) {
	p.group.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return // closed
			}
			p.group.Go(func() {
				broker, err := dial()
				if err != nil { // it is down, and that is what the client sees
					abort(client)
					return
				}
				p.relay(client, broker)
			})
		}
	})
}

// relay passes frames on in both directions until either side ends or the link is broken.
func (p *proxy) relay(client, broker net.Conn) {
	l := &link{proxy: p, client: client, broker: broker}
	l.broken, l.end = context.WithCancel(context.Background())
	context.AfterFunc(l.broken, func() {
		abort(client)
		abort(broker)
	})
	p.mutex.Lock()
	p.links[l] = struct{}{}
	if p.closed {
		l.end()
	}
	p.mutex.Unlock()

	var pumps sync.WaitGroup
	pumps.Go(l.requests)
	pumps.Go(l.answers)
	pumps.Wait()
	p.mutex.Lock()
	delete(p.links, l)
	p.mutex.Unlock()
}

// delay makes every frame from now on so late; 0 ends that.
func (p *proxy) delay(latency time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.latency = latency
}

// reset breaks all connections that there are, and answers how many.
func (p *proxy) reset() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for l := range p.links {
		l.end()
	}
	return len(p.links)
}

// loseAnswers has the next answers to Produce requests break their connection instead of arriving: the broker has
// appended, the client has to believe that it has not, and sends again. What an earlier call left to be lost is forgotten.
func (p *proxy) loseAnswers(count int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lose = count
}

// lostAnswers is how many were lost so far.
func (p *proxy) lostAnswers() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.lost
}

// close ends all connections, and returns when nothing of the proxy runs any more.
func (p *proxy) close() {
	p.listener.Close()
	p.mutex.Lock()
	p.closed = true
	p.mutex.Unlock()
	p.reset()
	p.group.Wait()
}

// link is one connection of a client with the broker.
type link struct {
	proxy          *proxy
	client, broker net.Conn
	broken         context.Context
	end            context.CancelFunc

	mutex   sync.Mutex
	produce map[uint32]struct{} // correlation ids of Produce requests that are not answered
}

// Kafka frames: a length of 4 bytes, then in a request the API key (2), its version (2) and the correlation id (4), in an
// answer the correlation id. https://kafka.apache.org/protocol#protocol_messages
const (
	requestHead = 12
	answerHead  = 8
	produceKey  = 0
)

func (l *link) requests() {
	defer l.end()
	head := make([]byte, requestHead)
	for l.frame(l.broker, l.client, head, func() bool {
		if binary.BigEndian.Uint16(head[4:]) == produceKey {
			l.mutex.Lock()
			defer l.mutex.Unlock()
			if l.produce == nil {
				l.produce = map[uint32]struct{}{}
			}
			l.produce[binary.BigEndian.Uint32(head[8:])] = struct{}{}
		}
		return true
	}) {
	}
}

func (l *link) answers() {
	defer l.end()
	head := make([]byte, answerHead)
	for l.frame(l.client, l.broker, head, func() bool { return !l.loses(binary.BigEndian.Uint32(head[4:])) }) {
	}
}

// frame passes one frame on, if pass finds its head to be so, and tells whether there may be another.
func (l *link) frame(to io.Writer, from io.Reader, head []byte, pass func() bool) bool {
	if _, err := io.ReadFull(from, head); err != nil {
		return false
	}
	rest := int64(binary.BigEndian.Uint32(head)) - int64(len(head)-4)
	if rest < 0 || !pass() || !l.wait() {
		return false
	}
	if _, err := to.Write(head); err != nil {
		return false
	}
	_, err := io.CopyN(to, from, rest)
	return err == nil
}

// loses tells whether an answer is to be lost.
func (l *link) loses(correlation uint32) bool {
	l.mutex.Lock()
	_, produce := l.produce[correlation]
	delete(l.produce, correlation)
	l.mutex.Unlock()
	if !produce {
		return false
	}
	p := l.proxy
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.lose == 0 {
		return false
	}
	p.lose--
	p.lost++
	return true
}

// wait lets the latency pass, and tells whether the link is still there after it.
func (l *link) wait() bool {
	l.proxy.mutex.Lock()
	latency := l.proxy.latency
	l.proxy.mutex.Unlock()
	if latency > 0 {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.broken.Done():
		}
	}
	return l.broken.Err() == nil
}

// abort closes a connection with a reset, as a peer that crashed does: what was not sent yet is dropped.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
