// Package event reports the events of a run to recorders:
//
//	pipeline, worker, solver ──Event──▶ Recorder: progress bar, logs, metrics, tests
//
// Numeric code records no events; its callers do.
package event

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Recorder receives events as they happen, from one goroutine at a time, and must not block. The progress bar, the logs, the metrics and
// the tests are recorders. A nil recorder ignores everything.
type Recorder func(Event)

// Record passes an event to the recorder.
func (r Recorder) Record(e Event) {
	if r != nil {
		r(e)
	}
}

// Notice records a message for the operator. It does not format the text for a nil recorder: reading a chain skips many
// messages, for which formatting would be too expensive.
func Notice(rec Recorder, format string, values ...any) {
	if rec != nil {
		rec(Noticed{fmt.Sprintf(format, values...)})
	}
}

// Skip records that a message of a topic is skipped, with the reason.
func Skip(rec Recorder, topic string, err error) {
	Notice(rec, "skipping a message of the %s topic: %v", topic, err)
}

// Serialised returns a recorder that is safe for concurrent use.
func Serialised(to Recorder) Recorder {
	if to == nil {
		return nil
	}
	var mutex sync.Mutex
	return func(e Event) {
		mutex.Lock()
		defer mutex.Unlock()
		to(e)
	}
}

// Gathered is a recorder that passes events on, but limits those of unusable messages to one per minute and partition: the first at once,
// and then the newest of the messages since, with their number.
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

// gathered is the time of the last event that was passed on for a partition, and the messages since.
type gathered struct {
	at   time.Time
	left Quarantined // Messages is 0 if all are passed on
}

// NewGathered returns a recorder that passes events on to another one.
func NewGathered(to Recorder, now func() time.Time) *Gathered {
	return &Gathered{to: to, now: now, last: map[place]*gathered{}}
}

// Record passes an event on, and the gathered messages that are due.
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

// Finish passes on the remaining messages.
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
