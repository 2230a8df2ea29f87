package heed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// saidMessage is an examples message whose rows a forget message names, with the checksum that it had at that time.
type saidMessage struct {
	rows     coverage.ForgottenRows // rows of this message
	checksum string                 // "" means that the offset held no message
	said     time.Time
}

// messagesOf returns the examples messages for which a forget message has checksums.
func messagesOf(f schemas.Forget, said time.Time) (messages []saidMessage) {
	if len(f.Checksums) == 0 {
		return nil
	}
	i := 0
	for _, r := range f.Rows {
		for at := r.From; at < r.To; at++ {
			rows := r
			rows.From, rows.To = at, at+1
			messages = append(messages, saidMessage{rows, f.Checksums[i], said})
			i++
		}
	}
	return messages
}

// fewOffsets is the largest gap between two messages that is read rather than skipped: a second request would take longer.
const fewOffsets = 256

// Compare checks which of the messages not compared yet are still on the examples topic; rows of replaced messages are not
// forgotten. Messages beyond the end of the topic stay unknown, because another message may be written there.
func Compare(ctx context.Context, p *topics.Pipeline, f *Forgotten) error {
	if len(f.unknown) == 0 {
		return nil
	}
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return err
	}
	var known coverage.Forgotten
	var there, unknown []saidMessage
	for _, m := range f.unknown {
		switch s := m.rows.Span(); {
		case s.Partition >= len(bounds) || s.To > bounds[s.Partition].To:
			unknown = append(unknown, m)
		case s.From < bounds[s.Partition].From:
			known = append(known, m.rows) // deleted by retention, but versions may have been trained on it
		default:
			there = append(there, m)
		}
	}
	slices.SortStableFunc(there, func(a, b saidMessage) int {
		return cmp.Or(cmp.Compare(a.rows.Partition, b.rows.Partition), cmp.Compare(a.rows.From, b.rows.From))
	})
	var others []saidMessage
	for first := 0; first < len(there); {
		end := first + 1
		for end < len(there) && there[end].rows.Partition == there[first].rows.Partition &&
			there[end].rows.From-there[end-1].rows.From <= fewOffsets {
			end++
		}
		checksums := map[int64]string{}
		span := coverage.Span{Partition: there[first].rows.Partition, From: there[first].rows.From, To: there[end-1].rows.To}
		err := p.Remaining(ctx, p.Topics.Examples, span.Partition, span.From, span.To, func(m protocol.Message) error {
			checksums[m.Offset] = schemas.ForgetChecksum(m.Message)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the messages whose rows were forgotten: %w", err)
		}
		for _, m := range there[first:end] {
			if now, has := checksums[m.rows.From]; !has || now == m.checksum {
				known = append(known, m.rows)
			} else {
				others = append(others, m)
			}
		}
		first = end
	}
	f.Rows, f.others, f.unknown = f.Rows.Union(known), append(f.others, others...), unknown
	return nil
}

// otherBefore returns the rows of messages that are not on the examples topic, but on which a version written at the given
// time may have been trained. A later version was trained on the messages that replaced them.
func (f *Forgotten) otherBefore(written time.Time) (rows coverage.Forgotten) {
	for _, messages := range [][]saidMessage{f.others, f.unknown} {
		for _, m := range messages {
			if written.Before(m.said) {
				rows = append(rows, m.rows)
			}
		}
	}
	return rows
}

// Tell reports the forgotten offsets that now hold other messages.
func (f *Forgotten) Tell(topic string, rec event.Recorder) {
	if f.told == len(f.others) {
		return
	}
	var rows coverage.Forgotten
	for _, m := range f.others[f.told:] {
		rows = append(rows, m.rows)
	}
	f.told = len(f.others)
	event.Notice(rec, "rows at %v of %s were forgotten, but these offsets now hold other messages, which are not forgotten",
		rows.Union(nil).Spans(), topic)
}
