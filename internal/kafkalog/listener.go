package kafkalog

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// listener accepts the connections of the embedded broker: from this process through a pipe in memory, and from other programs
// through a port, if one was asked for. A pipe copies a message once; a socket copies it twice, with system calls.
type listener struct {
	port     net.Listener  // nil: no other program can connect
	accepted chan net.Conn // from the port and from pipe
	ended    chan struct{} // closed by close
	close    func() error  // ends Accept and closes the port, once
}

// listen opens a port at the address, or none if the address is empty.
func listen(address string) (*listener, error) {
	l := &listener{accepted: make(chan net.Conn), ended: make(chan struct{})}
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
		case l.accepted <- conn:
		case <-l.ended:
			conn.Close()
			return
		}
	}
}

// Accept returns the next connection of either kind.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close closes the port. Established connections stay.
func (l *listener) Close() error { return l.close() }

// Addr returns the address of the port, or a name for the pipe, which clients need but must not dial.
func (l *listener) Addr() net.Addr {
	if l.port == nil {
		return pipeAddress{}
	}
	return l.port.Addr()
}

// pipeAddress is where the broker says that it is if it has no port. Names under .invalid resolve nowhere (RFC 2606).
type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "embedded.invalid:9092" }

// pipe connects this process with the broker.
func (l *listener) pipe(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.accepted <- l.newEnd(there):
		return l.newEnd(here), nil
	case <-l.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) newEnd(pipe net.Conn) net.Conn {
	return &end{pipe, l.Addr(), bufio.NewReaderSize(pipe, pipeBytes)}
}

// pipeBytes is how much an end of a pipe reads at once. A write to a pipe waits for its reader, and kafka-go reads only 4 KB at
// a time.
const pipeBytes = 64 << 10

// end is one end of a pipe.
type end struct {
	net.Conn
	address net.Addr // the broker's: callers need an address that is not empty
	read    *bufio.Reader
}

func (e *end) Read(p []byte) (int, error) { return e.read.Read(p) }
func (e *end) LocalAddr() net.Addr        { return e.address }
func (e *end) RemoteAddr() net.Addr       { return e.address }
