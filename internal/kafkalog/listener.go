package kafkalog

import (
	"bufio"
	"context"
	"net"
)

// listener is where the embedded broker is reached: at a port of the loopback interface by other processes, and through a pipe
// in memory by the one that it is in, which copies a message once where a socket does twice and with system calls.
type listener struct {
	net.Listener // of the port
	met          chan net.Conn
	ended        chan struct{} // closed with the port
	err          error         // why, once it has ended
}

func newListener(port net.Listener) *listener {
	l := &listener{Listener: port, met: make(chan net.Conn), ended: make(chan struct{})}
	go l.others()
	return l
}

// others takes who comes by the port, until that is closed.
func (l *listener) others() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.err = err
			close(l.ended)
			return
		}
		l.met <- conn
	}
}

// Accept returns the next connection of either kind.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.met:
		return conn, nil
	case <-l.ended:
		return nil, l.err
	}
}

// pipe connects this process.
func (l *listener) pipe(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.met <- l.end(there):
		return l.end(here), nil
	case <-l.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) end(pipe net.Conn) net.Conn {
	return &end{pipe, l.Addr(), bufio.NewReaderSize(pipe, pipeBytes)}
}

// pipeBytes is how much an end reads at once: who writes waits until it is read, and kafka-go reads 4 KB at a time.
const pipeBytes = 64 << 10

// end of a pipe.
type end struct {
	net.Conn
	address net.Addr // one that can be told apart from none
	read    *bufio.Reader
}

func (e *end) Read(p []byte) (int, error) { return e.read.Read(p) }
func (e *end) LocalAddr() net.Addr        { return e.address }
func (e *end) RemoteAddr() net.Addr       { return e.address }
