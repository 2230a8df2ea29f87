package visit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Scan processes the segments of shares:
//
//	reader ──loads──▶ processors ──outcomes──▶ collector ──▶ writes
//
// The reader reads segments in order, ahead of the processors. Each processor computes the outcome of one segment at a time.
// Outcomes are collected in the order of reading, regardless of the order in which they were computed.
type Scan struct {
	*Run
	Shares []*Share
	// Scores reads the scores before the stage, for segments that are not in memory; nil: there are none yet.
	Scores *ResidualsReader
	// Whole means that no segment is in memory, so that the scan can check that every message of the plan's sources exists.
	Whole bool
	// Extent returns the number of leading segments of a share to scan.
	Extent func(*Share) int
	// Processor returns the function with which a goroutine computes outcomes. It is called once for each.
	Processor func() Process
	// Collect is called for each outcome, in order within a share. If it returns a write, that runs while further outcomes are computed,
	// and completes before the scan ends.
	Collect func(*Load, *Outcome) (Write, error)
	// MaxWrites is the maximum number of concurrent writes; 0 means 1. Those of a share run sequentially, in the order of collection.
	MaxWrites int
}

// Process computes the outcome of a segment.
type Process = func(context.Context, *Load) (*Outcome, error)

// Write writes to the log.
type Write = func(context.Context) error

// Executor schedules the work of a worker: in which goroutines, and in which order. Every process uses [Concurrent].
type Executor interface {
	// Run returns when all outcomes of a scan are collected and all writes are done.
	Run(ctx context.Context, s *Scan) error
}

// Load is a segment with the data read for it.
type Load struct {
	Share    *Share
	Index    int // of the segment in its share
	Messages []protocol.Message
	// PassedOver counts the messages that were read and do not count; in a whole scan also missing ones.
	PassedOver coverage.PassedOver
	Skipped    []int64                        // offsets of these messages
	Progress   []statistics.PartitionProgress // of the sources, after the last segment of a partition in a whole scan
	Scores     []kernel.Dense                 // of the messages, if the scan reads scores
	Votes      []kernel.Dense                 // of the messages, if the scan reads scores; empty before a member is finished
}

// Segment returns the segment.
func (l *Load) Segment() *Segment { return l.Share.Segments[l.Index] }

