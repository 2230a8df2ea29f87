package protocol

import (
	"fmt"
	"iter"
	"slices"
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
	if !known || outranks(end.State, r.end.State) {
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

// outranks reports whether an end in state a replaces an end in state b of the same run. Their order on the topic does not
// matter, since compaction keeps the later copy of a message that was written twice. An existing version stays, because it
// may be in use.
func outranks(a, b string) bool {
	rank := []string{schemas.Failed, schemas.Cancelled, schemas.Done}
	return slices.Index(rank, a) > slices.Index(rank, b)
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
