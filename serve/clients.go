package serve

import (
	"sync"
	"time"
)

// clients are the clients of requests and answers that hold memory of a budget. If it is short, the one that has sent or
// read nothing for the longest time is aborted.
type clients struct {
	mutex sync.Mutex
	all   map[*peer]bool
}

// peer is a client that sends a body or reads an answer.
type peer struct {
	of    *clients
	abort func()    // ends the current wait
	since time.Time // start of the current wait for the client; zero: none
}

// past is a deadline that ends a wait.
var past = time.Unix(1, 0)

func (c *clients) begin(abort func()) *peer {
	one := &peer{of: c, abort: abort}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.all == nil {
		c.all = map[*peer]bool{}
	}
	c.all[one] = true
	return one
}

// end removes the client, if any.
func (c *peer) end() {
	if c == nil {
		return
	}
	c.of.mutex.Lock()
	defer c.of.mutex.Unlock()
	delete(c.of.all, c)
}

// waits calls do, which waits for the client.
func (c *peer) waits(do func()) {
	c.set(time.Now())
	defer c.set(time.Time{})
	do()
}

func (c *peer) set(since time.Time) {
	c.of.mutex.Lock()
	defer c.of.mutex.Unlock()
	c.since = since
}

// clientPatience is the time for which a client may send or read nothing before it is aborted if memory is needed.
const clientPatience = time.Second

// cut aborts the client that has sent or read nothing for the longest time, if that exceeds clientPatience.
func (c *clients) cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var slowest *peer
	for one := range c.all {
		if !one.since.IsZero() && time.Since(one.since) >= clientPatience && (slowest == nil || one.since.Before(slowest.since)) {
			slowest = one
		}
	}
	if slowest != nil {
		delete(c.all, slowest)
		slowest.abort() // otherwise it ends with its timeout
	}
}
