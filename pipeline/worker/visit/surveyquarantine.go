package visit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// quarantine writes unusable messages of a survey to the quarantine topic. It is safe for concurrent use.
//
// It does not write messages again that an earlier survey has written. The runs of a chain need not check each other's:
// the messages that an earlier increment skips were written by its run, see [quarantine.choose]. So a run only needs to
// know the messages written since its plan was made. It reads these at the first unusable message, regardless of earlier
// ones. A run not preceded by a version of a chain reads the whole topic instead. The
// topic is not compacted, because people read the reasons on it, so each must stay until retention deletes it. If two
// workers survey a partition concurrently, because one has not noticed yet that it has lost the partition, a message may
// be written twice, with the same key.
type quarantine struct {
	*Run

	mutex sync.Mutex
	there map[[2]int64]bool // partitions and offsets of the messages; nil: the topic is not read yet
}

// choose returns the messages of a segment that belong on the topic: unusable ones, and usable ones with unknown labels.
// In a full run of a chain most increments belong to earlier runs, which have already written theirs.
func (q *quarantine) choose(s *Segment, bad, unknown []schemas.Quarantined) []schemas.Quarantined {
	chain := q.Plan.Chain
	if chain == nil || chain.Update != nil || len(chain.Increments) == 0 {
		return append(bad, unknown...)
	}
	of := &chain.Increments[s.Increment]
	if of.Number == chain.Number {
		return append(bad, unknown...)
	}
	return slices.DeleteFunc(bad, func(m schemas.Quarantined) bool { return of.Skips(m.Partition, m.Offset) })
}

// put writes the unusable messages of a segment to the topic, and returns when all are acknowledged. So memory holds the
// unusable messages of at most as many segments as there are processors.
func (q *quarantine) put(ctx context.Context, number int, bad []schemas.Quarantined) error {
	if len(bad) == 0 {
		return nil
	}
	topics := q.Topics
	missing, err := q.missing(ctx, number, bad)
	if err != nil {
		return fmt.Errorf("read %s: %w", topics.Quarantine, err)
	}
	messages := make([]wire.Message, len(missing))
	for i, m := range missing {
		messages[i] = m.Message()
	}
	if _, err := q.Log.Append(ctx, topics.Quarantine, 0, messages...); err != nil {
		return fmt.Errorf("put %d messages of %s[%d] into quarantine: %w", len(messages), topics.Examples, number, err)
	}
	return nil
}

// missing returns the messages that are not on the topic yet.
func (q *quarantine) missing(ctx context.Context, number int, bad []schemas.Quarantined) (missing []schemas.Quarantined, err error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for q.there == nil {
		err := q.read(ctx)
		if errors.As(err, new(*kafkalog.DeletedError)) {
			continue // the topic lost messages while it was read
		}
		if err != nil {
			return nil, err
		}
	}
	for _, m := range bad {
		if !q.there[[2]int64{int64(number), m.Offset}] {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// read records the messages of the plan's spans that were written to the topic since the plan was made.
func (q *quarantine) read(ctx context.Context) error {
	there, spans := map[[2]int64]bool{}, map[int]coverage.Span{}
	for _, span := range q.Plan.Spans.Hulls() {
		spans[span.Partition] = span
	}
	topics, from := q.Topics, q.Plan.Since.Quarantine
	_, end, err := q.Log.Bounds(ctx, topics.Quarantine, 0)
	if err != nil {
		return err
	}
	if end < from { // the topic was recreated
		from = 0
	}
	for m, err := range q.Remaining(ctx, topics.Quarantine, 0, from, math.MaxInt64) {
		if err != nil {
			return err
		}
		topic, number, offset, ok := schemas.QuarantineKey(m.Key)
		if span, known := spans[number]; ok && topic == topics.Examples && known && span.From <= offset && offset < span.To {
			there[[2]int64{int64(number), offset}] = true
		}
	}
	q.there = there
	return nil
}

// quarantined returns an examples message in its quarantine format: without key and bytes if some of its rows were
// forgotten.
func (s *Survey) quarantined(number int, m protocol.Message, reason string) schemas.Quarantined {
	q := schemas.Quarantined{Topic: s.Client.Topics.Examples, Partition: number, Offset: m.Offset, Reason: reason, Key: m.Key,
		Bytes: len(m.Value), Trace: m.Trace(), Value: m.Value}
	if s.hasForgotten(number, m.Offset) {
		q.Key, q.Trace, q.Value = "", "", nil
	}
	return q
}

// causeOf returns the publishable reason why a message is unusable: errForgotten if some of its rows were forgotten.
func (s *Survey) causeOf(number int, offset int64, err error) error {
	if err != nil && !concernsRun(err) && s.hasForgotten(number, offset) {
		return errForgotten
	}
	return err
}

// shownCause is causeOf for the error that ends the run, which everybody sees: without values of the message's rows.
func (s *Survey) shownCause(number int, offset int64, err error) error {
	err = s.causeOf(number, offset, err)
	if err == nil || concernsRun(err) {
		return err
	}
	return errors.New(schemas.WithoutValues(err.Error()))
}

// errForgotten replaces the reason for messages with forgotten rows, because reasons often include values of the message.
var errForgotten = errors.New("the message can't be used, and rows of it were forgotten: its bytes, its key and the cause are left out")

// hasForgotten reports whether rows of a message were forgotten.
func (s *Survey) hasForgotten(number int, offset int64) (has bool) {
	s.Plan.Forgotten.In(number, offset, math.MaxInt, func(int, int) { has = true })
	return has
}
