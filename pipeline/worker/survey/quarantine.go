package survey

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/decode"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// quarantine puts the messages that one survey can't use onto the quarantine topic. It is safe for concurrent use.
//
// It does not put a message there that an earlier survey has put there. The runs of a chain know that of each other:
// what an increment of an earlier run skips, that run has put there, see [quarantine.choose]. So a run need know only
// what was put there since its plan was made. It reads that at the first bad message, whatever came before it. A run
// that no version of a chain is behind reads the whole topic instead. It keeps one bit for each offset. The topic is
// not compacted, because people read the reasons on it, so each must stay until retention deletes it. If two workers
// survey a partition at the same time, as one does not know yet that it has lost the partition, a message may come
// there twice, under the same key.
type quarantine struct {
	client *protocol.Client
	plan   *schemas.Plan

	mutex sync.Mutex
	there map[int]offsets // by partition; nil: the topic is not read yet
}

// choose returns those messages of a segment that belong onto the topic: bad ones, and usable ones with labels that are
// no class. In a full run of a chain most increments are of earlier runs, which have put there what they skip, and what
// had such labels.
func (q *quarantine) choose(s *partition.Segment, bad, unknown []schemas.Quarantined) []schemas.Quarantined {
	chain := q.plan.Chain
	if chain == nil || chain.Update != nil || len(chain.Increments) == 0 {
		return append(bad, unknown...)
	}
	of := &chain.Increments[s.Increment]
	if of.Number == chain.Number {
		return append(bad, unknown...)
	}
	return slices.DeleteFunc(bad, func(m schemas.Quarantined) bool { return of.Skips(m.Partition, m.Offset) })
}

// put puts the bad messages of a segment onto the topic, and returns when all are there. So memory holds the bad messages of no
// more segments than there are processors.
func (q *quarantine) put(ctx context.Context, number int, bad []schemas.Quarantined) error {
	if len(bad) == 0 {
		return nil
	}
	topics := q.client.Topics
	missing, err := q.missing(ctx, number, bad)
	if err != nil {
		return fmt.Errorf("read %s: %w", topics.Quarantine, err)
	}
	messages := make([]wire.Message, len(missing))
	for i, m := range missing {
		messages[i] = m.Message()
	}
	if _, err := q.client.Log.Append(ctx, topics.Quarantine, 0, messages...); err != nil {
		return fmt.Errorf("put %d messages of %s[%d] into quarantine: %w", len(messages), topics.Examples, number, err)
	}
	return nil
}

// missing returns which of the messages are not on the topic yet.
func (q *quarantine) missing(ctx context.Context, number int, bad []schemas.Quarantined) (missing []schemas.Quarantined, err error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for q.there == nil {
		err := q.read(ctx)
		if errors.As(err, new(*kafkalog.DeletedError)) {
			continue // retention has deleted messages meanwhile: these are not there
		}
		if err != nil {
			return nil, err
		}
	}
	for _, m := range bad {
		if !q.there[number].has(m.Offset) {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// read notes which messages of the plan's spans were put onto the topic since the plan was made.
func (q *quarantine) read(ctx context.Context) error {
	there, spans := map[int]offsets{}, map[int]coverage.Span{}
	for _, span := range q.plan.Spans.Hulls() {
		there[span.Partition], spans[span.Partition] = offsets{}, span
	}
	topics, from := q.client.Topics, q.plan.Since.Quarantine
	_, end, err := q.client.Log.Bounds(ctx, topics.Quarantine, 0)
	if err != nil {
		return err
	}
	if end < from { // the topic was made anew
		from = 0
	}
	err = q.client.Remaining(ctx, topics.Quarantine, 0, from, math.MaxInt64, func(m protocol.Message) error {
		topic, number, offset, ok := schemas.QuarantineKey(m.Key)
		if span, known := spans[number]; ok && topic == topics.Examples && known && span.From <= offset && offset < span.To {
			there[number].add(offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	q.there = there
	return nil
}

// quarantined returns a message of the examples as it is put into quarantine: without its key and its bytes if some of
// its rows were forgotten.
func (s *Survey) quarantined(number int, m partition.Message, reason string) schemas.Quarantined {
	q := schemas.Quarantined{Topic: s.Client.Topics.Examples, Partition: number, Offset: m.Offset, Reason: reason, Key: m.Key,
		Bytes: len(m.Value), Value: m.Value}
	if s.hasForgotten(number, m.Offset) {
		q.Key, q.Value = "", nil
	}
	return q
}

// causeOf returns why a message can't be used as all may read it: errForgotten if some of its rows were forgotten.
func (s *Survey) causeOf(number int, offset int64, err error) error {
	if err != nil && !decode.ConcernsRun(err) && s.hasForgotten(number, offset) {
		return errForgotten
	}
	return err
}

// errForgotten says why a message can't be used of which nothing may be published: what is wrong with a message often has a value of it.
var errForgotten = errors.New("the message can't be used, and rows of it were forgotten: its bytes, its key and the cause are left out")

// hasForgotten reports whether rows of a message were forgotten.
func (s *Survey) hasForgotten(number int, offset int64) (has bool) {
	s.Plan.Forgotten.In(number, offset, math.MaxInt, func(int, int) { has = true })
	return has
}

// offsets is a set of offsets. It has a bit for each offset of every page of 4096 that is not empty.
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
