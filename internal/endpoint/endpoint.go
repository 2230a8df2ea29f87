// Package endpoint protects the HTTP servers of the program from their clients: it limits connections, and rejects requests
// for other machines.
package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Connections limits the number of connections of a server. Beyond the limit it closes one to make room for the new one: the
// one that has been idle for longest, or else whose request has taken longest. Connections with an authorized request are
// closed last. So clients that hold connections lock out nobody, least of all probes. Create it with [LimitConnections].
type Connections struct {
	most int

	mutex   sync.Mutex
	known   map[net.Conn]*connection
	changes int64 // number of changes of all connections
}

// connection is an open connection. A new one is idle until it has sent a complete request.
type connection struct {
	net.Conn
	authorized bool
	requests   int   // complete requests in progress: HTTP/2 may have several
	changed    int64 // number of its last change: lower ones came before
}

// compare orders connections as they are closed: idle ones first, authorized ones last.
func (c *connection) compare(o *connection) int {
	number := func(c *connection) (n int) {
		if c.authorized {
			n = 2
		}
		return n + min(c.requests, 1)
	}
	return cmp.Or(number(c)-number(o), cmp.Compare(c.changed, o.changed))
}

// connectionKey is the context key of a request's connection.
type connectionKey struct{}

// LimitConnections limits the connections of a server, which does not serve yet.
func LimitConnections(server *http.Server, most int) *Connections {
	s := &Connections{most: most, known: map[net.Conn]*connection{}}
	server.ConnState = s.changed
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return s
}

// changed is the server's ConnState hook.
func (s *Connections) changed(conn net.Conn, state http.ConnState) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch state {
	case http.StateNew:
		if len(s.known) >= s.most {
			first := slices.MinFunc(slices.Collect(maps.Values(s.known)), (*connection).compare)
			delete(s.known, first.Conn)
			_ = first.Close() // clients notice
		}
		s.known[conn] = &connection{Conn: conn}
		s.note(s.known[conn])
	case http.StateClosed, http.StateHijacked:
		delete(s.known, conn)
	}
}

// note notes a change of a connection.
func (s *Connections) note(c *connection) {
	s.changes++
	c.changed = s.changes
}

// Begin records a complete request. The caller calls the returned function when it is answered. authorized reports whether
// the request has shown that its client may send it.
func (s *Connections) Begin(r *http.Request, authorized bool) (answered func()) {
	conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c := s.known[conn]
	if c == nil { // it was closed, or there is no connection
		return func() {}
	}
	c.authorized = c.authorized || authorized
	c.requests++
	s.note(c)
	return func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.known[conn] == c {
			c.requests--
			s.note(c)
		}
	}
}

// CheckHost returns an error unless a request is addressed to this machine, as all requests of honest clients to a loopback
// address are. A browser on this machine may send others: a page can give its own name the address of this machine (DNS
// rebinding), and could then read the answers.
func CheckHost(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback() {
		return nil
	}
	return fmt.Errorf("%.80q is not a name of this machine: ask for localhost", r.Host)
}

// IsLocal reports whether only this machine can reach a listener.
func IsLocal(listener net.Listener) bool {
	address, ok := listener.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}
