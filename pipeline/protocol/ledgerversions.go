package protocol

import (
	"cmp"
	"iter"
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

// Offered returns the place of the version with the highest number that is not withheld; nil if there is none. It is the latest
// version for subscribers while none is pinned.
func (l *Ledger) Offered() *schemas.Place {
	for i := len(l.versions) - 1; i >= 0; i-- {
		if !l.versions[i].Withheld {
			return &l.versions[i]
		}
	}
	return nil
}

// Pinned returns the place of the pinned version; nil if there is none. The pin of a removed version has no effect.
func (l *Ledger) Pinned() *schemas.Place {
	if at := slices.IndexFunc(l.versions, func(p schemas.Place) bool { return p.Run == l.pinned }); at >= 0 {
		return &l.versions[at]
	}
	return nil
}

// Wanted yields the place of a version by number or run. For [Latest], it yields what subscribers get: the pinned version, then
// the offered ones, the newest first. A reader takes the first complete one.
func (l *Ledger) Wanted(want string) iter.Seq[schemas.Place] {
	return func(yield func(schemas.Place) bool) {
		if want != Latest {
			for _, p := range l.versions {
				if want == p.Run || want == strconv.Itoa(p.Version) {
					yield(p)
					return
				}
			}
			return
		}
		if p := l.Pinned(); p != nil && !yield(*p) {
			return
		}
		for _, p := range slices.Backward(l.versions) {
			if !p.Withheld && p.Run != l.pinned && !yield(p) {
				return
			}
		}
	}
}

// ForSubscribers reports whether a version is the latest for subscribers, or would be if none were pinned.
func (l *Ledger) ForSubscribers(version schemas.Place) bool {
	pinned, offered := l.Pinned(), l.Offered()
	return pinned != nil && pinned.Run == version.Run || offered != nil && offered.Run == version.Run
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

// Find returns the first place of [Ledger.Wanted]. The error is a *[NoVersionError].
func (l *Ledger) Find(want string) (schemas.Place, error) {
	for p := range l.Wanted(want) {
		return p, nil
	}
	return schemas.Place{}, &NoVersionError{want, len(l.versions)}
}

// NextVersion returns the number of the next version.
func (l *Ledger) NextVersion() int { return l.highest + 1 }
