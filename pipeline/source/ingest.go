package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Ingest writes the job's files to the examples topic, and creates missing topics. It skips a source that is on the topic
// and sealed. It completes a source that an earlier attempt left unsealed, or writes it again: no run trains on examples
// without a seal.
func Ingest(ctx context.Context, log *kafkalog.Log, job topics.Job, rec event.Recorder) error {
	p := topics.Open(log, job.Name, nil)
	if err := topics.Create(ctx, p, &job); err != nil {
		return err
	}
	var err error
	if job.Examples, err = AfterChain(ctx, p, job.Examples); err != nil {
		return err
	}
	_, err = IngestFiles(ctx, p, job, rec)
	return err
}

// Files ingests the job's files. A source that retention may delete before the end of a run is ingested again.
func Files(ctx context.Context, p *topics.Pipeline, job topics.Job, r topics.ExamplesRetention, rec event.Recorder) (*Ingested, error) {
	sources, err := ingest.Sources(ctx, job.Examples)
	if err != nil {
		return nil, err
	}
	files := &Ingested{Retention: r}
	if len(sources) == 0 {
		return files, nil
	}
	files.Vocabulary, files.Extent = sources[0].Vocabulary, sources[0].Extent // shared by all
	files.Sparse = sources[0].Width == 0
	for i, c := range sources[0].Columns {
		if c.Unit != "" && (i == 0 || sources[0].Columns[i-1].Source() != c.Source()) && job.Examples.Times[c.Source()].Unit == "" {
			event.Notice(rec, "column %q: its numbers are %s; if not, set examples.times to {%s: {parts: [%s], unit: …}}", c.Source(),
				c.Unit.Meaning(), c.Source(), c.Time)
		}
		if c.Offset != 0 && c.Time == "" {
			event.Notice(rec, "column %q: its values are too large for float32 to keep their differences: subtracting %s",
				c.Name, strconv.FormatFloat(c.Offset, 'f', -1, 64))
		}
	}
	inFolders, stored := sources[0].FolderColumns()
	for _, column := range inFolders {
		event.Notice(rec, "column %q: the names of folders have its values. examples.columns.drop excludes it from the features", column)
	}
	if len(stored) > 0 {
		event.Notice(rec, "folders say where and when rows were stored: %s %s no feature, unless a key of examples names it, such as "+
			"columns.use", strings.Join(stored, ", "), english.PluralWord(len(stored), "is", "are"))
	}
	ledger, bounds, forgotten, err := readTopics(ctx, p)
	if err != nil {
		return nil, err
	}
	staying, err := topics.Staying(ctx, p, r, bounds)
	if err != nil {
		return nil, err
	}
	f := &filesOf{Pipeline: p, job: job, rec: rec, staying: staying, forgotten: forgotten,
		last: &lastMessages{Pipeline: p, ledger: ledger, bounds: bounds}}
	for _, s := range sources {
		seals, known, err := f.ingest(ctx, s)
		if err != nil {
			return nil, err
		}
		rows := int64(0)
		for _, seal := range seals {
			rows += seal.Rows
			files.Seals = append(files.Seals, *seal)
		}
		rec.Record(event.Ingested{Files: s.Files, Split: s.Split, Rows: rows, Done: true, Known: known})
	}
	return files, nil
}

// filesOf ingests the files of a job.
type filesOf struct {
	*topics.Pipeline
	job       topics.Job
	rec       event.Recorder
	staying   []coverage.Span // of the examples topic
	forgotten *Forgotten
	last      *lastMessages
}

// ingest returns the seals of a source: one, or several for a file that has grown. known means that all its rows are
// already on the topic.
func (f *filesOf) ingest(ctx context.Context, s ingest.Source) (seals []*schemas.SourceSeal, known bool, err error) {
	if f.forgotten.Sources[s.ID] {
		return nil, false, f.isForgotten(s, s.ID)
	}
	seal, err := f.present(ctx, s)
	if err != nil {
		return nil, false, err
	}
	var begun []*schemas.SourceSeal
	if seal == nil || f.job.Examples.Once {
		if begun, err = f.begun(ctx, s); err != nil {
			return nil, false, err
		}
	}
	var parts []*schemas.SourceSeal
	if seal == nil {
		parts = s.Parts(begun)
	}
	if err := f.checkOnce(ctx, s, begun, parts); err != nil {
		return nil, false, err
	}
	if seal != nil {
		return []*schemas.SourceSeal{seal}, true, nil
	}
	bounds := f.last.bounds
	if seals, err = f.grown(ctx, s, parts); err != nil || len(seals) > 0 {
		return seals, slices.Equal(bounds, f.last.bounds), err
	}
	if seal, err = f.publish(ctx, s); err != nil {
		return nil, false, err
	}
	return []*schemas.SourceSeal{seal}, false, nil
}

