package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// States of a source. A run without files trains on all sealed sources.
const (
	Sealed          = "sealed"
	Removed         = "removed"
	Unfinished      = "unfinished" // the ingest was interrupted, or is still running
	Followed        = "followed"   // a topic, which has no end
	forgottenSource = "forgotten"  // the rows have weight 0
)

// SourceState is the state of a source: files, and their messages on the topics, or a followed topic.
type SourceState struct {
	ID    string   // 64 hexadecimal digits, or "topic:" and the topic name
	Files []string // file names without directories; unknown for an unfinished source
	Split string   // split of the rows; unknown for an unfinished source
	State string
	Since time.Time // the time of the seal, the removal, or the last message, by the writer's clock
	// Rows is the number of rows; −1 if the source is unfinished, because it is unknown.
	Rows     int64
	Messages int64 // number of messages
	// Left is the maximum number of the messages that are still on the examples topic. There may be fewer if other messages
	// are interleaved and retention has deleted some.
	Left int64
	// Read is the position in a followed topic: messages up to these offsets count, as of the current examples. For such a
	// source Rows, Messages and Left are −1: unknown.
	Read []schemas.TopicPosition
}

// readTopics reads the state of sources: the ledger, the offset ranges of the examples, and the forgotten rows.
func readTopics(ctx context.Context, p *topics.Pipeline) (l *protocol.Ledger, bounds []coverage.Span, forgotten *Forgotten,
	err error) {
	if l, err = p.ReadLedger(ctx); err != nil {
		return nil, nil, nil, err
	}
	if bounds, err = p.Log.Spans(ctx, p.Topics.Examples); err != nil {
		return nil, nil, nil, err
	}
	forgotten, err = ReadForgotten(ctx, p)
	return l, bounds, forgotten, err
}

