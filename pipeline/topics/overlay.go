package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/archive"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// overlay is a log on which a topic also has the messages of a source.
type overlay struct {
	protocol.Log
	source
	topic string
	alone bool // the source has all messages: the topic is not read
}

// source has messages that a topic has deleted.
type source interface {
	// partitions returns the number of partitions, given that of the topic.
	partitions(ctx context.Context, there int) (int, error)
	// reach returns the bounds of a partition with the messages of the source, given those of the topic.
	reach(ctx context.Context, partition int, first, end int64) (from, to int64, err error)
	// rows yields messages of a partition. Those from first on, which the topic has, may be omitted; the others are complete. An error is
	// a *kafkalog.DeletedError if the source lacks one.
	rows(ctx context.Context, partition int, from, to, first int64) iter.Seq2[protocol.Message, error]
}

// Partitions implements protocol.Log.
func (l *overlay) Partitions(ctx context.Context, topic string) (partitions int, err error) {
	if topic != l.topic || !l.alone {
		partitions, err = l.Log.Partitions(ctx, topic)
	}
	if topic != l.topic || err != nil {
		return partitions, err
	}
	return l.partitions(ctx, partitions)
}

// there returns the bounds of a partition of the topic.
func (l *overlay) there(ctx context.Context, partition int) (first, end int64, err error) {
	if l.alone {
		return math.MaxInt64, math.MaxInt64, nil
	}
	return l.Log.Bounds(ctx, l.topic, partition)
}

// Bounds implements protocol.Log.
func (l *overlay) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	if topic != l.topic {
		return l.Log.Bounds(ctx, topic, partition)
	}
	if first, end, err = l.there(ctx, partition); err != nil {
		return 0, 0, err
	}
	return l.reach(ctx, partition, first, end)
}

// Spans implements protocol.Log.
func (l *overlay) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	if topic != l.topic || !l.alone {
		spans, err = l.Log.Spans(ctx, topic)
	}
	if topic != l.topic || err != nil {
		return spans, err
	}
	partitions, err := l.partitions(ctx, len(spans))
	for p := 0; p < partitions && err == nil; p++ {
		if p == len(spans) {
			spans = append(spans, coverage.Span{Partition: p})
		}
		spans[p].From, spans[p].To, err = l.reach(ctx, p, spans[p].From, spans[p].To)
	}
	return spans, err
}

// Range implements protocol.Log.
func (l *overlay) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	if topic != l.topic {
		return l.Log.Range(ctx, topic, partition, from, to)
	}
	return resumed(from, func(next int64, yield func(protocol.Message, error) bool) (int64, bool, error) {
		return l.merge(ctx, partition, next, to, yield)
	})
}

// resumed yields what read yields from an offset on, and then its error. read returns the offset after the last message, and whether it is
// to be called again from there on.
func resumed(next int64, read func(next int64, yield func(protocol.Message, error) bool) (int64, bool, error)) iter.Seq2[protocol.Message,
	error] {
	return func(yield func(protocol.Message, error) bool) {
		for at, again := next, true; again; {
			var err error
			if at, again, err = read(at, yield); err != nil {
				yield(protocol.Message{}, err)
			}
		}
	}
}

// merge yields the messages of the source, and from the first offset of the topic on also those of the topic, with their copies. It returns
// the offset after the last message yielded; again means that the topic has meanwhile deleted the next ones, which the source may have.
func (l *overlay) merge(ctx context.Context, partition int, from, to int64, yield func(protocol.Message, error) bool) (next int64,
	again bool, err error) {
	first, _, err := l.there(ctx, partition)
	if err != nil {
		return from, false, err
	}
	below := protocol.NewAhead(l.rows(ctx, partition, from, to, first))
	defer below.Stop()
	written := protocol.NewAhead(l.Log.Range(ctx, l.topic, partition, min(max(from, first), to), to))
	defer written.Stop()
	for next = from; ; {
		earlier, err := below.Peek()
		if err != nil {
			return next, false, err
		}
		var there *protocol.Message
		if first < to && (earlier == nil || earlier.Offset >= first) {
			there, err = written.Peek()
			if deleted, ok := errors.AsType[*kafkalog.DeletedError](err); ok && deleted.Wanted < deleted.First {
				return next, true, nil
			}
			if err != nil {
				return next, false, err
			}
		}
		var m protocol.Message
		switch {
		case earlier == nil && there == nil:
			return next, false, nil
		case there == nil:
			m = below.TakeBefore(first)
		case earlier != nil && earlier.Offset < there.Offset: // the topic is compacted
			m = below.TakeBefore(there.Offset)
		default:
			m = written.Take()
			if earlier != nil && earlier.Offset == m.Offset {
				copied := below.Take()
				m.Copy = &copied
			}
		}
		next = m.Offset + int64(m.Len())
		if !yield(m, nil) {
			return next, false, nil
		}
	}
}