// isForgotten returns the error for a source of whose rows some, or all, are those of a forgotten source.
func (f *filesOf) isForgotten(s ingest.Source, id string) error {
	return fmt.Errorf("%q: source %s is forgotten (on %s), and no run learns it: remove it from the configuration", s.Files,
		wire.Digest(id).Short(), f.Topics.Forget)
}

// present returns the seal of a source whose messages are on the topic, and restores it if it was removed; nil if there is
// neither.
func (f *filesOf) present(ctx context.Context, s ingest.Source) (*schemas.SourceSeal, error) {
	seal, err := SealOf(ctx, f.Pipeline, f.last.ledger, f.staying, s.ID)
	switch {
	case err != nil:
		return nil, err
	case seal == nil:
		return bringBack(ctx, f.Pipeline, f.last.ledger, f.staying, s, f.rec)
	case seal.Split != s.Split.String():
		return nil, fmt.Errorf("%s is in examples.%s, but the same bytes are already on %s as %s in examples.%s: an example can't be in "+
			"both; move it to examples.%[5]s", strings.Join(s.Files, ", "), s.Split, f.Topics.Examples, strings.Join(seal.Files, ", "),
			seal.Split)
	}
	return seal, nil
}

// publish ingests a source.
func (f *filesOf) publish(ctx context.Context, s ingest.Source) (*schemas.SourceSeal, error) {
	seal, err := publishSource(ctx, f.Pipeline, s, f.job.Examples, f.last, f.rec)
	if err != nil {
		return nil, fmt.Errorf("ingest %v: %w", s.Files, err)
	}
	f.last.bounds, err = f.Log.Spans(ctx, f.Topics.Examples) // the next source comes after this one
	return seal, err
}

// publishSource writes a source to the examples topic and seals it.
func publishSource(ctx context.Context, p *topics.Pipeline, s ingest.Source, o ingest.Options, last *lastMessages,
	rec event.Recorder) (*schemas.SourceSeal, error) {
	attempt, err := last.attempt(ctx, s.ID, o.BatchRows)
	if err != nil {
		return nil, err
	}
	write := func(ctx context.Context, partition int, messages ...wire.Message) (int64, error) {
		return p.Log.Append(ctx, p.Topics.Examples, partition, messages...)
	}
	seal, err := ingest.Publish(ctx, s, attempt, write, p.Memory, func(rows int64) {
		rec.Record(event.Ingested{Files: s.Files, Split: s.Split, Rows: rows})
	}, func(columns map[string]int64) {
		for _, column := range slices.Sorted(maps.Keys(columns)) {
			rec.Record(event.ColumnLost{File: s.Files[0], Column: column, Rows: columns[column]})
		}
	})
	if err != nil {
		return nil, err
	}
	if _, err := p.Log.Append(ctx, p.Topics.Plans, 0, seal.Message()); err != nil {
		return nil, fmt.Errorf("seal the source: %w", err)
	}
	return seal, nil
}

// lastMessages are the origins of the last messages of all partitions, as left by an interrupted ingest. They are read
// once, before the first source is published: later messages are our own.
type lastMessages struct {
	*topics.Pipeline
	ledger  *protocol.Ledger
	bounds  []coverage.Span
	origins []schemas.Origin // by partition read so far; zero: no last message, or one of another producer
}

