package endpoint

import (
	"context"
	"github.com/stagewise/stagewise/internal/assert"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// kept is a connection that records whether it was closed.
type kept struct {
	net.Conn
	closed bool
}

func (k *kept) Close() error { k.closed = true; return nil }

// Beyond the limit, the connection closed is the one that has been idle for longest, then the one whose request has taken
// longest; connections with an authorized request come last, and the new one stays.
func TestLimitConnections(t *testing.T) {
	const most = 6
	server := &http.Server{}
	s := LimitConnections(server, most)
	var all []*kept
	open := func() *kept {
		c := &kept{}
		all = append(all, c)
		server.ConnState(c, http.StateNew)
		return c
	}
	request := func(c *kept, authorized bool) (answered func()) {
		return s.Begin(httptest.NewRequestWithContext(server.ConnContext(context.Background(), c), "GET", "/", nil), authorized)
	}
	trusted, trustedBusy, probed, silent, busy, busier := open(), open(), open(), open(), open(), open()
	names := map[*kept]string{trusted: "trusted", trustedBusy: "trusted, busy", probed: "probed", silent: "silent", busy: "busy", busier: "busier"}
	request(trusted, true)()
	request(trusted, false)() // it stays authorized
	request(busy, false)
	request(trustedBusy, true)
	request(busier, false)
	request(busier, false)() // one of two streams
	request(probed, false)()
	var order []string
	for range 12 {
		c := open()
		for _, other := range all {
			if other.closed && names[other] != "" {
				order = append(order, names[other])
				names[other] = ""
			}
		}
		assert.Need(t, !c.closed, "the new connection is closed after %v", order)
		request(c, true) // so that it is the last to be closed
	}
	assert.Equal(t, order, []string{"silent", "probed", "busy", "busier", "trusted", "trusted, busy"}, "closed")
	for _, c := range all {
		server.ConnState(c, http.StateClosed)
		request(c, true)() // of a connection that is gone
	}
	assert.True(t, len(s.known) == 0, "%d connections are known after all are closed", len(s.known))
}

func TestCheckHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8474": true, "LOCALHOST:1": true, "localhost.": true, "127.0.0.1:8474": true, "127.1.2.3": true, "[::1]:80": true,
		"[::1]": true, "model.localhost:80": true,
		"": false, "example.org": false, "127.0.0.1.example.org": false, "localhost.example.org:80": false, "10.0.0.1:80": false, "0.0.0.0": false,
		"notlocalhost": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		assert.True(t, (CheckHost(r) == nil) == want, "%q: %v", host, CheckHost(r))
	}
}
