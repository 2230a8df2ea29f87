package protocol

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Ledger is the state of the plans topic: the unfinished runs in the order of their plans, the ends of other runs, the
// versions, and the sources on the examples topic. Compaction of the topic does not change it. [Client.ReadLedger] reads a
// ledger; [Ledger.Add] applies later messages. A ledger is not safe for concurrent use.
type Ledger struct {
	// Next is the offset after the last applied message.
	Next int64

	topic        string
	last         Message // the last applied message
	documents    wire.Documents
	incomplete   map[wire.Digest]bool // plans of which chunks are missing
	keys         map[string]keyed     // the messages on the topic that have no tombstone
	plans        []submitted          // the first plan of each run
	ends         map[string]*schemas.End
	ended        map[string]time.Time // when these were written
	chained      *ChainedRun          // run of the last plan of a chain that counts; nil: there is none
	overtaken    map[string]bool      // runs of a chain that do not count, and have no end on the topic: see applyChained
	sources      []string             // that have seals, in the order of their first
	seals        map[string][]*schemas.SourceSeal
	removedSeals []*schemas.SourceSeal // of removed sources, in order of removal
	lacking      map[string]bool       // names of sources found to lack messages
	divisions    []schemas.Division    // of topics that ingest follows: the last attempt of each
	versions     []schemas.Place       // by number
	removed      map[int]string        // runs of removed versions, by version number
	highest      int                   // highest version number, removed versions included
	pinned       string                // run of the last pin; "": none is pinned
	damaged      []error               // why messages were skipped
	earlier      *Ledger               // has decoded plans of the same topic; nil: none
}

// keyed is the last message of a key.
type keyed struct {
	kind   wire.Kind
	run    string
	offset int64
}

func (c *Client) newLedger() *Ledger {
	return &Ledger{
		topic: c.Topics.Plans, incomplete: map[wire.Digest]bool{}, keys: map[string]keyed{}, ends: map[string]*schemas.End{},
		ended: map[string]time.Time{}, overtaken: map[string]bool{}, seals: map[string][]*schemas.SourceSeal{}, lacking: map[string]bool{},
		removed: map[int]string{},
	}
}

// clone returns a copy of a ledger without incomplete plans. Messages that are applied to one do not change the other.
func (l *Ledger) clone() *Ledger {
	c := *l
	c.documents, c.incomplete = wire.Documents{}, map[wire.Digest]bool{}
	c.keys, c.ends, c.ended, c.overtaken = maps.Clone(l.keys), maps.Clone(l.ends), maps.Clone(l.ended), maps.Clone(l.overtaken)
	c.lacking, c.removed = maps.Clone(l.lacking), maps.Clone(l.removed)
	c.plans, c.sources, c.removedSeals = slices.Clone(l.plans), slices.Clone(l.sources), slices.Clone(l.removedSeals)
	c.seals = map[string][]*schemas.SourceSeal{}
	for id, seals := range l.seals {
		c.seals[id] = slices.Clone(seals)
	}
	c.damaged = slices.Clip(l.damaged)
	return &c
}

// Report reports to the recorder which messages were skipped, and why.
func (l *Ledger) Report(rec event.Recorder) {
	for _, err := range l.damaged {
		event.Skip(rec, "plans", err)
	}
}

// Add applies the next message of the topic. If the error wraps [wire.ErrDamaged], the message is damaged, and changes
// only Next.
func (l *Ledger) Add(m Message) error {
	l.Next, l.last = m.Offset+1, m
	if err := l.apply(m); err != nil {
		return fmt.Errorf("%s[0]@%d: %w", l.topic, m.Offset, err)
	}
	return nil
}

func (l *Ledger) apply(m Message) error {
	if m.Value == nil {
		l.drop(m.Key)
		return nil
	}
	l.keys[m.Key] = keyed{m.Kind(), m.Run(), m.Offset}
	switch m.Kind() {
	case schemas.KindPlan:
		return l.applyPlan(m)
	case schemas.KindEnd:
		return decoded(m, func(end *schemas.End) { l.applyEnd(end, m.Time) })
	case schemas.KindSource:
		return decoded(m, l.addSeal)
	case schemas.KindSourceRemoval:
		return decoded(m, func(r *schemas.SourceRemoval) { l.removeSource(&r.Seal) })
	case schemas.KindDivision:
		return decoded(m, l.addDivision)
	case schemas.KindRemoval:
		return decoded(m, func(r *schemas.Removal) {
			l.removed[r.Version] = r.Run
			l.versions = slices.DeleteFunc(slices.Clone(l.versions), func(p schemas.Place) bool { return p.Run == r.Run })
		})
	case schemas.KindPin:
		return decoded(m, func(pin *schemas.Pin) { l.pinned = pin.Run })
	}
	return nil
}

