package protocol

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// submitted is a plan on the topic.
type submitted struct {
	*schemas.Plan               // with its start offsets
	written       *schemas.Plan // as it is on the topic
	run           string
	digest        wire.Digest
	offset        int64 // of its last chunk
	time          time.Time
}

// ChainedRun identifies a run of a chain and its place in it.
type ChainedRun struct {
	Run     string // run id
	Number  int    // number of the run in its chain
	Attempt int    // see [schemas.Chain]
	// Parent is the id of the run that it continues from. Until this run is done, that run made the newest version of the
	// chain. Empty for the first run.
	Parent string
}

// before reports whether the run precedes a plan in the chain.
func (r *ChainedRun) before(c *schemas.Chain) bool {
	return r.Number < c.Number || r.Number == c.Number && r.Attempt < c.Attempt
}

func (l *Ledger) applyPlan(m Message) error {
	if !m.IsChunk() {
		return nil
	}
	l.incomplete[m.Digest()] = true
	whole, ok, err := l.documents.Add(m.Message)
	if err != nil || !ok {
		return err
	}
	delete(l.incomplete, m.Digest())
	plan, run, err := l.decodePlan(whole)
	if err != nil || l.index(run) >= 0 {
		return err
	}
	l.plans = append(l.plans, submitted{plan, plan, run, m.Digest(), m.Offset, m.Time})
	if plan.Chain != nil {
		l.applyChained(run, plan.Chain)
	}
	return nil
}

// decodePlan is [DecodePlan], or the plan with the same digest in an earlier ledger.
func (l *Ledger) decodePlan(m wire.Message) (*schemas.Plan, string, error) {
	if l.earlier != nil {
		for _, p := range l.earlier.plans {
			if p.digest == m.Digest() {
				return p.written, p.run, nil
			}
		}
	}
	return DecodePlan(m)
}

// applyChained decides whether a run of a chain counts. Of the plans with the same parent and attempt, only the first by
// offset counts: all readers of the topic treat the others as ended before they start. A runner that finds one writes its
// end, since compaction may put a second copy of the first plan behind it.
func (l *Ledger) applyChained(run string, chain *schemas.Chain) {
	if last := l.chained; last != nil && last.Run != run && !last.before(chain) {
		if l.ends[run] == nil { // otherwise compaction has left a copy of its plan behind its end
			reason := fmt.Sprintf("run %s was submitted before it, to make version %d of the chain in attempt %d", last.Run, last.Number,
				last.Attempt)
			l.ends[run], l.overtaken[run] = &schemas.End{Run: run, State: schemas.Cancelled, Reason: reason}, true
		}
		return
	}
	l.chained = &ChainedRun{Run: run, Number: chain.Number, Attempt: chain.Attempt}
	if chain.Parent != nil {
		l.chained.Parent = chain.Parent.Run
	}
}

func (l *Ledger) applyEnd(end *schemas.End, written time.Time) {
	if end.Source != "" {
		l.dropSeal(end.Source)
		l.lacking[end.Source] = true
	}
	if end = l.unlessTaken(end); end.Version != nil {
		l.addVersion(*end.Version)
	}
	known := l.ends[end.Run]
	if known == nil || outranks(end.State, known.State) {
		l.ends[end.Run] = end
	}
	if known == nil || l.overtaken[end.Run] {
		l.ended[end.Run] = written
	}
	delete(l.overtaken, end.Run)
	at := l.index(end.Run)
	if at < 0 || known != nil {
		return
	}
	// The later runs have not started. Their records come after the current ends of the topics.
	for i := at + 1; i < len(l.plans); i++ {
		if later := &l.plans[i]; l.ends[later.run] == nil {
			plan := *later.Plan
			plan.Since = end.Since
			plan.Since.Plans = later.Since.Plans
			later.Plan = &plan
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

// EndOf decodes the end in a message; nil if the message has another kind or is damaged.
func EndOf(m wire.Message) *schemas.End {
	if m.Kind() != schemas.KindEnd {
		return nil
	}
	end, err := schemas.DecodeJSON[schemas.End](m)
	if err != nil {
		return nil
	}
	return end
}

// Ends reports whether a message is the end of a run.
func Ends(m wire.Message, run string) bool {
	return m.Run() == run && EndOf(m) != nil
}

// index returns the index of a run's plan; −1 if there is none.
func (l *Ledger) index(run string) int {
	return slices.IndexFunc(l.plans, func(p submitted) bool { return p.run == run })
}

// Plan returns the plan of a run, by run id; nil if there is none.
func (l *Ledger) Plan(run string) *schemas.Plan {
	if i := l.index(run); i >= 0 {
		return l.plans[i].Plan
	}
	return nil
}

// GoesOn reports whether a run was submitted and has not ended.
func (l *Ledger) GoesOn(run string) bool { return l.index(run) >= 0 && l.ends[run] == nil }

// End returns the end of a run; nil while it is unfinished, or if it ended too long ago. Of several ends one counts: a
// solver that had not read the cancellation may have finished the run, or another run may have made the version with the
// same number.
func (l *Ledger) End(run string) *schemas.End { return l.ends[run] }

// Changed returns when a run ended, or, if it has no end on the topic, when it was submitted, by the clock of the writer.
func (l *Ledger) Changed(run string) (t time.Time) {
	if t, ended := l.ended[run]; ended {
		return t
	}
	if i := l.index(run); i >= 0 {
		t = l.plans[i].time
	}
	return t
}

// Unfinished returns the ids and plans of the runs without an end, in the order of their plans.
func (l *Ledger) Unfinished() iter.Seq2[string, *schemas.Plan] {
	return func(yield func(string, *schemas.Plan) bool) {
		for _, p := range l.plans {
			if l.ends[p.run] == nil && !yield(p.run, p.Plan) {
				return
			}
		}
	}
}

// AnyUnfinished reports whether any run has no end.
func (l *Ledger) AnyUnfinished() bool {
	return slices.ContainsFunc(l.plans, func(p submitted) bool { return l.ends[p.run] == nil })
}

// Runs returns the runs with known plans, and their plans, in the order of these.
func (l *Ledger) Runs() iter.Seq2[string, *schemas.Plan] {
	return func(yield func(string, *schemas.Plan) bool) {
		for _, p := range l.plans {
			if !yield(p.run, p.Plan) {
				return
			}
		}
	}
}

// Chained returns the run of the last plan of a chain that counts, ended or not; nil if there is none.
func (l *Ledger) Chained() *ChainedRun { return l.chained }

// Overtaken returns the ends of the runs of a chain that do not count because others preceded them, if their ends are not
// on the topic. The caller writes them.
func (l *Ledger) Overtaken() (ends []*schemas.End) {
	for _, p := range l.plans {
		if l.overtaken[p.run] {
			ends = append(ends, l.ends[p.run])
		}
	}
	return ends
}
