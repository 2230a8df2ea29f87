package serve

import (
	"cmp"
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// quiet limits the number of connections. Beyond the limit it closes the oldest idle connection: first of those that have
// never sent a complete request, then of those whose requests were answered. So clients that only hold connections, or
// send endless requests, lock out nobody.
type quiet struct {
	most int

	mutex    sync.Mutex
	known    map[net.Conn]*connection
	silent   list.List // the net.Conn without any complete request, oldest first
	answered list.List // the others that wait for the next request, oldest first
}

// connection is an open connection.
type connection struct {
	list   *list.List    // silent or answered
	place  *list.Element // in the list; nil: it has a complete request
	answer int           // number of complete requests in progress: HTTP/2 may have several
}

func newQuiet(most int) *quiet { return &quiet{most: most, known: map[net.Conn]*connection{}} }

// connectionKey is the context key of a request's connection.
type connectionKey struct{}

// context is the server's ConnContext hook.
func (q *quiet) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// changed is the server's ConnState hook.
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

// close closes the connection at an element of a list; nil: none, because all connections have requests in progress.
func (q *quiet) close(place *list.Element) {
	if place == nil {
		return
	}
	c := place.Value.(net.Conn)
	q.forget(c)
	_ = c.Close() // clients notice
}

func (q *quiet) forget(c net.Conn) {
	if known := q.known[c]; known != nil {
		if known.place != nil {
			known.list.Remove(known.place)
		}
		delete(q.known, c)
	}
}

// begin records a complete request. The caller calls the returned function when the request is answered.
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
