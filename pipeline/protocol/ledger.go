package protocol

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Ledger is the state of the plans topic: the unfinished runs in the order of their plans, the ends of other runs, the
// versions, and the sources on the examples topic. [Client.ReadLedger] reads a ledger; [Ledger.Add] applies later
// messages. A ledger is not safe for concurrent use.
type Ledger struct {
	// Next is the offset after the last applied message.
	Next int64

	codec         Codec
	topic         string
	documents     wire.Documents
	first         map[wire.Digest]int64 // offsets of the first chunks of incomplete plans
	plans         []submitted           // the first plan of each run
	ends          map[string]*schemas.End
	sources       []string // that have seals, in the order of their first
	seals         map[string][]*schemas.SourceSeal
	removedSeals  []*schemas.SourceSeal // of removed sources, in order of removal
	divisions     []schemas.Division    // of topics that ingest follows: the last attempt of each
	incomplete    map[string]bool       // names of sources found to lack messages
	versions      []schemas.Place       // by number
	removed       map[int]string        // runs of removed versions, by version number
	passedOver    map[string]bool       // runs with incomplete versions: see PassOver
	highest       int                   // highest version number, removed versions included
	pinned        string                // run of the last pin; "": none is pinned
	completeTo    int                   // versions up to this number that are not in versions were removed
	swept         int64                 // see schemas.Ledger
	versionsSwept int64                 // see schemas.Ledger
	damaged       []error               // why messages were skipped

	covered   int64                   // offset before which a ledger on the topic covers everything except the ends of runs
	chained   *schemas.ChainedRun     // run of the last plan that counts; nil: there is none
	ended     map[string]*schemas.End // ends covered by a ledger on the topic, of runs whose plans come after it
	overtaken map[string]bool         // runs of a chain that do not count, and have no end on the topic: see applyChained
	uncertain map[string]bool         // runs whose ends may be before covered: see Ledger.Uncertain
	written   int                     // number of messages since the latest ledger on the topic
	bytes     int64                   // length of these messages
	snapshot  int64                   // length of that ledger
}

// fold applies a message, and records the error if it is damaged.
func (l *Ledger) fold(m Message) {
	if err := l.Add(m); err != nil {
		l.damaged = append(l.damaged, err)
	}
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
	l.Next = m.Offset + 1
	if m.Value != nil && m.Kind() != schemas.KindLedger {
		l.written++
		l.bytes += int64(len(m.Value))
	}
	if err := l.apply(m); err != nil {
		return fmt.Errorf("%s[0]@%d: %w", l.topic, m.Offset, err)
	}
	return nil
}

func (l *Ledger) apply(m Message) error {
	if m.Value == nil { // a tombstone
		return nil
	}
	switch m.Kind() {
	case schemas.KindPlan:
		return l.applyPlan(m)
	case schemas.KindEnd:
		end, err := decodeJSON[schemas.End](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.applyEnd(end)
	case schemas.KindSource:
		seal, err := decodeJSON[schemas.SourceSeal](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.addSeal(seal)
	case schemas.KindSourceRemoval:
		removal, err := decodeJSON[schemas.SourceRemoval](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.removeSource(&removal.Seal)
	case schemas.KindDivision:
		division, err := decodeJSON[schemas.Division](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.addDivision(division)
	case schemas.KindRemoval:
		removal, err := decodeJSON[schemas.Removal](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.removed[removal.Version] = removal.Run
		l.versions = slices.DeleteFunc(slices.Clone(l.versions), func(p schemas.Place) bool { return p.Run == removal.Run })
	case schemas.KindPin:
		pin, err := decodeJSON[schemas.Pin](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.pinned = pin.Run
	case schemas.KindLedger:
		if m.BeginsDocument() {
			l.snapshot = 0
		}
		l.snapshot += int64(len(m.Value))
	}
	return nil
}

// Long reports whether the ledger has so many ended runs that it should be read again. It keeps everything applied to it.
func (l *Ledger) Long() bool { return len(l.ends) > maxEnds }

// maxEnds is the number of run ends that a process keeps in memory.
const maxEnds = 100

// due reports whether a ledger should be written: if at least the given number of messages, and at least its own size,
// came after the last ledger, and no plan is incomplete, since the ledger would hide its first chunks. A plan not
// completed for long counts as abandoned.
func (l *Ledger) due(messages int) bool {
	for _, first := range l.first {
		if l.Next-first < int64(4*messages) {
			return false
		}
	}
	return l.written >= messages && l.bytes >= l.snapshot
}

// state returns the ledger as a message, without the ends of runs.
func (l *Ledger) state() *schemas.Ledger {
	s := &schemas.Ledger{Before: l.Next, Versions: l.versions, Highest: l.highest, Divisions: l.divisions, Chained: l.chained,
		Swept: l.swept, VersionsSwept: l.versionsSwept}
	if p := l.Pinned(); p != nil {
		s.Pinned = p.Run
	}
	for _, p := range l.plans {
		if l.ends[p.place.Run] == nil {
			place := p.place
			place.Since = &p.Plan.Since
			s.Unfinished = append(s.Unfinished, place)
		}
	}
	for _, id := range l.sources {
		for _, seal := range l.seals[id] {
			s.Sources = append(s.Sources, *seal)
		}
	}
	for _, seal := range l.removedSeals {
		s.Removed = append(s.Removed, *seal)
	}
	for name := range l.incomplete {
		s.Incomplete = append(s.Incomplete, name)
	}
	slices.Sort(s.Incomplete)
	return s
}

// addSeal appends a seal. Compaction keeps the last copy of a seal that was written twice, so an earlier copy is removed.
func (l *Ledger) addSeal(seal *schemas.SourceSeal) {
	l.dropSeal(seal)
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
	l.dropSeal(seal)
	l.removedSeals = append(l.removedSeals, seal)
}

// dropSeal deletes the seals and removals with the name of a seal, and their source if it has no other seal.
func (l *Ledger) dropSeal(seal *schemas.SourceSeal) {
	id, name := seal.ID, seal.Name()
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
func (l *Ledger) Incomplete(source string) bool { return l.incomplete[source] }
