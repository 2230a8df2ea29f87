package remade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// reader reads a range of an examples partition: from the origins and the followed topic what has expired, then from the
// examples topic, of which more may expire meanwhile.
type reader struct {
	*Log
	partition int
	next, to  int64
	there     protocol.Reader // of the examples topic; nil: not opened
	lost      bool            // the messages at next can't be made again

	origins  *schemas.Origins   // of the span with next; nil: none
	template string             // of values
	values   *ingest.Values     // for rows as in the template
	source   map[int]*following // by partition of the followed topic
	forgets  []schemas.Forget   // the forget topic; nil: not read
}

// following is the reader of a partition of the followed topic.
type following struct {
	protocol.Reader
	next  int64             // offset after the last message that was read
	ahead *protocol.Message // read too early
}

// Close closes all readers.
func (r *reader) Close() error {
	var all []error
	if r.there != nil {
		all = append(all, r.there.Close())
	}
	for _, s := range r.source {
		all = append(all, s.Close())
	}
	return errors.Join(all...)
}

// Next returns the next message. An error is a *[kafkalog.DeletedError] if the message has expired and can't be made again.
func (r *reader) Next(ctx context.Context) (m protocol.Message, err error) {
	for r.there == nil {
		if r.origins == nil {
			if err := r.begin(ctx); err != nil {
				return m, err
			}
			continue
		}
		for _, s := range r.origins.Stubs {
			if s.Offset >= r.to {
				return m, io.EOF
			}
			if s.Offset >= r.next {
				r.next = s.Offset + 1
				return r.make(ctx, s)
			}
		}
		if r.next, r.origins = r.origins.Span.To, nil; r.next >= r.to {
			return m, io.EOF
		}
	}
	m, err = r.there.Next(ctx)
	if deleted, ok := errors.AsType[*kafkalog.DeletedError](err); ok && deleted.Wanted < deleted.First && !r.lost {
		err := r.there.Close()
		if r.there = nil; err != nil {
			return m, err
		}
		return r.Next(ctx)
	}
	if err == nil {
		r.next = m.Offset + 1
	}
	return m, err
}

// begin finds where the next messages are.
func (r *reader) begin(ctx context.Context) error {
	first, _, err := r.Log.Log.Bounds(ctx, r.raw.Topics.Examples, r.partition)
	if err == nil && r.next < first {
		r.origins, err = r.originsAt(ctx, r.partition, r.next)
	}
	if err == nil && r.origins == nil {
		r.lost = r.next < first
		r.there = r.Log.Log.Range(r.raw.Topics.Examples, r.partition, r.next, r.to)
	}
	return err
}

// ChangedError means that an expired message of the examples can't be made again: that gave another one.
type ChangedError struct {
	Topic     string // examples topic
	Partition int
	Offset    int64
	From      string // followed topic
	Err       error  // nil: the rows have other values
}

// Unwrap returns Err.
func (e *ChangedError) Unwrap() error { return e.Err }

// Error includes the reason and the remedy.
func (e *ChangedError) Error() string {
	why := "its rows are now others"
	if e.Err != nil {
		why = e.Err.Error()
	}
	return fmt.Sprintf("%s[%d]@%d has expired, and is not the same if it is made again from %s: %s. Restore the keys under examples with "+
		"which it was made, and the schemas of its messages", e.Topic, e.Partition, e.Offset, e.From, why)
}

