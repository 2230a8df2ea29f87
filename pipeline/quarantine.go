package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// unusable is a message that can't be used, and why.
type unusable struct {
	raw
	reason string
}

// quarantine is where one survey puts what can't be used: the bytes of each
// message, as many as fit, where it came from, and why.
//
// What is there from an earlier survey is not put there again. To know it, the
// first bad message of a survey makes it read the topic once, from end to end:
// a message's key says of which offset it is, but only compaction would let a
// broker find a key, and a topic of which people look at the reasons is to keep
// each of them until its time is over. Nothing of what is read is kept but a bit
// for each offset of the plan. Two surveys of a partition at the same time, which
// is what a worker makes that does not know that it was superseded, may put a
// message there twice; its key is the same.
type quarantine struct {
	desk
	plan *schemas.Plan

	mutex sync.Mutex
	there map[int]offsets // by partition; nil: the topic is not read yet
}

// put returns when all of a segment's bad messages are there: no more of them
// are in memory than benches have segments.
func (q *quarantine) put(ctx context.Context, partition int, bad []unusable) error {
	if len(bad) == 0 {
		return nil
	}
	lacking, err := q.lacking(ctx, partition, bad)
	if err != nil {
		return fmt.Errorf("read %s: %w", q.desk.quarantine, err)
	}
	messages := make([]schemas.Message, len(lacking))
	for i, u := range lacking {
		messages[i] = q.message(partition, u)
	}
	if _, err := q.write(ctx, q.desk.quarantine, 0, messages...); err != nil {
		return fmt.Errorf("put %d messages of %s[%d] into quarantine: %w", len(messages), q.examples, partition, err)
	}
	return nil
}

// lacking is which of them are not there yet.
func (q *quarantine) lacking(ctx context.Context, partition int, bad []unusable) (lacking []unusable, err error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for q.there == nil {
		err := q.read(ctx)
		if errors.As(err, new(*kafkalog.DeletedError)) {
			continue // retention was faster; what it has deleted is not there
		}
		if err != nil {
			return nil, err
		}
	}
	for _, u := range bad {
		if !q.there[partition].has(u.offset) {
			lacking = append(lacking, u)
		}
	}
	return lacking, nil
}

// read finds out which messages of the plan's spans are there.
func (q *quarantine) read(ctx context.Context) error {
	there, spans := map[int]offsets{}, map[int]schemas.Span{}
	for _, span := range q.plan.Spans {
		there[span.Partition], spans[span.Partition] = offsets{}, span
	}
	err := q.each(ctx, q.desk.quarantine, 0, func(m entry) error {
		place, ours := strings.CutPrefix(m.Key, q.examples+"/")
		partition, offset, _ := strings.Cut(place, "/")
		p, err := strconv.Atoi(partition)
		at, wrong := strconv.ParseInt(offset, 10, 64)
		if span, known := spans[p]; ours && err == nil && wrong == nil && known && span.From <= at && at < span.To {
			there[p].add(at)
		}
		return nil
	})
	if err != nil {
		return err
	}
	q.there = there
	return nil
}

func (q *quarantine) message(partition int, u unusable) schemas.Message {
	bad := schemas.Quarantined{
		Topic: q.examples, Partition: partition, Offset: u.offset, Reason: u.reason,
		Key: u.message.Key, Bytes: len(u.message.Value), Value: u.message.Value,
	}
	return bad.Message()
}

// offsets is a set of offsets: of each page of 4096 that has any, a bit for each.
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
