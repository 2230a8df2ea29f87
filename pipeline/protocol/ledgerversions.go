package protocol

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// version returns the index of a version by number, or where to insert it.
func (l *Ledger) version(number int) (at int, there bool) {
	return slices.BinarySearchFunc(l.versions, number, func(p schemas.Place, n int) int { return cmp.Compare(p.Version, n) })
}

// addVersion adds a version whose number is free or belongs to the same run.
func (l *Ledger) addVersion(place schemas.Place) {
	at, there := l.version(place.Version)
	l.highest = max(l.highest, place.Version)
	if !there && l.removed[place.Version] != place.Run {
		l.versions = slices.Insert(slices.Clone(l.versions), at, place)
	}
}

// Versions returns the places of the versions that were not removed, by number.
func (l *Ledger) Versions() []schemas.Place { return l.versions }

// PassOver excludes a version from being the pinned, offered or latest one, because this reader found it incomplete or
// damaged. Other readers of the topic are not affected.
func (l *Ledger) PassOver(version schemas.Place) { l.passedOver[version.Run] = true }

// Offered returns the place of the version with the highest number that is neither withheld nor passed over; nil if there
// is none. It is the latest version for subscribers while none is pinned.
func (l *Ledger) Offered() *schemas.Place {
	for i := len(l.versions) - 1; i >= 0; i-- {
		if !l.versions[i].Withheld && !l.passedOver[l.versions[i].Run] {
			return &l.versions[i]
		}
	}
	return nil
}

// Pinned returns the place of the pinned version; nil if there is none. The pin of a removed version has no effect.
func (l *Ledger) Pinned() *schemas.Place {
	if at := slices.IndexFunc(l.versions, func(p schemas.Place) bool { return p.Run == l.pinned }); at >= 0 && !l.passedOver[l.pinned] {
		return &l.versions[at]
	}
	return nil
}

// latest returns the place of [Latest] for subscribers: the pinned version, or else the offered one; nil if there is none.
func (l *Ledger) latest() *schemas.Place {
	if p := l.Pinned(); p != nil {
		return p
	}
	return l.Offered()
}

// ForSubscribers reports whether a version is the latest for subscribers, or would be if none were pinned.
func (l *Ledger) ForSubscribers(version schemas.Place) bool {
	return slices.ContainsFunc([]*schemas.Place{l.Pinned(), l.Offered()}, func(p *schemas.Place) bool {
		return p != nil &&
			p.Run == version.Run
	})
}

// goneOnFrom reports whether the next run of a chain may continue from a version.
func (l *Ledger) goneOnFrom(version schemas.Place) bool {
	return l.chained != nil && (version.Run == l.chained.Run || version.Run == l.chained.Parent)
}

// NamedBy returns the id of an unfinished run that refers to a version: as its start, as its parent, or as the baseline of
// its gate. It returns "" if there is none.
func (l *Ledger) NamedBy(version schemas.Place) string {
	for run, plan := range l.Unfinished() {
		named := []*schemas.Warm{plan.Warm}
		if plan.Chain != nil {
			named = append(named, plan.Chain.Parent)
			if plan.Chain.Gate != nil {
				named = append(named, &plan.Chain.Gate.Offered)
			}
		}
		if slices.ContainsFunc(named, func(w *schemas.Warm) bool { return w != nil && w.Run == version.Run }) {
			return run
		}
	}
	return ""
}

// Find returns the place of a version by number, run, or [Latest]. The error is a *[NoVersionError].
func (l *Ledger) Find(want string) (schemas.Place, error) {
	if want == Latest {
		if p := l.latest(); p != nil {
			return *p, nil
		}
	}
	for _, p := range l.versions {
		if want == p.Run || want == strconv.Itoa(p.Version) {
			return p, nil
		}
	}
	return schemas.Place{}, &NoVersionError{want, len(l.versions)}
}

// NextVersion returns the number of the next version.
func (l *Ledger) NextVersion() int { return l.highest + 1 }
