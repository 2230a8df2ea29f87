package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// OwnerOf returns the name of the pipeline whose examples are on a topic. ok is false if the topic has another name.
func OwnerOf(topic string) (name string, ok bool) {
	name, ok = strings.CutSuffix(topic, protocol.TopicsOf("").Examples)
	return name, ok && name != ""
}

// Owner returns the client of the pipeline that owns the examples topic, whose sources and forgotten rows count; nil: none owns it. Nothing
// is written to the topics of another owner.
func (p *Pipeline) Owner() *protocol.Client {
	if p.Foreign == "" {
		return p.Client
	}
	return p.owner
}

// SealedBy returns the ledger with the sources of the examples: that of the pipeline, own, or that of the topic's owner.
// If the topic has no owner, there are no sources, and the ledger is empty.
func SealedBy(ctx context.Context, p *Pipeline, own *protocol.Ledger) (*protocol.Ledger, error) {
	switch p.Owner() {
	case p.Client:
		return own, nil
	case nil:
		return &protocol.Ledger{}, nil
	}
	l, err := p.Owner().ReadLedger(ctx)
	if errors.Is(err, kafkalog.ErrUnknownTopic) {
		return &protocol.Ledger{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the sources of %s: %w", p.Foreign, err)
	}
	return l, nil
}

// ForgetTopic returns the forget topic of the examples; "" if there is none.
func ForgetTopic(p *Pipeline) string {
	if owner := p.Owner(); owner != nil {
		return owner.Topics.Forget
	}
	return ""
}

// CheckExamples returns an error if a plan reads examples from another topic than this process. what names the run in the error.
func CheckExamples(p *Pipeline, plan *schemas.Plan, what string) error {
	if plan.Topic == p.Foreign {
		return nil
	}
	there := plan.Topic
	if there == "" {
		there = protocol.TopicsOf(plan.Name).Examples
	}
	return fmt.Errorf("%s reads the examples of %s, and this process those of %s: set examples.topic to the same topic in both", what, there,
		p.Topics.Examples)
}

// Within reduces the bounds of the examples topic, by partition, to the range that a job reads. outside is the excluded
// part. If that is everything, the error names the range of the topic.
func Within(ctx context.Context, p *Pipeline, o ingest.Options, bounds []coverage.Span) (cut []coverage.Span,
	outside coverage.Spans, err error) {
	from, err := offsetsOf(ctx, p, "from", o.From, bounds)
	if err != nil {
		return nil, nil, err
	}
	to, err := offsetsOf(ctx, p, "to", o.To, bounds)
	if err != nil {
		return nil, nil, err
	}
	cut = slices.Clone(bounds)
	for n, all := range bounds {
		span := &cut[n]
		if from != nil {
			span.From = min(max(all.From, from[n]), all.To)
		}
		if to != nil {
			span.To = max(min(all.To, to[n]), span.From)
		}
		outside = append(outside, coverage.Span{Partition: n, From: all.From, To: span.From}, coverage.Span{Partition: n, From: span.To,
			To: all.To})
	}
	outside = slices.DeleteFunc(outside, coverage.Span.Empty)
	if len(outside) == 0 || slices.ContainsFunc(cut, func(s coverage.Span) bool { return !s.Empty() }) {
		return cut, outside, nil
	}
	text := "no examples on " + p.Topics.Examples
	if len(o.From) > 0 {
		text += " from " + strings.Join(o.From, ", ") + " on"
	}
	if len(o.To) > 0 {
		text += " before " + strings.Join(o.To, ", ")
	}
	return nil, nil, fmt.Errorf("%s: it has %s; change examples.from or examples.to", text, Listed(bounds))
}

// offsetsOf returns the offset of a configured bound in each partition; nil if it is not set.
func offsetsOf(ctx context.Context, p *Pipeline, key string, values []string, bounds []coverage.Span) (offsets []int64, err error) {
	b, ok := ingest.ParseBound(values)
	switch {
	case !ok:
		return nil, nil
	case b.Offsets == nil:
		return offsetsAt(ctx, p, b.Time, bounds)
	case len(b.Offsets) != 1 && len(b.Offsets) != len(bounds):
		return nil, fmt.Errorf("examples.%s has %d offsets, and %s has %d partitions: expected a time, one offset for all partitions, "+
			"or one for each", key, len(b.Offsets), p.Topics.Examples, len(bounds))
	}
	for n := range bounds {
		offsets = append(offsets, b.On(n))
	}
	return offsets, nil
}

// offsetsAt returns, for each partition of the examples topic, the first offset with rows of the given time or a later one. Ingest
// writes a message after those that its rows come from, so the first offset written at that time is a lower bound.
func offsetsAt(ctx context.Context, p *Pipeline, at time.Time, bounds []coverage.Span) ([]int64, error) {
	offsets, err := p.Admin.OffsetsAt(ctx, p.Topics.Examples, at)
	if err != nil {
		return nil, err
	}
	for n := range min(len(offsets), len(bounds)) {
		from := max(offsets[n], bounds[n].From)
		offsets[n] = max(from, bounds[n].To)
		for m, err := range p.Between(ctx, p.Topics.Examples, n, from, bounds[n].To) {
			if err != nil {
				return nil, err
			}
			if !time.UnixMilli(schemas.TimeOf(m.Message, m.Time.UnixMilli())).Before(at) {
				offsets[n] = m.Offset
				break
			}
		}
	}
	return offsets, nil
}

// Overlaps reports whether a source has messages within spans.
func Overlaps(seal *schemas.SourceSeal, spans []coverage.Span) bool {
	return slices.ContainsFunc(seal.Spans, func(s coverage.Span) bool {
		return slices.ContainsFunc(spans, func(o coverage.Span) bool { return o.Partition == s.Partition && s.From < o.To && o.From < s.To })
	})
}

// Listed formats spans for error messages.
func Listed(spans coverage.Spans) string {
	var list []string
	for _, s := range spans {
		list = append(list, s.String())
	}
	return strings.Join(list, ", ")
}
