package protocol

import (
	"cmp"
	"context"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
