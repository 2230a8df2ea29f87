package protocol

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Quarantine writes unusable messages to the quarantine topic, unless the topic has them. The topic is not compacted, because people read
// the reasons on it, so each must stay until retention deletes it. If two processes find a message unusable at the same time, it may be
// written twice, with the same key. A Quarantine is safe for concurrent use.
type Quarantine struct {
	Client *Client
	Topic  string // of the unusable messages; "": any
	// From returns the offset from which the quarantine topic is searched, given its end. The topic is read when the first message is
	// looked up.
	From func(end int64) int64
	// Unread reports whether a message was not read before, so that it is not looked up; nil: any may have been read.
	Unread func(*schemas.Quarantined) bool

	mutex sync.Mutex
	there map[string]bool // keys; nil: the topic is not read yet
}

// Has reports whether the topic had a message when it was read.
func (q *Quarantine) Has(ctx context.Context, m *schemas.Quarantined) (bool, error) {
	if q.Unread != nil && q.Unread(m) {
		return false, nil
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for q.there == nil {
		err := q.read(ctx)
		if err != nil && !errors.As(err, new(*kafkalog.DeletedError)) { // otherwise the topic lost messages while it was read
			return false, fmt.Errorf("read %s: %w", q.Client.Topics.Quarantine, err)
		}
	}
	return q.there[m.ID()], nil
}

// read reads the keys of the messages on the topic.
func (q *Quarantine) read(ctx context.Context) error {
	there, topic := map[string]bool{}, q.Client.Topics.Quarantine
	_, end, err := q.Client.Log.Bounds(ctx, topic, 0)
	if err != nil {
		return err
	}
	for m, err := range q.Client.Remaining(ctx, topic, 0, q.From(end), math.MaxInt64) {
		if err != nil {
			return err
		}
		if q.Topic == "" || strings.HasPrefix(m.Key, q.Topic+"/") {
			there[m.Key] = true
		}
	}
	q.there = there
	return nil
}

// Put writes the messages that the topic lacks, and returns them when all are acknowledged.
func (q *Quarantine) Put(ctx context.Context, messages []schemas.Quarantined) (put []schemas.Quarantined, err error) {
	var encoded []wire.Message
	for i := range messages {
		has, err := q.Has(ctx, &messages[i])
		if err != nil {
			return nil, err
		}
		if !has {
			put, encoded = append(put, messages[i]), append(encoded, messages[i].Message())
		}
	}
	if len(put) == 0 {
		return nil, nil
	}
	if _, err := q.Client.Log.Append(ctx, q.Client.Topics.Quarantine, 0, encoded...); err != nil {
		return nil, fmt.Errorf("put %d messages of %s into quarantine: %w", len(encoded), put[0].Topic, err)
	}
	return put, nil
}
