package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// QuarantineReason is the messages in quarantine whose reasons differ only in the values of rows.
type QuarantineReason struct {
	Reason      string // that of the last message; without values, the common part of all reasons
	Messages    int64
	First, Last schemas.Quarantined // in the order of the quarantine topic
}

// Quarantine returns the reasons for which messages are in quarantine, the most frequent one first. They include values of rows only if
// values is true.
func Quarantine(ctx context.Context, p *topics.Pipeline, values bool) ([]QuarantineReason, error) {
	spans, err := p.Log.Spans(ctx, p.Topics.Quarantine)
	if err != nil {
		return nil, err
	}
	type kind struct{ topic, reason string }
	at := map[kind]int{}
	var reasons []QuarantineReason
	for _, span := range spans {
		for m, err := range p.Remaining(ctx, p.Topics.Quarantine, span.Partition, span.From, span.To) {
			if err != nil {
				return nil, err
			}
			q, err := schemas.QuarantinedOf(m.Message)
			if err != nil {
				continue // other content of the topic is ignored
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
		}
	}
	slices.SortStableFunc(reasons, func(a, b QuarantineReason) int { return cmp.Compare(b.Messages, a.Messages) })
	return reasons, nil
}

// NothingUsableError means that ingest has read a topic without any usable message.
type NothingUsableError struct {
	Topic    string
	Messages int64  // number of quarantined messages
	First    string // reason and position of one of them
}

// Error includes the number of messages, and one of the reasons.
func (e *NothingUsableError) Error() string {
	return fmt.Sprintf("%s of %s: none could be used. %s", english.Plural(int(e.Messages), "message", ""), e.Topic, e.First)
}

// refusedError is the error of a message that ends ingest.
type refusedError struct {
	text string // without values of its rows
	err  error
}

func (e *refusedError) Error() string { return e.text }

func (e *refusedError) Unwrap() error { return e.err }

// reasonOf formats the position of a message and the reason why it is unusable, without values of its rows.
func reasonOf(topic string, partition int, offset int64, reason string) string {
	return fmt.Sprintf("%s[%d]@%d: %s", topic, partition, offset, schemas.WithoutValues(reason))
}

// Unusable returns the number of messages of a topic that are in quarantine, and reason and position of one of them; "" if there is none.
func Unusable(ctx context.Context, p *topics.Pipeline, topic string) (messages int64, reason string, err error) {
	reasons, err := Quarantine(ctx, p, false)
	for _, r := range reasons {
		if q := r.First; q.Topic == topic {
			messages, reason = messages+r.Messages, cmp.Or(reason, reasonOf(topic, q.Partition, q.Offset, q.Reason))
		}
	}
	return messages, reason, err
}