// archived is a log on which the source topic also has the messages of its archive. Messages missing between the archive and
// the topic cause an *[archive.GapError] or, if so configured, count as deleted from the topic.
type archived struct {
	overlay
	options ingest.Options

	lock    sync.Mutex
	archive *archive.Archive // nil: to be listed
	missing map[int]int64    // by partition: first offset of the topic when the archive was last listed because of missing messages
}

// withArchive returns the log of a job: with the archive of its source topic, if there is one.
func withArchive(log protocol.Log, o ingest.Options) protocol.Log {
	if o.Archive.Files == "" || o.FromTopic == "" {
		return log
	}
	l := &archived{overlay: overlay{Log: log, topic: o.FromTopic, alone: o.Archive.Alone}, options: o, missing: map[int]int64{}}
	l.source = l
	return l
}

// files lists the archive.
func (l *archived) files(ctx context.Context) (_ *archive.Archive, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.archive == nil {
		l.archive, err = l.options.OpenArchive(ctx)
	}
	return l.archive, err
}

// outdated reports whether an archive that lacks messages of a partition must be listed again: a sink may since have written the messages
// that the topic has deleted to files. Listing is slow, so it is done once for each first offset of the topic.
func (l *archived) outdated(a *archive.Archive, partition int, first int64) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.archive != a {
		return true
	}
	if before, ok := l.missing[partition]; ok && first <= before {
		return false
	}
	l.missing[partition], l.archive = first, nil
	return true
}

// Before implements protocol.Log.
func (l *archived) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	if topic != l.topic || !l.alone {
		return l.Log.Before(ctx, topic, age)
	}
	partitions, err := l.Partitions(ctx, topic)
	return make([]int64, partitions), err
}

func (l *archived) partitions(ctx context.Context, there int) (int, error) {
	a, err := l.files(ctx)
	if err != nil {
		return 0, err
	}
	if !l.alone && a.Partitions() > there {
		return 0, fmt.Errorf("examples.archive.files have messages of %s[%d], but the topic has %d partitions: are they of another topic, or "+
			"was the topic made again?", l.topic, a.Partitions()-1, there)
	}
	return max(there, a.Partitions()), nil
}

func (l *archived) reach(ctx context.Context, partition int, first, end int64) (from, to int64, err error) {
	a, err := l.files(ctx)
	if err != nil {
		return 0, 0, err
	}
	if l.alone {
		return a.Bounds(ctx, partition)
	}
	archived, ok := a.First(partition)
	switch {
	case !ok:
		return first, end, nil
	case archived >= end:
		return 0, 0, fmt.Errorf("examples.archive.files begin at offset %d of %s[%d], which ends at offset %d: are they of another topic, or "+
			"was the topic made again?", archived, l.topic, partition, end)
	default:
		return min(first, archived), end, nil
	}
}

func (l *archived) rows(ctx context.Context, partition int, from, to, first int64) iter.Seq2[protocol.Message, error] {
	return resumed(from, func(next int64, yield func(protocol.Message, error) bool) (int64, bool, error) {
		return l.readFiles(ctx, partition, next, to, first, yield)
	})
}

// readFiles yields the messages of the archive in its current listing. It returns the offset of the first missing one; again means that
// the archive must be listed again.
func (l *archived) readFiles(ctx context.Context, partition int, from, to, first int64, yield func(protocol.Message, error) bool) (
	next int64, again bool, err error) {
	listed, err := l.files(ctx)
	needed := first // the topic has the others
	if err == nil && l.alone {
		_, needed, err = listed.Bounds(ctx, partition)
	}
	if err != nil {
		return from, false, err
	}
	for rows, err := range listed.Range(ctx, partition, from, to, needed) {
		gap, missing := errors.AsType[*archive.GapError](err)
		switch {
		case missing && l.outdated(listed, partition, first):
			return gap.From, true, nil
		case missing && l.options.Archive.OnGap == archive.GapContinue:
			return gap.To, false, &kafkalog.DeletedError{Topic: l.topic, Partition: partition, Wanted: gap.From, First: gap.To, End: to}
		case err != nil:
			return from, false, err
		case !yield(messageOf(rows), nil):
			return to, false, nil
		}
	}
	return to, false, nil
}

