package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
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
	Rows    coverage.Forgotten // by offset, in any order
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

// AddRows adds rows of the examples topic: topic/partition/offset/row, or topic/partition/offset for all rows of a message; or
// topic/partition/offset of the followed topic, if there is one. Offset and row may be inclusive ranges, such as 3-7; a row needs a single
// offset.
func (f *ToForget) AddRows(examples, followed, text string) error {
	if parts := strings.Split(text, "/"); len(parts) == 3 || len(parts) == 4 {
		partition, err := strconv.Atoi(parts[1])
		from, to, ok := parseRange(parts[2])
		span := coverage.Span{Partition: partition, From: from, To: to}
		switch valid := ok && err == nil && partition >= 0; {
		case valid && len(parts) == 3 && parts[0] == examples:
			f.Rows = append(f.Rows, coverage.ForgottenRows{Partition: partition, From: from, To: to})
			return nil
		case valid && len(parts) == 3 && parts[0] == followed && followed != "":
			f.Read = append(f.Read, SourceRows{followed, span})
			return nil
		case valid && len(parts) == 4 && parts[0] == examples && span.Len() == 1:
			if first, end, ok := parseRange(parts[3]); ok && end <= maxRow {
				f.Rows = append(f.Rows, coverage.ForgottenRows{Partition: partition, From: from, To: to, First: int(first), End: int(end)})
				return nil
			}
		}
	}
	return fmt.Errorf("%q: expected %s/PARTITION/OFFSET/ROW, or without /ROW for all rows of a message, or "+
		"TOPIC/PARTITION/OFFSET of the topic examples.from_topic. OFFSET or ROW may be a range, such as 3-7", text, examples)
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

// Forget excludes rows of the examples of a job's pipeline from all future training. It resolves sources and keys to the
// rows that are currently on the topic. If some of them do not exist, the error is a *[topics.RefusedError], and nothing is forgotten.
func Forget(ctx context.Context, p *topics.Pipeline, job topics.Job, what ToForget) (*Forgot, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	sources, err := findSources(p.Topics.Plans, knownIn(l), what.Sources)
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
		if done.Removed, learnt, err = RemoveLearnt(ctx, p, learnt, event.Ignore{}); err != nil {
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
	f := &found{Pipeline: p, named: what.Rows.Union(nil), read: what.Read, keyed: len(what.Keys) > 0, there: map[any]bool{},
		sources: map[string]coverage.Forgotten{}, checksums: map[coverage.Span]string{}, done: &Forgot{},
		wrong: &topics.RefusedError{Nothing: "Nothing is forgotten"}}
	for _, r := range f.named {
		if r.Partition >= len(bounds) || r.To > bounds[r.Partition].To {
			f.wrong.Add("%s has nothing at %v", p.Topics.Examples, r.Span())
		}
	}
	if len(f.wrong.Reasons) > 0 {
		return nil, nil, f.wrong
	}
	for _, key := range what.Keys {
		f.there[outcome.TextOf(key)] = false
	}
	for _, read := range what.Read {
		f.there[read] = false
	}
	for _, id := range sources {
		f.sources[id] = nil
	}
	if len(f.there)+len(f.sources) == 0 {
		bounds = f.named.Spans()
	}
	for _, s := range bounds {
		for m, err := range p.Remaining(ctx, p.Topics.Examples, s.Partition, s.From, s.To) {
			if err != nil {
				return nil, nil, fmt.Errorf("read examples: %w", err)
			}
			f.look(s.Partition, m)
		}
	}
	for _, key := range what.Keys {
		if !f.there[outcome.TextOf(key)] {
			f.wrong.Add("no message on %s has the key %q", p.Topics.Examples, key)
		}
	}
	for _, read := range what.Read {
		if !f.there[read] {
			f.wrong.Add("no row on %s was read from %v", p.Topics.Examples, read)
		}
	}
	if len(f.wrong.Reasons) > 0 {
		return nil, nil, f.wrong
	}
	add := func(rows coverage.Forgotten, source string) {
		for _, part := range parts(rows.Union(nil)) {
			said = append(said, schemas.Forget{Rows: part, Source: source, Checksums: f.checksumsOf(part)})
		}
	}
	add(f.named.Union(f.byOrigin), "")
	for _, id := range sources {
		if len(f.sources[id]) == 0 {
			said = append(said, schemas.Forget{Source: id}) // retention has deleted all of it
		}
		add(f.sources[id], id)
	}
	return said, f.done, nil
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
	named     coverage.Forgotten // selected by offset
	read      []SourceRows
	keyed     bool                          // some are selected by key
	there     map[any]bool                  // by key, and by position on a followed topic: whether there is any row
	byOrigin  coverage.Forgotten            // rows of messages with these keys, or read from these positions
	sources   map[string]coverage.Forgotten // by source
	checksums map[coverage.Span]string      // of the messages with such rows
	wrong     *topics.RefusedError          // rows that do not exist
	done      *Forgot
}

// checksumsOf returns the checksums of the messages at the offsets of rows, in order.
func (f *found) checksumsOf(rows coverage.Forgotten) (checksums []string) {
	for _, r := range rows {
		for at := r.From; at < r.To; at++ {
			checksums = append(checksums, f.checksums[coverage.Span{Partition: r.Partition, From: at, To: at + 1}])
		}
	}
	return checksums
}

// wants reports whether rows with a key are selected, and records that there are some. Keys are compared by their texts: an archive may
// have them in another encoding than the topic.
func (f *found) wants(key string) (wanted bool) {
	for _, text := range outcome.Texts(key) {
		if _, there := f.there[text]; there && text != "" {
			f.there[text], wanted = true, true
		}
	}
	return wanted
}

// look searches an examples message.
func (f *found) look(partition int, m protocol.Message) {
	all := coverage.ForgottenRows{Partition: partition, From: m.Offset, To: m.Offset + 1}
	named := f.named.Within(coverage.Spans{all.Span()})
	some := f.lookWithin(all, m)
	f.byOrigin = append(f.byOrigin, some...)
	taken := named.Union(some)
	if origin, ingested := schemas.OriginOf(m.Message); ingested {
		if of, wanted := f.sources[origin.Source]; wanted {
			f.sources[origin.Source], taken = append(of, all), coverage.Forgotten{all}
		}
	}
	if len(taken) == 0 {
		return
	}
	f.checksums[all.Span()] = schemas.ForgetChecksum(m.Message)
	rows := RowsIn(f.Pipeline, m) // 0 of an unusable message
	for _, r := range named {
		if r.End > rows {
			f.wrong.Add("%s/%d/%d has %d rows, no row %d", f.Topics.Examples, partition, m.Offset, rows, r.End-1)
		}
	}
	f.done.Messages++
	taken.In(partition, m.Offset, rows, func(first, end int) { f.done.Rows += int64(end - first) })
}

// lookWithin returns the rows of a message with selected keys or positions: those of its own key, and those that ingest has read from
// such messages. A message may have rows of many source messages.
func (f *found) lookWithin(all coverage.ForgottenRows, m protocol.Message) (some coverage.Forgotten) {
	if f.wants(m.Key) {
		some = append(some, all)
	}
	topic, followed := schemas.TopicOf(m.Message)
	if !followed || len(f.there) == 0 {
		return some
	}
	origins, err := examples.RowOriginsOf(m.Message)
	if err != nil {
		return some // damaged messages are not trained on
	}
	take := func(first, end int) {
		r := all
		r.First, r.End = first, end
		some = append(some, r)
	}
	for _, read := range f.read {
		if read.Topic == topic {
			origins.In(read.Partition, read.From, read.To, func(first, end int) {
				f.there[read] = true
				take(first, end)
			})
		}
	}
	if f.keyed {
		keys, _ := examples.SourceKeys(m.Value, f.Memory) // none of a damaged message
		for row, key := range keys {
			if f.wants(key) {
				take(row, row+1)
			}
		}
	}
	return some.Union(nil)
}

// configOf returns the settings of a topic; nil if it does not exist. denied means that this process may not read them.
func configOf(ctx context.Context, p *topics.Pipeline, topic string) (config map[string]string, denied bool, err error) {
	configs, err := p.Admin.Configs(ctx, topic)
	if denied = errors.As(err, new(*kafkalog.AccessError)); denied || errors.Is(err, kafkalog.ErrUnknownTopic) {
		err = nil
	}
	return configs[topic], denied, err
}

// compacts returns when brokers compact the topics from which data was removed. They do not compact the active segment,
// which is rolled by a message written long enough after its first one.
func compacts(ctx context.Context, p *topics.Pipeline) (compacts []Compacts, err error) {
	for _, topic := range []string{p.Topics.Versions, p.Topics.State} {
		config, denied, err := configOf(ctx, p, topic)
		if err != nil {
			return nil, err
		}
		if config == nil && !denied {
			continue
		}
		c, after := Compacts{Topic: topic}, int64(math.MaxInt64)
		for _, key := range []string{"segment.ms", "max.compaction.lag.ms"} {
			if ms, known := topics.Limit(config[key]); known && ms > 0 && ms < after {
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
	now := p.Clock.Now()
	for _, s := range []Stay{
		{Topic: t.Examples, What: "the rows"}, {Topic: t.Residuals, What: "predictions for them"}, {Topic: t.Statistics,
			What: "samples of them, and rows of small updates"}, {Topic: t.Weights, What: "weights that had learnt from them"},
		{Topic: t.Quarantine, What: "messages that could not be used"},
		{Topic: t.Predictions, What: "predictions for rows, if score is used"},
		{Topic: answers, What: "answers of serve"}, {Topic: t.Origins, What: "keys of messages of the rows"},
		{Topic: o.FromTopic, What: "the messages of the rows"}, {Topic: o.Outcome.Topic, What: "outcomes"},
	} {
		if s.Topic == "" {
			continue
		}
		config, _, err := configOf(ctx, p, s.Topic)
		if err != nil {
			return nil, err
		}
		if config == nil {
			continue
		}
		if r := topics.RetentionOf(config); r.Time > 0 {
			ms, _ := topics.Limit(config["segment.ms"]) // messages are deleted by segment
			s.Until = now.Add(r.Time + time.Duration(ms)*time.Millisecond)
		}
		stays = append(stays, s)
	}
	if files := o.Archive.Files; files != "" {
		stays = append(stays, Stay{Files: files, What: "the messages of the rows in this archive"})
	}
	return stays, nil
}
