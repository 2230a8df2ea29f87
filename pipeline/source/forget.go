package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// ToForget selects the rows of the examples topic to forget.
type ToForget struct {
	Rows    coverage.Forgotten // by offset, as returned by ParseRows, in any order
	Sources []string           // ids of ingested sources, or id prefixes
	Keys    []string           // keys of messages, on the examples topic or a followed topic
	Read    []SourceRows       // by their position on a followed topic
	Lost    string             // decision about lost forget messages: RestoreLost or DropLost; empty: none
	Now     bool               // remove versions trained on the rows now, rather than after the next full run
	Answers string             // topic with answers of servers; empty: none
}

// SourceRows are the rows of the messages in a span of a followed topic.
type SourceRows struct {
	Topic string
	coverage.Span
}

// String returns the notation of the rows.
func (r SourceRows) String() string { return r.Topic + r.Span.String() }

// Forgot is the result of [Forget].
type Forgot struct {
	Messages int64 `json:"messages"` // with forgotten rows, and still on the topic
	Rows     int64 `json:"rows"`
	Removed  []int `json:"removed_versions,omitempty"`
	// Learnt are the remaining versions trained on forgotten rows; with Now, because unfinished runs need them.
	Learnt []int  `json:"learnt_versions,omitempty"`
	Stays  []Stay `json:"stays"` // data that forgetting does not erase
	// Compacts are the topics with data of removed versions until the brokers compact them; none: it is deleted from disk.
	Compacts []Compacts `json:"compacts,omitempty"`
}

// Compacts describes when the brokers compact a topic.
type Compacts struct {
	Topic string    `json:"topic"`
	From  time.Time `json:"from,omitzero"` // a message written then or later rolls the segment with the removed data; zero: unknown
}

// Stay describes how long data of forgotten rows is retained.
type Stay struct {
	Topic string    `json:"topic,omitempty"`
	Files string    `json:"files,omitempty"` // of an archive, rather than a topic
	What  string    `json:"what"`
	Until time.Time `json:"until,omitzero"` // latest time; zero: unlimited
}

// ParseRows parses rows: topic/partition/offset/row, or topic/partition/offset for all rows of a message. Offset and row
// may be inclusive ranges, such as 3-7; a row needs a single offset. topic is the examples topic.
func ParseRows(topic, text string) (r coverage.ForgottenRows, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 3 || len(parts) > 4 || parts[0] != topic {
		return r, &rowsError{text, topic}
	}
	if r.Partition, err = strconv.Atoi(parts[1]); err != nil || r.Partition < 0 {
		return r, &rowsError{text, topic}
	}
	var ok bool
	if r.From, r.To, ok = parseRange(parts[2]); !ok {
		return r, &rowsError{text, topic}
	}
	if len(parts) == 4 {
		first, end, ok := parseRange(parts[3])
		if !ok || r.Span().Len() != 1 || end > maxRow {
			return r, &rowsError{text, topic}
		}
		r.First, r.End = int(first), int(end)
	}
	return r, nil
}

// ParseSourceRows parses rows by their position on a followed topic: topic/partition/offset. Offset may be an inclusive
// range, such as 3-7. topic is the followed topic.
func ParseSourceRows(topic, text string) (r SourceRows, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] != topic || topic == "" {
		return r, false
	}
	var err error
	if r.Partition, err = strconv.Atoi(parts[1]); err != nil || r.Partition < 0 {
		return r, false
	}
	r.Topic = topic
	r.From, r.To, ok = parseRange(parts[2])
	return r, ok
}

// maxRow exceeds the number of rows of any message.
const maxRow = 1 << 30

// parseRange parses a number, or two separated by a dash. end is the number after the last.
func parseRange(text string) (first, end int64, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseInt(from, 10, 62)
	last, wrong := strconv.ParseInt(to, 10, 62)
	return first, last + 1, err == nil && wrong == nil && first >= 0 && last >= first
}

// rowsError is the error of a text that is not a valid selection of rows.
type rowsError struct {
	Text  string
	Topic string // examples topic
}

