package topics

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

// remadeReader reads a range of an examples partition: from the origins and the followed topic what has expired, then from the
// examples topic, of which more may expire meanwhile.
type remadeReader struct {
	*Remade
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
	asked int64             // last offset that was asked for
	head  *protocol.Message // last message that was read, at that offset or a later one
}

// Close closes all readers.
func (r *remadeReader) Close() (err error) {
	if r.there != nil {
		err = r.there.Close()
	}
	for _, s := range r.source {
		err = errors.Join(err, s.Close())
	}
	return err
}

// errLost means that the followed topic lacks messages that a message was made from.
var errLost = errors.New("messages of the followed topic are gone")

// Next returns the next message. An error is a *[kafkalog.DeletedError] if the message has expired and can't be made again.
func (r *remadeReader) Next(ctx context.Context) (protocol.Message, error) {
	for {
		m, err := r.read(ctx)
		deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
		switch {
		case errors.Is(err, errLost):
			r.lose(r.origins.Span)
			return m, &kafkalog.DeletedError{Topic: r.raw.Topics.Examples, Partition: r.partition, Wanted: r.next, First: r.origins.Span.To,
				End: r.to}
		case ok && r.there != nil && deleted.Wanted < deleted.First && !r.lost: // it has expired meanwhile
			err := r.there.Close()
			if r.there = nil; err != nil {
				return m, err
			}
		case err == nil:
			r.next = m.Offset + 1
			return m, nil
		default:
			return m, err
		}
	}
}

// read reads or makes the next message.
func (r *remadeReader) read(ctx context.Context) (m protocol.Message, err error) {
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
				return r.make(ctx, s)
			}
		}
		if r.next, r.origins = r.origins.Span.To, nil; r.next >= r.to {
			return m, io.EOF
		}
	}
	return r.there.Next(ctx)
}

// begin finds where the next messages are.
func (r *remadeReader) begin(ctx context.Context) error {
	first, _, err := r.Remade.Log.Bounds(ctx, r.raw.Topics.Examples, r.partition)
	if err == nil && r.next < first {
		r.origins, err = r.originsAt(ctx, r.partition, r.next)
	}
	if err == nil && r.origins == nil {
		r.lost = r.next < first
		r.there = r.Remade.Log.Range(r.raw.Topics.Examples, r.partition, r.next, r.to)
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

// changed returns a *ChangedError for a message.
func (r *remadeReader) changed(offset int64, err error) error {
	return &ChangedError{r.raw.Topics.Examples, r.partition, offset, r.options.FromTopic, err}
}

// make makes a message again.
func (r *remadeReader) make(ctx context.Context, s schemas.Stub) (m protocol.Message, err error) {
	m = protocol.Message{Message: wire.Message{Key: s.Key, Headers: s.Headers}, Offset: s.Offset, Time: time.UnixMilli(s.Time)}
	if template := string(r.origins.Template); r.values == nil || r.template != template {
		o := r.options
		o.Options = o.After(ingest.RowsOf(r.origins.Template, o.FromTopic))
		o.BatchRows = math.MaxInt // the origins say which rows are in a message
		r.template = template
		if r.values, err = ingest.NewValues(o); err != nil {
			return m, r.changed(s.Offset, err)
		}
	}
	origins, err := examples.RowOriginsOf(m.Message)
	if err != nil {
		return m, err
	}
	r.values.Take()
	var blank []bool // by row: it is forgotten, and no longer on the followed topic
	for _, o := range origins {
		for i := range int64(o.Messages) {
			gone, err := r.add(ctx, o.Partition, o.Offset+i, &s, len(blank), len(blank)+o.Rows)
			if err != nil {
				return m, err
			}
			blank = append(blank, slices.Repeat([]bool{gone}, o.Rows)...)
		}
	}
	var record arrow.Record
	if rows := r.values.Take(); rows != nil {
		record = rows.Record(r.memory)
		defer record.Release()
	}
	switch {
	case slices.Contains(blank, true):
		checksum, _ := strconv.ParseUint(s.Checksum, 16, 32) // the rows that are there are not compared
		had := uint32(checksum)
		m.Had = &had
		m.Value, err = examples.WithBlanks(r.origins.Template, record, blank, r.memory)
	case record != nil:
		m.Value, err = examples.Encode(record, r.memory)
	}
	if err == nil && schemas.ForgetChecksum(m.Message) != s.Checksum {
		err = r.changed(s.Offset, nil)
	}
	return m, err
}

// add adds the rows of a message of the followed topic, which were the rows [first, end) of a message of the examples. It reports whether
// they are gone because they are forgotten. The error is errLost if the message has been deleted, and a *ChangedError if it has other rows.
func (r *remadeReader) add(ctx context.Context, partition int, offset int64, s *schemas.Stub, first, end int) (gone bool, err error) {
	m, err := r.followed(ctx, partition, offset)
	deleted := errors.As(err, new(*kafkalog.DeletedError))
	switch {
	case err == nil && m != nil:
		if _, err = r.values.Add(ctx, ingest.MessageOf(partition, offset, m.Time, m.Message, m.Row)); err == nil {
			return false, nil
		}
		if unusable, _ := ingest.Unusable(err); unusable && ctx.Err() == nil {
			err = r.changed(s.Offset, err)
		}
	case err == nil:
		err = r.changed(s.Offset, fmt.Errorf("%s[%d] has no message at offset %d, and its rows are not forgotten", r.options.FromTopic,
			partition, offset))
	}
	if deleted || ingest.IsGap(err) || errors.As(err, new(*ChangedError)) {
		if gone, failure := r.forgotten(ctx, s, first, end); gone || failure != nil {
			return gone, failure
		}
	}
	if deleted {
		return false, errLost
	}
	if !errors.As(err, new(*ChangedError)) {
		err = fmt.Errorf("make %s[%d]@%d again: %w", r.raw.Topics.Examples, r.partition, s.Offset, err)
	}
	return false, err
}

// forgotten reports whether the rows [first, end) of a message are forgotten.
func (r *remadeReader) forgotten(ctx context.Context, s *schemas.Stub, first, end int) (bool, error) {
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
func (r *remadeReader) followed(ctx context.Context, partition int, offset int64) (*protocol.Message, error) {
	s := r.source[partition]
	if s == nil || offset < s.asked || offset-s.asked > wideGap {
		_, end, err := r.Remade.Log.Bounds(ctx, r.options.FromTopic, partition)
		if err == nil && s != nil {
			err = s.Close()
		}
		if err != nil {
			return nil, err
		}
		s = &following{Reader: r.Remade.Log.Range(r.options.FromTopic, partition, offset, end)}
		r.source[partition] = s
	}
	for s.asked = offset; s.head == nil || s.head.Offset < offset; {
		m, err := s.Next(ctx)
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			delete(r.source, partition) // its errors are final
			return nil, errors.Join(err, s.Close())
		}
		s.head = &m
	}
	if s.head.Offset > offset {
		return nil, nil
	}
	return s.head, nil
}
