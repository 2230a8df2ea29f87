package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// Ingest writes the job's files to the examples topic, and creates topics that are missing. It skips a source that is on the topic
// and sealed. It completes a source that an earlier attempt left unsealed, or writes it again: no run trains on examples
// without a seal.
func Ingest(ctx context.Context, log *kafkalog.Log, job Job, rec event.Recorder) error {
	p := open(log, job.Name, nil)
	if err := p.create(ctx, &job); err != nil {
		return err
	}
	_, err := p.ingest(ctx, job, rec)
	return err
}

// ingest ingests the job's files, and returns the ids of their sources. All of them are sealed.
func (p *pipeline) ingest(ctx context.Context, job Job, rec event.Recorder) (ids []string, err error) {
	sources, err := ingest.Sources(ctx, job.Examples)
	if err != nil {
		return nil, err
	}
	ledger, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		ids = append(ids, s.ID)
		seal, err := p.sealed(ctx, ledger, s.ID)
		if err != nil {
			return nil, err
		}
		if seal != nil {
			rec.Record(event.Ingested{Files: s.Files, Split: s.Split, Rows: seal.Rows, Done: true, Known: true})
			continue
		}
		seal, err = p.publishSource(ctx, s, job.Examples.Partitions, rec)
		if err != nil {
			return nil, fmt.Errorf("ingest %v: %w", s.Files, err)
		}
		if _, err := p.Log.Append(ctx, p.Topics.Plans, 0, seal.Message()); err != nil {
			return nil, fmt.Errorf("seal %v: %w", s.Files, err)
		}
		rec.Record(event.Ingested{Files: s.Files, Split: s.Split, Rows: seal.Rows, Done: true})
	}
	return ids, nil
}

// publishSource writes a source to the examples topic, and returns its seal. The source counts once the seal is on the plans
// topic.
func (p *pipeline) publishSource(ctx context.Context, s ingest.Source, partitions int, rec event.Recorder) (*schemas.SourceSeal, error) {
	attempt, err := p.attempt(ctx, s.ID, partitions)
	if err != nil {
		return nil, err
	}
	write := func(ctx context.Context, partition int, messages ...schemas.Message) (int64, error) {
		return p.Log.Append(ctx, p.Topics.Examples, partition, messages...)
	}
	return ingest.Publish(ctx, s, attempt, write, p.memory, func(rows int64) {
		rec.Record(event.Ingested{Files: s.Files, Split: s.Split, Rows: rows})
	})
}

// attempt returns the attempt to write a source. If the partitions end with messages of an interrupted attempt, ingest continues
// that attempt, and the examples get the offsets that they would have had without the interruption. If other messages follow, or
// a write was repeated, a new attempt begins and the earlier messages never count.
func (p *pipeline) attempt(ctx context.Context, id string, partitions int) (begun ingest.Attempt, err error) {
	fresh := ingest.Attempt{Spans: make([]schemas.Span, partitions)}
	begun.Spans = make([]schemas.Span, partitions)
	whole, ends := true, make([]string, partitions)
	for n := range partitions {
		first, end, err := p.Log.Bounds(ctx, p.Topics.Examples, n)
		if err != nil {
			return begun, err
		}
		ends[n] = strconv.FormatInt(end, 10)
		fresh.Spans[n] = schemas.Span{Partition: n, From: end, To: end}
		begun.Spans[n] = fresh.Spans[n]
		last, ok, err := p.origin(ctx, n, end-1, first)
		if err != nil {
			return begun, err
		}
		if !ok || last.Source != id {
			continue
		}
		begun.Spans[n].From = end - (last.Sequence/int64(partitions) + 1)
		head, ok, err := p.origin(ctx, n, begun.Spans[n].From, first)
		if err != nil {
			return begun, err
		}
		whole = whole && ok && head.Source == id && head.Attempt == last.Attempt && head.Sequence == int64(n) && (begun.ID == "" || begun.ID == last.Attempt)
		begun.ID = last.Attempt
	}
	if whole && begun.ID != "" {
		return begun, nil
	}
	// The partitions' ends make a new id: every earlier attempt that has written a message began at other ends.
	fresh.ID = schemas.DigestJSON(ends).Short()
	return fresh, nil
}

// origin returns the origin of the message at an offset. ok is false if the message was not ingested, or if the offset is before
// the partition's first.
func (p *pipeline) origin(ctx context.Context, partition int, at, first int64) (found schemas.Origin, ok bool, err error) {
	if at < first {
		return found, false, nil
	}
	err = p.Between(ctx, p.Topics.Examples, partition, at, at+1, func(m run.Message) error {
		found, ok = schemas.OriginOf(m.Message)
		ok = ok && found.Sequence >= 0
		return nil
	})
	return found, ok, err
}

// sealed returns the first seal of a source whose messages are still on the topic, or nil. All processes find the same seal, even
// if two have ingested the source at the same time.
func (p *pipeline) sealed(ctx context.Context, l *run.Ledger, id string) (*schemas.SourceSeal, error) {
	for i := range l.Sources {
		if l.Sources[i].ID != id {
			continue
		}
		present, err := p.present(ctx, &l.Sources[i])
		if err != nil {
			return nil, err
		}
		if present {
			return &l.Sources[i], nil
		}
	}
	return nil, nil
}

// present reports whether the messages of a sealed source are still on the topic. It looks at the first and the last message in
// each partition: both must belong to the source.
func (p *pipeline) present(ctx context.Context, seal *schemas.SourceSeal) (bool, error) {
	for _, span := range seal.Spans {
		first, end, err := p.Log.Bounds(ctx, p.Topics.Examples, span.Partition)
		if err != nil {
			return false, err
		}
		if first > span.From || end < span.To {
			return false, nil
		}
		for _, at := range slices.Compact([]int64{span.From, span.To - 1}) {
			if m, ok, err := p.origin(ctx, span.Partition, at, first); err != nil || !ok || !m.Of(seal) {
				return false, err
			}
		}
	}
	return true, nil
}
