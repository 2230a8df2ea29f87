package pipeline

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// unusable is a message that can't be used, and why.
type unusable struct {
	raw
	reason string
}

// quarantineRoom is what the headers of a message in quarantine may take; its
// reason and the key that it had are cut to fit.
const quarantineRoom = 8 << 10

func cut(text string) string { return text[:min(len(text), quarantineRoom/4)] }

// quarantineAll puts messages that can't be used onto the quarantine topic:
// their bytes, as many as fit, where they came from, and why. What is there from
// an earlier run is not put there again.
func (w *worker) quarantineAll(ctx context.Context, partition int, bad []unusable) error {
	if len(bad) == 0 {
		return nil
	}
	there := map[string]bool{}
	err := w.each(ctx, w.quarantine, 0, func(m kafkalog.Message) error {
		there[string(m.Key)] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("read quarantine: %w", err)
	}
	for _, u := range bad {
		w.rec.Record(Quarantined{Partition: partition, Offset: u.offset, Reason: u.reason})
		key := fmt.Sprintf("%s/%d/%d", w.examples, partition, u.offset)
		if there[key] {
			continue
		}
		value := u.message.Value
		m := schemas.Message{Key: key, Value: value[:min(len(value), schemas.MaxMessage-quarantineRoom)], Headers: []schemas.Header{
			{Key: "kind", Value: "quarantine"}, {Key: "topic", Value: w.examples},
			{Key: "partition", Value: strconv.Itoa(partition)}, {Key: "offset", Value: strconv.FormatInt(u.offset, 10)},
			{Key: "reason", Value: cut(u.reason)}, {Key: "key", Value: cut(u.message.Key)}, {Key: "bytes", Value: strconv.Itoa(len(value))},
		}}
		if _, err := w.write(ctx, w.quarantine, 0, m); err != nil {
			return fmt.Errorf("put %s into quarantine: %w", key, err)
		}
	}
	return nil
}
