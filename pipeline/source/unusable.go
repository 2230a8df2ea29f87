package source

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

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

// refusedError is why a message ends ingest.
type refusedError struct {
	text string // without values of its rows
	err  error
}

func (e *refusedError) Error() string { return e.text }

func (e *refusedError) Unwrap() error { return e.err }

// usage counts whether messages of a topic are usable. The zero value has seen none.
type usage struct {
	used  atomic.Bool            // a message was usable
	bad   atomic.Int64           // number of unusable messages
	first atomic.Pointer[string] // reason and position of one of them
}

// refused records an unusable message.
func (u *usage) refused(reason string) {
	u.bad.Add(1)
	u.first.CompareAndSwap(nil, &reason)
}

// check returns a *NothingUsableError if there were messages, but no usable one.
func (u *usage) check(topic string) error {
	if first := u.first.Load(); first != nil && !u.used.Load() {
		return &NothingUsableError{Topic: topic, Messages: u.bad.Load(), First: *first}
	}
	return nil
}

// reasonOf formats the position of a message and the reason why it is unusable, without values of its rows.
func reasonOf(topic string, partition int, offset int64, reason string) string {
	return fmt.Sprintf("%s[%d]@%d: %s", topic, partition, offset, schemas.WithoutValues(reason))
}

// lastQuarantined is the number of quarantined messages that are searched for one of a topic.
const lastQuarantined = 100

// Unusable returns the reason and position of the first of a topic's recently quarantined messages; "" if there is none.
func Unusable(ctx context.Context, p *topics.Pipeline, topic string) (reason string, err error) {
	spans, err := p.Log.Spans(ctx, p.Topics.Quarantine)
	if err != nil || len(spans) == 0 {
		return "", err
	}
	span := spans[0]
	err = p.Remaining(ctx, p.Topics.Quarantine, span.Partition, max(span.From, span.To-lastQuarantined), span.To,
		func(m protocol.Message) error {
			q, err := schemas.QuarantinedOf(m.Message)
			if err == nil && q.Topic == topic && reason == "" { // other content of the topic is ignored
				reason = reasonOf(q.Topic, q.Partition, q.Offset, q.Reason)
			}
			return nil
		})
	return reason, err
}
