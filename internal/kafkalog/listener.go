package kafkalog

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// listener accepts the connections of the embedded broker: from this process through a pipe in memory, and from other
// programs through a port, if configured. A pipe copies a message once; a socket copies it twice, with system calls.
//
// It outlives the broker's restarts. In between, connections wait.
type listener struct {
	port  net.Listener  // nil: no port
	taken chan net.Conn // accepted from the port, and from pipe
	ended chan struct{} // closed by close
	close func() error  // closes the port, once
}

// listen opens a port at the address, or none if the address is empty.
func listen(address string) (*listener, error) {
	l := &listener{taken: make(chan net.Conn), ended: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		close(l.ended)
		if l.port == nil {
			return nil
		}
		return l.port.Close()
	})
	if address == "" {
		return l, nil
	}
	if !IsLoopback(address) {
		return nil, fmt.Errorf("listen on %s: the embedded broker has no authentication, so it listens on a loopback address only", address)
	}
	var err error
	if l.port, err = net.Listen("tcp", address); err != nil {
		return nil, err
	}
	go l.acceptPort()
	return l, nil
}

// IsLoopback reports whether an address is host:port, on the loopback interface: localhost, ::1, or an address from 127.0.0.0/8.
func IsLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// acceptPort accepts connections on the port until it is closed.
func (l *listener) acceptPort() {
	for {
		conn, err := l.port.Accept()
		if err != nil {
			_ = l.close()
			return
		}
		select {
		case l.taken <- conn:
		case <-l.ended:
			conn.Close()
			return
		}
	}
}

// address returns the address of the port, or a placeholder for the pipe, which clients need but must not dial.
func (l *listener) address() net.Addr {
	if l.port == nil {
		return pipeAddress{}
	}
	return l.port.Addr()
}

// acceptor is the listener of one broker instance, from its start to its end.
type acceptor struct {
	*listener
	done chan struct{} // closed by end
	end  func()
}

func (l *listener) acceptor() *acceptor {
	done := make(chan struct{})
	return &acceptor{l, done, sync.OnceFunc(func() { close(done) })}
}

// Accept returns the next connection of either kind.
func (a *acceptor) Accept() (net.Conn, error) {
	select {
	case conn := <-a.taken:
		return conn, nil
	case <-a.done:
	case <-a.ended:
	}
	return nil, net.ErrClosed
}

// Close ends Accept. The port stays open, for the next broker.
func (a *acceptor) Close() error {
	a.end()
	return nil
}

// Addr is the address that the broker advertises to clients.
func (a *acceptor) Addr() net.Addr { return a.address() }

// pipeAddress is the advertised address of a broker without a port. Names under .invalid do not resolve (RFC 2606).
type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "embedded.invalid:9092" }

// pipe opens a connection from this process to the broker.
func (l *listener) pipe(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.taken <- l.newEnd(there):
		return l.newEnd(here), nil
	case <-l.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) newEnd(pipe net.Conn) net.Conn {
	return &end{pipe, l.address(), bufio.NewReaderSize(pipe, pipeBytes)}
}

// pipeBytes is the read size of a pipe end. A write to a pipe waits for its reader, and kafka-go reads only 4 KB at a
// time.
const pipeBytes = 64 << 10

// end is one end of a pipe.
type end struct {
	net.Conn
	address net.Addr // the broker's: callers need a non-empty address
	read    *bufio.Reader
}

func (e *end) Read(p []byte) (int, error) { return e.read.Read(p) }
func (e *end) LocalAddr() net.Addr        { return e.address }
func (e *end) RemoteAddr() net.Addr       { return e.address }
