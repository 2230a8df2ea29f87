package pipeline

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// A sweep goes once, or twice, through shares of the examples, on all cores:
//
//	feeds ──loads──▶ benches ──outcomes──▶ collect
//
// A feed reads the segments in order, ahead of the benches; each bench turns one
// segment into an outcome; collect takes the outcomes of each share in the
// order of its segments, whatever order they were made in.
type sweep struct {
	desk
	plan *schemas.Plan
	// scores tells feeds to read the scores before the stage with the examples of
	// segments that are not kept; nil: there are none yet.
	scores *residualsOf
	// whole tells that all segments are read: then every message of the plan's
	// sources has to be there.
	whole bool
	// bench makes the work of one segment; it is called once for each of the
	// goroutines that work at once, and what it returns for each of its segments.
	bench func() func(ctx context.Context, l *load) (*outcome, error)
	// twice tells that the benches go through the segments again, in a second round
	// that a segment enters when it has left the first. Outcomes say of which they are.
	twice bool
	// collect is called in order for the outcomes of a share in a round. What it
	// answers with, if anything, is written while the next are made.
	collect func(s *share, o *outcome) (write func(context.Context) error, err error)
	// writers is how many writes may be on their way at once; 0 is one, and then
	// they are in the order of collect.
	writers int
	// room is the bytes of messages that may be read ahead beside one segment; 0 is
	// aheadBytes.
	room int64
}

// aheadBytes is more than 64 segments of 16 messages as stock brokers take them,
// and far less than as many of the largest that a topic may allow.
const aheadBytes = 1 << 30

// load is a segment with what was read for it.
type load struct {
	share  *share
	at     int // of the segment in its share
	round  int
	raw    []raw
	scores []kernel.Dense // of raw, if they were asked for
	held   int64          // of the sweep's room, until the outcome is collected
}

func (l *load) segment() *segment { return l.share.segments[l.at] }

// again is the load of the second round.
func (l *load) again() *load {
	next := &load{share: l.share, at: l.at, round: 1}
	if l.segment().batches == nil {
		next.raw, next.scores = l.raw, l.scores
	}
	return next
}

// raw is an accepted examples message as it is on the topic.
type raw struct {
	offset  int64
	message schemas.Message
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum of an accepted message: a later visit that reads other bytes, or
// another number of rows, has another.
func (r raw) checksum(partition, rows int) uint64 {
	return schemas.Hash(uint64(partition), uint64(r.offset), uint64(rows), uint64(crc32.Checksum(r.message.Value, castagnoli)))
}

// outcome is what became of a segment.
type outcome struct {
	at       int
	round    int
	rows     int64
	sum      *accumulate.Sum
	found    *found            // by the survey
	messages []schemas.Message // residuals, when a stage is published
	scores   []scored
}

// scored is scores that a seal vouches for: of one part of an examples message.
type scored struct {
	offset int64
	row    int
	score  []float32
}

func (s *sweep) run(ctx context.Context, shares []*share) error {
	writing, ctx := errgroup.WithContext(ctx)
	writing.SetLimit(max(s.writers, 1))
	err := s.compute(ctx, shares, func(write func(context.Context) error) {
		writing.Go(func() error { return write(ctx) })
	})
	if unwritten := writing.Wait(); unwritten != nil {
		return unwritten // it is what ended the sweep
	}
	return err
}

// loads reads a share's segments in order: those that are not in memory. It waits
// for its turn before each.
func (s *sweep) loads(ctx context.Context, share *share, turn func() error) iter.Seq2[*load, error] {
	return func(yield func(*load, error) bool) {
		f := &feed{sweep: s, share: share, replay: ingest.NewReplay(s.plan, share.span.Partition)}
		defer f.close()
		for at := range share.segments {
			l := &load{share: share, at: at}
			err := turn()
			if err == nil {
				err = f.read(ctx, l)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
		if s.whole {
			if err := f.replay.Complete(); err != nil {
				yield(nil, err)
			}
		}
	}
}

// feed reads what the segments of one share need, one after the other.
type feed struct {
	*sweep
	share    *share
	examples reader // once one is read
	ahead    *entry
	replay   *ingest.Replay
	scores   *residualsReader // likewise
}

func (f *feed) close() {
	if f.examples != nil {
		f.examples.Close()
	}
	if f.scores != nil {
		f.scores.close()
	}
}

func (f *feed) read(ctx context.Context, l *load) error {
	segment, span := l.segment(), f.share.span
	if l.raw = segment.raw; segment.batches != nil {
		return nil
	}
	if l.raw == nil {
		if f.examples == nil {
			// Every message before decides which of a source's is a repetition, so a
			// share that is not all in memory is read from its beginning.
			f.examples = f.log.Range(f.sweep.examples, span.Partition, span.From, span.To)
		}
		if err := f.messages(ctx, l); err != nil {
			return fmt.Errorf("read examples %s%v: %w", f.sweep.examples, segment.span, err)
		}
	}
	if f.sweep.scores == nil {
		return nil
	}
	if f.scores == nil {
		f.scores = f.sweep.scores.reader(f.desk, f.share, segment.residuals)
	}
	if err := f.scores.fill(ctx, l); err != nil {
		return fmt.Errorf("read residuals %s%v: %w", f.residuals, segment.span, err)
	}
	return nil
}

// messages takes the accepted messages of the load's segment, passing over those
// of segments before it that are in memory.
func (f *feed) messages(ctx context.Context, l *load) error {
	span := l.segment().span
	for {
		if f.ahead == nil {
			m, err := f.examples.Next(ctx)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			f.ahead = &m
		}
		m := *f.ahead
		if m.offset >= span.To {
			return nil
		}
		f.ahead = nil
		if r := (raw{m.offset, m.Message}); f.replay.Accept(r.message) && m.offset >= span.From {
			l.raw = append(l.raw, r)
		}
	}
}
