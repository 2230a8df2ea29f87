package pipeline

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// The log may lose messages on which a chain depends: retention deletes them, an unclean leader election truncates a
// partition, the topic is recreated. Before a run is planned, the last message that the chain has processed in each
// partition must still exist. Otherwise, the chain continues from the messages that the checksums of its increments verify.

// prove determines which partitions no longer have the messages that the chain has processed, given the bounds of the
// examples topic. It removes unverified messages from the window, and makes the next run a full one over the rest.
func (r *runner) prove(ctx context.Context, l *protocol.Ledger, bounds []coverage.Span) error {
	for n := len(bounds); n < len(r.backlog.ends); n++ {
		bounds = append(slices.Clip(bounds), coverage.Span{Partition: n})
	}
	for _, span := range bounds {
		r.backlog.add(span.Partition, span.From)
		replaced, err := r.replaced(ctx, span)
		if err != nil {
			return err
		}
		if !replaced {
			continue
		}
		before := r.chain.rows()
		proven, last, err := r.provenOn(ctx, span)
		if err != nil {
			return err
		}
		looked := r.backlog.end(span.Partition)
		r.backlog.replace(span, proven, last)
		if r.chain.window != nil {
			cut := coverage.Span{Partition: span.Partition, To: math.MaxInt64}
			if last != nil {
				cut.From = proven
			}
			if err := r.lose(ctx, l, coverage.Spans{cut}); err != nil {
				return err
			}
		}
		if r.chain.window == nil {
			r.chain.counted = nil
		}
		r.rec.Record(event.Replaced{Topic: r.Topics.Examples, Partition: span.Partition, Looked: looked, Proven: proven,
			Rows: before - r.chain.rows()})
	}
	return nil
}

// lose removes messages that the log has lost from the window. Versions are not offered until they have learnt as many rows
// as before.
func (r *runner) lose(ctx context.Context, l *protocol.Ledger, lost coverage.Spans) error {
	offered, err := r.offeredRows(ctx, l)
	if err != nil {
		return err
	}
	learnt := r.chain.learnt()
	r.chain.leaveOut(lost)
	r.chain.had, r.chain.least = max(r.chain.had, learnt), max(r.chain.least, offered, learnt)
	return nil
}

// replaced reports whether a partition lacks the last message that the chain has processed there. A message deleted by
// retention counts as existing.
func (r *runner) replaced(ctx context.Context, bounds coverage.Span) (bool, error) {
	n := bounds.Partition
	at := slices.IndexFunc(r.backlog.marks, func(m coverage.Mark) bool { return m.Partition == n })
	if at < 0 { // the chain has processed nothing there
		return r.backlog.end(n) > bounds.To, nil
	}
	found, err := protocol.Still(ctx, r.Log, r.Topics.Examples, bounds, r.backlog.marks[at])
	return found != protocol.FoundSame && found != protocol.FoundDeleted, err
}

// provenOn returns the offset before which a partition has the messages of the window's increments, and the mark of the
// last message before it. If nothing can be verified, that is the start of the partition, and the mark is nil.
func (r *runner) provenOn(ctx context.Context, bounds coverage.Span) (proven int64, last *coverage.Mark, err error) {
	proven = bounds.From
	if r.chain.window == nil {
		return proven, nil, nil
	}
	type part struct {
		*coverage.Increment
		coverage.Coverage
	}
	var parts []part
	for i := range r.chain.window.Increments {
		increment := &r.chain.window.Increments[i].Increment
		if covered, any := increment.On(bounds.Partition); any {
			parts = append(parts, part{increment, covered})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.Coverage.Spans[0].From, b.Coverage.Spans[0].From) })
	for _, p := range parts {
		if p.Coverage.Spans[0].From < bounds.From {
			continue // deleted, or never there
		}
		end, same, err := r.holds(ctx, bounds, p.Increment, p.Coverage)
		if err != nil || !same {
			return proven, last, err
		}
		if end != nil && (last == nil || end.Offset > last.Offset) {
			last = end
		}
		proven = max(proven, p.Coverage.Spans[len(p.Coverage.Spans)-1].To)
	}
	return proven, last, nil
}

// holds reports whether a partition has the messages of an increment, and returns the mark of the last of them.
func (r *runner) holds(ctx context.Context, bounds coverage.Span, increment *coverage.Increment,
	want coverage.Coverage) (last *coverage.Mark, same bool, err error) {
	n, got := bounds.Partition, coverage.Coverage{Spans: want.Spans}
	if increment.Uncounted || want.Spans[len(want.Spans)-1].To > bounds.To {
		return nil, false, nil
	}
	for _, span := range want.Spans {
		for m, err := range r.Between(ctx, r.Topics.Examples, n, span.From, span.To) {
			if errors.As(err, new(*kafkalog.DeletedError)) {
				return nil, false, nil
			}
			if err != nil {
				return nil, false, err
			}
			mark := protocol.MarkOf(n, m)
			last = &mark
			if increment.Skips(n, m.Offset) {
				continue
			}
			rows := source.RowsIn(r.Pipeline, m)
			got.Count(rows, visit.Checksum(m, n, rows))
		}
	}
	return last, got.Same(want), nil
}

// keepWhatIsHeld removes deleted messages of the examples topic from the window. Then it removes those that retention may
// delete before a full run has ended, unless these are all.
func (r *runner) keepWhatIsHeld(ctx context.Context, l *protocol.Ledger, bounds []coverage.Span) error {
	gone, rows := r.chain.deleted(bounds), r.chain.learnt()
	if len(gone) == 0 {
		return nil
	}
	if staying, err := topics.Staying(ctx, r.Pipeline, r.retention, bounds); err != nil {
		return err
	} else if going := r.chain.deleted(staying); len(r.chain.spans(nil).Without(going)) > 0 {
		gone = going
	}
	if err := r.lose(ctx, l, gone); err != nil {
		return err
	}
	event.Notice(r.rec, "%s deleted messages of version %d while they were in the window: the next version is "+
		"fitted to what remains of its %d rows", r.Topics.Examples, r.chain.head.Version, rows)
	return nil
}