// Error includes the expected form.
func (e *rowsError) Error() string {
	return fmt.Sprintf("%q: expected %s/PARTITION/OFFSET/ROW, or without /ROW for all rows of a message, or "+
		"TOPIC/PARTITION/OFFSET of the topic examples.from_topic. OFFSET or ROW may be a range, such as 3-7", e.Text, e.Topic)
}

// NoRowsError lists selected rows that do not exist. Nothing is forgotten then.
type NoRowsError struct {
	Topic string       // examples topic
	Rows  []string     // problems of rows
	Keys  []string     // keys of no message
	Read  []SourceRows // of which the topic has no rows
}

// Error returns a sentence.
func (e *NoRowsError) Error() string {
	parts := slices.Clone(e.Rows)
	for _, key := range e.Keys {
		parts = append(parts, fmt.Sprintf("no message on %s has the key %q", e.Topic, key))
	}
	for _, read := range e.Read {
		parts = append(parts, fmt.Sprintf("no row on %s was read from %v", e.Topic, read))
	}
	return strings.Join(parts, "; ") + ". Nothing is forgotten"
}

// Forget excludes rows of the examples of a job's pipeline from all future training. It resolves sources and keys to the
// rows that are currently on the topic. The error may be a *[NoRowsError] or an *[UnknownSourcesError]; nothing is
// forgotten then.
func Forget(ctx context.Context, p *topics.Pipeline, job topics.Job, what ToForget) (*Forgot, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	sources, err := FindSources(p, knownIn(l), what.Sources)
	if err != nil {
		return nil, err
	}
	var decided []schemas.Forget
	if what.Lost != "" {
		f, err := ReadForgotten(ctx, p)
		if err != nil {
			return nil, err
		}
		said, rows, err := decideLost(ctx, p, f, what.Lost)
		if err != nil {
			return nil, err
		}
		decided, what.Rows = said, append(what.Rows, rows...)
	}
	said, done, err := resolve(ctx, p, what, sources)
	if err != nil {
		return nil, err
	}
	said = append(said, decided...)
	if err := topics.Require(ctx, p, &job, p.Topics.Forget); err != nil {
		return nil, err
	}
	if err := topics.CheckPolicies(ctx, p, event.Ignore{}, p.Topics.Forget); err != nil {
		return nil, err
	}
	var messages []wire.Message
	for i := range said {
		messages = append(messages, said[i].Message())
	}
	if _, err := p.Log.Append(ctx, p.Topics.Forget, 0, messages...); err != nil {
		return nil, fmt.Errorf("write forgotten rows: %w", err)
	}
	f, err := ReadForgotten(ctx, p)
	if err != nil {
		return nil, err
	}
	learnt, err := HaveLearnt(ctx, p, f)
	if err != nil {
		return done, err
	}
	if what.Now {
		if done.Removed, learnt, err = RemoveLearnt(ctx, p, learnt); err != nil {
			return done, err
		}
	}
	if len(done.Removed) > 0 && !p.Admin.Embedded() {
		if done.Compacts, err = compacts(ctx, p); err != nil {
			return done, err
		}
	}
	for _, place := range learnt {
		done.Learnt = append(done.Learnt, place.Version)
	}
	done.Stays, err = stays(ctx, p, job.Examples, what.Answers)
	return done, err
}

