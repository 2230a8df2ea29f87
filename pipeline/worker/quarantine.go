package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// quarantine is where one survey puts messages that can't be used. It is safe for concurrent use.
//
// A message that is there from an earlier survey is not put there again. To know which are, the first bad message of a survey
// makes it read the topic once, from end to end. A message's key names its offset, but only compaction would let a broker
// find a key, and people look at the reasons on this topic, so each must stay until its time is over. Of what is read, one bit
// for each offset of the plan is kept. Two surveys of a partition at the same time, which a worker makes that does not know
// that it was superseded, may put a message there twice, under the same key.
type quarantine struct {
	client *run.Client
	plan   *schemas.Plan

	mutex sync.Mutex
	there map[int]offsets // by partition; nil: the topic is not read yet
}

// put returns when all of a segment's bad messages are on the topic. So no more of them are in memory than processors have
// segments.
func (q *quarantine) put(ctx context.Context, partition int, bad []schemas.Quarantined) error {
	if len(bad) == 0 {
		return nil
	}
	topics := q.client.Topics
	missing, err := q.missing(ctx, partition, bad)
	if err != nil {
		return fmt.Errorf("read %s: %w", topics.Quarantine, err)
	}
	messages := make([]schemas.Message, len(missing))
	for i, m := range missing {
		messages[i] = m.Message()
	}
	if _, err := q.client.Log.Append(ctx, topics.Quarantine, 0, messages...); err != nil {
		return fmt.Errorf("put %d messages of %s[%d] into quarantine: %w", len(messages), topics.Examples, partition, err)
	}
	return nil
}

// missing returns which of the messages are not on the topic yet.
func (q *quarantine) missing(ctx context.Context, partition int, bad []schemas.Quarantined) (missing []schemas.Quarantined, err error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for q.there == nil {
		err := q.read(ctx)
		if errors.As(err, new(*kafkalog.DeletedError)) {
			continue // retention was faster: what it has deleted is not there
		}
		if err != nil {
			return nil, err
		}
	}
	for _, m := range bad {
		if !q.there[partition].has(m.Offset) {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// read finds which messages of the plan's spans are on the topic.
func (q *quarantine) read(ctx context.Context) error {
	there, spans := map[int]offsets{}, map[int]schemas.Span{}
	for _, span := range q.plan.Spans {
		there[span.Partition], spans[span.Partition] = offsets{}, span
	}
	topics := q.client.Topics
	err := q.client.Each(ctx, topics.Quarantine, 0, func(m run.Message) error {
		topic, partition, offset, ok := schemas.QuarantineKey(m.Key)
		if span, known := spans[partition]; ok && topic == topics.Examples && known && span.From <= offset && offset < span.To {
			there[partition].add(offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	q.there = there
	return nil
}

// offsets is a set of offsets: for each page of 4096 that has any, a bit for each.
type offsets map[int64]*[64]uint64

func (o offsets) add(offset int64) {
	page := o[offset>>12]
	if page == nil {
		page = new([64]uint64)
		o[offset>>12] = page
	}
	page[offset>>6&63] |= 1 << (offset & 63)
}

func (o offsets) has(offset int64) bool {
	page := o[offset>>12]
	return page != nil && page[offset>>6&63]&(1<<(offset&63)) != 0
}