// attempt returns the attempt at writing a source with the given number of rows per message. If the partitions end with
// messages of an interrupted attempt, ingest continues that attempt, and the examples get the offsets that they would have
// had without the interruption. If other messages follow, a message is missing, a write was duplicated, the messages had
// another number of rows, or the attempt was sealed, a new attempt starts, and the earlier messages never count.
func (t *lastMessages) attempt(ctx context.Context, id string, batchRows int) (ingest.Attempt, error) {
	for n := len(t.origins); n < len(t.bounds); n++ { // all, or those added since the previous source
		last, _, err := origin(ctx, t.Pipeline, n, t.bounds[n].To-1, t.bounds[n].From)
		if err != nil {
			return ingest.Attempt{}, err
		}
		t.origins = append(t.origins, last)
	}
	begun := ingest.Attempt{Spans: make([]coverage.Span, len(t.bounds))}
	fresh := ingest.Attempt{Spans: make([]coverage.Span, len(t.bounds))}
	whole := true
	for n, bounds := range t.bounds {
		fresh.Spans[n] = coverage.Span{Partition: n, From: bounds.To, To: bounds.To}
		begun.Spans[n] = fresh.Spans[n]
		last := t.origins[n]
		if last.Source != id {
			continue
		}
		begun.ID = last.Attempt
		begun.Spans[n].From = bounds.To - (last.Sequence/int64(len(t.bounds)) + 1)
		head, _, err := origin(ctx, t.Pipeline, n, begun.Spans[n].From, bounds.From)
		if err != nil {
			return begun, err
		}
		whole = whole && head == schemas.Origin{Source: id, Attempt: last.Attempt, Sequence: int64(n)}
	}
	clear(t.origins) // the next source has nothing at the ends
	name := schemas.SourceName(id, begun.ID)
	whole = whole && !t.ledger.Incomplete(name) && !t.ledger.Sealed(name)
	if whole && begun.ID != "" && begun.ID == attemptID(begun.Spans, batchRows) {
		return begun, nil
	}
	fresh.ID = attemptID(fresh.Spans, batchRows)
	return fresh, nil
}

// attemptID returns the id of an attempt that starts at the spans. Every earlier attempt with messages started at other
// offsets. Attempts with other message sizes also have other ids.
func attemptID(spans []coverage.Span, batchRows int) string {
	begins := []string{strconv.Itoa(batchRows)}
	for _, s := range spans {
		begins = append(begins, strconv.FormatInt(s.From, 10))
	}
	return wire.DigestJSON(begins).Short()
}

// origin returns the origin of the message at an offset. ok is false if the message was not ingested, or if the offset is
// before the partition's first.
func origin(ctx context.Context, p *topics.Pipeline, partition int, at, first int64) (found schemas.Origin, ok bool, err error) {
	if at < first {
		return found, false, nil
	}
	err = p.Between(ctx, p.Topics.Examples, partition, at, at+1, func(m protocol.Message) error {
		found, ok = schemas.OriginOf(m.Message)
		return nil
	})
	return found, ok, err
}

// SealOf returns the first seal of a source whose messages are still on the topic, or nil. All processes find the same
// seal, even if two have ingested the source concurrently. bounds are those of the examples topic.
func SealOf(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger, bounds []coverage.Span, id string) (*schemas.SourceSeal, error) {
	for _, seal := range l.Seals(id) {
		present, err := present(ctx, p, seal, bounds)
		if err != nil {
			return nil, err
		}
		if present {
			return seal, nil
		}
	}
	return nil, nil
}

// bringBack restores a removed source if its messages are still on the topic with the requested split: it writes the seal
// again, and returns it. It returns nil if there is no such source. bounds are those of the examples topic.
func bringBack(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger, bounds []coverage.Span, s ingest.Source,
	rec event.Recorder) (*schemas.SourceSeal, error) {
	for _, seal := range l.Removed() {
		if seal.ID != s.ID || seal.Split != s.Split.String() {
			continue
		}
		present, err := present(ctx, p, seal, bounds)
		if err != nil {
			return nil, err
		}
		if !present {
			continue
		}
		if _, err := p.Log.Append(ctx, p.Topics.Plans, 0, seal.Message()); err != nil {
			return nil, fmt.Errorf("bring back the source of %v: %w", s.Files, err)
		}
		event.Notice(rec, "%s was removed earlier, and is restored", strings.Join(s.Files, ", "))
		return seal, nil
	}
	return nil, nil
}

// present reports whether the messages of a sealed source are still on the topic: whether the topic has their offsets, and
// the source's last message is at the offset in its seal. If the topic was recreated, that message belongs to another
// source. The survey detects missing messages in between.
func present(ctx context.Context, p *topics.Pipeline, seal *schemas.SourceSeal, bounds []coverage.Span) (bool, error) {
	if seal.Held(bounds) != schemas.HeldWhole {
		return false, nil
	}
	last := int((seal.Messages - 1) % int64(seal.Partitions))
	for _, span := range seal.Spans {
		if span.Partition == last {
			m, ok, err := origin(ctx, p, last, span.To-1, span.From)
			return ok && m.Of(seal), err
		}
	}
	return seal.Messages == 0, nil
}
