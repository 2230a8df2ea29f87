package worker

import (
	"context"
	"fmt"
	"io"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// scan goes once, or twice, through the segments of partitions, on all cores:
//
//	readers ──loads──▶ processors ──outcomes──▶ collect ──▶ writes
//
// A reader reads the segments of a partition in order, ahead of the processors. Each processor turns one segment at a time
// into an outcome. collect takes the outcomes of each partition in the order of its segments, whatever order they were made
// in.
type scan struct {
	client *run.Client
	// store has messages that need not be read from the log; nil: it has none.
	store *partition.Store
	// counting says which messages count.
	counting *ingest.Counting
	// sequential says that run takes one segment after the other in the calling goroutine, and waits for each write.
	sequential bool
	// scores reads the scores before the stage, for segments that are not in memory; nil: there are none yet.
	scores *residualsOf
	// increment returns the increment of a segment of the past; nil if the run has none.
	increment func(*partition.Segment) *schemas.Increment
	// whole says that no segment is in memory, so that the scan can check that every message of the plan's sources is there.
	whole bool
	// extent returns how many segments of a partition, the first ones, the scan goes through; nil: all.
	extent func(*partition.State) int
	// process is called once for each goroutine that processes segments. The goroutine calls the function that it returns for
	// each of its segments.
	process func() func(ctx context.Context, l *load) (*outcome, error)
	// twice says that the processors go through the segments again, in a second round that a segment enters when its first
	// outcome is collected.
	twice bool
	// collect is called for each outcome, for those of a partition and round in order. If it returns a write, that runs while
	// further outcomes are computed.
	collect func(p *partition.State, o *outcome) (write func(context.Context) error, err error)
	// maxWrites is how many writes may run at once; 0 is 1. A single write at a time keeps the order of collect.
	maxWrites int
	// readAhead is how many bytes of messages may be read ahead, beside one segment; 0 is defaultReadAhead.
	readAhead int64
}

// defaultReadAhead is enough for 64 segments of 16 messages, each as large as brokers take by default. Topics may allow far
// larger messages, of which it bounds the number.
const defaultReadAhead = 1 << 30

// load is a segment with what was read for it.
type load struct {
	partition *partition.State
	index     int // of the segment in its partition
	round     int
	messages  []partition.Message
	// passedOver counts the messages that were read and do not count; in a whole scan also those that are not there.
	passedOver schemas.PassedOver
	skipped    []int64                     // their offsets
	progress   []schemas.PartitionProgress // of the sources, after the last segment of a whole scan
	scores     []kernel.Dense              // of the messages, if the scan reads scores
	votes      []kernel.Dense              // as scores; without rows before a member is finished
	bytes      int64                       // taken from readAhead, until the outcome is collected
}

func (l *load) segment() *partition.Segment { return l.partition.Segments()[l.index] }

// again returns the load of the second round.
func (l *load) again() *load {
	next := &load{partition: l.partition, index: l.index, round: 1}
	if l.segment().Batches() == nil {
		next.messages, next.scores, next.votes = l.messages, l.scores, l.votes
	}
	return next
}

// outcome is what a processor made of a segment.
type outcome struct {
	segment  int // index in its partition
	round    int
	rows     int64
	sum      *accumulate.Sum
	terms    *accumulate.Sum   // of a chain's increment, when a stage of a full run is published
	findings *findings         // of the survey
	messages []schemas.Message // residuals, when a stage is published
	scores   []scored
}

// scored is the scores and votes of a part of an examples message, for the digest of a seal.
type scored struct {
	offset       int64
	row          int
	score, votes []float32
}

// run returns when all outcomes are collected and all writes are done.
func (s *scan) run(ctx context.Context, partitions []*partition.State) error {
	if s.sequential {
		return s.runInTurn(ctx, partitions)
	}
	writing, ctx := errgroup.WithContext(ctx)
	writing.SetLimit(max(s.maxWrites, 1))
	err := s.compute(ctx, partitions, func(write func(context.Context) error) {
		writing.Go(func() error { return write(ctx) })
	})
	if unwritten := writing.Wait(); unwritten != nil {
		return unwritten // a write that fails cancels the scan, so err only says that it was cancelled
	}
	return err
}

// runInTurn does what run does, for a sequential scan.
func (s *scan) runInTurn(ctx context.Context, partitions []*partition.State) error {
	process := s.process()
	one := func(l *load) error {
		o, err := process(ctx, l)
		if err != nil {
			return err
		}
		o.segment, o.round = l.index, l.round
		write, err := s.collect(l.partition, o)
		if err != nil || write == nil {
			return err
		}
		return write(ctx)
	}
	var again []*load
	for _, p := range partitions {
		for l, err := range s.loads(ctx, p, func() error { return nil }) {
			if err != nil {
				return err
			}
			if err := one(l); err != nil {
				return err
			}
			if s.twice {
				again = append(again, l.again())
			}
		}
	}
	for _, l := range again {
		if err := one(l); err != nil {
			return err
		}
	}
	return nil
}

// loads yields the segments of a partition in order, with what was read for those that are not in memory. It calls turn, which
// may wait, before each.
func (s *scan) loads(ctx context.Context, p *partition.State, turn func() error) iter.Seq2[*load, error] {
	return func(yield func(*load, error) bool) {
		r := &reader{scan: s, partition: p, replay: s.counting.Replay(p.Span())}
		defer r.close()
		for i := range s.segments(p) {
			l := &load{partition: p, index: i}
			err := turn()
			if err == nil {
				err = r.read(ctx, l)
			}
			if err == nil && s.whole && p.LastRecent(i) {
				var missing schemas.PassedOver
				missing, err = r.replay.Complete()
				l.passedOver.Add(missing)
				l.progress = r.replay.Progress()
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// segments returns how many segments of a partition, the first ones, the scan goes through.
func (s *scan) segments(p *partition.State) int {
	if s.extent == nil {
		return p.All()
	}
	return s.extent(p)
}

// reader reads what the segments of one partition need, one after the other.
type reader struct {
	*scan
	partition *partition.State
	examples  run.Reader   // nil until a segment needs it
	next      int          // the segment that is read next
	ahead     *run.Message // an example that was read too early
	replay    *ingest.Replay
	residuals *residualsReader // nil until a segment needs it
}

func (r *reader) close() {
	if r.examples != nil {
		r.examples.Close()
	}
	if r.residuals != nil {
		r.residuals.close()
	}
}

// read reads what a load needs that is not in memory.
func (r *reader) read(ctx context.Context, l *load) error {
	segment := l.segment()
	if l.messages = segment.Messages(); segment.Batches() != nil {
		return nil
	}
	topics := r.client.Topics
	if l.messages == nil && segment.Past {
		if err := r.readPast(ctx, l); err != nil {
			return fmt.Errorf("read examples %s%v again: %w", topics.Examples, segment.Span, err)
		}
	}
	if l.messages == nil && !segment.Past {
		// Whether a message is a repetition depends on all messages before it, so reading begins with the span, even if the
		// first segments are in memory.
		for ; r.next <= l.index; r.next++ {
			*l = load{partition: l.partition, index: l.index}
			read, err := r.readMessages(ctx, l, r.partition.Segments()[r.next].Span)
			if err != nil {
				return fmt.Errorf("read examples %s%v: %w", topics.Examples, segment.Span, err)
			}
			if r.whole && r.next == l.index {
				r.store.Keep(segment.Span, read)
			}
		}
	}
	if r.scores == nil {
		return nil
	}
	if r.residuals == nil {
		r.residuals = r.scores.reader(r.partition.Partition(), segment.Residuals())
	}
	if err := r.residuals.load(ctx, l); err != nil {
		return fmt.Errorf("read residuals %s%v: %w", topics.Residuals, segment.Span, err)
	}
	return nil
}

// readMessages reads the messages of the next segment, whose span is given, and returns them. Those that count become the messages of the
// load. What is between segments is not of the run.
func (r *reader) readMessages(ctx context.Context, l *load, span schemas.Span) (read []run.Message, err error) {
	if r.examples == nil || r.next > 0 && span.From-r.partition.Segments()[r.next-1].Span.To >= wideGap {
		if r.examples != nil {
			r.examples.Close()
		}
		r.examples, r.ahead = r.store.Range(r.client.Log, r.client.Topics.Examples, schemas.Span{Partition: span.Partition, From: span.From, To: r.partition.Span().To}), nil
	}
	for {
		if r.ahead == nil {
			m, err := r.examples.Next(ctx)
			if err == io.EOF {
				return read, nil
			}
			if err != nil {
				return nil, err
			}
			r.ahead = &m
		}
		m := *r.ahead
		if m.Offset >= span.To {
			return read, nil
		}
		r.ahead = nil
		if m.Offset < span.From {
			continue
		}
		read = append(read, m)
		if reason := r.replay.AcceptAt(m.Offset, m.Message); reason != "" {
			l.passedOver.Count(reason, 1)
			l.skipped = append(l.skipped, m.Offset)
			continue
		}
		l.messages = append(l.messages, partition.Message{Offset: m.Offset, Message: m.Message})
	}
}

// wideGap is how many messages between two segments are read and dropped at most; beyond a wider gap reading begins anew.
const wideGap = 64

// readPast reads the messages of a segment of the past: those that counted when its increment came.
func (r *reader) readPast(ctx context.Context, l *load) error {
	span, increment := l.segment().Span, r.increment(l.segment())
	past := r.client.Log.Range(r.client.Topics.Examples, span.Partition, span.From, span.To)
	defer past.Close()
	l.messages = []partition.Message{}
	for {
		m, err := past.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !increment.Skips(span.Partition, m.Offset) {
			l.messages = append(l.messages, partition.Message{Offset: m.Offset, Message: m.Message})
		}
	}
}
