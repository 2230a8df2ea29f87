package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// ToForget says which rows of the examples topic are to be forgotten.
type ToForget struct {
	Rows    schemas.Forgotten // by their offsets, as ParseRows returns them, in any order
	Sources []string          // ids of ingested sources, or their beginnings
	Keys    []string          // of messages
	Now     bool              // remove versions that have learnt from the rows now, and not after the next full run
}

// Forgot is what [Forget] has done.
type Forgot struct {
	Messages, Rows int64  // that are forgotten and that the topic still has
	Removed        []int  // versions that had learnt from forgotten rows and were removed
	Learnt         []int  // versions that have learnt from forgotten rows and are there; with Now, as unfinished runs need them
	Stays          []Stay // what forgetting does not erase
}

// Stay is how long something of forgotten rows stays that was written before.
type Stay struct {
	Topic string
	What  string    // of the rows
	Until time.Time // at the latest; zero: for ever
}

// ParseRows returns the rows that a text names: topic/partition/offset/row, or topic/partition/offset for all rows of a message. Offset
// and row may be ranges, as 3-7 with both ends; a row needs one offset. topic is the examples topic.
func ParseRows(topic, text string) (r schemas.ForgottenRows, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 3 || len(parts) > 4 || parts[0] != topic {
		return r, &RowsError{text, topic}
	}
	if r.Partition, err = strconv.Atoi(parts[1]); err != nil || r.Partition < 0 {
		return r, &RowsError{text, topic}
	}
	var ok bool
	if r.From, r.To, ok = parseRange(parts[2]); !ok {
		return r, &RowsError{text, topic}
	}
	if len(parts) == 4 {
		first, end, ok := parseRange(parts[3])
		if !ok || r.Span().Len() != 1 || end > maxRow {
			return r, &RowsError{text, topic}
		}
		r.First, r.End = int(first), int(end)
	}
	return r, nil
}

// maxRow is a number of rows that no message has.
const maxRow = 1 << 30

// parseRange parses a number, or two with a dash between them. end is the number after the last.
func parseRange(text string) (first, end int64, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseInt(from, 10, 62)
	last, wrong := strconv.ParseInt(to, 10, 62)
	return first, last + 1, err == nil && wrong == nil && first >= 0 && last >= first
}

// RowsError says that a text names no rows.
type RowsError struct {
	Text  string
	Topic string // of the examples
}

// Error says what is expected.
func (e *RowsError) Error() string {
	return fmt.Sprintf("%q: expected %s/PARTITION/OFFSET/ROW, or without /ROW for all rows of a message. OFFSET or ROW may be a range, as 3-7", e.Text, e.Topic)
}

// NoRowsError says which of the rows to forget are not there. Nothing is forgotten then.
type NoRowsError struct {
	Topic string   // of the examples
	Rows  []string // what is wrong with rows
	Keys  []string // that no message has
}

// Error returns a sentence.
func (e *NoRowsError) Error() string {
	parts := slices.Clone(e.Rows)
	for _, key := range e.Keys {
		parts = append(parts, fmt.Sprintf("no message on %s has the key %q", e.Topic, key))
	}
	return strings.Join(parts, "; ") + ". Nothing is forgotten"
}

// Forget forgets rows of the examples of a job's pipeline: no run that is planned later learns them. It resolves sources and keys to the rows
// that the topic has now. The error may be a *[NoRowsError] or an *[UnknownSourcesError]; nothing is forgotten then.
func Forget(ctx context.Context, log *kafkalog.Log, job Job, what ToForget) (*Forgot, error) {
	p := open(log, job.Name, nil)
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	sources, err := p.findSources(known(l), what.Sources)
	if err != nil {
		return nil, err
	}
	said, done, err := p.resolve(ctx, what, sources)
	if err != nil {
		return nil, err
	}
	if err := p.require(ctx, &job, p.Topics.Forget); err != nil {
		return nil, err
	}
	var messages []schemas.Message
	for i := range said {
		messages = append(messages, said[i].Message())
	}
	if _, err := p.Log.Append(ctx, p.Topics.Forget, 0, messages...); err != nil {
		return nil, fmt.Errorf("write what is to be forgotten: %w", err)
	}
	f, err := p.forgotten(ctx)
	if err != nil {
		return nil, err
	}
	learnt, err := p.haveLearnt(ctx, f)
	if err != nil {
		return done, err
	}
	if what.Now {
		if done.Removed, learnt, err = p.removeLearnt(ctx, learnt); err != nil {
			return done, err
		}
	}
	for _, place := range learnt {
		done.Learnt = append(done.Learnt, place.Version)
	}
	done.Stays, err = p.stays(ctx)
	return done, err
}