// messageOf returns the messages of rows, or a single message with its copies.
func messageOf(rows *archive.Rows) protocol.Message {
	value, decoded := rows.Value(0)
	m := protocol.Message{Message: wire.Message{Key: rows.Key(0), Value: value}, Offset: rows.Offset, File: rows.File, Changed: rows.Changed}
	if decoded != nil || rows.Len() > 1 {
		m.Rows = archivedMessages{rows}
	}
	if at := rows.Time(0); at != 0 {
		m.Time = time.UnixMilli(at)
	}
	for _, c := range slices.Backward(rows.Copies) {
		of := messageOf(c)
		of.Copy, m.Copy = m.Copy, &of
	}
	return m
}

// archivedMessages are the messages of rows.
type archivedMessages struct{ *archive.Rows }

// Part implements protocol.Rows.
func (r archivedMessages) Part(from, to int) protocol.Message { return messageOf(r.Cut(from, to)) }

// Remade is a log whose examples topic also has the expired messages that can be made again.
type Remade struct {
	overlay
	raw     protocol.Client // of the log without them
	options ingest.Options
	memory  memory.Allocator

	mutex    sync.Mutex
	next     int64           // offset of the origins topic up to which it was read
	pieces   map[int][]piece // by partition of the examples
	recorded map[int]int64   // by partition: offset up to which origins were written
}

// piece is the place of the origins of a span.
type piece struct {
	coverage.Span
	first map[int]int64 // see [schemas.Origins]
	at    int64         // on the origins topic
	lost  bool          // a message that it is made from is gone
}

// NewRemade returns the log of a client, for examples made with these options, whose FromTopic is the followed topic.
func NewRemade(client *protocol.Client, options ingest.Options, mem memory.Allocator) *Remade {
	l := &Remade{overlay: overlay{Log: client.Log, topic: client.Topics.Examples}, raw: *client, options: options, memory: mem,
		pieces: map[int][]piece{}, recorded: map[int]int64{}}
	l.source = l
	return l
}

func (l *Remade) partitions(_ context.Context, there int) (int, error) { return there, nil }

func (l *Remade) reach(ctx context.Context, partition int, first, end int64) (from, to int64, err error) {
	if first == 0 {
		return first, end, nil
	}
	source, err := l.Log.Spans(ctx, l.options.FromTopic)
	if err == nil {
		err = l.read(ctx)
	}
	if err != nil {
		return 0, 0, err
	}
	return l.remakes(partition, first, source), end, nil
}

func (l *Remade) rows(ctx context.Context, partition int, from, to, first int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		r := &maker{Remade: l, partition: partition, next: from, to: min(to, first), following: map[int]*following{}}
		defer func() {
			for _, s := range r.following {
				s.Stop()
			}
		}()
		if err := r.each(ctx, yield); err != nil {
			yield(protocol.Message{}, err)
		}
	}
}

// Before returns offsets before which all messages are older than age. A message that can be made again is as old as those of
// the followed topic that it is made from.
func (l *Remade) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	before, err := l.Log.Before(ctx, topic, age)
	if err != nil || topic != l.topic {
		return before, err
	}
	old, err := l.Log.Before(ctx, l.options.FromTopic, age)
	if err != nil {
		return nil, err
	}
	spans := make([]coverage.Span, len(old))
	for q := range old {
		spans[q] = coverage.Span{Partition: q, From: old[q]}
	}
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	for n := range before {
		before[n] = l.remakes(n, before[n], spans)
	}
	return before, nil
}

// remakes returns the offset from which the messages before another offset can be made again from the spans of the followed topic.
func (l *Remade) remakes(partition int, before int64, source []coverage.Span) int64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, p := range slices.Backward(l.pieces[partition]) {
		if p.From < before && p.To >= before && p.within(source) {
			before = p.From
		}
	}
	return before
}

// within reports whether spans of the followed topic have all messages from which those of the piece are made.
func (p *piece) within(source []coverage.Span) bool {
	if p.lost {
		return false
	}
	for q, offset := range p.first {
		if q >= len(source) || offset < source[q].From {
			return false
		}
	}
	return true
}