// resolve returns the messages for the forget topic: one or more for offsets and keys, and for each source.
func resolve(ctx context.Context, p *topics.Pipeline, what ToForget, sources []string) (said []schemas.Forget, done *Forgot, err error) {
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, nil, err
	}
	found := &found{Pipeline: p, named: what.Rows.Union(nil), keys: map[string]bool{}, read: what.Read,
		isRead: make([]bool, len(what.Read)), sources: map[string]coverage.Forgotten{}, checksums: map[int]map[int64]string{}, done: &Forgot{}}
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
	spans := bounds // spans to read
	if len(found.keys)+len(found.read)+len(found.sources) == 0 {
		spans = found.named.Spans()
	}
	for _, s := range spans {
		err := p.Remaining(ctx, p.Topics.Examples, s.Partition, s.From, s.To,
			func(m protocol.Message) error { return found.look(s.Partition, m, wrong) })
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
	for i, there := range found.isRead {
		if !there {
			wrong.Read = append(wrong.Read, found.read[i])
		}
	}
	if len(wrong.Rows)+len(wrong.Keys)+len(wrong.Read) > 0 {
		return nil, nil, wrong
	}
	add := func(rows coverage.Forgotten, source string) {
		for _, part := range parts(rows.Union(nil)) {
			said = append(said, schemas.Forget{Rows: part, Source: source, Checksums: found.checksumsOf(part)})
		}
	}
	add(found.named.Union(found.byOrigin), "")
	for _, id := range sources {
		if len(found.sources[id]) == 0 {
			said = append(said, schemas.Forget{Source: id}) // retention has deleted all of it
		}
		add(found.sources[id], id)
	}
	return said, found.done, nil
}

const (
	// maxForgotten is the maximum number of row ranges in a forget message: their JSON must fit into a message.
	maxForgotten = 4000
	// maxChecksums is the maximum number of offsets with checksums.
	maxChecksums = 20000
)

