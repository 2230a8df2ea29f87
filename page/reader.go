// Package page is what people look at in a browser:
//
//	plans, weights, statistics, versions, quarantine ──Read──▶ State ──▶ Board ──▶ Server ──▶ a live page of a pipeline
//	plans and reports of runs ──WritePage──▶ a file; [Differences] and [Measures] are the rows of its tables
//
// It only reads: it writes no message, joins no group, and commits no offset. So it works beside any number of
// processes, or in one of them, and may be started and stopped at any time.
package page

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// Options configure a reader.
type Options struct {
	Name     string        // of the pipeline
	Examples string        // the topic with the examples; empty: the pipeline's own
	Source   string        // the topic whose messages become examples; empty: there is none
	Brokers  string        // description of their addresses, for the page
	Values   bool          // reasons for unusable messages include values of rows
	Every    time.Duration // interval between polls of topics and groups; 0: 2 s
}

// drawn is the minimum time between two states. People don't see faster changes, and a browser draws a state in less time.
const drawn = 400 * time.Millisecond

// Bounds of the state, for any content of the topics.
const (
	maxVersions = 2000 // the newest
	maxQueue    = 10   // runs that wait
	maxMissing  = 20   // partitions that are named
	maxRates    = 60   // polls whose rates are kept, for each topic
	maxKept     = 1000 // messages in quarantine whose reasons are counted, the newest
	maxBad      = 40   // of them, those that are listed
	maxReasons  = 20   // the most frequent
	maxPlaces   = 2000 // visits with published parts
	maxMatrix   = 30   // classes of a confusion matrix that is shown whole
	maxPairs    = 30   // pairs of classes that are confused most
)

// The parts of a reader. Each runs in a goroutine of its own.
const (
	partRuns = iota
	partVersions
	partTopics
	partStaff
	parts
)

// reader has the state of a pipeline. Several goroutines read topics, and take the mutex to change fields.
type reader struct {
	options Options
	log     *kafkalog.Log
	client  *protocol.Client
	clock   func() time.Time
	source  sourceTopic
	changed chan struct{} // has room for one value

	mutex      sync.Mutex
	absent     bool            // the pipeline has no topics
	errors     [parts]error    // of each part, since its last success
	heard      time.Time       // time of the brokers' last answer about the ends of topics
	now        *followed       // the current run, or else the last one; nil: none is known
	queue      []string        // the runs that wait behind it
	places     []schemas.Place // of the versions, by number
	offered    string          // runs of the version with the highest number that is offered, and of the one that is pinned
	pinned     string
	catalogue  map[string]*described // by run
	topics     []polled              // in the order of the flow
	bad        int64                 // number of messages that arrived in quarantine within the time fresh
	staff      Staff
	polled     bool                 // staff is known
	last       map[string]time.Time // of each role: when a process of it was last seen
	quarantine quarantine
}

func newReader(log *kafkalog.Log, o Options) *reader {
	o.Every = cmp.Or(o.Every, 2*time.Second)
	r := &reader{
		options: o, log: log, client: protocol.NewClient(log, o.Name, nil), clock: time.Now, heard: time.Now(),
		catalogue: map[string]*described{}, last: map[string]time.Time{}, changed: make(chan struct{}, 1), staff: Staff{Hidden: []string{}},
	}
	r.client.Topics.Examples = cmp.Or(o.Examples, r.client.Topics.Examples)
	return r
}

// Read reads the topics of a pipeline, and puts their state on a board, until ctx ends. It retries after errors of brokers, which are on
// the board too.
func Read(ctx context.Context, log *kafkalog.Log, o Options, board *Board) {
	r := newReader(log, o)
	var all sync.WaitGroup
	for part, do := range [parts]func(context.Context) error{r.followRuns, r.describeVersions, r.pollTopics, r.pollStaff} {
		all.Go(func() { r.repeat(ctx, part, do) })
	}
	defer all.Wait()
	for {
		board.Put(r.state())
		select {
		case <-r.changed:
		case <-time.After(r.options.Every): // ages change without a message
		case <-ctx.Done():
			return
		}
		if protocol.Pause(ctx, drawn) != nil {
			return
		}
	}
}

// repeat calls a part of the reader until ctx ends. A part returns after an error, or to be called again after a while.
func (r *reader) repeat(ctx context.Context, part int, do func(context.Context) error) {
	for wait := r.options.Every; ; {
		exists, err := r.log.Exists(ctx, r.client.Topics.Plans)
		if err == nil && exists {
			err = do(ctx)
		}
		denied := errors.As(err, new(*kafkalog.AccessError)) // the brokers have answered
		r.change(func() {
			r.errors[part] = err
			if r.absent = err == nil && !exists; r.absent || denied {
				r.heard = r.clock()
			}
		})
		if wait = min(2*wait, time.Minute); err == nil || denied {
			wait = r.options.Every
		}
		if protocol.Pause(ctx, wait) != nil {
			return
		}
	}
}

// change calls do with the mutex held, and schedules an update of the board.
func (r *reader) change(do func()) {
	r.mutex.Lock()
	do()
	r.mutex.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// state returns the current state of the page.
func (r *reader) state() *State {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s := &State{Quarantine: r.quarantine.state(r.topic(aboutQuarantine).Held)}
	if r.now != nil {
		s.Run = r.now.state()
		s.Run.Queue, s.Run.Queued = append([]string{}, r.queue[:min(len(r.queue), maxQueue)]...), len(r.queue)
		if at := r.at(s.Run.ID); at >= 0 {
			s.Run.Version = r.places[at].Version
		}
	}
	s.Versions, s.Quality = r.versions()
	s.Topics, s.Staff = r.lags(s.Run), r.working(s.Run)
	r.waits(s)
	s.Summary = r.summary(s)
	return s
}
