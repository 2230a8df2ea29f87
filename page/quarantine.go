package page

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// quarantine summarises the unusable messages.
type quarantine struct {
	recent  []BadMessage             // the newest first
	reasons map[string]*Reason       // by kind
	read    map[topicPartition]int64 // the offset after the last message of a partition that is there
	count   int64                    // messages that were read
}

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

// followQuarantine reads the last messages in quarantine, and follows new ones.
func (r *reader) followQuarantine(ctx context.Context) error {
	topic := r.client.Topics.Quarantine
	if exists, err := r.log.Exists(ctx, topic); err != nil || !exists {
		return err
	}
	first, end, err := r.client.Log.Bounds(ctx, topic, 0)
	if err != nil {
		return err
	}
	r.change(func() { r.quarantine, r.errors[partQuarantine] = quarantine{}, nil })
	subscription := r.client.Log.Subscribe(ctx, nil, protocol.Position{Topic: topic, Offset: max(first, end-maxBad), Compacted: true})
	defer subscription.Close()
	for {
		delivery, _, err := subscription.Next(ctx, time.Minute)
		if err != nil {
			return err
		}
		if delivery == nil {
			continue
		}
		if q, err := schemas.QuarantinedOf(delivery.Message.Message); err == nil { // others may write there
			if !r.options.Values {
				q.Reason = schemas.WithoutValues(q.Reason)
			}
			r.change(func() { r.quarantine.add(q, delivery.Time) })
		}
	}
}

// add takes a message.
func (q *quarantine) add(m *schemas.Quarantined, at time.Time) {
	bad := BadMessage{At: milliseconds(at), Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Bytes: m.Bytes, Reason: m.Reason}
	if q.recent = append([]BadMessage{bad}, q.recent...); len(q.recent) > maxBad {
		q.recent = q.recent[:maxBad]
	}
	if q.reasons == nil {
		q.reasons, q.read = map[string]*Reason{}, map[topicPartition]int64{}
	}
	q.count++
	from := topicPartition{m.Topic, m.Partition}
	q.read[from] = max(q.read[from], m.Offset+1)
	kind := reasonKind(m.Reason)
	if q.reasons[kind] == nil {
		if len(q.reasons) >= maxReasons {
			oldest := ""
			for text, reason := range q.reasons {
				if oldest == "" || reason.Last < q.reasons[oldest].Last {
					oldest = text
				}
			}
			delete(q.reasons, oldest)
		}
		q.reasons[kind] = &Reason{}
	}
	reason := q.reasons[kind]
	reason.Messages++
	reason.Last, reason.Reason = max(reason.Last, bad.At), m.Reason
}

// particulars matches the columns that a reason names, and the parts that differ between messages: values, sizes, offsets.
var particulars = regexp.MustCompile(`column (?:"(?:[^"\\]|\\.)*"|[^\s:,]+)|"(?:[^"\\]|\\.)*"|[0-9]+`)

// reasonKind returns a reason without the values of its message: messages with a word in place of a number have one kind for each column.
func reasonKind(reason string) string {
	return particulars.ReplaceAllStringFunc(reason, func(found string) string {
		if strings.HasPrefix(found, "column ") {
			return found
		}
		return "…"
	})
}

// state returns the quarantine for the page, given how many messages the topic has.
func (q *quarantine) state(held int64) Quarantine {
	s := Quarantine{Held: held, Read: q.count, Reasons: []Reason{}, Recent: slices.Clone(q.recent)}
	for _, reason := range q.reasons {
		s.Reasons = append(s.Reasons, *reason)
	}
	slices.SortFunc(s.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Reason, b.Reason))
	})
	if s.Recent == nil {
		s.Recent = []BadMessage{}
	}
	return s
}