// make makes a message again.
func (r *reader) make(ctx context.Context, s schemas.Stub) (m protocol.Message, err error) {
	m = protocol.Message{Message: wire.Message{Key: s.Key, Headers: s.Headers}, Offset: s.Offset, Time: time.UnixMilli(s.Time)}
	changed := &ChangedError{r.raw.Topics.Examples, r.partition, s.Offset, r.options.FromTopic, nil}
	if template := string(r.origins.Template); r.values == nil || r.template != template {
		o := r.options
		o.Options = o.After(ingest.RowsOf(r.origins.Template, o.FromTopic))
		o.BatchRows = math.MaxInt // the origins say which rows are in a message
		r.template = template
		if r.values, changed.Err = ingest.NewValues(o); changed.Err != nil {
			return m, changed
		}
	}
	origins, err := examples.RowOriginsOf(m.Message)
	if err != nil {
		return m, err
	}
	r.values.Take()
	var blank []bool // by row: it is forgotten, and no longer on the followed topic
	some := false
	for _, o := range origins {
		for i := range int64(o.Messages) {
			err := r.add(ctx, o.Partition, o.Offset+i)
			gone := false
			if changed.Err = err; err != nil && ctx.Err() == nil {
				gone, err = r.forgotten(ctx, &s, len(blank), len(blank)+o.Rows)
				if err == nil && !gone {
					if err = changed.Err; !errors.As(err, new(*kafkalog.DeletedError)) {
						return m, changed
					}
				}
			}
			if err != nil {
				return m, fmt.Errorf("make %s[%d]@%d again: %w", changed.Topic, r.partition, s.Offset, err)
			}
			some = some || gone
			blank = append(blank, slices.Repeat([]bool{gone}, o.Rows)...)
		}
	}
	changed.Err = nil
	var record arrow.Record
	if rows := r.values.Take(); rows != nil {
		record = rows.Record(r.memory)
		defer record.Release()
	}
	switch {
	case some:
		checksum, _ := strconv.ParseUint(s.Checksum, 16, 32) // the rows that are there are not compared
		had := uint32(checksum)
		m.Had = &had
		m.Value, err = examples.WithBlanks(r.origins.Template, record, blank, r.memory)
	case record != nil:
		m.Value, err = examples.Encode(record, r.memory)
	}
	if err == nil && schemas.ForgetChecksum(m.Message) != s.Checksum {
		return m, changed
	}
	return m, err
}

// add adds the rows of the message at an offset of the followed topic to the values.
func (r *reader) add(ctx context.Context, partition int, offset int64) error {
	m, err := r.followed(ctx, partition, offset)
	if err == nil && m == nil {
		err = fmt.Errorf("%s[%d] has no message at offset %d, and its rows are not forgotten", r.options.FromTopic, partition, offset)
	}
	if err == nil {
		_, err = r.values.Add(ctx, ingest.MessageOf(partition, offset, m.Time, m.Message))
	}
	return err
}

// forgotten reports whether the rows [first, end) of a message are forgotten.
func (r *reader) forgotten(ctx context.Context, s *schemas.Stub, first, end int) (bool, error) {
	if r.forgets == nil {
		r.forgets = []schemas.Forget{}
		err := r.raw.Remaining(ctx, r.raw.Topics.Forget, 0, 0, math.MaxInt64, func(m protocol.Message) error {
			if m.Value == nil || m.Kind() != schemas.KindForget {
				return nil
			}
			f, err := schemas.DecodeJSON[schemas.Forget](m.Message)
			if err == nil {
				r.forgets = append(r.forgets, *f)
			}
			return err
		})
		if err != nil && !errors.Is(err, kafkalog.ErrUnknownTopic) {
			return false, err
		}
	}
	var rows coverage.Forgotten
	for i := range r.forgets {
		rows = append(rows, r.forgets[i].Names(r.partition, s.Offset, s.Checksum)...)
	}
	these := coverage.ForgottenRows{Partition: r.partition, From: s.Offset, To: s.Offset + 1, First: first, End: end}
	return rows.Covers(coverage.Forgotten{these}), nil
}

// wideGap is the maximum number of messages that are read and discarded. Across a wider gap, the reader seeks.
const wideGap = 64

// followed returns the message at an offset of the followed topic; nil: there is none.
func (r *reader) followed(ctx context.Context, partition int, offset int64) (*protocol.Message, error) {
	s := r.source[partition]
	if s == nil || offset < s.next || offset-s.next > wideGap {
		_, end, err := r.Log.Log.Bounds(ctx, r.options.FromTopic, partition)
		if err == nil && s != nil {
			err = s.Close()
		}
		if err != nil {
			return nil, err
		}
		s = &following{Reader: r.Log.Log.Range(r.options.FromTopic, partition, offset, end)}
		r.source[partition] = s
	}
	for s.next = offset; ; {
		if s.ahead == nil {
			m, err := s.Next(ctx)
			if err == io.EOF {
				return nil, nil
			}
			if err != nil {
				delete(r.source, partition) // its errors are final
				return nil, errors.Join(err, s.Close())
			}
			s.ahead = &m
		}
		if s.ahead.Offset > offset {
			return nil, nil
		}
		m := s.ahead
		if s.ahead = nil; m.Offset == offset {
			s.next = offset + 1
			return m, nil
		}
	}
}
