// Package source decides which rows runs learn from: it writes examples to their topic, from files, each ingested once and sealed, or
// from a followed topic, and excludes forgotten rows and the versions that have learnt them.
//
//	files ──Ingest──▶ examples, seals on the plans topic
//	topic ──Follow──▶ examples ──▶ the position on the topic
//	ToForget ──Forget──▶ forget topic ──ReadForgotten, CompareForgotten──▶ Forgotten ──HaveLearnt──▶ versions that have learnt the rows
//	plans topic ──ReadHistory──▶ History ──Runs──▶ the ancestor runs of a version
package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
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

// IngestFiles ingests the job's files. A source that retention may delete before the end of a run is ingested again.
func IngestFiles(ctx context.Context, p *topics.Pipeline, job topics.Job, rec event.Recorder) (files *Ingested, err error) {
	files = &Ingested{}
	began := p.Clock.Now()
	if files.Retention, err = topics.CheckRetention(ctx, p, rec); err != nil {
		return files, err
	}
	sources, err := ingest.Sources(ctx, job.Examples)
	if err != nil || len(sources) == 0 {
		return files, err
	}
	files.Vocabulary, files.Extent = sources[0].Vocabulary, sources[0].Extent // shared by all
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
		return files, err
	}
	staying, err := topics.Staying(ctx, p, files.Retention, bounds)
	if err != nil {
		return files, err
	}
	f := &filesOf{Pipeline: p, job: job, rec: rec, ledger: ledger, bounds: bounds, staying: staying, forgotten: forgotten}
	for _, s := range sources {
		seals, known, err := f.ingest(ctx, s)
		if err != nil {
			return files, err
		}
		rows := int64(0)
		for _, seal := range seals {
			rows += seal.Rows
			files.Seals = append(files.Seals, *seal)
		}
		rec.Record(event.Ingested{Files: s.Files, Split: s.Split, Rows: rows, Done: true, Known: known})
	}
	files.Took = p.Clock.Since(began)
	return files, nil
}

// filesOf ingests the files of a job.
type filesOf struct {
	*topics.Pipeline
	job       topics.Job
	rec       event.Recorder
	ledger    *protocol.Ledger
	bounds    []coverage.Span // of the examples topic
	staying   []coverage.Span // those that retention keeps
	forgotten *Forgotten
	// origins are those of the last messages of all partitions, as left by an interrupted ingest. They are read once, before the first
	// source is published: later messages are our own. By partition read so far; zero: no last message, or one of another producer.
	origins []schemas.Origin
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
	bounds := f.bounds
	if seals, err = f.grown(ctx, s, parts); err != nil || len(seals) > 0 {
		return seals, slices.Equal(bounds, f.bounds), err
	}
	if seal, err = f.publish(ctx, s); err != nil {
		return nil, false, err
	}
	return []*schemas.SourceSeal{seal}, false, nil
}

// isForgotten returns the error for a source that includes the rows of a forgotten source.
func (f *filesOf) isForgotten(s ingest.Source, id string) error {
	return fmt.Errorf("%q: source %s is forgotten (on %s), and no run learns it: remove it from the configuration", s.Files,
		wire.Digest(id).Short(), f.Topics.Forget)
}

// present returns the seal of a source whose messages are on the topic, and restores it if it was removed; nil if there is
// neither.
func (f *filesOf) present(ctx context.Context, s ingest.Source) (*schemas.SourceSeal, error) {
	split := s.Split.String()
	seal, err := SealOf(ctx, f.Pipeline, f.ledger, f.staying, s.ID)
	if err != nil {
		return nil, err
	}
	if seal != nil && seal.Split != split {
		return nil, fmt.Errorf("%s is in examples.%s, but the same bytes are already on %s as %s in examples.%s: an example can't be in "+
			"both; move it to examples.%[5]s", strings.Join(s.Files, ", "), split, f.Topics.Examples, strings.Join(seal.Files, ", "), seal.Split)
	}
	if seal != nil {
		return seal, nil
	}
	for _, seal := range f.ledger.Removed() {
		if seal.ID != s.ID || seal.Split != split {
			continue
		}
		present, err := present(ctx, f.Pipeline, seal, f.staying)
		if err != nil {
			return nil, err
		}
		if !present {
			continue
		}
		if _, err := f.Log.Append(ctx, f.Topics.Plans, 0, seal.Message()); err != nil {
			return nil, fmt.Errorf("bring back the source of %v: %w", s.Files, err)
		}
		event.Notice(f.rec, "%s was removed earlier, and is restored", strings.Join(s.Files, ", "))
		return seal, nil
	}
	return nil, nil
}

