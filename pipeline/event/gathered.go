package event

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Gathered is a recorder that passes events on, of unusable messages one a minute and partition: the first at once, and then the newest of
// those that have come since, with their number.
type Gathered struct {
	to    Recorder
	now   func() time.Time
	mutex sync.Mutex
	last  map[place]*gathered
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int
}

// gathered is what was passed on of a partition, and what was not.
type gathered struct {
	at   time.Time
	left Quarantined // Messages is 0 if all is passed on
}

// NewGathered returns a recorder that passes events on to another one.
func NewGathered(to Recorder, now func() time.Time) *Gathered {
	return &Gathered{to: to, now: now, last: map[place]*gathered{}}
}

// Record passes an event on, and what is due.
func (g *Gathered) Record(e Event) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := g.now()
	if q, bad := e.(Quarantined); bad {
		of := g.last[place{q.Topic, q.Partition}]
		if of == nil {
			of = &gathered{}
			g.last[place{q.Topic, q.Partition}] = of
		}
		q.Messages = of.left.Messages + max(q.Messages, 1)
		of.left = q
	}
	g.pass(func(of *gathered) bool { return now.Sub(of.at) >= time.Minute })
	if _, bad := e.(Quarantined); !bad {
		g.to.Record(e)
	}
}

// Finish passes on what is left.
func (g *Gathered) Finish() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.pass(func(*gathered) bool { return true })
}

// pass passes on the messages of the partitions that are due.
func (g *Gathered) pass(due func(*gathered) bool) {
	order := func(a, b place) int { return cmp.Or(cmp.Compare(a.topic, b.topic), a.partition-b.partition) }
	for _, p := range slices.SortedFunc(maps.Keys(g.last), order) {
		if of := g.last[p]; of.left.Messages > 0 && due(of) {
			g.to.Record(of.left)
			of.at, of.left = g.now(), Quarantined{}
		}
	}
}
