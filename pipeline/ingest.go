package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// Ingest puts the job's files onto the examples topic, each that is not there
// already, and makes the topics first where they are missing. A source that
// was begun and not sealed is put there again under another attempt; nobody
// trains on the first.
func Ingest(ctx context.Context, log *kafkalog.Log, job Job, rec Recorder) error {
	d := desk{log, topicsOf(job.Name)}
	if err := log.Create(ctx, Topics(job)...); err != nil {
		return err
	}
	_, err := d.ingest(ctx, job, rec)
	return err
}

// ingest returns the ids of the job's sources, all of them sealed.
func (d desk) ingest(ctx context.Context, job Job, rec Recorder) (ids []string, err error) {
	// a topic that is there keeps its number of partitions
	partitions, err := d.log.Partitions(ctx, d.examples)
	if err != nil {
		return nil, err
	}
	options := job.Examples
	options.Partitions = partitions
	sources, err := ingest.Sources(ctx, options)
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
	// Where the topic ends now tells this attempt from any that began before a
	// message of it was written.
	ends := make([]string, partitions)
	for p := range ends {
		_, end, err := d.log.Bounds(ctx, d.examples, p)
		if err != nil {
			return nil, err
		}
		ends[p] = strconv.FormatInt(end, 10)
	}
	attempt := string(schemas.DigestJSON(ends).Short())
	write := func(ctx context.Context, partition int, messages ...schemas.Message) (int64, error) {
		return d.write(ctx, d.examples, partition, messages...)
	}
	return ingest.Publish(ctx, s, partitions, attempt, write, memory.DefaultAllocator, func(rows int64) {
		rec.Record(Ingested{Files: s.Files, Split: s.Split, Rows: rows})
	})
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
			own := false
			err := d.between(ctx, d.examples, span.Partition, at, at+1, func(m kafkalog.Message) error {
				own = m.Header("source") == seal.Header()
				return nil
			})
			if err != nil || !own {
				return false, err
			}
		}
	}
	return true, nil
}
