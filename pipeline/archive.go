package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// archive is a topic with examples that is not the pipeline's own. Nothing is written there, nor to another topic of its owner.
type archive struct {
	topic string
	owner *run.Client // of the pipeline whose examples topic it is, by its name; nil: no pipeline has such a name
}

// OwnerOf returns the name of the pipeline that a topic has the examples of. ok is false if the topic has another name.
func OwnerOf(topic string) (name string, ok bool) {
	name, ok = strings.CutSuffix(topic, run.TopicsOf("").Examples)
	return name, ok && name != ""
}

// newArchive returns the archive on a topic; nil if the topic is "".
func newArchive(log *kafkalog.Log, topic string) *archive {
	if topic == "" {
		return nil
	}
	a := &archive{topic: topic}
	if name, ok := OwnerOf(topic); ok {
		a.owner = run.NewClient(log, name, nil)
	}
	return a
}

// sealedBy returns the ledger that says which sources of the examples count: that of the pipeline, which is own, or that of the owner of the
// archive. If nobody owns the archive, there are no sources, and the ledger is empty.
func (p *pipeline) sealedBy(ctx context.Context, own *run.Ledger) (*run.Ledger, error) {
	switch {
	case p.archive == nil:
		return own, nil
	case p.archive.owner == nil:
		return &run.Ledger{}, nil
	}
	l, err := p.archive.owner.ReadLedger(ctx)
	if errors.Is(err, kafkalog.ErrUnknownTopic) {
		return &run.Ledger{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out which sources of %s count: %w", p.archive.topic, err)
	}
	return l, nil
}

// saidAfter returns from where to read what may change which of the examples count: seals and removals of sources, and rows to forget. sealed
// and f say what does now.
func (p *pipeline) saidAfter(sealed *run.Ledger, f *forgotten) (positions []run.Position) {
	switch {
	case p.archive == nil:
		positions = append(positions, run.Position{Topic: p.Topics.Plans, Offset: sealed.Next, Compacted: true})
	case p.archive.owner != nil && sealed.Next > 0: // else there may be no such topic
		positions = append(positions, run.Position{Topic: p.archive.owner.Topics.Plans, Offset: sealed.Next, Compacted: true})
	}
	if f.exists {
		positions = append(positions, run.Position{Topic: p.forgetTopic(), Offset: f.next, Compacted: true})
	}
	return positions
}

// forgetTopic returns the topic that says which of the examples are forgotten: "" if there is none.
func (p *pipeline) forgetTopic() string {
	switch {
	case p.archive == nil:
		return p.Topics.Forget
	case p.archive.owner == nil:
		return ""
	}
	return p.archive.owner.Topics.Forget
}

// archiveTopic returns what plans of the pipeline say of the examples topic: "" if it is the pipeline's own.
func (p *pipeline) archiveTopic() string {
	if p.archive == nil {
		return ""
	}
	return p.archive.topic
}

// OtherExamplesError says that a run reads examples of another topic than this process.
type OtherExamplesError struct {
	What        string // the run or its version
	There, Here string // the topics
}

// Error names both topics.
func (e *OtherExamplesError) Error() string {
	return fmt.Sprintf("%s reads the examples of %s, and this process those of %s: set examples.topic to the same topic in both", e.What, e.There, e.Here)
}

// checkExamples returns an *[OtherExamplesError] if a plan is one over the examples of another topic. what is how people know the run.
func (p *pipeline) checkExamples(plan *schemas.Plan, what string) error {
	if plan.Topic == p.archiveTopic() {
		return nil
	}
	there := plan.Topic
	if there == "" {
		there = run.TopicsOf(plan.Name).Examples
	}
	return &OtherExamplesError{what, there, p.Topics.Examples}
}

// NoArchiveError says that the topic of examples.topic is not there.
type NoArchiveError struct{ Topic string }

// Error says what to do.
func (e *NoArchiveError) Error() string {
	return fmt.Sprintf("examples.topic: there is no topic %s, and it is not created, as it is another pipeline's: expected a topic with examples; check the name and the brokers", e.Topic)
}

// BoundError says that a bound of the configuration has offsets for another number of partitions than the topic has.
type BoundError struct {
	Key        string // from or to
	Offsets    int    // how many the bound has
	Topic      string
	Partitions int // that it has
}

// Error says what was expected.
func (e *BoundError) Error() string {
	return fmt.Sprintf("examples.%s has %d offsets, and %s has %d partitions: expected a time, one offset for all partitions, or one for each", e.Key, e.Offsets, e.Topic, e.Partitions)
}

// NothingBetweenError says that a topic has no message between the bounds of the configuration.
type NothingBetweenError struct {
	Topic    string
	From, To []string // as the configuration has them
	Has      []schemas.Span
}

// Error says what the topic has.
func (e *NothingBetweenError) Error() string {
	text := "no examples on " + e.Topic
	if len(e.From) > 0 {
		text += " from " + strings.Join(e.From, ", ") + " on"
	}
	if len(e.To) > 0 {
		text += " before " + strings.Join(e.To, ", ")
	}
	return fmt.Sprintf("%s: it has%s; change examples.from or examples.to", text, " "+listed(e.Has))
}

// within cuts bounds of the examples topic, one of each partition, to what a job wants of them. outside is what it leaves out.
func (p *pipeline) within(ctx context.Context, o ingest.Options, bounds []schemas.Span) (cut []schemas.Span, outside schemas.Spans, err error) {
	from, err := p.offsetsOf(ctx, "from", o.From, bounds)
	if err != nil {
		return nil, nil, err
	}
	to, err := p.offsetsOf(ctx, "to", o.To, bounds)
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
		outside = append(outside, schemas.Span{Partition: n, From: all.From, To: span.From}, schemas.Span{Partition: n, From: span.To, To: all.To})
	}
	return cut, slices.DeleteFunc(outside, schemas.Span.Empty), nil
}

// offsetsOf returns the offset of each partition that a bound of the configuration means; nil if it says nothing.
func (p *pipeline) offsetsOf(ctx context.Context, key string, values []string, bounds []schemas.Span) (offsets []int64, err error) {
	b, ok := ingest.ParseBound(values)
	switch {
	case !ok:
		return nil, nil
	case b.Offsets == nil:
		return p.admin.OffsetsAt(ctx, p.Topics.Examples, b.Time)
	case len(b.Offsets) != 1 && len(b.Offsets) != len(bounds):
		return nil, &BoundError{key, len(b.Offsets), p.Topics.Examples, len(bounds)}
	}
	for n := range bounds {
		offsets = append(offsets, b.On(n))
	}
	return offsets, nil
}

// overlaps reports whether a source has a message within spans.
func overlaps(seal *schemas.SourceSeal, spans []schemas.Span) bool {
	return slices.ContainsFunc(seal.Spans, func(s schemas.Span) bool { return overlapsAny(s, spans) })
}
