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

// NothingUsableError says that ingest has read a topic and could use none of its messages.
type NothingUsableError struct {
	Topic    string
	Messages int64  // that are in quarantine
	First    string // why one of them can't be used, and where it is
}

// Error returns how many messages there were, and why one can't be used.
func (e *NothingUsableError) Error() string {
	return fmt.Sprintf("%s of %s: none could be used. %s", english.Plural(int(e.Messages), "message", ""), e.Topic, e.First)
}

// usage is whether messages of a topic could be used. The zero value has seen none.
type usage struct {
	used  atomic.Bool            // a message was
	bad   atomic.Int64           // messages that could not be used
	first atomic.Pointer[string] // why one of them could not, and where it is
}

// refused notes that a message can't be used.
func (u *usage) refused(reason string) {
	u.bad.Add(1)
	u.first.CompareAndSwap(nil, &reason)
}

// check returns a *NothingUsableError if there were messages, and none of them could be used.
func (u *usage) check(topic string) error {
	if first := u.first.Load(); first != nil && !u.used.Load() {
		return &NothingUsableError{Topic: topic, Messages: u.bad.Load(), First: *first}
	}
	return nil
}

// reasonOf says where a message is and why it can't be used.
func reasonOf(topic string, partition int, offset int64, reason string) string {
	return fmt.Sprintf("%s[%d]@%d: %s", topic, partition, offset, reason)
}

// lastQuarantined is how many messages in quarantine are looked at for one of a topic.
const lastQuarantined = 100

// Unusable says why a message of a topic is in quarantine, and where it is: the first of the last ones; "" if there is none.
func Unusable(ctx context.Context, p *topics.Pipeline, topic string) (reason string, err error) {
	spans, err := p.Log.Spans(ctx, p.Topics.Quarantine)
	if err != nil || len(spans) == 0 {
		return "", err
	}
	span := spans[0]
	err = p.Remaining(ctx, p.Topics.Quarantine, span.Partition, max(span.From, span.To-lastQuarantined), span.To,
		func(m protocol.Message) error {
			q, err := schemas.QuarantinedOf(m.Message)
			if err == nil && q.Topic == topic && reason == "" { // what others write there is of no use here
				reason = reasonOf(q.Topic, q.Partition, q.Offset, q.Reason)
			}
			return nil
		})
	return reason, err
}
