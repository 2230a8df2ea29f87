package protocol

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Ledger is the state of the plans topic: the unfinished runs, in the order of their plans; the ends of others; the versions;
// and the sources that are on the examples topic. [Client.ReadLedger] reads a ledger, and [Ledger.Add] adds what comes after it. A
// ledger belongs to one goroutine.
type Ledger struct {
	// Next is the offset after the last message that was read.
	Next int64

	codec         codec.Codec
	topic         string
	documents     wire.Documents
	first         map[wire.Digest]int64 // where the plans begin that are not complete yet
	plans         []submitted           // the first of each run
	ends          map[string]*schemas.End
	sources       []string // that have seals, in the order of their first
	seals         map[string][]*schemas.SourceSeal
	removedSeals  []*schemas.SourceSeal // of sources that were removed, in the order of the removals
	divisions     []schemas.Division    // of topics that ingest follows: of each the one of the last attempt
	incomplete    map[string]bool       // names of sources that a run found to lack messages
	versions      []schemas.Place       // by number
	removed       map[int]string        // the runs whose versions were removed, by the numbers of these
	passedOver    map[string]bool       // runs whose versions are not whole: see PassOver
	highest       int                   // the highest number of a version, removed or not
	pinned        string                // the run of the last pin; "": none is pinned
	completeTo    int                   // versions up to this number that are not in versions were removed
	swept         int64                 // see schemas.Ledger
	versionsSwept int64                 // see schemas.Ledger
	damaged       []error               // why messages were skipped

	covered   int64                   // a ledger on the topic covers what comes before this offset, but for the ends of runs
	chained   *schemas.ChainedRun     // whose plan counted last; nil: there is none
	ended     map[string]*schemas.End // before what a ledger on the topic covers: of runs whose plans come after it
	overtaken map[string]bool         // runs of a chain that do not count, and have no end on the topic: see takeChained
	uncertain map[string]bool         // runs whose ends may be before covered: see Ledger.Uncertain
	written   int                     // messages since the latest ledger on the topic
	bytes     int64                   // of them
	snapshot  int64                   // bytes of that ledger
}

// fold adds a message, and remembers why it was skipped if it is damaged.
func (l *Ledger) fold(m Message) {
	if err := l.Add(m); err != nil {
		l.damaged = append(l.damaged, err)
	}
}

// Report tells the recorder which messages were skipped when the ledger was read, and why.
func (l *Ledger) Report(rec event.Recorder) {
	for _, err := range l.damaged {
		event.Skip(rec, "plans", err)
	}
}

// Add takes the next message of the topic. An error wraps [wire.ErrDamaged]: the message is damaged, and changes nothing but
// Next.
func (l *Ledger) Add(m Message) error {
	l.Next = m.Offset + 1
	if m.Value != nil && m.Kind() != schemas.KindLedger {
		l.written++
		l.bytes += int64(len(m.Value))
	}
	if err := l.take(m); err != nil {
		return fmt.Errorf("%s[0]@%d: %w", l.topic, m.Offset, err)
	}
	return nil
}

func (l *Ledger) take(m Message) error {
	if m.Value == nil { // a tombstone
		return nil
	}
	switch m.Kind() {
	case schemas.KindPlan:
		return l.takePlan(m)
	case schemas.KindEnd:
		end, err := codec.DecodeJSON[schemas.End](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.takeEnd(end)
	case schemas.KindSource:
		seal, err := codec.DecodeJSON[schemas.SourceSeal](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.addSeal(seal)
	case schemas.KindSourceRemoval:
		removal, err := codec.DecodeJSON[schemas.SourceRemoval](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.removeSource(&removal.Seal)
	case schemas.KindDivision:
		division, err := codec.DecodeJSON[schemas.Division](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.addDivision(division)
	case schemas.KindRemoval:
		removal, err := codec.DecodeJSON[schemas.Removal](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.removed[removal.Version] = removal.Run
		l.versions = slices.DeleteFunc(slices.Clone(l.versions), func(p schemas.Place) bool { return p.Run == removal.Run })
	case schemas.KindPin:
		pin, err := codec.DecodeJSON[schemas.Pin](l.codec, m.Message)
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

// Long reports whether the ledger has so much of the past that it should be read again. It has all that was added to it.
func (l *Ledger) Long() bool { return len(l.ends) > maxEnds }

// maxEnds is how many ends of runs a process keeps in memory.
const maxEnds = 100

// due reports whether a ledger should be written: if that many messages came after the last one, they are not smaller than it, and no
// plan is being written, whose first chunks the ledger would hide. A plan that nobody has completed for long stays incomplete.
func (l *Ledger) due(messages int) bool {
	for _, first := range l.first {
		if l.Next-first < int64(4*messages) {
			return false
		}
	}
	return l.written >= messages && l.bytes >= l.snapshot
}

// state returns what the ledger knows, but for how runs ended.
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

// addSeal makes a seal count, as the last. Compaction keeps the last copy of a seal that was written twice, so the earlier one goes.
func (l *Ledger) addSeal(seal *schemas.SourceSeal) {
	l.dropSeal(seal)
	if _, known := l.seals[seal.ID]; !known {
		l.sources = append(l.sources, seal.ID)
	}
	l.seals[seal.ID] = append(l.seals[seal.ID], seal)
}

// addDivision makes a division count, unless another one of its attempt or of a later one came before it.
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

// Division returns the number of examples partitions of a topic in an attempt to read it; 0 if it is not recorded.
func (l *Ledger) Division(topic string, attempt int) (partitions int) {
	for _, d := range l.divisions {
		if d.Topic == topic && d.Attempt == attempt {
			return d.Partitions
		}
	}
	return 0
}

// removeSource makes a seal count no more.
func (l *Ledger) removeSource(seal *schemas.SourceSeal) {
	l.dropSeal(seal)
	l.removedSeals = append(l.removedSeals, seal)
}

// dropSeal forgets the seals and removals of the name that a seal has, and their source if it has no other seal.
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

// without removes the seals of a name from a list.
func without(seals []*schemas.SourceSeal, name string) []*schemas.SourceSeal {
	return slices.DeleteFunc(seals, func(s *schemas.SourceSeal) bool { return s.Name() == name })
}

// Sources returns the ids of the sources that were sealed, in the order of their first seals that count.
func (l *Ledger) Sources() iter.Seq[string] { return slices.Values(l.sources) }

// Seals returns the seals of a source that count, in the order of the topic. A source that was ingested again may have several.
func (l *Ledger) Seals(source string) []*schemas.SourceSeal { return l.seals[source] }

// Removed returns the seals of the sources that were removed and not ingested again, in the order of their removals.
func (l *Ledger) Removed() []*schemas.SourceSeal { return l.removedSeals }

// Sealed reports whether a source, given by its name, is sealed or was removed: nothing is to be added to it.
func (l *Ledger) Sealed(source string) bool {
	id, _, _ := strings.Cut(source, "/")
	named := func(s *schemas.SourceSeal) bool { return s.Name() == source }
	return slices.ContainsFunc(l.seals[id], named) || slices.ContainsFunc(l.removedSeals, named)
}

// Incomplete reports whether a run has found that a sealed source, given by its name, lacks messages.
func (l *Ledger) Incomplete(source string) bool { return l.incomplete[source] }