// read reads what was written to the origins topic since the last time.
func (l *Remade) read(ctx context.Context) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	topic := l.raw.Topics.Origins
	first, end, err := l.Log.Bounds(ctx, topic, 0)
	if errors.Is(err, kafkalog.ErrUnknownTopic) {
		return nil
	}
	if err != nil {
		return err
	}
	if end < l.next { // the topic was recreated
		l.next = 0
		clear(l.pieces)
		clear(l.recorded)
	}
	for m, err := range l.raw.Between(ctx, topic, 0, max(first, l.next), end) {
		if err != nil {
			return err
		}
		l.next = m.Offset + 1
		if m.Kind() != schemas.KindOrigins {
			continue
		}
		o, err := schemas.DecodeJSON[schemas.Origins](m.Message)
		if err != nil {
			return err
		}
		n := o.Span.Partition
		l.recorded[n] = max(l.recorded[n], o.Span.To)
		l.pieces[n] = append(l.pieces[n], piece{Span: o.Span, first: o.First, at: m.Offset})
		slices.SortStableFunc(l.pieces[n], func(a, b piece) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	}
	return nil
}

// originsAt returns the origins of the message at an offset of a partition of the examples; nil if there are none.
func (l *Remade) originsAt(ctx context.Context, partition int, offset int64) (o *schemas.Origins, err error) {
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	l.mutex.Lock()
	p := l.pieceAt(partition, offset)
	l.mutex.Unlock()
	if p == nil {
		return nil, nil
	}
	for m, err := range l.raw.Between(ctx, l.raw.Topics.Origins, 0, p.at, p.at+1) {
		if err != nil {
			return nil, err
		}
		return schemas.DecodeJSON[schemas.Origins](m.Message)
	}
	return nil, nil
}

// pieceAt returns the piece with an offset that can be made again; nil if there is none.
func (l *Remade) pieceAt(partition int, offset int64) *piece {
	of := l.pieces[partition]
	i := slices.IndexFunc(of, func(p piece) bool { return p.From <= offset && offset < p.To && !p.lost })
	if i < 0 {
		return nil
	}
	return &of[i]
}

// Source returns the name of the followed topic, and reports whether an archive has its earlier messages.
func (l *Remade) Source() (topic string, archived bool) {
	return l.options.FromTopic, l.options.Archive.Files != ""
}

// maker makes a range of the messages of an examples partition again, from the origins and the followed topic.
type maker struct {
	*Remade
	partition int
	next, to  int64

	origins   *schemas.Origins   // of the span with next
	values    *ingest.Values     // for rows as in the template of origins; nil: not begun
	following map[int]*following // by partition of the followed topic
	forgets   []schemas.Forget   // the forget topic; nil: not read
}

// following is the reader of a partition of the followed topic. Its next message is at the last requested offset, or later.
type following struct {
	*protocol.Ahead
	asked int64
}

// errLost means that the followed topic lacks messages that a message was made from.
var errLost = errors.New("messages of the followed topic are gone")

// each makes the messages, and yields them.
func (r *maker) each(ctx context.Context, yield func(protocol.Message, error) bool) (err error) {
	for r.next < r.to {
		r.values = nil
		if r.origins, err = r.originsAt(ctx, r.partition, r.next); err != nil {
			return err
		}
		if r.origins == nil {
			return r.deleted(r.to)
		}
		for _, s := range r.origins.Stubs {
			if s.Offset < r.next || s.Offset >= r.to {
				continue
			}
			m, err := r.make(ctx, s)
			if errors.Is(err, errLost) {
				r.mutex.Lock() // the messages of the piece, and so those before it, can't be made again
				if p := r.pieceAt(r.partition, r.origins.Span.From); p != nil {
					p.lost = true
				}
				r.mutex.Unlock()
				return r.deleted(r.origins.Span.To)
			}
			if err != nil || !yield(m, nil) {
				return err
			}
			r.next = s.Offset + 1
		}
		r.next = r.origins.Span.To
	}
	return nil
}

// deleted returns the error about messages up to an offset that have expired and can't be made again.
func (r *maker) deleted(to int64) error {
	return &kafkalog.DeletedError{Topic: r.topic, Partition: r.partition, Wanted: r.next, First: to, End: r.to}
}

// changed returns the error for an expired message that would be different if it were made again. why is the reason.
func (r *maker) changed(offset int64, why error) error {
	return fmt.Errorf("%s[%d]@%d has expired, and is not the same if it is made again from %s: %w. Restore the keys under examples with "+
		"which it was made, and the schemas of its messages, or set topics.retention.examples: 0 to go on without it", r.topic,
		r.partition, offset, r.options.FromTopic, why)
}

