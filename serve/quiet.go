package serve

import (
	"cmp"
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// quiet bounds how many connections there are. Beyond that it closes the one that has waited longest without a whole
// request: first of those that never had one, and then of those that were answered. So who only holds connections, or
// sends a request without an end, keeps nobody out.
type quiet struct {
	most int

	mutex    sync.Mutex
	known    map[net.Conn]*connection
	silent   list.List // of the net.Conn that never had a whole request, the longest first
	answered list.List // of the others that wait for the next request, the longest first
}

// connection is a connection that is open.
type connection struct {
	list   *list.List    // silent or answered
	place  *list.Element // in the list; nil: it has a whole request
	answer int           // whole requests that are not answered yet: HTTP/2 may have several
}

func newQuiet(most int) *quiet { return &quiet{most: most, known: map[net.Conn]*connection{}} }

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// context is the server's hook: requests know their connection.
func (q *quiet) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// changed is the server's hook: the state of a connection has changed.
func (q *quiet) changed(c net.Conn, state http.ConnState) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	switch state {
	case http.StateNew:
		q.known[c] = &connection{list: &q.silent, place: q.silent.PushBack(c)}
		if len(q.known) > q.most {
			q.close(cmp.Or(q.silent.Front(), q.answered.Front()))
		}
	case http.StateClosed, http.StateHijacked:
		q.forget(c)
	}
}

// close closes the connection at a place of a list; nil: none, as all connections are about to be answered.
func (q *quiet) close(place *list.Element) {
	if place == nil {
		return
	}
	c := place.Value.(net.Conn)
	q.forget(c)
	_ = c.Close() // who waits for it is told
}

func (q *quiet) forget(c net.Conn) {
	if known := q.known[c]; known != nil {
		if known.place != nil {
			known.list.Remove(known.place)
		}
		delete(q.known, c)
	}
}

// begin notes that a request has come whole. The caller calls the function that it returns when the request is answered.
func (q *quiet) begin(r *http.Request) (answered func()) {
	c, _ := r.Context().Value(connectionKey{}).(net.Conn)
	q.mutex.Lock()
	defer q.mutex.Unlock()
	known := q.known[c]
	if known == nil { // it was closed, or there is no connection
		return func() {}
	}
	if known.answer++; known.place != nil {
		known.list.Remove(known.place)
		known.place = nil
	}
	return func() {
		q.mutex.Lock()
		defer q.mutex.Unlock()
		if known.answer--; known.answer == 0 && q.known[c] == known {
			known.list = &q.answered
			known.place = known.list.PushBack(c)
		}
	}
}
