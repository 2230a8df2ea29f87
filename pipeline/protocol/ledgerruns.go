package protocol

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// ChainedRun identifies a run of a chain and its place in it.
type ChainedRun struct {
	Run     string // run id
	Number  int    // number of the run in its chain
	Attempt int    // see [schemas.Chain]
	// Parent is the id of the run that it continues from. Until this run is done, that run made the newest version of the
	// chain. Empty for the first run.
	Parent string
}

// of returns a run, which it adds if it is not there.
func (l *Ledger) of(id string) *run {
	r := l.runs[id]
	if r == nil {
		r = &run{id: id}
		l.runs[id] = r
	}
	return r
}

func (l *Ledger) applyPlan(s submitted, m *line) {
	r := l.of(s.run)
	if r.plan != nil {
		return // a killed submitter and its successor have planned the same run, with different start offsets
	}
	if r.plan, r.offset = s.plan, m.Offset; r.end == nil {
		r.changed = m.Time
	}
	l.planned = append(l.planned, r)
	if chain := s.plan.Chain; chain != nil {
		l.applyChained(r, chain)
	}
}

// applyChained decides whether a run of a chain counts. Of the plans with the same parent and attempt, only the first by
// offset counts: all readers of the topic treat the others as ended before they start. A runner that finds one writes its
// end, since compaction may put a second copy of the first plan after it.
func (l *Ledger) applyChained(r *run, chain *schemas.Chain) {
	last := l.chained
	if last != nil && (last.Number > chain.Number || last.Number == chain.Number && last.Attempt >= chain.Attempt) {
		if r.end == nil { // otherwise compaction has left a copy of its plan after its end
			reason := fmt.Sprintf("run %s was submitted before it, to make version %d of the chain in attempt %d", last.Run, last.Number,
				last.Attempt)
			r.end, r.overtaken = &schemas.End{Run: r.id, State: schemas.Cancelled, Reason: reason}, true
		}
		return
	}
	l.chained = &ChainedRun{Run: r.id, Number: chain.Number, Attempt: chain.Attempt}
	if chain.Parent != nil {
		l.chained.Parent = chain.Parent.Run
	}
}

func (l *Ledger) applyEnd(end *schemas.End, written time.Time) {
	if end.Source != "" { // its seal is void
		other := func(s *schemas.SourceSeal) bool { return s.Name() == end.Source }
		l.seals, l.gone = slices.DeleteFunc(slices.Clone(l.seals), other), slices.DeleteFunc(slices.Clone(l.gone), other)
		l.lacking[end.Source] = true
	}
	if end = l.unlessTaken(end); end.Version != nil {
		l.addVersion(*end.Version)
	}
	r := l.of(end.Run)
	known := r.end != nil
	if !known || r.overtaken {
		r.changed = written
	}
	// Of several ends, the order on the topic does not matter, since compaction keeps the later copy of a message that was written twice. An
	// existing version stays, because it may be in use.
	rank := []string{schemas.Failed, schemas.Cancelled, schemas.Done}
	if !known || slices.Index(rank, end.State) > slices.Index(rank, r.end.State) {
		r.end = end
	}
	if r.overtaken = false; r.plan == nil || known {
		return
	}
	// The later runs have not started. Their records come after the current ends of the topics.
	for _, later := range l.planned[slices.Index(l.planned, r)+1:] {
		if later.end == nil {
			plan := *later.plan
			plan.Since = end.Since
			plan.Since.Plans = later.plan.Since.Plans
			later.plan = &plan
		}
	}
}

// unlessTaken returns the end, or a cancellation if its version number belongs to another run, even of a removed version.
func (l *Ledger) unlessTaken(end *schemas.End) *schemas.End {
	if end.Version == nil {
		return end
	}
	run := l.removed[end.Version.Version]
	if at, there := l.version(end.Version.Version); there {
		run = l.versions[at].Run
	}
	if run == "" || run == end.Version.Run {
		return end
	}
	cancelled := *end
	cancelled.State, cancelled.Version, cancelled.Reason = schemas.Cancelled, nil, "another run has made the version with that number"
	return &cancelled
}

// Plan returns the plan of a run, by run id; nil if there is none.
func (l *Ledger) Plan(run string) *schemas.Plan {
	if r := l.runs[run]; r != nil {
		return r.plan
	}
	return nil
}

// GoesOn reports whether a run was submitted and has not ended.
func (l *Ledger) GoesOn(run string) bool { return l.Plan(run) != nil && l.runs[run].end == nil }

// End returns the end of a run; nil while it is unfinished, or if it ended too long ago. Of several ends one counts: a
// solver that had not read the cancellation may have finished the run, or another run may have made the version with the
// same number.
func (l *Ledger) End(run string) *schemas.End {
	if r := l.runs[run]; r != nil {
		return r.end
	}
	return nil
}

// Changed returns when a run ended, or, if it has no end on the topic, when it was submitted, by the clock of the writer.
func (l *Ledger) Changed(run string) (t time.Time) {
	if r := l.runs[run]; r != nil {
		t = r.changed
	}
	return t
}

// Runs returns the runs with known plans, and their plans, in the order of the plans.
func (l *Ledger) Runs() iter.Seq2[string, *schemas.Plan] {
	return l.runsThat(func(*run) bool { return true })
}

// Unfinished returns the ids and plans of the runs without an end, in the order of their plans.
func (l *Ledger) Unfinished() iter.Seq2[string, *schemas.Plan] {
	return l.runsThat(func(r *run) bool { return r.end == nil })
}

func (l *Ledger) runsThat(wanted func(*run) bool) iter.Seq2[string, *schemas.Plan] {
	plans := l.planned // the current ones: those added meanwhile are not yielded
	return func(yield func(string, *schemas.Plan) bool) {
		for _, r := range plans {
			if wanted(r) && !yield(r.id, r.plan) {
				return
			}
		}
	}
}

// AnyUnfinished reports whether any run has no end.
func (l *Ledger) AnyUnfinished() bool {
	return slices.ContainsFunc(l.planned, func(r *run) bool { return r.end == nil })
}

// Current reports whether a run is the first unfinished one, and starts to read at the given offsets.
func (l *Ledger) Current(run string, since schemas.Since) bool {
	for id, plan := range l.Unfinished() {
		return id == run && plan.Since.Weights == since.Weights && slices.Equal(plan.Since.Statistics, since.Statistics)
	}
	return false
}

// Chained returns the run of the last plan of a chain that counts, ended or not; nil if there is none.
func (l *Ledger) Chained() *ChainedRun { return l.chained }

// Overtaken returns the ends of the runs of a chain that do not count because others preceded them, if their ends are not
// on the topic. The caller writes them.
func (l *Ledger) Overtaken() (ends []*schemas.End) {
	for _, r := range l.planned {
		if r.overtaken {
			ends = append(ends, r.end)
		}
	}
	return ends
}

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
