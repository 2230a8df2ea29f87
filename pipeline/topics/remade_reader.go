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

// maker makes a range of the messages of an examples partition again, from the origins and the followed topic.
type maker struct {
	*Remade
	partition int
	next, to  int64

	origins   *schemas.Origins   // of the span with next; nil: none
	values    *ingest.Values     // for rows as in the template of origins; nil: not begun
	following map[int]*following // by partition of the followed topic
	forgets   []schemas.Forget   // the forget topic; nil: not read
}

// following is the reader of a partition of the followed topic. Its next message is at the last offset that was asked for, or later.
type following struct {
	ahead
	asked int64
}

// Close closes all readers.
func (r *maker) Close() (err error) {
	for _, s := range r.following {
		err = errors.Join(err, s.Close())
	}
	return err
}

// errLost means that the followed topic lacks messages that a message was made from.
var errLost = errors.New("messages of the followed topic are gone")

// Next makes the next message.
func (r *maker) Next(ctx context.Context) (m protocol.Message, err error) {
	for r.next < r.to {
		if r.origins == nil {
			if r.origins, err = r.originsAt(ctx, r.partition, r.next); err != nil {
				return m, err
			}
			if r.origins == nil {
				return m, r.deleted(r.to)
			}
		}
		for _, s := range r.origins.Stubs {
			if s.Offset >= r.next && s.Offset < r.to {
				m, err = r.make(ctx, s)
				if errors.Is(err, errLost) {
					r.lose(r.origins.Span)
					return m, r.deleted(r.origins.Span.To)
				}
				if err == nil {
					r.next = s.Offset + 1
				}
				return m, err
			}
		}
		r.next, r.origins, r.values = r.origins.Span.To, nil, nil
	}
	return m, io.EOF
}

// deleted returns the error about messages up to an offset that have expired and can't be made again.
func (r *maker) deleted(to int64) error {
	return &kafkalog.DeletedError{Topic: r.topic, Partition: r.partition, Wanted: r.next, First: to, End: r.to}
}

// changed returns the error for a message that has expired and can't be made again, since that gives another one. why is the reason.
func (r *maker) changed(offset int64, why error) error {
	return fmt.Errorf("%s[%d]@%d has expired, and is not the same if it is made again from %s: %w. Restore the keys under examples with "+
		"which it was made, and the schemas of its messages", r.topic, r.partition, offset, r.options.FromTopic, why)
}

var errOtherRows = errors.New("its rows are now others")

// make makes a message again.
func (r *maker) make(ctx context.Context, s schemas.Stub) (m protocol.Message, err error) {
	m = protocol.Message{Message: wire.Message{Key: s.Key, Headers: s.Headers}, Offset: s.Offset, Time: time.UnixMilli(s.Time)}
	if r.values == nil {
		o := r.options
		o.Options = o.After(ingest.RowsOf(r.origins.Template, o.FromTopic))
		o.BatchRows = math.MaxInt // the origins say which rows are in a message
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
		err = r.changed(s.Offset, errOtherRows)
	}
	return m, err
}

// add adds the rows of a message of the followed topic, which were the rows [first, end) of a message of the examples. It reports whether
// they are gone because they are forgotten. The error is errLost if the message has been deleted.
func (r *maker) add(ctx context.Context, partition int, offset int64, s *schemas.Stub, first, end int) (gone bool, err error) {
	m, err := r.followed(ctx, partition, offset)
	deleted, other := errors.As(err, new(*kafkalog.DeletedError)), false
	switch {
	case err == nil && m != nil:
		if _, err = r.values.Add(ctx, ingest.MessageOf(partition, offset, m.Time, m.Message, m.Row)); err == nil {
			return false, nil
		}
		unusable, _ := ingest.Unusable(err)
		other = unusable && ctx.Err() == nil
	case err == nil:
		other, err = true, fmt.Errorf("%s[%d] has no message at offset %d, and its rows are not forgotten", r.options.FromTopic, partition,
			offset)
	}
	if deleted || other || ingest.IsGap(err) {
		if gone, failure := r.forgotten(ctx, s, first, end); gone || failure != nil {
			return gone, failure
		}
	}
	switch {
	case deleted:
		return false, errLost
	case other:
		return false, r.changed(s.Offset, err)
	}
	return false, fmt.Errorf("make %s[%d]@%d again: %w", r.topic, r.partition, s.Offset, err)
}

// forgotten reports whether the rows [first, end) of a message are forgotten.
func (r *maker) forgotten(ctx context.Context, s *schemas.Stub, first, end int) (bool, error) {
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
func (r *maker) followed(ctx context.Context, partition int, offset int64) (*protocol.Message, error) {
	s := r.following[partition]
	if s == nil || offset < s.asked || offset-s.asked > wideGap {
		_, end, err := r.Log.Bounds(ctx, r.options.FromTopic, partition)
		if err == nil && s != nil {
			err = s.Close()
		}
		if err != nil {
			return nil, err
		}
		s = &following{ahead: ahead{Reader: r.Log.Range(r.options.FromTopic, partition, offset, end)}}
		r.following[partition] = s
	}
	for s.asked = offset; ; s.head = nil {
		m, err := s.peek(ctx)
		if err != nil {
			delete(r.following, partition) // its errors are final
			err = errors.Join(err, s.Close())
			if hole, ok := errors.AsType[*kafkalog.DeletedError](err); ok && hole.Wanted < offset && hole.First <= offset {
				return r.followed(ctx, partition, offset) // nothing that is asked for is in the hole
			}
			return nil, err
		}
		if m == nil || m.Offset > offset {
			return nil, nil
		}
		if m.Offset == offset {
			return m, nil
		}
	}
}