// decoded applies the value in a message.
func decoded[T schemas.JSON](m Message, apply func(*T)) error {
	value, err := schemas.DecodeJSON[T](m.Message)
	if err == nil {
		apply(value)
	}
	return err
}

// drop applies a tombstone. Only [Client.Prune] writes tombstones, for messages that no longer count.
func (l *Ledger) drop(key string) {
	switch k := l.keys[key]; k.kind {
	case schemas.KindPlan:
		l.plans = slices.DeleteFunc(l.plans, func(p submitted) bool { return p.run == k.run })
	case schemas.KindEnd:
		if l.index(k.run) < 0 {
			delete(l.ends, k.run)
			delete(l.ended, k.run)
			l.versions = slices.DeleteFunc(slices.Clone(l.versions), func(p schemas.Place) bool { return p.Run == k.run })
		}
	case schemas.KindRemoval:
		maps.DeleteFunc(l.removed, func(_ int, run string) bool { return run == k.run })
	case schemas.KindSource, schemas.KindSourceRemoval:
		l.dropSeal(strings.TrimPrefix(key, "source/"))
	}
	delete(l.keys, key)
}

// addSeal appends a seal. Compaction keeps the last copy of a seal that was written twice, so an earlier copy is removed.
func (l *Ledger) addSeal(seal *schemas.SourceSeal) {
	l.dropSeal(seal.Name())
	if _, known := l.seals[seal.ID]; !known {
		l.sources = append(l.sources, seal.ID)
	}
	l.seals[seal.ID] = append(l.seals[seal.ID], seal)
}

// addDivision adds a division, unless one of the same or a later attempt came before it.
func (l *Ledger) addDivision(d *schemas.Division) {
	at := slices.IndexFunc(l.divisions, func(known schemas.Division) bool { return known.Topic == d.Topic })
	switch {
	case at < 0:
		l.divisions = append(slices.Clip(l.divisions), *d)
	case l.divisions[at].Attempt < d.Attempt:
		l.divisions = slices.Clone(l.divisions)
		l.divisions[at] = *d
	}
}

// Division returns the number of examples partitions of a topic in an ingest attempt; 0 if it is not recorded.
func (l *Ledger) Division(topic string, attempt int) (partitions int) {
	for _, d := range l.divisions {
		if d.Topic == topic && d.Attempt == attempt {
			return d.Partitions
		}
	}
	return 0
}

// removeSource moves a seal to the removed ones.
func (l *Ledger) removeSource(seal *schemas.SourceSeal) {
	l.dropSeal(seal.Name())
	l.removedSeals = append(l.removedSeals, seal)
}

// dropSeal deletes the seals and removals of a name, and their source if it has no other seal.
func (l *Ledger) dropSeal(name string) {
	id, _, _ := strings.Cut(name, "/")
	l.removedSeals = without(l.removedSeals, name)
	if _, known := l.seals[id]; !known {
		return
	}
	if l.seals[id] = without(l.seals[id], name); len(l.seals[id]) == 0 {
		delete(l.seals, id)
		l.sources = slices.DeleteFunc(l.sources, func(source string) bool { return source == id })
	}
}

// without returns a list without the seals of a name.
func without(seals []*schemas.SourceSeal, name string) []*schemas.SourceSeal {
	return slices.DeleteFunc(seals, func(s *schemas.SourceSeal) bool { return s.Name() == name })
}

// Sources returns the ids of the sealed sources, in the order of their first valid seals.
func (l *Ledger) Sources() iter.Seq[string] { return slices.Values(l.sources) }

// Seals returns the valid seals of a source, in topic order. A source that was ingested again may have several.
func (l *Ledger) Seals(source string) []*schemas.SourceSeal { return l.seals[source] }

