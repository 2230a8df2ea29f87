package source

import (
	"cmp"
	"context"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// QuarantineReason is the messages in quarantine that have the same reason but for their values.
type QuarantineReason struct {
	Reason      string // that of the last message; without values, what all reasons have in common
	Messages    int64
	First, Last schemas.Quarantined // in the order of the quarantine topic
}

// Quarantine returns the reasons for which messages are in quarantine, the most frequent one first. They have values of rows only if values
// is true.
func Quarantine(ctx context.Context, p *topics.Pipeline, values bool) ([]QuarantineReason, error) {
	spans, err := p.Log.Spans(ctx, p.Topics.Quarantine)
	if err != nil {
		return nil, err
	}
	type kind struct{ topic, reason string }
	at := map[kind]int{}
	var reasons []QuarantineReason
	for _, span := range spans {
		err := p.Remaining(ctx, p.Topics.Quarantine, span.Partition, span.From, span.To, func(m protocol.Message) error {
			q, err := schemas.QuarantinedOf(m.Message)
			if err != nil {
				return nil // other content of the topic is ignored
			}
			q.Value = nil
			k := kind{q.Topic, schemas.WithoutValues(q.Reason)}
			if _, known := at[k]; !known {
				at[k] = len(reasons)
				reasons = append(reasons, QuarantineReason{Reason: k.reason, First: *q})
			}
			r := &reasons[at[k]]
			if r.Last = *q; values {
				r.Reason = q.Reason
			}
			r.Messages++
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(reasons, func(a, b QuarantineReason) int { return cmp.Compare(b.Messages, a.Messages) })
	return reasons, nil
}
