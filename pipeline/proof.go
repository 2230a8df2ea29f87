package pipeline

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A chain stands on messages that the log may no longer have: retention deletes them, an unclean election truncates a
// partition, somebody makes the topic anew. Before a run is planned, the last message that the chain has looked at in
// each partition must still be there. Where it is not, the chain goes on from what it can prove by the checksums of its
// increments.

// markOf returns the mark of a message of the examples topic.
func markOf(partition int, m protocol.Message) coverage.Mark {
	return coverage.Mark{Partition: partition, Offset: m.Offset, Checksum: schemas.MessageChecksum(m.Value, m.Time.UnixMilli())}
}

// prove finds out which partitions no longer hold what the chain has looked at, given the bounds of the examples topic.
// It takes what it can't prove out of the window, and has the next run be a full one over the rest.
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
		before := r.windowRows()
		proven, last, err := r.provenOn(ctx, span)
		if err != nil {
			return err
		}
		looked := r.backlog.end(span.Partition)
		r.backlog.replace(span, proven, last)
		if r.window != nil {
			cut := everything(span.Partition)
			if last != nil {
				cut.From = proven
			}
			offered, err := r.offeredRows(ctx, l)
			if err != nil {
				return err
			}
			r.leaveOut(coverage.Spans{cut})
			r.had, r.least = max(r.had, before), max(r.least, offered, before)
		}
		if r.window == nil {
			r.counted = nil
		}
		r.rec.Record(event.Replaced{Topic: r.Topics.Examples, Partition: span.Partition, Looked: looked, Proven: proven,
			Rows: before - r.windowRows()})
	}
	return nil
}

// replaced reports whether a partition does not hold the last message that the chain has looked at there. What
// retention has deleted it may have held.
func (r *runner) replaced(ctx context.Context, bounds coverage.Span) (bool, error) {
	n := bounds.Partition
	at := slices.IndexFunc(r.backlog.marks, func(m coverage.Mark) bool { return m.Partition == n })
	if at < 0 { // of a chain of an earlier release, or nothing was there
		return r.backlog.end(n) > bounds.To, nil
	}
	mark := r.backlog.marks[at]
	if mark.Offset < bounds.From || mark.Offset >= bounds.To {
		return mark.Offset >= bounds.To, nil
	}
	reader := r.Log.Range(r.Topics.Examples, n, mark.Offset, mark.Offset+1)
	defer reader.Close()
	m, err := reader.Next(ctx)
	switch {
	case err == io.EOF:
		return true, nil
	case errors.As(err, new(*kafkalog.DeletedError)): // since the bounds were read
		return false, nil
	case err != nil:
		return false, err
	}
	return markOf(n, m) != mark, nil
}

// provenOn returns the offset before which a partition holds what the increments of the window have of it, and the mark of the last message
// before it. If nothing can be proved, that is where the partition begins, and the mark is nil.
func (r *runner) provenOn(ctx context.Context, bounds coverage.Span) (proven int64, last *coverage.Mark, err error) {
	proven = bounds.From
	if r.window == nil {
		return proven, nil, nil
	}
	type part struct {
		*coverage.Increment
		coverage.Coverage
	}
	var parts []part
	for i := range r.window.Increments {
		increment := &r.window.Increments[i].Increment
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

// holds reports whether a partition holds the messages that an increment has of it, and the mark of the last of them.
func (r *runner) holds(ctx context.Context, bounds coverage.Span, increment *coverage.Increment,
	want coverage.Coverage) (last *coverage.Mark, same bool, err error) {
	n, got := bounds.Partition, coverage.Coverage{Spans: want.Spans}
	if increment.Uncounted || want.Spans[len(want.Spans)-1].To > bounds.To {
		return nil, false, nil
	}
	for _, span := range want.Spans {
		err := r.Between(ctx, r.Topics.Examples, n, span.From, span.To, func(m protocol.Message) error {
			mark := markOf(n, m)
			last = &mark
			if increment.Skips(n, m.Offset) {
				return nil
			}
			rows := source.RowsIn(r.Pipeline, m)
			got.Count(rows, partition.Message{Offset: m.Offset, Message: m.Message}.Checksum(n, rows))
			return nil
		})
		if errors.As(err, new(*kafkalog.DeletedError)) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return last, got.Same(want), nil
}

// windowRows returns how many rows the window has; 0 if there is none.
func (r *runner) windowRows() int64 {
	if r.window == nil {
		return 0
	}
	return r.window.Rows()
}

// leaveOut takes spans out of the window, and what is empty then. The next run must be full. If nothing is left, there
// is no window: the next version is the first again.
func (r *runner) leaveOut(spans coverage.Spans) {
	rest := r.window.Without(spans)
	for i := range rest.Increments { // how many rows are left of a part is not known
		c := &rest.Increments[i].Increment
		for j := range c.Covered {
			before, _ := r.window.Increments[i].Increment.On(c.Covered[j].Spans[0].Partition)
			if !slices.Equal(before.Spans, c.Covered[j].Spans) {
				c.Covered[j] = coverage.Coverage{Spans: c.Covered[j].Spans}
			}
		}
		c.Covered = slices.DeleteFunc(c.Covered, func(left coverage.Coverage) bool { return len(left.Spans.Without(c.Skipped)) == 0 })
	}
	rest.Increments = slices.DeleteFunc(rest.Increments, func(c schemas.WindowIncrement) bool { return len(c.Increment.Covered) == 0 })
	if r.window, r.renews = rest, true; len(rest.Increments) == 0 {
		r.window = nil
	}
	r.oldest = oldestOf(r.window)
}

// oldestOf returns by partition the first offset that a window has.
func oldestOf(w *schemas.Window) (oldest []int64) {
	if w == nil {
		return nil
	}
	for i := range w.Increments {
		for _, covered := range w.Increments[i].Increment.Covered {
			first := covered.Spans[0]
			for len(oldest) <= first.Partition {
				oldest = append(oldest, math.MaxInt64)
			}
			oldest[first.Partition] = min(oldest[first.Partition], first.From)
		}
	}
	return oldest
}

// deleted returns what of the window is before the beginnings of partitions.
func (r *runner) deleted(begins []coverage.Span) (spans coverage.Spans) {
	for _, s := range merged(r.windowWith(nil)) {
		if s.Partition < len(begins) {
			s.To = min(s.To, begins[s.Partition].From)
		}
		if !s.Empty() {
			spans = append(spans, s)
		}
	}
	return spans
}

// keepWhatIsHeld takes out of the window what the examples topic has deleted. Then it takes what retention may delete
// before a full run has ended, unless that is all of it.
func (r *runner) keepWhatIsHeld(ctx context.Context, bounds []coverage.Span) error {
	if r.window == nil || !slices.ContainsFunc(bounds, func(s coverage.Span) bool {
		return s.Partition < len(r.oldest) &&
			r.oldest[s.Partition] < s.From
	}) {
		return nil
	}
	gone, rows := r.deleted(bounds), r.window.Rows()
	r.had = max(r.had, rows)
	if staying, err := topics.Staying(ctx, r.Pipeline, r.retention, bounds); err != nil {
		return err
	} else if going := r.deleted(staying); len(r.windowWith(nil).Without(going)) > 0 {
		gone = going
	}
	r.leaveOut(gone)
	event.Notice(r.rec, "%s deleted messages of version %d while they were in the window: the next version is "+
		"fitted to what remains of its %d rows", r.Topics.Examples, r.head.Version, rows)
	return nil
}
