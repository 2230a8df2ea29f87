package score

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// otherTopic returns the error that the topic of predictions has predictions for another topic of examples.
func (s *scorer) otherTopic(partition int, why string) error {
	return fmt.Errorf("%s[%d] does not have predictions of %s: %s. Delete %[1]s, or choose another topic", s.To, partition, s.From, why)
}

// lookBack is the number of messages that are first read back to find the last prediction. All messages of the partition are predictions
// unless other programs write to it.
const lookBack = 4

// reached is the position up to which a partition has predictions.
type reached struct {
	schemas.Scored
	// lost says that the topic of examples has lost messages after Next that had predictions: the next prediction begins a generation.
	lost bool
	end  int64 // the offset after the last message that says so
}

// reachedBy returns the position up to which a partition has predictions.
func (s *scorer) reachedBy(ctx context.Context, partition int) (r reached, err error) {
	first, end, err := s.client.Log.Bounds(ctx, s.To, partition)
	if err != nil {
		return r, err
	}
	var last *schemas.Prediction
	for count := int64(lookBack); last == nil; count *= 2 {
		from := max(first, end-count)
		err := s.each(ctx, partition, from, end, func(p *schemas.Prediction) { last = p })
		if err != nil {
			return r, err
		}
		if from == first {
			break
		}
	}
	if r.end = end; last == nil {
		return r, nil
	}
	if last.Topic != s.From || last.Partition != partition {
		return r, s.otherTopic(partition, fmt.Sprintf("the last one is of %s[%d]", last.Topic, last.Partition))
	}
	var all []*schemas.Prediction
	if err := s.each(ctx, partition, max(first, last.Seen), end, func(p *schemas.Prediction) { all = append(all, p) }); err != nil {
		return r, err
	}
	r.Scored = schemas.ScoredBy(all)
	bounds := coverage.Span{Partition: partition}
	if bounds.From, bounds.To, err = s.client.Log.Bounds(ctx, s.From, partition); err != nil {
		return r, err
	}
	why, err := s.why(ctx, bounds, last)
	if why == "" || err != nil {
		return r, err
	}
	switch proved, err := s.lastProved(ctx, bounds, first, end); {
	case err != nil:
		return r, err
	case proved < 0:
		return r, s.otherTopic(partition, why)
	case proved+1 < r.Next: // else the last prediction does not count
		r.Scored, r.lost = schemas.Scored{Next: proved + 1, Generation: r.Generation}, true
	}
	return r, nil
}

// lastProved returns the offset of the last message of examples that has the predictions which the topic has between
// two offsets, or which has expired; −1 if there is none. What comes after it, the topic of examples has lost: all that
// it had from some offset on.
func (s *scorer) lastProved(ctx context.Context, bounds coverage.Span, first, end int64) (int64, error) {
	for count := int64(lookBack); ; count *= 2 {
		from := max(first, end-count)
		latest := map[int64]*schemas.Prediction{} // of each message
		err := s.each(ctx, bounds.Partition, from, end, func(p *schemas.Prediction) { latest[p.Offset] = p })
		if err != nil {
			return 0, err
		}
		offsets := slices.Sorted(maps.Keys(latest))
		lost := sort.Search(len(offsets), func(i int) bool {
			why, unknown := s.why(ctx, bounds, latest[offsets[i]])
			err = cmp.Or(err, unknown)
			return why != ""
		})
		switch {
		case err != nil:
			return 0, err
		case lost > 0:
			return offsets[lost-1], nil
		case from == first:
			return -1, nil
		}
	}
}

// why returns why a prediction is not for the message at its offset of the examples, which have the given bounds. "" means that it is, or
// that there is no such message.
func (s *scorer) why(ctx context.Context, bounds coverage.Span, p *schemas.Prediction) (why string, err error) {
	mark := coverage.Mark{Partition: bounds.Partition, Offset: p.Offset, Checksum: p.Checksum}
	found, err := protocol.Still(ctx, s.client.Log, s.From, bounds, mark)
	switch found {
	case protocol.FoundEnd:
		why = fmt.Sprintf("the last one is of offset %d, and %s[%d] ends at %d: it was recreated", p.Offset, s.From, bounds.Partition, bounds.To)
	case protocol.FoundOther:
		why = fmt.Sprintf("the last one is of another message at offset %d: the topic was recreated", p.Offset)
	}
	return why, err
}

// each calls with for the predictions in a range of a partition, of which it reads only the headers.
func (s *scorer) each(ctx context.Context, partition int, from, to int64, with func(*schemas.Prediction)) error {
	for m, err := range s.client.Between(ctx, s.To, partition, from, to) {
		if err != nil {
			return err
		}
		if p, err := schemas.PredictionHeader(m.Message); err == nil { // else another program wrote it
			with(p)
		}
	}
	return nil
}
