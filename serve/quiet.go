package serve

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// quiet bounds how many connections there are. Beyond that it closes the one that has waited longest since it was opened or was answered last,
// without a whole request. So who only holds connections, or sends a request without an end, keeps nobody out.
type quiet struct {
	most int

	mutex   sync.Mutex
	known   map[net.Conn]*connection
	waiting list.List // of the net.Conn without a whole request, the longest first
}

// connection is a connection that is open.
type connection struct {
	place  *list.Element // in waiting; nil: it has a whole request
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
		q.known[c] = &connection{place: q.waiting.PushBack(c)}
		if len(q.known) > q.most && q.waiting.Len() > 0 {
			longest := q.waiting.Front().Value.(net.Conn)
			q.forget(longest)
			_ = longest.Close() // who waits for it is told
		}
	case http.StateClosed, http.StateHijacked:
		q.forget(c)
	}
}

func (q *quiet) forget(c net.Conn) {
	if known := q.known[c]; known != nil {
		if known.place != nil {
			q.waiting.Remove(known.place)
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
		q.waiting.Remove(known.place)
		known.place = nil
	}
	return func() {
		q.mutex.Lock()
		defer q.mutex.Unlock()
		if known.answer--; known.answer == 0 && q.known[c] == known {
			known.place = q.waiting.PushBack(c)
		}
	}
}
