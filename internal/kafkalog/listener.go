package kafkalog

import (
	"bufio"
	"context"
	"net"
)

// listener accepts the connections of the embedded broker: from other processes through a port of the loopback interface, and
// from this process through a pipe in memory. A pipe copies a message once; a socket copies it twice, with system calls.
type listener struct {
	net.Listener               // on the port
	accepted     chan net.Conn // from the port and from pipe
	ended        chan struct{} // closed with the port
	err          error         // why the port closed; set before ended is closed
}

func newListener(port net.Listener) *listener {
	l := &listener{Listener: port, accepted: make(chan net.Conn), ended: make(chan struct{})}
	go l.acceptPort()
	return l
}

// acceptPort accepts connections on the port until it is closed.
func (l *listener) acceptPort() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.err = err
			close(l.ended)
			return
		}
		l.accepted <- conn
	}
}

// Accept returns the next connection of either kind.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ended:
		return nil, l.err
	}
}

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
	address net.Addr // the port's: callers need an address that is not empty
	read    *bufio.Reader
}

func (e *end) Read(p []byte) (int, error) { return e.read.Read(p) }
func (e *end) LocalAddr() net.Addr        { return e.address }
func (e *end) RemoteAddr() net.Addr       { return e.address }