// Sources returns the sources of a pipeline, ordered by the time of their last state change. For one that was ingested
// several times it returns the valid ingest. It finds an unfinished source only if no other follows it on a partition, and
// a topic only if one of the last messages of a partition is from it.
func Sources(ctx context.Context, p *topics.Pipeline) ([]SourceState, error) {
	l, bounds, forgotten, err := readTopics(ctx, p)
	if err != nil {
		return nil, err
	}
	states, err := unsealed(ctx, p, l, bounds)
	if err != nil {
		return nil, err
	}
	for id, s := range knownIn(l) {
		seal := Largest(s.seals, bounds)
		if forgotten.Sources[id] {
			s.state = forgottenSource
		}
		states = append(states, SourceState{
			ID: id, Files: seal.Files, Split: seal.Split, State: s.state, Since: l.SourceChanged(seal), Rows: seal.Rows,
			Messages: seal.Messages, Left: seal.Left(bounds),
		})
	}
	slices.SortFunc(states, func(a, b SourceState) int {
		if order := a.Since.Compare(b.Since); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return states, nil
}

// knownSource is a source with seals. If it is removed, all of its seals are.
type knownSource struct {
	state string // Sealed or Removed
	seals []*schemas.SourceSeal
}

// knownIn returns the sources with seals in a ledger, by id.
func knownIn(l *protocol.Ledger) map[string]knownSource {
	sources := map[string]knownSource{}
	for id := range l.Sources() {
		if seals := l.Seals(id); len(seals) > 0 {
			sources[id] = knownSource{Sealed, seals}
		}
	}
	for _, seal := range l.Removed() {
		if s := sources[seal.ID]; s.state != Sealed {
			sources[seal.ID] = knownSource{Removed, append(s.seals, seal)}
		}
	}
	return sources
}

// unsealed returns the sources without a seal: those with which the examples partitions end, and the topics of their last messages.
func unsealed(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger, bounds []coverage.Span) (all []SourceState, err error) {
	states, progress := map[string]*SourceState{}, map[string][]protocol.TopicProgress{} // by name, and by topic
	for n, span := range bounds {
		for m, err := range p.Between(ctx, p.Topics.Examples, n, max(span.From, span.To-lookBack), span.To) {
			if err != nil {
				return nil, fmt.Errorf("read examples: %w", err)
			}
			origin, ingested := schemas.OriginOf(m.Message)
			name := schemas.SourceName(origin.Source, origin.Attempt)
			found := SourceState{ID: origin.Source, State: Unfinished, Rows: -1}
			topic, followed := schemas.TopicOf(m.Message)
			if followed {
				name = schemas.TopicSource(topic)
				found = SourceState{ID: name, Split: examples.Train.String(), State: Followed, Rows: -1, Messages: -1, Left: -1}
			} else if !ingested || m.Offset < span.To-1 || l.Sealed(name) || l.Incomplete(name) {
				continue
			}
			s := states[name]
			if s == nil {
				s, states[name] = &found, &found
			}
			if m.Time.After(s.Since) {
				s.Since = m.Time
			}
			if !followed {
				written := origin.Sequence/int64(len(bounds)) + 1
				s.Messages, s.Left = s.Messages+written, s.Left+min(written, span.Len())
				continue
			}
			if progress[topic] == nil {
				progress[topic] = make([]protocol.TopicProgress, len(bounds))
			}
			if err := progress[topic][n].Add(topic, m.Message); err != nil {
				return nil, fmt.Errorf("read examples: %w", err)
			}
		}
	}
	for topic, of := range progress {
		states[schemas.TopicSource(topic)].Read = protocol.MergeTopicProgress(of).Positions
	}
	for _, s := range states {
		all = append(all, *s)
	}
	return all, nil
}

// RemoveSources removes sources, by id or id prefix: no run planned later counts them, until they are ingested again.
// Planned runs are not affected, and the messages stay on the examples topic. It returns the sources in the order of the
// ids, with their states before. If one is unknown, or a topic, it removes none, and the error is a *[topics.RefusedError].
func RemoveSources(ctx context.Context, p *topics.Pipeline, ids []string) (removed []SourceState, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	sources := knownIn(l)
	found, err := findSources(p.Topics.Plans, sources, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range found {
		s := sources[id]
		if s.state == Sealed {
			var messages []wire.Message
			for _, seal := range s.seals {
				messages = append(messages, (&schemas.SourceRemoval{Seal: *seal}).Message())
			}
			if _, err := p.Log.Append(ctx, p.Topics.Plans, 0, messages...); err != nil {
				return removed, fmt.Errorf("remove source %s: %w", wire.Digest(id).Short(), err)
			}
		}
		removed = append(removed, SourceState{ID: id, Files: s.seals[len(s.seals)-1].Files, State: s.state})
	}
	return removed, nil
}

// findSources returns the ids that start with the texts, each once. topic is the plans topic.
func findSources(topic string, sources map[string]knownSource, texts []string) (found []string, err error) {
	wrong := &topics.RefusedError{Nothing: "No source is removed"}
	for _, text := range texts {
		var begun []string
		for id := range sources {
			if text != "" && strings.HasPrefix(id, text) {
				begun = append(begun, id)
			}
		}
		slices.Sort(begun)
		switch {
		case schemas.IsTopicSource(text):
			wrong.Reasons = []string{text + " is a topic that ingest follows: expected files. To train without its examples, end the ingest, " +
				"and name another examples topic or files under examples"}
			return nil, wrong
		case len(begun) == 0:
			wrong.Add("there is no source %q on %s", text, topic)
		case len(begun) > 1:
			wrong.Add("%q begins several source IDs on %s: %s", text, topic, strings.Join(begun, ", "))
		case !slices.Contains(found, begun[0]):
			found = append(found, begun[0])
		}
	}
	if n := len(wrong.Reasons); n > 0 {
		wrong.Reasons[n-1] += ": expected the id of a sealed source, or its first digits; see sources list"
		return nil, wrong
	}
	return found, nil
}

// Largest returns the seal that a topic with those bounds holds most completely: the latest of those held whole, otherwise of those
// held in part, otherwise of all. It returns nil if there are no seals.
func Largest(seals []*schemas.SourceSeal, bounds []coverage.Span) (best *schemas.SourceSeal) {
	for _, seal := range seals {
		if best == nil || seal.Held(bounds) >= best.Held(bounds) {
			best = seal
		}
	}
	return best
}

// RowsIn returns the number of rows of an examples message; 0 if it is unusable.
func RowsIn(p *topics.Pipeline, m protocol.Message) int {
	examples, err := examples.Decode(m.Value, p.Memory)
	if err != nil {
		return 0
	}
	return examples.Rows
}

// QuarantineReason is the messages in quarantine whose reasons differ only in the values of rows.
type QuarantineReason struct {
	Reason      string // that of the last message; without values, the common part of all reasons
	Messages    int64
	First, Last schemas.Quarantined // in the order of the quarantine topic
}

// Quarantine returns the reasons for which messages are in quarantine, the most frequent one first. They include values of rows only if
// values is true.
func Quarantine(ctx context.Context, p *topics.Pipeline, values bool) ([]QuarantineReason, error) {
	spans, err := p.Log.Spans(ctx, p.Topics.Quarantine)
	if err != nil {
		return nil, err
	}
	type kind struct{ topic, reason string }
	at := map[kind]int{}
	var reasons []QuarantineReason
	for _, span := range spans {
		for m, err := range p.Remaining(ctx, p.Topics.Quarantine, span.Partition, span.From, span.To) {
			if err != nil {
				return nil, err
			}
			q, err := schemas.QuarantinedOf(m.Message)
			if err != nil {
				continue // other content of the topic is ignored
			}
			q.Value = nil
			k := kind{q.Topic, schemas.WithoutValues(q.Reason)}
			if _, known := at[k]; !known {
				at[k] = len(reasons)
				reasons = append(reasons, QuarantineReason{Reason: k.reason, First: *q})
			}
			r := &reasons[at[k]]
			if r.Last = *q; values {
				r.Reason = q.Reason
			}
			r.Messages++
		}
	}
	slices.SortStableFunc(reasons, func(a, b QuarantineReason) int { return cmp.Compare(b.Messages, a.Messages) })
	return reasons, nil
}

// NothingUsableError means that ingest has read a topic without any usable message.
type NothingUsableError struct {
	Topic    string
	Messages int64  // number of quarantined messages
	First    string // reason and position of one of them
}

// Error includes the number of messages, and one of the reasons.
func (e *NothingUsableError) Error() string {
	return fmt.Sprintf("%s of %s: none could be used. %s", english.Plural(int(e.Messages), "message", ""), e.Topic, e.First)
}

// reasonOf formats the position of a message and the reason why it is unusable, without values of its rows.
func reasonOf(topic string, partition int, offset int64, reason string) string {
	return fmt.Sprintf("%s[%d]@%d: %s", topic, partition, offset, schemas.WithoutValues(reason))
}

// Unusable returns the number of messages of a topic that are in quarantine, and reason and position of one of them; "" if there is none.
func Unusable(ctx context.Context, p *topics.Pipeline, topic string) (messages int64, reason string, err error) {
	reasons, err := Quarantine(ctx, p, false)
	for _, r := range reasons {
		if q := r.First; q.Topic == topic {
			messages, reason = messages+r.Messages, cmp.Or(reason, reasonOf(topic, q.Partition, q.Offset, q.Reason))
		}
	}
	return messages, reason, err
}