// publish writes a source to the examples topic and seals it.
func (f *filesOf) publish(ctx context.Context, s ingest.Source) (*schemas.SourceSeal, error) {
	attempt, err := f.attempt(ctx, s.ID, f.job.Examples.BatchRows)
	if err != nil {
		return nil, fmt.Errorf("ingest %v: %w", s.Files, err)
	}
	write := func(ctx context.Context, partition int, messages ...wire.Message) (int64, error) {
		return f.Log.Append(ctx, f.Topics.Examples, partition, messages...)
	}
	seal, err := ingest.Publish(ctx, s, attempt, write, f.Memory, func(rows int64) {
		f.rec.Record(event.Ingested{Files: s.Files, Split: s.Split, Rows: rows})
	}, func(columns map[string]int64) {
		for _, column := range slices.Sorted(maps.Keys(columns)) {
			f.rec.Record(event.ColumnLost{File: s.Files[0], Column: column, Rows: columns[column]})
		}
	})
	if err == nil {
		_, err = f.Log.Append(ctx, f.Topics.Plans, 0, seal.Message())
	}
	if err != nil {
		return nil, fmt.Errorf("ingest %v: %w", s.Files, err)
	}
	f.bounds, err = f.Log.Spans(ctx, f.Topics.Examples) // the next source comes after this one
	return seal, err
}

// attempt returns the attempt at writing a source with the given number of rows per message. If the partitions end with
// messages of an interrupted attempt, ingest continues that attempt, and the examples get the offsets that they would have
// had without the interruption. If other messages follow, a message is missing, a write was duplicated, the messages had
// another number of rows, or the attempt was sealed, a new attempt starts, and the earlier messages never count.
func (f *filesOf) attempt(ctx context.Context, id string, batchRows int) (ingest.Attempt, error) {
	for n := len(f.origins); n < len(f.bounds); n++ { // all, or those added since the previous source
		last, err := origin(ctx, f.Pipeline, n, f.bounds[n].To-1, f.bounds[n].From)
		if err != nil {
			return ingest.Attempt{}, err
		}
		f.origins = append(f.origins, last)
	}
	begun := ingest.Attempt{Spans: make([]coverage.Span, len(f.bounds))}
	fresh := ingest.Attempt{Spans: make([]coverage.Span, len(f.bounds))}
	whole := true
	for n, bounds := range f.bounds {
		fresh.Spans[n] = coverage.Span{Partition: n, From: bounds.To, To: bounds.To}
		begun.Spans[n] = fresh.Spans[n]
		last := f.origins[n]
		if last.Source != id {
			continue
		}
		begun.ID = last.Attempt
		begun.Spans[n].From = bounds.To - (last.Sequence/int64(len(f.bounds)) + 1)
		head, err := origin(ctx, f.Pipeline, n, begun.Spans[n].From, bounds.From)
		if err != nil {
			return begun, err
		}
		whole = whole && head == schemas.Origin{Source: id, Attempt: last.Attempt, Sequence: int64(n)}
	}
	clear(f.origins) // the next source has nothing at the ends
	name := schemas.SourceName(id, begun.ID)
	whole = whole && !f.ledger.Incomplete(name) && !f.ledger.Sealed(name)
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

// origin returns the origin of the message at an offset; zero if the message was not ingested, or if the offset is before the
// partition's first.
func origin(ctx context.Context, p *topics.Pipeline, partition int, at, first int64) (found schemas.Origin, err error) {
	if at < first {
		return found, nil
	}
	for m, err := range p.Between(ctx, p.Topics.Examples, partition, at, at+1) {
		if err != nil {
			return found, err
		}
		found, _ = schemas.OriginOf(m.Message)
	}
	return found, nil
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
			m, err := origin(ctx, p, last, span.To-1, span.From)
			return m.Of(seal), err
		}
	}
	return seal.Messages == 0, nil
}

