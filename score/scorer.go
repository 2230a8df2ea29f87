// Package score predicts for a topic: messages of examples → predictions, by the newest version of a pipeline.
//
// Predictions are written to the partition with the same number, in the order of the offsets. The topic
// of the predictions alone holds the position: see [schemas.Scored]. A process that ends, or loses its
// partitions, holds no state that others need, and duplicate predictions of two processes for the same rows count
// once. [Read] skips the duplicates.
package score

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// Versions provides the model that predicts. A follower of versions and [Fixed] are Versions.
type Versions interface {
	// Model returns the model; nil if there is none, as before the first version, or after the last one was removed.
	Model() *model.Model
	// Changed returns a channel that is closed when Model changes next.
	Changed() <-chan struct{}
}

// Fixed returns Versions that always have the same model.
func Fixed(m *model.Model) Versions { return fixed{m} }

type fixed struct{ model *model.Model }

func (f fixed) Model() *model.Model      { return f.model }
func (f fixed) Changed() <-chan struct{} { return nil }

// Options say what a scorer reads and writes.
type Options struct {
	From, To string // topics: of examples, and of their predictions, with as many partitions or more
	// UntilEnd stops when all messages that the topic has when scoring begins have predictions by any process.
	UntilEnd bool
	// Forgotten returns the forgotten rows of From: a message with one gets no predictions. nil means that no row is forgotten.
	Forgotten func(context.Context) (coverage.Forgotten, error)
	// Contributions is the number of columns, those with the largest contributions to each score, that predictions list; 0 means none.
	Contributions int
}

// Run predicts for the partitions that owner owns, until ctx ends, or with UntilEnd until the end. Without UntilEnd it returns an
// *[AddedError] when the topic has more partitions than when scoring began: the caller calls Run again for all of them. Without a version,
// messages wait.
func Run(ctx context.Context, client *protocol.Client, o Options, versions Versions, owner protocol.Owner, rec event.Recorder) error {
	bounds, err := client.Log.Spans(ctx, o.From)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.From, err)
	}
	partitions, err := client.Log.Partitions(ctx, o.To)
	if err != nil {
		return fmt.Errorf("write to %s: %w", o.To, err)
	}
	if partitions < len(bounds) {
		return fmt.Errorf("%s has %d partitions, %s has %d: add partitions to %[1]s, or delete it", o.To, partitions, o.From, len(bounds))
	}
	s := &scorer{
		Options: o, client: client, versions: versions, owner: owner, rec: event.Serialised(rec), bounds: bounds,
		cores: make(chan struct{}, runtime.GOMAXPROCS(0)), room: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
	if err := s.look(ctx, nil); err != nil {
		return err
	}
	return s.share(ctx)
}

// AddedError means that partitions were added to the topic of the examples since scoring began.
type AddedError struct {
	From      string // the topic
	Have, Had int    // numbers of partitions, now and when scoring began
}

// Error says what to do.
func (e *AddedError) Error() string {
	return fmt.Sprintf("%s has %d partitions, but had %d when scoring began: restart score", e.From, e.Have, e.Had)
}

// scorer is a process that predicts.
type scorer struct {
	Options
	client   *protocol.Client
	versions Versions
	owner    protocol.Owner
	rec      event.Recorder
	bounds   []coverage.Span // of the topic, when scoring began
	cores    chan struct{}   // one element per message being predicted
	room     chan struct{}   // one element per partition whose messages are being predicted
	// forgotten is the forgotten rows of the topic, updated every second.
	forgotten atomic.Pointer[coverage.Forgotten]
	// unexplained is the last version whose lack of contributions was reported.
	unexplained atomic.Int64
}

// lookAgain is the interval at which a process checks the topic and, once it has finished, the progress of the other processes.
const lookAgain = time.Second

