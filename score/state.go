package score

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// OtherTopicError says that the topic of predictions has those of another topic of examples.
type OtherTopicError struct {
	To        string // the topic of predictions
	Partition int
	From      string // the topic of examples
	Why       string
}

// Error says what to do.
func (e *OtherTopicError) Error() string {
	return fmt.Sprintf("%s[%d] does not have predictions of %s: %s. Delete %[1]s, or choose another topic", e.To, e.Partition, e.From, e.Why)
}

// lookBack is how many messages are read back at first to find the last prediction. All that a partition has are predictions, unless
// strangers write there.
const lookBack = 4

// state returns how far a partition has predictions, and the offset after the last message that says so.
func (s *scorer) state(ctx context.Context, partition int) (state schemas.Scored, end int64, err error) {
	first, end, err := s.client.Log.Bounds(ctx, s.To, partition)
	if err != nil {
		return state, 0, err
	}
	var last *schemas.Prediction
	for count := int64(lookBack); last == nil; count *= 2 {
		from := max(first, end-count)
		err := s.each(ctx, partition, from, end, func(p *schemas.Prediction) { last = p })
		if err != nil {
			return state, 0, err
		}
		if from == first {
			break
		}
	}
	if last == nil {
		return state, end, nil
	}
	if err := s.check(ctx, partition, last); err != nil {
		return state, 0, err
	}
	var all []*schemas.Prediction
	err = s.each(ctx, partition, max(first, last.Seen), end, func(p *schemas.Prediction) { all = append(all, p) })
	return schemas.ScoredBy(all), end, err
}

// each calls with for the predictions in a range of a partition, of which it reads only the headers.
func (s *scorer) each(ctx context.Context, partition int, from, to int64, with func(*schemas.Prediction)) error {
	return s.client.Between(ctx, s.To, partition, from, to, func(m run.Message) error {
		if p, err := schemas.PredictionHeader(m.Message); err == nil { // else it is a stranger's
			with(p)
		}
		return nil
	})
}

// check returns an *OtherTopicError unless the last prediction is of a message that the topic of examples has, or has had.
func (s *scorer) check(ctx context.Context, partition int, last *schemas.Prediction) error {
	wrong := func(format string, values ...any) error {
		return &OtherTopicError{s.To, partition, s.From, fmt.Sprintf(format, values...)}
	}
	if last.Topic != s.From || last.Partition != partition {
		return wrong("the last one is of %s[%d]", last.Topic, last.Partition)
	}
	first, end, err := s.client.Log.Bounds(ctx, s.From, partition)
	if err != nil {
		return err
	}
	if last.Offset >= end {
		return wrong("the last one is of offset %d, and %[2]s[%[3]d] ends at %[4]d: it was made anew", last.Offset, s.From, partition, end)
	}
	if last.Offset < first {
		return nil
	}
	return s.client.Between(ctx, s.From, partition, last.Offset, last.Offset+1, func(m run.Message) error {
		if checksum(m) != last.Checksum {
			return wrong("the last one is of another message at offset %d: the topic was made anew", last.Offset)
		}
		return nil
	})
}

func checksum(m run.Message) string { return schemas.MessageChecksum(m.Value, m.Time.UnixMilli()) }
