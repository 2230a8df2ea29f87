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
func (p *partition) otherTopic(why string) error {
	return fmt.Errorf("%s[%d] does not have predictions of %s: %s. Delete %[1]s, or choose another topic", p.To, p.number, p.From, why)
}

// progress is the position up to which a partition has predictions.
type progress struct {
	schemas.Scored
	// lost says that the topic of examples has lost messages after Next that had predictions: the next prediction begins a generation.
	lost bool
	end  int64 // end offset of the predictions that were read
}

// find returns the position up to which the partition has predictions.
func (p *partition) find(ctx context.Context) (state progress, err error) {
	first, end, err := p.client.Log.Bounds(ctx, p.To, p.number)
	if err != nil {
		return state, err
	}
	state.end = end
	var all []*schemas.Prediction
	err = p.lookBack(ctx, first, end, func(some []*schemas.Prediction) (bool, error) {
		all = some
		return len(all) > 0, nil
	})
	if err != nil || len(all) == 0 {
		return state, err
	}
	last := all[len(all)-1]
	if last.Topic != p.From || last.Partition != p.number {
		return state, p.otherTopic(fmt.Sprintf("the last one is of %s[%d]", last.Topic, last.Partition))
	}
	if all, err = p.predictions(ctx, max(first, last.Seen), end); err != nil {
		return state, err
	}
	state.Scored = schemas.ScoredBy(all)
	bounds := coverage.Span{Partition: p.number}
	if bounds.From, bounds.To, err = p.client.Log.Bounds(ctx, p.From, p.number); err != nil {
		return state, err
	}
	why, err := p.why(ctx, bounds, last)
	if why == "" || err != nil {
		return state, err
	}
	switch proved, err := p.lastProved(ctx, bounds, first, end); {
	case err != nil:
		return state, err
	case proved < 0:
		return state, p.otherTopic(why)
	case proved+1 < state.Next: // else the last prediction does not count
		state.Scored, state.lost = schemas.Scored{Next: proved + 1, Generation: state.Generation}, true
	}
	return state, nil
}

// lookBack calls found with the predictions among the last messages between two offsets, and doubles the number of
// messages until found returns true or has had all of them. Messages that are not predictions come from other programs.
func (p *partition) lookBack(ctx context.Context, first, end int64, found func([]*schemas.Prediction) (bool, error)) error {
	for count := int64(4); ; count *= 2 {
		from := max(first, end-count)
		all, err := p.predictions(ctx, from, end)
		if err != nil {
			return err
		}
		if ok, err := found(all); ok || err != nil || from == first {
			return err
		}
	}
}

// lastProved returns the offset of the last message of examples, present or expired, that has predictions between two
// offsets of their topic; −1 if there is none. The topic of examples has lost all messages after it.
func (p *partition) lastProved(ctx context.Context, bounds coverage.Span, first, end int64) (proved int64, err error) {
	proved = -1
	err = p.lookBack(ctx, first, end, func(all []*schemas.Prediction) (bool, error) {
		latest := map[int64]*schemas.Prediction{} // of each message
		for _, of := range all {
			latest[of.Offset] = of
		}
		offsets, failed := slices.Sorted(maps.Keys(latest)), error(nil)
		lost := sort.Search(len(offsets), func(i int) bool {
			why, err := p.why(ctx, bounds, latest[offsets[i]])
			failed = cmp.Or(failed, err)
			return why != ""
		})
		if lost > 0 {
			proved = offsets[lost-1]
		}
		return lost > 0, failed
	})
	return proved, err
}

// why returns why a prediction is not for the message at its offset of the examples, which have the given bounds. ""
// means that it is, or that no message is there.
func (p *partition) why(ctx context.Context, bounds coverage.Span, of *schemas.Prediction) (why string, err error) {
	mark := coverage.Mark{Partition: bounds.Partition, Offset: of.Offset, Checksum: of.Checksum}
	found, err := p.client.Still(ctx, p.From, bounds, mark)
	switch found {
	case protocol.FoundEnd:
		why = fmt.Sprintf("the last one is of offset %d, and %s[%d] ends at %d: it was recreated", of.Offset, p.From, bounds.Partition, bounds.To)
	case protocol.FoundOther:
		why = fmt.Sprintf("the last one is of another message at offset %d: the topic was recreated", of.Offset)
	}
	return why, err
}

// predictions returns the predictions in a range of the partition. It decodes only their headers.
func (p *partition) predictions(ctx context.Context, from, to int64) (all []*schemas.Prediction, err error) {
	for m, err := range p.client.Between(ctx, p.To, p.number, from, to) {
		if err != nil {
			return nil, err
		}
		if of, err := schemas.PredictionHeader(m.Message); err == nil { // else another program wrote it
			all = append(all, of)
		}
	}
	return all, nil
}