// share works on the partitions that this process owns, each in a goroutine, as they come and go.
func (s *scorer) share(ctx context.Context) error {
	all, stopAll := context.WithCancel(ctx)
	busy, finished := map[int]*partition{}, map[int]bool{}
	ends := make(chan *partition)
	defer func() {
		stopAll()
		for range busy {
			<-ends
		}
	}()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		if err := protocol.CheckMembership(s.owner); err != nil {
			return err
		}
		owned := s.owner.Owned()
		for n, p := range busy {
			if !slices.Contains(owned, n) {
				p.stop()
			}
		}
		for _, n := range owned {
			if busy[n] != nil || finished[n] || n >= len(s.bounds) {
				continue
			}
			own, stop := context.WithCancel(all)
			p := &partition{scorer: s, number: n, stop: stop}
			busy[n] = p
			go func() {
				p.err = p.run(own)
				p.stopped = own.Err() != nil
				ends <- p
			}()
		}
		if s.UntilEnd && len(busy) == 0 {
			if all, err := s.allFinished(ctx, finished); all || err != nil {
				return err
			}
		}
		select {
		case <-s.owner.Changed():
		case <-ticker.C:
			if err := s.look(ctx, busy); err != nil {
				return err
			}
		case p := <-ends:
			p.stop()
			delete(busy, p.number)
			switch {
			case p.err == nil:
				finished[p.number] = true
			case p.stopped && ctx.Err() == nil: // its owner continues, or gets the same error
			default:
				return p.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look reads the forgotten rows, and records the lag of each partition that is worked on. Without UntilEnd it returns
// an *[AddedError] if partitions were added.
func (s *scorer) look(ctx context.Context, busy map[int]*partition) error {
	var rows coverage.Forgotten
	spans, err := s.client.Log.Spans(ctx, s.From)
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", s.From, err)
	case len(spans) > len(s.bounds) && !s.UntilEnd:
		return &AddedError{s.From, len(spans), len(s.bounds)}
	}
	if s.Options.Forgotten != nil {
		if rows, err = s.Options.Forgotten(ctx); err != nil {
			return fmt.Errorf("read the forgotten rows: %w", err)
		}
	}
	s.forgotten.Store(&rows)
	lag := event.ScoringLag{Offsets: map[int]int64{}}
	for n, p := range busy {
		if reached := p.reached.Load(); reached != nil && n < len(spans) {
			lag.Offsets[n] = max(0, spans[n].To-max(spans[n].From, *reached))
		}
	}
	s.rec.Record(lag)
	return nil
}

// allFinished reports whether all partitions have predictions up to their ends when scoring began.
func (s *scorer) allFinished(ctx context.Context, finished map[int]bool) (bool, error) {
	for n := range s.bounds {
		if finished[n] {
			continue
		}
		state, err := (&partition{scorer: s, number: n}).find(ctx)
		if err != nil {
			return false, err
		}
		for _, err := range s.client.Remaining(ctx, s.From, n, state.Next, s.bounds[n].To) {
			return false, err
		}
		finished[n] = true
	}
	return true, nil
}

// Read returns the predictions of a partition that count, in the order of their messages. Arrow allocates from mem. nil means Go's
// allocator.
func Read(ctx context.Context, log protocol.Log, topic string, partition int, mem memory.Allocator) iter.Seq2[*schemas.Prediction, error] {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return func(yield func(*schemas.Prediction, error) bool) {
		first, end, err := log.Bounds(ctx, topic, partition)
		if err != nil {
			yield(nil, err)
			return
		}
		var state schemas.Scored
		begun := false
		client := &protocol.Client{Log: log}
		for m, err := range client.Between(ctx, topic, partition, first, end) {
			if err != nil {
				yield(nil, err)
				return
			}
			p, err := schemas.DecodePrediction(m.Message, mem)
			if err != nil { // another program wrote it
				continue
			}
			if !begun { // what came before may have expired
				begun, state = true, p.Begins()
			}
			if state.Count(p) && !yield(p, nil) {
				return
			}
		}
	}
}