// Removed returns the seals of the sources that were removed and not ingested again, in order of removal.
func (l *Ledger) Removed() []*schemas.SourceSeal { return l.removedSeals }

// Sealed reports whether the named source is sealed or was removed, so that nothing may be added to it.
func (l *Ledger) Sealed(source string) bool {
	id, _, _ := strings.Cut(source, "/")
	named := func(s *schemas.SourceSeal) bool { return s.Name() == source }
	return slices.ContainsFunc(l.seals[id], named) || slices.ContainsFunc(l.removedSeals, named)
}

// Incomplete reports whether a run has found that the named sealed source lacks messages.
func (l *Ledger) Incomplete(source string) bool { return l.lacking[source] }

// ReadLedger returns the current state of the plans topic. A process reads the topic once, and then only what was written
// since, as long as the topic still has the last message that was read. ReadLedger skips damaged messages: see
// [Ledger.Report].
func (c *Client) ReadLedger(ctx context.Context) (*Ledger, error) {
	if c.ledger != nil {
		if known := c.ledger.Load(); known != nil {
			l := known.clone()
			l.Next = known.last.Offset
			err := c.foldPlans(ctx, l, &known.last)
			if !errors.Is(err, errOther) {
				return l, err
			}
		}
	}
	return c.RereadLedger(ctx)
}

// RereadLedger is [Client.ReadLedger] for a role that has waited long for a message. It reads the whole topic: if a client
// wrote a plan twice, compaction may have changed the order of the waiting runs.
func (c *Client) RereadLedger(ctx context.Context) (*Ledger, error) {
	l := c.newLedger()
	if c.ledger != nil {
		l.earlier = c.ledger.Load()
	}
	return l, c.foldPlans(ctx, l, nil)
}

// errOther means that the plans topic does not have the last message that was read of it.
var errOther = errors.New("the plans topic was recreated, or has lost messages")

// foldPlans applies the messages of the plans topic from an offset on. If last is not nil, the first of these must be that
// message, which was applied before: the error is errOther otherwise.
func (c *Client) foldPlans(ctx context.Context, l *Ledger, last *Message) error {
	var messages []Message
	gone := map[string]int64{} // offsets of tombstones
	first, end, err := c.Log.Bounds(ctx, l.topic, 0)
	if err == nil && last != nil && last.Offset >= end {
		return errOther
	}
	if err == nil {
		err = c.Between(ctx, l.topic, 0, max(first, l.Next), end, func(m Message) error {
			if messages = append(messages, m); m.Value == nil {
				gone[m.Key] = m.Offset
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("read plans: %w", err)
	}
	if last != nil {
		if len(messages) == 0 || !messages[0].Same(last) {
			return errOther
		}
		messages = messages[1:]
	}
	for _, m := range messages {
		if m.Value != nil && m.Offset < gone[m.Key] {
			continue
		}
		if err := l.Add(m); err != nil {
			l.damaged = append(l.damaged, err)
		}
	}
	l.earlier = nil
	known := last != nil && len(messages) == 0 // the ledger is a copy of the one that is known
	if l.Next = end; c.ledger != nil && len(l.incomplete) == 0 && !known {
		c.ledger.Store(l.clone())
	}
	return nil
}

// GoesOn reports whether a run is current: it was submitted, no earlier run is unfinished, it has not ended, and it starts
// to read at the offsets in its plan. A role calls GoesOn when it has waited long for a message: after an unclean leader
// election, the expected message may have an offset that was already read, or the run's plan may be lost, or the end of
// the previous run, which determines where this one starts. Roles that disagree about the run or its start would wait for
// each other forever.
func (c *Client) GoesOn(ctx context.Context, run string, since schemas.Since) (bool, error) {
	l, err := c.RereadLedger(ctx)
	if err != nil {
		return false, err
	}
	return l.Current(run, since), nil
}

// Current reports whether a run is the first unfinished one, and starts to read at the given offsets.
func (l *Ledger) Current(run string, since schemas.Since) bool {
	for id, plan := range l.Unfinished() {
		return id == run && plan.Since.Weights == since.Weights && slices.Equal(plan.Since.Statistics, since.Statistics)
	}
	return false
}