// Loads yields the segments of a share in order, with the data read for those that are not in memory. It calls turn,
// which may wait, before each.
func (s *Scan) Loads(ctx context.Context, p *Share, turn func() error) iter.Seq2[*Load, error] {
	return func(yield func(*Load, error) bool) {
		r := &reader{Scan: s, share: p}
		defer r.close()
		for i := range s.Extent(p) {
			l := &Load{Share: p, Index: i}
			err := turn()
			if err == nil {
				err = r.read(ctx, l)
			}
			if err == nil && s.Whole && l.Segment().Last {
				var missing coverage.PassedOver
				missing, err = r.replay.Complete()
				l.PassedOver.Add(missing)
				l.Progress = r.replay.Progress()
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// Concurrent is the executor that uses all cores, reads ahead, and writes while it computes further outcomes. It is safe
// for concurrent use.
type Concurrent struct {
	readAhead int64 // read-ahead in bytes, besides one segment; 0: defaultReadAhead
}

// defaultReadAhead is sufficient for 64 segments of 16 messages, each of the brokers' default maximum size. Topics may
// allow far larger messages, whose number it limits.
const defaultReadAhead = 1 << 30

// Run executes a scan.
func (c Concurrent) Run(ctx context.Context, s *Scan) error {
	writing, ctx := errgroup.WithContext(ctx)
	writing.SetLimit(max(s.MaxWrites, 1))
	last := map[*Share]chan struct{}{} // closed after the last write of a share
	err := c.compute(ctx, s, func(of *Share, write Write) {
		before, done := last[of], make(chan struct{})
		last[of] = done
		writing.Go(func() error {
			defer close(done)
			if before != nil {
				<-before
			}
			return write(ctx)
		})
	})
	if unwritten := writing.Wait(); unwritten != nil {
		return unwritten // a failed write cancels the scan, and err only reports the cancellation
	}
	return err
}

// place is the place of a segment in the order of reading.
type place struct {
	*Load
	bytes   int64 // read ahead, until the outcome is collected
	outcome chan *Outcome
}

// compute returns when all outcomes are collected. It starts writes with background; they may still be running.
func (c Concurrent) compute(ctx context.Context, s *Scan, background func(*Share, Write)) error {
	group, ctx := errgroup.WithContext(ctx)
	processors := runtime.GOMAXPROCS(0)
	readAhead := cmp.Or(c.readAhead, defaultReadAhead)
	ahead := semaphore.NewWeighted(readAhead) // bytes
	// A segment takes a place before it is read, which limits the number of outcomes that wait for an earlier one. The first segment that is
	// not collected always has one.
	places, loaded := make(chan *place, 2*processors-1), make(chan *place)
	group.Go(func() error {
		defer close(places)
		defer close(loaded)
		return s.read(ctx, places, func(p *place) error {
			for _, m := range p.Messages {
				p.bytes += int64(len(m.Value))
			}
			p.bytes = min(p.bytes, readAhead)
			if err := ahead.Acquire(ctx, p.bytes); err != nil {
				return err
			}
			return send(ctx, loaded, p)
		})
	})
	for range processors {
		process := s.Processor()
		group.Go(func() error {
			for p := range loaded {
				outcome, err := process(ctx, p.Load)
				if err != nil {
					return err
				}
				p.outcome <- outcome
			}
			return nil
		})
	}
	group.Go(func() error {
		for p := range places {
			select {
			case outcome := <-p.outcome:
				write, err := s.Collect(p.Load, outcome)
				if err != nil {
					return err
				}
				if write != nil {
					background(p.Share, write)
				}
				ahead.Release(p.bytes)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return group.Wait()
}

// read reads the segments share by share, each when it has a place. So few shares have sums in memory, and the sums of a share are
// written while the next share is computed.
func (s *Scan) read(ctx context.Context, places chan<- *place, loaded func(*place) error) error {
	var next *place
	take := func() error {
		next = &place{outcome: make(chan *Outcome, 1)}
		return send(ctx, places, next)
	}
	for _, share := range s.Shares {
		for l, err := range s.Loads(ctx, share, take) {
			if err == nil {
				next.Load = l
				err = loaded(next)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends a value, unless ctx is done first.
func send[T any](ctx context.Context, to chan<- T, value T) error {
	select {
	case to <- value:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Outcome is the result of scanning a segment, or the segments of a share.
type Outcome struct {
	Sum    *accumulate.Sum
	Sample *accumulate.Sample        // of the survey, or for growing trees; nil: none
	Found  *statistics.Findings      // of the survey
	left   map[int]coverage.Coverage // coverage of the rows that leave the window of a chain, by increment
	Events []event.Quarantined       // of the messages of a segment in quarantine

	// Of a segment, when a stage is published:
	Messages []wire.Message // residuals
	Rows     int64          // of these
	Scores   []scored
}

// scored is the scores and votes of a part of an examples message, for the digest of a seal.
type scored struct {
	Offset       int64
	Row          int
	Score, Votes []float32
}

// Outcomes are the outcomes of the shares that are not yet collected completely.
type Outcomes map[*Share]*Outcome

// Add adds the outcome of the next of a number of segments of a share. It returns the outcome of all of them when it is complete, otherwise
// nil.
func (all Outcomes) Add(at *Load, next *Outcome, segments int) (*Outcome, error) {
	whole := all[at.Share]
	if whole == nil {
		next.Sum.Spread()
		whole = &Outcome{Sum: next.Sum, Sample: next.Sample, Found: next.Found, left: next.left}
		all[at.Share] = whole
	} else if err := whole.merge(next); err != nil {
		return nil, err
	}
	if at.Index < segments-1 {
		return nil, nil
	}
	delete(all, at.Share)
	return whole, nil
}

// merge adds the outcome of the next segment.
func (o *Outcome) merge(next *Outcome) error {
	if err := o.Sum.Merge(next.Sum); err != nil {
		return err
	}
	if next.Sample != nil {
		o.Sample.Merge(next.Sample)
	}
	for increment, read := range next.left {
		if err := read.Merge(o.left[increment]); err != nil {
			return err
		}
		if o.left == nil {
			o.left = map[int]coverage.Coverage{}
		}
		o.left[increment] = read
	}
	if next.Found == nil {
		return nil
	}
	return o.Found.Merge(next.Found)
}

// errChanged means that a visit has read other rows than the survey, or than the run that added them to the window.
var errChanged = errors.New("the topic has changed")

// Check returns an error unless the outcome of a number of segments of a share, even a Gram matrix or that of a sample, has the coverage of
// the survey and, for the increments that leave the window, the coverage with which they were added: their sums can't be corrected.
func (o *Outcome) Check(run *Run, p *Share, segments int) error {
	want := p.Covered
	if segments == p.Recent {
		want = p.Surveyed
	}
	if !o.Sum.Coverage.Same(want) {
		return fmt.Errorf("partitions %v: %w: %v, the survey had %v", p.Numbers(), errChanged, extent(o.Sum.Coverage), extent(want))
	}
	if len(o.left) == 0 {
		return nil
	}
	for i := range run.Plan.Update().Leave {
		of := &run.Plan.Update().Leave[i]
		read, any := o.left[i]
		if !any || of.Uncounted {
			continue
		}
		want := coverage.Coverage{}
		for _, part := range p.Parts {
			added, _ := of.On(part.Span.Partition)
			if err := want.Merge(added); err != nil {
				return err
			}
		}
		if read.Spans = want.Spans; !read.Same(want) {
			return fmt.Errorf("partitions %v: %w: %v, run %d of the chain had %v", p.Numbers(), errChanged, extent(read), of.Number, extent(want))
		}
	}
	return nil
}

// extent is a coverage in an error.
type extent coverage.Coverage

// String returns the numbers of rows and messages, and the checksum.
func (e extent) String() string {
	return fmt.Sprintf("%d rows in %d messages (%016x)", e.Rows, e.Messages, e.Checksum)
}

// reader reads the data for the segments of a share, in order.
type reader struct {
	*Scan
	share     *Share
	part      *Part                  // of examples and replay
	examples  *protocol.Ahead        // nil until first needed
	next      int                    // next segment of the part to read
	at        int64                  // offset after the last segment that was read
	replay    *protocol.SpanCounting // of the part; nil until first needed
	residuals *residualsReader       // of a partition; nil until first needed
}

func (r *reader) close() {
	if r.examples != nil {
		r.examples.Stop()
	}
	if r.residuals != nil {
		r.residuals.close()
	}
}

// read reads the data of a load that is not in memory.
func (r *reader) read(ctx context.Context, l *Load) error {
	segment := l.Segment()
	if segment.Batches != nil {
		return nil
	}
	topics := r.Topics
	if segment.Past {
		if err := r.readPast(ctx, l); err != nil {
			return fmt.Errorf("read examples %s%v again: %w", topics.Examples, segment.Span, err)
		}
		return nil // an update computes its scores
	}
	if part := segment.Part; r.part != part {
		r.close()
		r.part, r.next, r.examples, r.residuals, r.replay = part, 0, nil, nil, r.counting.Replay(part.Span)
	}
	// Whether a message is a duplicate depends on all messages before it, so reading starts with the span, even if the first
	// segments are in memory.
	first := l.Index - segment.Index
	for ; r.next <= segment.Index; r.next++ {
		*l = Load{Share: l.Share, Index: l.Index}
		if err := r.readMessages(ctx, l, r.share.Segments[first+r.next].Span); err != nil {
			return fmt.Errorf("read examples %s%v: %w", topics.Examples, segment.Span, err)
		}
	}
	if r.Scores == nil {
		return nil
	}
	if r.residuals == nil {
		r.residuals = r.Scores.reader(ctx, l.Share, segment.Part)
	}
	if err := r.residuals.load(l); err != nil {
		return fmt.Errorf("read residuals %s%v: %w", topics.Residuals, segment.Span, err)
	}
	return nil
}

// readMessages reads the messages of the next segment, with the given span. Those that count become the messages of the
// load. Messages between segments do not belong to the run.
func (r *reader) readMessages(ctx context.Context, l *Load, span coverage.Span) error {
	if r.examples == nil || r.at != span.From {
		if r.examples != nil {
			r.examples.Stop()
		}
		r.examples = protocol.NewAhead(r.Log.Range(ctx, r.Topics.Examples, span.Partition, span.From, r.part.Span.To))
	}
	r.at = span.To
	for {
		next, err := r.examples.Peek()
		if err != nil || next == nil || next.Offset >= span.To {
			return err
		}
		m := r.examples.Take()
		if reason := r.replay.AcceptAt(m.Offset, m.Message); reason != "" {
			l.PassedOver.Count(reason, 1)
			l.Skipped = append(l.Skipped, m.Offset)
			continue
		}
		l.Messages = append(l.Messages, m)
	}
}

// readPast reads the messages of a past segment: those that counted when its increment was added.
func (r *reader) readPast(ctx context.Context, l *Load) error {
	span, increment := l.Segment().Span, r.increment(l.Segment())
	l.Messages = []protocol.Message{}
	for m, err := range r.Log.Range(ctx, r.Topics.Examples, span.Partition, span.From, span.To) {
		if err != nil {
			return err
		}
		if !increment.Skips(span.Partition, m.Offset) {
			l.Messages = append(l.Messages, m)
		}
	}
	return nil
}