// parts divides rows between several forget messages.
func parts(rows coverage.Forgotten) (parts []coverage.Forgotten) {
	var part coverage.Forgotten
	room := int64(maxChecksums)
	for _, r := range rows {
		for !r.Span().Empty() {
			if room == 0 || len(part) == maxForgotten {
				parts, part, room = append(parts, part), nil, maxChecksums
			}
			cut := r
			cut.To = min(r.To, r.From+room)
			part, room, r.From = append(part, cut), room-cut.Span().Len(), cut.To
		}
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// found is the rows found so far.
type found struct {
	*topics.Pipeline
	named    coverage.Forgotten // selected by offset
	keys     map[string]bool    // whether any message has the key
	read     []SourceRows
	isRead   []bool                        // by index in read: whether there is any row
	byOrigin coverage.Forgotten            // rows of messages with these keys, or read from these positions
	sources  map[string]coverage.Forgotten // by source
	// checksums are those of the messages with such rows, by partition and offset.
	checksums map[int]map[int64]string
	done      *Forgot
}

// checksumsOf returns the checksums of the messages at the offsets of rows, in order.
func (f *found) checksumsOf(rows coverage.Forgotten) (checksums []string) {
	for _, r := range rows {
		for at := r.From; at < r.To; at++ {
			checksums = append(checksums, f.checksums[r.Partition][at])
		}
	}
	return checksums
}

// look searches an examples message.
func (f *found) look(partition int, m protocol.Message, wrong *NoRowsError) error {
	all := coverage.ForgottenRows{Partition: partition, From: m.Offset, To: m.Offset + 1}
	named, whole := f.named.Within(coverage.Spans{all.Span()}), false
	if _, wanted := f.keys[m.Key]; wanted {
		f.keys[m.Key], whole = true, true
		f.byOrigin = append(f.byOrigin, all)
	}
	if origin, ingested := schemas.OriginOf(m.Message); ingested {
		if _, wanted := f.sources[origin.Source]; wanted {
			f.sources[origin.Source], whole = append(f.sources[origin.Source], all), true
		}
	}
	some := f.lookWithin(all, m)
	f.byOrigin = append(f.byOrigin, some...)
	rows := 0 // of an unusable message
	if whole || len(named)+len(some) > 0 {
		if f.checksums[partition] == nil {
			f.checksums[partition] = map[int64]string{}
		}
		f.checksums[partition][m.Offset] = schemas.ForgetChecksum(m.Message)
		rows = RowsIn(f.Pipeline, m)
	}
	for _, r := range named {
		if r.End > rows {
			wrong.Rows = append(wrong.Rows, fmt.Sprintf("%s/%d/%d has %d rows, no row %d", f.Topics.Examples, partition, m.Offset, rows,
				r.End-1))
		}
	}
	if whole {
		named = coverage.Forgotten{all}
	}
	forgotten := 0
	named.Union(some).In(partition, m.Offset, rows, func(first, end int) { forgotten += end - first })
	if whole || forgotten > 0 {
		f.done.Messages++
		f.done.Rows += int64(forgotten)
	}
	return nil
}

// lookWithin returns the rows of a message that ingest has read from messages with selected keys or positions. A message
// may have rows of many.
func (f *found) lookWithin(all coverage.ForgottenRows, m protocol.Message) (some coverage.Forgotten) {
	topic, followed := schemas.TopicOf(m.Message)
	if !followed || len(f.keys)+len(f.read) == 0 {
		return nil
	}
	take := func(first, end int) {
		r := all
		r.First, r.End = first, end
		some = append(some, r)
	}
	origins, err := examples.RowOriginsOf(m.Message)
	if err != nil {
		return nil // damaged messages are not trained on
	}
	for i, read := range f.read {
		if read.Topic == topic {
			origins.In(read.Partition, read.From, read.To, func(first, end int) {
				f.isRead[i] = true
				take(first, end)
			})
		}
	}
	if len(f.keys) == 0 {
		return some.Union(nil)
	}
	keys, _ := examples.SourceKeys(m.Value, f.Memory) // none of a damaged message
	for row, key := range keys {
		if _, wanted := f.keys[key]; wanted && key != "" {
			f.keys[key] = true
			take(row, row+1)
		}
	}
	return some.Union(nil)
}

// compacts returns when brokers compact the topics from which data was removed. They do not compact the active segment,
// which is rolled by a message written long enough after its first one.
func compacts(ctx context.Context, p *topics.Pipeline) (compacts []Compacts, err error) {
	for _, topic := range []string{p.Topics.Versions, p.Topics.State} {
		configs, err := p.Admin.Configs(ctx, topic)
		if errors.As(err, new(*kafkalog.AccessError)) {
			compacts = append(compacts, Compacts{Topic: topic})
			continue
		}
		if errors.Is(err, kafkalog.ErrUnknownTopic) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c, after := Compacts{Topic: topic}, int64(math.MaxInt64)
		for _, key := range []string{"segment.ms", "max.compaction.lag.ms"} {
			if ms, known := topics.Limit(configs[topic][key]); known && ms > 0 && ms < after {
				after = ms
				c.From = p.Clock.Now().Add(time.Duration(ms) * time.Millisecond)
			}
		}
		compacts = append(compacts, c)
	}
	return compacts, nil
}

// stays returns the maximum retention of data that forgetting does not erase, if nothing writes it again.
func stays(ctx context.Context, p *topics.Pipeline, o ingest.Options, answers string) (stays []Stay, err error) {
	t := p.Topics
	whats := []Stay{
		{Topic: t.Examples, What: "the rows"}, {Topic: t.Residuals, What: "predictions for them"}, {Topic: t.Statistics,
			What: "samples of them, and rows of small updates"}, {Topic: t.Weights, What: "weights that had learnt from them"},
		{Topic: t.Quarantine, What: "messages that could not be used"},
		{Topic: t.Predictions, What: "predictions for rows, if score is used"},
		{Topic: answers, What: "answers of serve"}, {Topic: t.Origins, What: "keys of messages of the rows"},
		{Topic: o.FromTopic, What: "the messages of the rows"}, {Topic: o.Outcome.Topic, What: "outcomes"},
	}
	now := p.Clock.Now()
	for _, s := range whats {
		if s.Topic == "" {
			continue
		}
		configs, err := p.Admin.Configs(ctx, s.Topic)
		if errors.As(err, new(*kafkalog.AccessError)) || errors.Is(err, kafkalog.ErrUnknownTopic) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r := topics.RetentionOf(configs[s.Topic]); r.Time > 0 {
			s.Until = now.Add(r.Time)
			if ms, known := topics.Limit(configs[s.Topic]["segment.ms"]); known { // messages are deleted by segment
				s.Until = s.Until.Add(time.Duration(ms) * time.Millisecond)
			}
		}
		stays = append(stays, s)
	}
	if files := o.Archive.Files; files != "" {
		stays = append(stays, Stay{Files: files, What: "the messages of the rows in this archive"})
	}
	return stays, nil
}
