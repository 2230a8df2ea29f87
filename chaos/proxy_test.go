//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

func request(key uint16, correlation uint32, content string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(content)))
	b = binary.BigEndian.AppendUint16(b, key)
	b = binary.BigEndian.AppendUint16(b, 9) // the API's version
	return append(binary.BigEndian.AppendUint32(b, correlation), content...)
}

func answer(correlation uint32, content string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(content)))
	return append(binary.BigEndian.AppendUint32(b, correlation), content...)
}

const fetchKey = 1

// through opens a connection through a proxy on in-memory pipes, so that a test controls time.
func through(p *proxy) (client, broker net.Conn) {
	client, inner := net.Pipe()
	outer, broker := net.Pipe()
	p.group.Go(func() { p.relay(inner, outer) })
	return client, broker
}

// unconnected is a proxy without a port.
func unconnected() *proxy { return &proxy{connections: map[*connection]struct{}{}} }

func send(t *testing.T, c net.Conn, frame []byte) {
	t.Helper()
	arrowtest.Must(c.Write(frame))(t)
}

func expect(t *testing.T, c net.Conn, frame []byte) {
	t.Helper()
	got := make([]byte, len(frame))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, frame) {
		t.Fatalf("%q, %v; expected %q", got, err, frame)
	}
}

// passes sends a frame on one side and expects it on the other.
func passes(t *testing.T, from, to net.Conn, frame []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(frame)
		sent <- err
	}()
	expect(t, to, frame)
	arrowtest.NoError(t, <-sent)
}

func expectBroken(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("%d bytes, %v; expected a broken connection", n, err)
	}
}

// Frames pass unchanged and without delay, and when one side closes, the other is closed too.
func TestFramesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := unconnected(), time.Now()
		client, broker := through(p)
		for i, content := range []string{"", "a", string(make([]byte, 1<<20))} {
			passes(t, client, broker, request(produceKey, uint32(i), content))
			passes(t, broker, client, answer(uint32(i), content))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		broker.Close()
		expectBroken(t, client)
		p.group.Wait()
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		client, broker := through(p)
		for _, latency := range []time.Duration{300 * time.Millisecond, 0} {
			p.Delay(latency)
			began := time.Now()
			passes(t, client, broker, request(fetchKey, 1, "which"))
			passes(t, broker, client, answer(1, "this"))
			if took := time.Since(began); took != 2*latency {
				t.Errorf("the round trip took %v, expected twice %v", took, latency)
			}
		}
		// A reset does not wait for delayed frames.
		p.Delay(time.Hour)
		began := time.Now()
		send(t, client, request(fetchKey, 2, ""))
		p.Reset()
		expectBroken(t, broker)
		p.group.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("reset took %v", took)
		}
	})
}

func TestResetBreaksEveryConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		client, broker := through(p)
		otherClient, otherBroker := through(p)
		synctest.Wait()
		if n := p.Reset(); n != 2 {
			t.Errorf("%d connections", n)
		}
		for _, c := range []net.Conn{client, broker, otherClient, otherBroker} {
			expectBroken(t, c)
		}
		p.group.Wait()
		if n := p.Reset(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		client, broker = through(p)
		passes(t, client, broker, request(fetchKey, 1, ""))
		client.Close()
		p.group.Wait()
	})
}

// When an answer is lost the broker has the whole request and the client no byte of the answer. Answers to other requests
// arrive.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.LoseAnswers(1)
		client, broker := through(p)
		passes(t, client, broker, request(fetchKey, 1, "which"))
		passes(t, broker, client, answer(1, "this"))
		passes(t, client, broker, request(produceKey, 2, "keep"))
		go broker.Write(answer(2, "kept")) // the connection breaks during the write
		expectBroken(t, client)
		p.group.Wait()

		client, broker = through(p)
		passes(t, client, broker, request(produceKey, 2, "keep"))
		passes(t, broker, client, answer(2, "kept"))
		client.Close()
		p.group.Wait()
	})
}

// On sockets, clients see a reset connection, also when the broker is down; after Close nothing listens.
func TestProxyOnSockets(t *testing.T) {
	broker := arrowtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := arrowtest.Must(newProxy())(t)
	p.Serve(func() (net.Conn, error) { return net.Dial("tcp", broker.Addr().String()) })
	client := arrowtest.Must(net.Dial("tcp", p.Addr()))(t)
	defer client.Close()
	accepted := arrowtest.Must(broker.Accept())(t)
	defer accepted.Close()
	send(t, client, request(fetchKey, 1, "which"))
	expect(t, accepted, request(fetchKey, 1, "which"))
	if n := p.Reset(); n != 1 {
		t.Errorf("%d connections", n)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, expected a reset", err)
	}
	broker.Close()
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // Dial may see the reset already
		expectBroken(t, c)
		c.Close()
	}
	p.Close()
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("the proxy still listens")
	}
}
