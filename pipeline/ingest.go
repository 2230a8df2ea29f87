package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// Ingest puts the job's files onto the examples topic, each that is not there
// already, and makes the topics first where they are missing. A source that
// was begun and not sealed is finished, or set aside and put there again;
// nobody trains on what is not sealed.
func Ingest(ctx context.Context, log *kafkalog.Log, job Job, rec Recorder) error {
	d := newDesk(log, job.Name, nil)
	if err := d.create(ctx, &job); err != nil {
		return err
	}
	_, err := d.ingest(ctx, job, rec)
	return err
}

// ingest returns the ids of the job's sources, all of them sealed.
func (d desk) ingest(ctx context.Context, job Job, rec Recorder) (ids []string, err error) {
	partitions := job.Examples.Partitions
	sources, err := ingest.Sources(ctx, job.Examples)
	if err != nil {
		return nil, err
	}
	ledger, err := d.ledger(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		ids = append(ids, s.ID)
		seal, err := d.sealed(ctx, ledger, s.ID)
		if err != nil {
			return nil, err
		}
		if seal != nil {
			rec.Record(Ingested{Files: s.Files, Split: s.Split, Rows: seal.Rows, Done: true, Known: true})
			continue
		}
		seal, err = d.publish(ctx, s, partitions, rec)
		if err != nil {
			return nil, fmt.Errorf("ingest %v: %w", s.Files, err)
		}
		if _, err := d.write(ctx, d.plans, 0, seal.Message()); err != nil {
			return nil, fmt.Errorf("seal %v: %w", s.Files, err)
		}
		rec.Record(Ingested{Files: s.Files, Split: s.Split, Rows: seal.Rows, Done: true})
	}
	return ids, nil
}

func (d desk) publish(ctx context.Context, s ingest.Source, partitions int, rec Recorder) (*schemas.SourceSeal, error) {
	begun, err := d.begun(ctx, s.ID, partitions)
	if err != nil {
		return nil, err
	}
	write := func(ctx context.Context, partition int, messages ...schemas.Message) (int64, error) {
		return d.write(ctx, d.examples, partition, messages...)
	}
	return ingest.Publish(ctx, s, begun, write, d.mem, func(rows int64) {
		rec.Record(Ingested{Files: s.Files, Split: s.Split, Rows: rows})
	})
}

// begun finds what an interrupted attempt has left at the ends of the
// partitions, so that it can be gone on with: then the examples are where they
// would have been without the interruption. Where something came after it, or
// a write was repeated, it is set aside and another attempt begins.
func (d desk) begun(ctx context.Context, id string, partitions int) (begun ingest.Attempt, err error) {
	fresh := ingest.Attempt{Spans: make([]schemas.Span, partitions)}
	begun.Spans = make([]schemas.Span, partitions)
	whole, ends := true, make([]string, partitions)
	for p := range partitions {
		first, end, err := d.log.Bounds(ctx, d.examples, p)
		if err != nil {
			return begun, err
		}
		ends[p] = strconv.FormatInt(end, 10)
		fresh.Spans[p] = schemas.Span{Partition: p, From: end, To: end}
		begun.Spans[p] = fresh.Spans[p]
		last, err := d.place(ctx, p, end-1, first)
		if err != nil {
			return begun, err
		}
		if last.id != id {
			continue
		}
		begun.Spans[p].From = end - (last.sequence/int64(partitions) + 1)
		head, err := d.place(ctx, p, begun.Spans[p].From, first)
		if err != nil {
			return begun, err
		}
		whole = whole && head.source == last.source && head.sequence == int64(p) && (begun.ID == "" || begun.ID == last.attempt)
		begun.ID = last.attempt
	}
	if whole && begun.ID != "" {
		return begun, nil
	}
	// Where the topic ends now tells this attempt from any that began before a
	// message of it was written.
	fresh.ID = schemas.DigestJSON(ends).Short()
	return fresh, nil
}

// place of an ingested message in its source.
type place struct {
	source, id, attempt string
	sequence            int64
}

// place is what the message at an offset says of itself; zero if there is none
// from first on, or if it was not ingested.
func (d desk) place(ctx context.Context, partition int, at, first int64) (found place, err error) {
	if at < first {
		return found, nil
	}
	err = d.between(ctx, d.examples, partition, at, at+1, func(m entry) error {
		id, attempt, ok := strings.Cut(m.Get("source"), "/")
		if sequence, err := strconv.ParseInt(m.Get("sequence"), 10, 64); ok && err == nil && sequence >= 0 {
			found = place{m.Get("source"), id, attempt, sequence}
		}
		return nil
	})
	return found, err
}

// sealed is the first seal of a source whose messages are still on the topic,
// or nil. All who look find the same one, also where two ingested it at once.
func (d desk) sealed(ctx context.Context, l *ledger, id string) (*schemas.SourceSeal, error) {
	for i := range l.sources {
		if l.sources[i].ID != id {
			continue
		}
		there, err := d.present(ctx, &l.sources[i])
		if err != nil {
			return nil, err
		}
		if there {
			return &l.sources[i], nil
		}
	}
	return nil, nil
}

// present tells whether the messages of a sealed source are still there: the
// first and the last of each partition are, and are its own.
func (d desk) present(ctx context.Context, seal *schemas.SourceSeal) (bool, error) {
	for _, span := range seal.Spans {
		first, end, err := d.log.Bounds(ctx, d.examples, span.Partition)
		if err != nil {
			return false, err
		}
		if first > span.From || end < span.To {
			return false, nil
		}
		for _, at := range slices.Compact([]int64{span.From, span.To - 1}) {
			if own, err := d.place(ctx, span.Partition, at, first); err != nil || own.source != seal.Header() {
				return false, err
			}
		}
	}
	return true, nil
}
