package source

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dustin/go-humanize/english"

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
