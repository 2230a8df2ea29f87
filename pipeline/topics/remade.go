package topics

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

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

func (l *Remade) rows(partition int, from, to, first int64) protocol.Reader {
	return &maker{Remade: l, partition: partition, next: from, to: min(to, first), following: map[int]*following{}}
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
	if end < l.next { // made anew
		l.next = 0
		clear(l.pieces)
		clear(l.recorded)
	}
	return l.raw.Between(ctx, topic, 0, max(first, l.next), end, func(m protocol.Message) error {
		l.next = m.Offset + 1
		if m.Kind() != schemas.KindOrigins {
			return nil
		}
		o, err := schemas.DecodeJSON[schemas.Origins](m.Message)
		if err != nil {
			return err
		}
		n := o.Span.Partition
		l.recorded[n] = max(l.recorded[n], o.Span.To)
		l.pieces[n] = append(l.pieces[n], piece{Span: o.Span, first: o.First, at: m.Offset})
		slices.SortStableFunc(l.pieces[n], func(a, b piece) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
		return nil
	})
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
	err = l.raw.Between(ctx, l.raw.Topics.Origins, 0, p.at, p.at+1, func(m protocol.Message) error {
		o, err = schemas.DecodeJSON[schemas.Origins](m.Message)
		return err
	})
	return o, err
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

// lose records that the messages of a piece, and so those before it, can't be made again, since the followed topic or its archive lacks
// one that they are made from.
func (l *Remade) lose(of coverage.Span) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if p := l.pieceAt(of.Partition, of.From); p != nil {
		p.lost = true
	}
}

// Source returns the name of the followed topic, and reports whether an archive has its earlier messages.
func (l *Remade) Source() (topic string, archived bool) {
	return l.options.FromTopic, l.options.Archive.Files != ""
}