// Ingested is the job's files on the examples topic.
type Ingested struct {
	Seals      []schemas.SourceSeal
	Vocabulary []string                 // of text columns, if words are counted
	Extent     layout.Extent            // of sparse rows that were converted to dense ones
	Retention  topics.ExamplesRetention // of the examples topic
	Took       time.Duration
}

// Reading returns the options with the properties detected in the files.
func (i *Ingested) Reading(o ingest.Options) ingest.Options {
	o.Words = o.Words.Counting(i.Vocabulary)
	o.Found.Extent = i.Extent
	return o
}

// IngestExamples ingests the job's files, or the current messages of its source topic. If the topic no longer has the last
// message that was read, it notifies the operator and ingests nothing more: a run trains on the rows read before.
func IngestExamples(ctx context.Context, p *topics.Pipeline, job topics.Job, rec event.Recorder) (*Ingested, error) {
	began := p.Clock.Now()
	files, err := IngestFiles(ctx, p, job, rec)
	if err != nil || job.Examples.FromTopic == "" {
		return files, err
	}
	err = NewFollow(p, job, true, rec).Run(ctx)
	if changed, ok := errors.AsType[*ChangedTopicError](err); ok {
		event.Notice(rec, "%v", changed)
	} else if err != nil {
		return nil, err
	}
	files.Took = p.Clock.Since(began)
	return files, nil
}

// grown returns the seals of the sources that make up a source, possibly including its own: for a log file that has grown,
// the seals of its parts, the file at earlier times. It ingests rows that were added since. Without parts, it returns no
// seals and ingests nothing.
func (f *filesOf) grown(ctx context.Context, s ingest.Source, parts []*schemas.SourceSeal) (seals []*schemas.SourceSeal, err error) {
	if parts == nil {
		return nil, nil
	}
	for _, part := range parts {
		seal, err := f.present(ctx, ingest.Source{ID: part.ID, Split: s.Split, Files: part.Files})
		if err != nil || seal == nil {
			return nil, err // without it, the file is ingested as one that has not grown
		}
		seals = append(seals, seal)
	}
	rest, more, err := s.Rest(parts[len(parts)-1])
	if err != nil || !more {
		return seals, err
	}
	event.Notice(f.rec, "%s begins with the rows of %s, which are already ingested: ingesting the added rows", strings.Join(s.Files, ", "),
		strings.Join(parts[0].Files, ", "))
	seal, err := f.publish(ctx, rest)
	if err != nil {
		return nil, err
	}
	return append(seals, seal), nil
}

// begun returns the seals, current or removed, of sources whose rows are the first rows of a source's file. It returns an error if
// one of them is forgotten.
func (f *filesOf) begun(ctx context.Context, s ingest.Source) ([]*schemas.SourceSeal, error) {
	var sealed []*schemas.SourceSeal
	for id := range f.ledger.Sources() {
		sealed = append(sealed, f.ledger.Seals(id)...)
	}
	begun, err := s.Begun(ctx, append(sealed, f.ledger.Removed()...))
	for _, seal := range begun {
		if f.forgotten.Sources[seal.ID] {
			return nil, f.isForgotten(s, seal.ID)
		}
	}
	return begun, err
}

// checkOnce returns an error if the topic also has the rows of a source, or the first of them, in another source that was read
// differently: a chain trains on the whole topic, and so twice on these rows. begun are the sources with whose rows the file starts,
// and parts those that make up the file.
func (f *filesOf) checkOnce(ctx context.Context, s ingest.Source, begun, parts []*schemas.SourceSeal) error {
	for _, other := range begun {
		if other.ID == s.ID || slices.ContainsFunc(parts, func(part *schemas.SourceSeal) bool { return part.ID == other.ID }) {
			continue
		}
		seal, err := SealOf(ctx, f.Pipeline, f.ledger, f.staying, other.ID)
		if err != nil {
			return err
		}
		if seal == nil {
			continue
		}
		twice := fmt.Errorf("%s: its rows, or the first of them, are already on %s as source %s (%s), ingested with other keys, and a "+
			"chain would learn them twice: restore the keys under examples, or exclude one of the sources with `stagewise sources remove`",
			strings.Join(s.Files, ", "), f.Topics.Examples, wire.Digest(other.ID).Short(), strings.Join(other.Files, ", "))
		if f.job.Examples.Once {
			return twice
		}
		event.Notice(f.rec, "%v", twice)
		return nil
	}
	return nil
}
