package protocol

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// TopicProgress is the read position in a followed topic according to the messages of an examples partition: a fold over these
// messages. The zero value has read nothing.
type TopicProgress struct {
	Attempt    int   // number of times that the topic was read from the start, or continued after a change, from 1; 0: no message
	Next       int64 // next sequence number
	Partitions int   // partition q of the topic is written to partition q mod Partitions of the examples; 0: unknown
	Positions  []schemas.TopicPosition
	After      string // predecessor of an attempt that has written nothing yet: see [schemas.Origin]
	// Joined is the position of the join of rows with their outcomes; nil: there is no join.
	Joined *examples.Joined
}

// Add applies a message. Only a valid message of the topic changes the state: see SpanCounting.
func (s *TopicProgress) Add(topic string, m wire.Message) error {
	o, ok := schemas.OriginOf(m)
	if !ok || o.Source != schemas.TopicSource(topic) || !o.CountsAfter(s.Attempt, s.Next, s.Attempt > 0) {
		return nil
	}
	attempt, err := strconv.Atoi(o.Attempt)
	if err != nil {
		return nil
	}
	positions, err := schemas.TopicPositionsOf(m)
	if err != nil {
		return err
	}
	joined, err := examples.JoinedOf(m)
	if err != nil {
		return err
	}
	*s = TopicProgress{Attempt: attempt, Next: o.Next, Partitions: o.Partitions, Positions: positions, Joined: joined}
	return nil
}

// Raise advances the state to a position, unless it is already further.
func (s *TopicProgress) Raise(to schemas.TopicPosition) {
	at, found := slices.BinarySearchFunc(s.Positions, to.Partition, func(p schemas.TopicPosition, partition int) int {
		return p.Partition - partition
	})
	switch {
	case !found:
		s.Positions = slices.Insert(slices.Clone(s.Positions), at, to)
	case s.Positions[at].Next < to.Next:
		s.Positions = slices.Clone(s.Positions)
		s.Positions[at] = to
	}
}

// Position returns the read position in a partition of the topic.
func (s *TopicProgress) Position(partition int) schemas.TopicPosition {
	for _, p := range s.Positions {
		if p.Partition == partition {
			return p
		}
	}
	return schemas.TopicPosition{Partition: partition}
}

// ReadTopicProgress returns the read position in a topic from a partition of the examples: from at least the last count messages with
// rows of the topic. The very last may be a late duplicate: then the ones before it have the position. Not every offset
// holds a message, and there are messages of other sources, so it reads more offsets until it has enough.
func ReadTopicProgress(ctx context.Context, client *Client, topic string, examples coverage.Span, count int) (state TopicProgress,
	err error) {
	for offsets := int64(count); ; offsets *= 2 {
		from, messages := max(examples.From, examples.To-offsets), 0
		state = TopicProgress{}
		for m, err := range client.Between(ctx, client.Topics.Examples, examples.Partition, from, examples.To) {
			if err == nil {
				err = state.Add(topic, m.Message)
			}
			if err != nil {
				return state, err
			}
			if o, ok := schemas.OriginOf(m.Message); ok && o.Source == schemas.TopicSource(topic) {
				messages++
			}
		}
		if messages >= count || from == examples.From {
			return state, nil
		}
	}
}

// MergeTopicProgress returns the read position in a topic from the states of all examples partitions, in order: that of the last
// attempt.
func MergeTopicProgress(states []TopicProgress) TopicProgress {
	all := TopicProgress{Attempt: 1}
	for i := range states {
		all.Attempt = max(all.Attempt, states[i].Attempt)
	}
	for n := range states {
		if states[n].Attempt < all.Attempt {
			continue
		}
		for _, p := range states[n].Positions {
			all.Raise(p)
		}
		all.Partitions = max(all.Partitions, states[n].Partitions)
	}
	return all
}

// lookBack is the number of messages that are searched for the progress of a join.
const lookBack = 16

