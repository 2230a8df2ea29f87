package visit

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
)

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

// replayed returns the counting of the messages of a partition that were read so far.
func (r *reader) replayed(part *Part) *protocol.SpanCounting {
	if r.part != part {
		r.close()
		r.part, r.next, r.examples, r.residuals, r.replay = part, 0, nil, nil, r.counting.Replay(part.Span)
	}
	return r.replay
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
	replay := r.replayed(segment.Part)
	// Whether a message is a duplicate depends on all messages before it, so reading starts with the span, even if the first
	// segments are in memory.
	first := l.Index - segment.Index
	for ; r.next <= segment.Index; r.next++ {
		*l = Load{Share: l.Share, Index: l.Index}
		if err := r.readMessages(ctx, l, replay, r.share.Segments[first+r.next].Span); err != nil {
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
func (r *reader) readMessages(ctx context.Context, l *Load, replay *protocol.SpanCounting, span coverage.Span) error {
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
		if reason := replay.AcceptAt(m.Offset, m.Message); reason != "" {
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