// resolve returns what is to be said on the forget topic: one message or more for what is named by offsets and keys, and for each source.
func (p *pipeline) resolve(ctx context.Context, what ToForget, sources []string) (said []schemas.Forget, done *Forgot, err error) {
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, nil, err
	}
	found := &found{pipeline: p, named: what.Rows.Union(nil), keys: map[string]bool{}, sources: map[string]schemas.Forgotten{}, done: &Forgot{}}
	wrong := &NoRowsError{Topic: p.Topics.Examples}
	for _, r := range found.named {
		if r.Partition >= len(bounds) || r.To > bounds[r.Partition].To {
			wrong.Rows = append(wrong.Rows, fmt.Sprintf("%s has nothing at %v", p.Topics.Examples, r.Span()))
		}
	}
	for _, key := range what.Keys {
		found.keys[key] = false
	}
	for _, id := range sources {
		found.sources[id] = nil
	}
	if len(wrong.Rows) > 0 {
		return nil, nil, wrong
	}
	spans := bounds // that are read
	if len(found.keys)+len(found.sources) == 0 {
		spans = found.named.Spans()
	}
	for _, s := range spans {
		err := p.Remaining(ctx, p.Topics.Examples, s.Partition, s.From, s.To, func(m run.Message) error { return found.look(s.Partition, m, wrong) })
		if err != nil {
			return nil, nil, fmt.Errorf("read examples: %w", err)
		}
	}
	for key, there := range found.keys {
		if !there {
			wrong.Keys = append(wrong.Keys, key)
		}
	}
	slices.Sort(wrong.Keys)
	if len(wrong.Rows)+len(wrong.Keys) > 0 {
		return nil, nil, wrong
	}
	add := func(rows schemas.Forgotten, source string) {
		for part := range slices.Chunk(rows.Union(nil), maxForgotten) {
			said = append(said, schemas.Forget{Rows: part, Source: source})
		}
	}
	add(found.named.Union(found.byKey), "")
	for _, id := range sources {
		if len(found.sources[id]) == 0 {
			said = append(said, schemas.Forget{Source: id}) // retention has taken all of it
		}
		add(found.sources[id], id)
	}
	return said, found.done, nil
}

// maxForgotten is how many ranges of rows a message on the forget topic has: their JSON is not longer than a message may be.
const maxForgotten = 6000

// found is what was found of the rows to forget.
type found struct {
	*pipeline
	named   schemas.Forgotten            // by offsets
	keys    map[string]bool              // whether a message has the key
	byKey   schemas.Forgotten            // rows of messages with these keys
	sources map[string]schemas.Forgotten // rows by source
	done    *Forgot
}

// look looks at a message of the examples.
func (f *found) look(partition int, m run.Message, wrong *NoRowsError) error {
	all := schemas.ForgottenRows{Partition: partition, From: m.Offset, To: m.Offset + 1}
	whole := false
	if _, wanted := f.keys[m.Key]; wanted {
		f.keys[m.Key], whole = true, true
		f.byKey = append(f.byKey, all)
	}
	if origin, ingested := schemas.OriginOf(m.Message); ingested {
		if _, wanted := f.sources[origin.Source]; wanted {
			f.sources[origin.Source], whole = append(f.sources[origin.Source], all), true
		}
	}
	rows := 0 // of a message that can't be used
	if whole || len(f.named.Within(schemas.Spans{all.Span()})) > 0 {
		if examples, err := f.Codec.DecodeExamples(m.Value); err == nil {
			rows = examples.Rows
			examples.Release()
		}
	}
	forgotten := 0
	for _, r := range f.named.Within(schemas.Spans{all.Span()}) {
		if r.End > rows {
			wrong.Rows = append(wrong.Rows, fmt.Sprintf("%s/%d/%d has %d rows, not the row %d", f.Topics.Examples, partition, m.Offset, rows, r.End-1))
		}
		if r.End == 0 {
			whole = true
		}
		forgotten += r.End - r.First
	}
	if whole {
		forgotten = rows
	}
	if whole || forgotten > 0 {
		f.done.Messages++
		f.done.Rows += int64(forgotten)
	}
	return nil
}

// stays returns how long what forgetting does not erase stays at most, if nothing writes it again.
func (p *pipeline) stays(ctx context.Context) (stays []Stay, err error) {
	t := p.Topics
	whats := []Stay{
		{Topic: t.Examples, What: "the rows"}, {Topic: t.Residuals, What: "predictions for them"}, {Topic: t.Statistics, What: "samples of them"},
		{Topic: t.Quarantine, What: "messages that could not be used"},
		{Topic: t.Predictions, What: "predictions for rows, if score makes them"},
	}
	now := time.Now()
	for _, s := range whats {
		configs, err := p.admin.Configs(ctx, s.Topic)
		if errors.As(err, new(*kafkalog.AccessError)) || errors.Is(err, kafkalog.ErrUnknownTopic) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r := retentionOf(configs[s.Topic]); r.time > 0 {
			s.Until = now.Add(r.time)
			if ms, known := limit(configs[s.Topic]["segment.ms"]); known { // messages are deleted by files
				s.Until = s.Until.Add(time.Duration(ms) * time.Millisecond)
			}
		}
		stays = append(stays, s)
	}
	return stays, nil
}