var errOtherRows = errors.New("its rows are now others")

// make makes a message again.
func (r *maker) make(ctx context.Context, s schemas.Stub) (m protocol.Message, err error) {
	m = protocol.Message{Message: wire.Message{Key: s.Key, Headers: s.Headers}, Offset: s.Offset, Time: time.UnixMilli(s.Time)}
	if r.values == nil {
		o := r.options
		o.Options = o.After(ingest.RowsOf(r.origins.Template, o.FromTopic))
		o.BatchRows = math.MaxInt // the origins determine the rows of a message
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
	checksum, _ := strconv.ParseUint(s.Checksum, 16, 32)
	had := uint32(checksum)
	var record arrow.Record
	if rows := r.values.Take(); rows != nil {
		record = rows.Record(r.memory)
		defer record.Release()
	}
	switch {
	case slices.Contains(blank, true):
		m.Had = &had // the remaining rows are not compared
		m.Value, err = examples.WithBlanks(r.origins.Template, record, blank, r.memory)
	case record != nil:
		m.Value, err = examples.Encode(record, r.memory)
	}
	if err != nil || schemas.ForgetChecksum(m.Message) == s.Checksum {
		return m, err
	}
	unkeyed, err := r.unkeyed(m.Message)
	if err == nil && unkeyed != cmp.Or(s.Unkeyed, s.Checksum) {
		err = r.changed(s.Offset, errOtherRows)
	}
	m.Had = &had
	return m, err
}

// unkeyed returns the checksum of an examples message without the keys of source messages.
func (l *Remade) unkeyed(m wire.Message) (checksum string, err error) {
	m.Value, err = examples.WithoutKeys(m.Value, l.memory)
	return schemas.ForgetChecksum(m), err
}

// add adds the rows of a message of the followed topic, which were the rows [first, end) of a message of the examples. It reports whether
// they are gone because they are forgotten. The error is errLost if the message has been deleted.
func (r *maker) add(ctx context.Context, partition int, offset int64, s *schemas.Stub, first, end int) (gone bool, err error) {
	m, err := r.followed(ctx, partition, offset)
	deleted, other := errors.As(err, new(*kafkalog.DeletedError)), false
	switch {
	case err == nil && m != nil:
		if _, err = r.values.Add(ctx, ingest.MessageOf(partition, offset, m.Time, m.Message, m.Rows)); err == nil {
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
		for m, err := range r.raw.Remaining(ctx, r.raw.Topics.Forget, 0, 0, math.MaxInt64) {
			if errors.Is(err, kafkalog.ErrUnknownTopic) {
				break
			}
			if err != nil {
				return false, err
			}
			if m.Value == nil || m.Kind() != schemas.KindForget {
				continue
			}
			f, err := schemas.DecodeJSON[schemas.Forget](m.Message)
			if err != nil {
				return false, err
			}
			r.forgets = append(r.forgets, *f)
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

// followed returns the message at an offset of the followed topic, which is valid until the next call; nil: there is none.
func (r *maker) followed(ctx context.Context, partition int, offset int64) (*protocol.Message, error) {
	s := r.following[partition]
	if s == nil || offset < s.asked || offset-s.asked > wideGap {
		_, end, err := r.Log.Bounds(ctx, r.options.FromTopic, partition)
		if err != nil {
			return nil, err
		}
		if s != nil {
			s.Stop()
		}
		s = &following{Ahead: protocol.NewAhead(r.Log.Range(ctx, r.options.FromTopic, partition, offset, end))}
		r.following[partition] = s
	}
	for s.asked = offset; ; s.TakeBefore(offset) {
		m, err := s.Peek()
		if err != nil {
			delete(r.following, partition) // its errors are final
			s.Stop()
			if hole, ok := errors.AsType[*kafkalog.DeletedError](err); ok && hole.Wanted < offset && hole.First <= offset {
				return r.followed(ctx, partition, offset) // the requested offset is not in the hole
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

const (
	// maxStubs is the maximum number of messages whose origins are in one message. All of them can be made again, or none.
	maxStubs     = 256
	maxStubBytes = wire.MaxMessage / 4 // the maximum length of their keys and headers, which JSON less than doubles
)

// Record writes the origins of the messages of an examples partition before an offset, unless they are already on the
// origins topic. It returns the offsets that have expired before their origins were written: they can't be made again.
func (l *Remade) Record(ctx context.Context, partition int, end int64) (lost coverage.Span, err error) {
	first, _, err := l.Log.Bounds(ctx, l.topic, partition)
	if err == nil {
		err = l.read(ctx)
	}
	if err != nil {
		return lost, err
	}
	l.mutex.Lock()
	next := l.recorded[partition]
	l.mutex.Unlock()
	if next > 0 && next < first {
		lost = coverage.Span{Partition: partition, From: next, To: first}
	}
	from := max(next, first)
	w := originsWriter{Remade: l, Origins: schemas.Origins{Span: coverage.Span{Partition: partition, From: from, To: from}}}
	for m, failed := range l.raw.Between(ctx, l.topic, partition, from, end) {
		if err = failed; err == nil {
			err = w.add(ctx, m)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = w.flush(ctx)
	}
	if err == nil {
		err = l.trim(ctx)
	}
	if err != nil {
		return lost, fmt.Errorf("write the origins of the messages of %s[%d]: %w", l.topic, partition, err)
	}
	l.mutex.Lock()
	l.recorded[partition] = max(l.recorded[partition], end, w.Span.To)
	l.mutex.Unlock()
	return lost, nil
}

// trim deletes leading origins of messages that can't be made again, since the followed topic lacks the messages from which they were
// made. Record continues from the last origins of a partition, so these stay.
func (l *Remade) trim(ctx context.Context) error {
	source, err := l.Log.Spans(ctx, l.options.FromTopic)
	if err != nil {
		return err
	}
	l.mutex.Lock()
	keep, first := l.next, l.next
	for _, pieces := range l.pieces {
		for i, p := range pieces {
			if first = min(first, p.at); i == len(pieces)-1 || p.within(source) {
				keep = min(keep, p.at)
			}
		}
	}
	for n := range l.pieces {
		l.pieces[n] = slices.DeleteFunc(l.pieces[n], func(p piece) bool { return p.at < keep })
	}
	l.mutex.Unlock()
	if first == keep {
		return nil
	}
	err = l.Log.DeleteBefore(ctx, l.raw.Topics.Origins, 0, keep)
	if errors.As(err, new(*kafkalog.AccessError)) {
		return nil // the permission is optional
	}
	return err
}

// originsWriter writes the origins of consecutive messages.
type originsWriter struct {
	*Remade
	schemas.Origins
	schema string // fingerprint
	bytes  int    // length of keys and headers
}

// add adds a message, or skips it if ingest did not make it from the followed topic.
func (w *originsWriter) add(ctx context.Context, m protocol.Message) error {
	origins, err := examples.RowOriginsOf(m.Message)
	if topic, _ := schemas.TopicOf(m.Message); err != nil || len(origins) == 0 || topic != w.options.FromTopic {
		err := w.flush(ctx)
		w.Span.From, w.Span.To = m.Offset+1, m.Offset+1
		return err
	}
	schema := schemas.SchemaOf(m.Message)
	if len(w.Stubs) == maxStubs || w.bytes > maxStubBytes || schema != w.schema {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if len(w.Stubs) == 0 {
		if w.Template, err = examples.WithBlanks(m.Value, nil, nil, w.memory); err != nil {
			return err
		}
		w.First, w.schema, w.bytes = map[int]int64{}, schema, 0
	}
	for _, o := range origins {
		if at, ok := w.First[o.Partition]; !ok || o.Offset < at {
			w.First[o.Partition] = o.Offset
		}
	}
	stub := schemas.Stub{Offset: m.Offset, Time: m.Time.UnixMilli(), Key: m.Key, Headers: m.Headers,
		Checksum: schemas.ForgetChecksum(m.Message)}
	if stub.Unkeyed, err = w.unkeyed(m.Message); err != nil {
		return err
	}
	if stub.Unkeyed == stub.Checksum {
		stub.Unkeyed = ""
	}
	w.Stubs = append(w.Stubs, stub)
	for _, h := range m.Headers {
		w.bytes += len(h.Key) + len(h.Value)
	}
	w.Span.To = m.Offset + 1
	return nil
}

// flush writes the origins that were added.
func (w *originsWriter) flush(ctx context.Context) error {
	if len(w.Stubs) == 0 {
		return nil
	}
	_, err := w.Log.Append(ctx, w.raw.Topics.Origins, 0, w.Message())
	w.Stubs, w.Span.From = nil, w.Span.To
	return err
}
