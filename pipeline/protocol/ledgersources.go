package protocol

import (
	"iter"
	"slices"
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// applyDivision adds a division, unless one of the same or a later attempt came before it.
func (l *Ledger) applyDivision(d *schemas.Division) {
	at := slices.IndexFunc(l.divisions, func(known *schemas.Division) bool { return known.Topic == d.Topic })
	switch {
	case at < 0:
		l.divisions = append(l.divisions, d)
	case l.divisions[at].Attempt < d.Attempt:
		l.divisions[at] = d
	}
}

// Division returns the division of a topic in an ingest attempt; nil if it is not recorded.
func (l *Ledger) Division(topic string, attempt int) *schemas.Division {
	for _, d := range l.divisions {
		if d.Topic == topic && d.Attempt == attempt {
			return d
		}
	}
	return nil
}

// Sources returns the ids of the sealed sources, in the order of their first valid seals.
func (l *Ledger) Sources() iter.Seq[string] {
	var ids []string
	for _, s := range l.seals {
		if !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return slices.Values(ids)
}

// Seals returns the valid seals of a source, in topic order. A source that was ingested again may have several.
func (l *Ledger) Seals(source string) (seals []*schemas.SourceSeal) {
	for _, s := range l.seals {
		if s.ID == source {
			seals = append(seals, s)
		}
	}
	return seals
}

// Removed returns the seals of the sources that were removed and not ingested again, in order of removal.
func (l *Ledger) Removed() []*schemas.SourceSeal { return l.gone }

// SourceChanged returns when the source of a seal was sealed or removed last, by the clock of the writer.
func (l *Ledger) SourceChanged(seal *schemas.SourceSeal) (t time.Time) {
	if m := l.lines[seal.Message().Key]; m != nil {
		t = m.Time
	}
	return t
}

// Sealed reports whether the named source is sealed or was removed, so that nothing may be added to it.
func (l *Ledger) Sealed(source string) bool {
	named := func(s *schemas.SourceSeal) bool { return s.Name() == source }
	return slices.ContainsFunc(l.seals, named) || slices.ContainsFunc(l.gone, named)
}

// Incomplete reports whether a run has found that the named sealed source lacks messages.
func (l *Ledger) Incomplete(source string) bool { return l.lacking[source] }