// ReadJoined returns the counts of the join that made the messages in spans of the examples; nil if they were not joined with outcomes.
// It sets only the counts, in a single cursor, the limit and the keys.
func ReadJoined(ctx context.Context, client *Client, spans coverage.Spans) (*examples.Joined, error) {
	r := joinedReader{ctx: ctx, client: client}
	bounds, err := client.Log.Spans(ctx, client.Topics.Examples)
	if err != nil {
		return nil, err
	}
	all, shared := &examples.Joined{Joins: make([]examples.JoinCursor, 1)}, false
	joins := make([]joinOfPartition, len(bounds))
	for i, b := range bounds {
		joins[i] = joinOfPartition{hull: coverage.Span{Partition: b.Partition, From: b.From, To: b.From}, bounds: b}
	}
	for _, hull := range spans.Hulls() {
		last, counts := r.between(hull)
		if last == nil {
			continue
		}
		joins[hull.Partition].hull, joins[hull.Partition].counts = hull, counts
		_, s := last.Counts()
		shared, all.Limit = shared || s, last.Limit
		if last.RowKey != "" {
			all.RowKey, all.OutcomeKey = last.RowKey, last.OutcomeKey
		}
	}
	if r.err != nil || r.topic == "" {
		return nil, r.err
	}
	counts := &all.Joins[0].Counts
	if !shared {
		for _, j := range joins {
			*counts = counts.Plus(j.counts)
		}
		*counts = counts.OrEarly()
		return all, nil
	}
	*counts, err = r.together(joins)
	return all, err
}

// joinOfPartition is the join of the rows of a partition of the examples, and its counts in a hull of spans.
type joinOfPartition struct {
	hull, bounds coverage.Span
	counts       examples.JoinCounts
}

// joinedReader reads the progress of joins in the examples.
type joinedReader struct {
	ctx    context.Context
	client *Client
	topic  string // of the rows
	err    error  // first error; later reads do nothing
}

// together returns the counts of joins that read the same outcomes. For a partition that is behind the others in the spans, it takes the
// matches of a longer range of messages: those written since, then all.
func (r *joinedReader) together(joins []joinOfPartition) (examples.JoinCounts, error) {
	furthest := int64(0)
	for _, j := range joins {
		furthest = max(furthest, j.counts.Outcomes)
	}
	var counts []examples.JoinCounts
	for _, j := range joins {
		for _, longer := range []coverage.Span{{Partition: j.hull.Partition, From: j.hull.From, To: j.bounds.To}, j.bounds} {
			if !j.counts.Behind(furthest) {
				break
			}
			if _, c := r.between(longer); !c.Behind(furthest) {
				c = c.Scaled(furthest)
				j.counts.Outcomes, j.counts.Matched, j.counts.Late, j.counts.Disorder = c.Outcomes, c.Matched, c.Late, c.Disorder
			}
		}
		if j.bounds.To > 0 { // otherwise it has no rows
			counts = append(counts, j.counts)
		}
	}
	return examples.Together(counts), r.err
}

// between returns the last progress of the join in a span, and the counts of the span; nil if there is no progress. Another topic, or one
// that is read anew, is counted from its beginning.
func (r *joinedReader) between(span coverage.Span) (*examples.Joined, examples.JoinCounts) {
	last := r.before(span.Partition, span.To, "")
	if last.Joined == nil {
		return nil, examples.JoinCounts{}
	}
	counts, _ := last.Joined.Counts()
	if begun := r.before(span.Partition, span.From, r.topic); begun.Attempt == last.Attempt {
		before, _ := begun.Joined.Counts()
		counts = counts.Since(before)
	}
	return last.Joined, counts
}

// before returns the progress in a topic at an offset of a partition: in the given one, or "" for that of the last messages.
func (r *joinedReader) before(partition int, offset int64, topic string) (state TopicProgress) {
	if r.err != nil {
		return state
	}
	first, _, err := r.client.Log.Bounds(r.ctx, r.client.Topics.Examples, partition)
	if r.fail(err); err != nil || first >= offset {
		return state
	}
	found := topic
	for m, err := range r.client.Between(r.ctx, r.client.Topics.Examples, partition, max(first, offset-lookBack), offset) {
		if r.fail(err); err != nil {
			return state
		}
		if t, ok := schemas.TopicOf(m.Message); ok && topic == "" {
			found = t
		}
	}
	if found == "" {
		return state
	}
	state, err = ReadTopicProgress(r.ctx, r.client, found, coverage.Span{Partition: partition, From: first, To: offset}, lookBack)
	if r.fail(err); state.Joined != nil {
		r.topic = found
	}
	return state
}

func (r *joinedReader) fail(err error) { r.err = cmp.Or(r.err, err) }
