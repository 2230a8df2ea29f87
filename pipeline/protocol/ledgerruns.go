package protocol

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// submitted is a plan on the topic.
type submitted struct {
	*schemas.Plan               // with its start offsets; once it has ended, as it is on the topic
	written       *schemas.Plan // as it is on the topic
	place         schemas.Place
}

func (l *Ledger) applyPlan(m Message) error {
	if !m.IsChunk() {
		return nil // an earlier release wrote each plan as one message: its runs are not continued
	}
	from, begun := l.first[m.Digest()]
	if !begun {
		from = m.Offset
		l.first[m.Digest()] = from
	}
	whole, ok, err := l.codec.Document(&l.documents, m.Message)
	if err != nil || !ok {
		return err
	}
	delete(l.first, m.Digest())
	plan, run, err := DecodePlan(l.codec, whole)
	if err != nil {
		return err
	}
	if l.index(run) < 0 {
		l.plans = append(l.plans, submitted{plan, plan, schemas.Place{Run: run, From: from, To: m.Offset + 1}})
		if plan.Since.Plans < l.covered {
			l.uncertain[run] = true
		}
		if end := l.ended[run]; end != nil {
			l.ends[run] = end
		}
		if plan.Chain != nil {
			l.applyChained(run, plan.Chain)
		}
	}
	return nil
}

// applyChained decides whether a run of a chain counts. Of the plans with the same parent and attempt, only the first by
// offset counts: all readers of the topic treat the others as ended before they start. A runner that finds one writes its
// end, since compaction may put a second copy of the first plan behind it.
func (l *Ledger) applyChained(run string, chain *schemas.Chain) {
	if last := l.chained; last != nil && last.Run != run && !last.Before(chain) {
		if l.ends[run] == nil { // otherwise compaction has left a copy of its plan behind its end
			reason := fmt.Sprintf("run %s was submitted before it, to make version %d of the chain in attempt %d", last.Run, last.Number,
				last.Attempt)
			l.ends[run], l.overtaken[run] = &schemas.End{Run: run, State: schemas.Cancelled, Reason: reason}, true
		}
		return
	}
	l.chained = &schemas.ChainedRun{Run: run, Number: chain.Number, Attempt: chain.Attempt}
	if chain.Parent != nil {
		l.chained.Parent = chain.Parent.Run
	}
}

func (l *Ledger) applyEnd(end *schemas.End) {
	if end.Source != "" {
		id, _, _ := strings.Cut(end.Source, "/")
		l.seals[id] = without(l.seals[id], end.Source)
		l.removedSeals = without(l.removedSeals, end.Source)
		l.incomplete[end.Source] = true
	}
	if end = l.unlessTaken(end); end.Version != nil {
		l.addVersion(*end.Version)
	}
	known := l.ends[end.Run]
	if known == nil || outranks(end.State, known.State) {
		l.ends[end.Run] = end
	}
	delete(l.overtaken, end.Run)
	at := l.index(end.Run)
	if at < 0 {
		return
	}
	l.plans[at].Plan = l.plans[at].written // copies of a plan and its end may surround the end of a later run
	if known != nil {
		return
	}
	// The later runs have not started. Their records come after the current ends of the topics.
	for i := at + 1; i < len(l.plans); i++ {
		if l.ends[l.plans[i].place.Run] != nil {
			continue
		}
		since := end.Since
		since.Plans = l.plans[i].Since.Plans
		l.setSince(i, since)
		if l.uncertain[end.Run] { // the run may have ended before: then this end has no effect
			l.uncertain[l.plans[i].place.Run] = true
		}
	}
}

// setSince sets where the run of a plan starts to read.
func (l *Ledger) setSince(i int, since schemas.Since) {
	plan := *l.plans[i].Plan
	plan.Since = since
	l.plans[i].Plan = &plan
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
	return slices.IndexFunc(l.plans, func(p submitted) bool { return p.place.Run == run })
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

// Uncertain reports whether a run without an end in the ledger may have ended: its plan was added, and dates from a time
// that the ledger only summarizes. It may be the second copy of a plan, by a client that got no response to the first.
// [Client.ReadLedger] resolves this.
func (l *Ledger) Uncertain(run string) bool { return l.uncertain[run] }

// End returns the end of a run; nil while it is unfinished, or if it ended too long ago.
func (l *Ledger) End(run string) *schemas.End { return l.ends[run] }

// Counting returns the effective end of a run that may have several, given one of them, which may date from a time that
// the ledger only summarizes. A solver that had not read the cancellation may have finished the run, or another run may
// have made the version with the same number.
func (l *Ledger) Counting(end *schemas.End) *schemas.End {
	end = l.unlessTaken(end)
	if known := l.ends[end.Run]; known != nil && outranks(known.State, end.State) {
		return known
	}
	return end
}

// Unfinished returns the ids and plans of the runs without an end, in the order of their plans.
func (l *Ledger) Unfinished() iter.Seq2[string, *schemas.Plan] {
	return func(yield func(string, *schemas.Plan) bool) {
		for _, p := range l.plans {
			if l.ends[p.place.Run] == nil && !yield(p.place.Run, p.Plan) {
				return
			}
		}
	}
}

// Runs returns the runs with known plans, and their plans. Those known only from the history come last.
func (l *Ledger) Runs() iter.Seq2[string, *schemas.Plan] {
	return func(yield func(string, *schemas.Plan) bool) {
		for _, p := range l.plans {
			if !yield(p.place.Run, p.Plan) {
				return
			}
		}
	}
}

// Chained returns the run of the last plan of a chain that counts, ended or not; nil if there is none.
func (l *Ledger) Chained() *schemas.ChainedRun { return l.chained }

// Overtaken returns the ends of the runs of a chain that do not count because others preceded them, if their ends are not
// on the topic. The caller writes them.
func (l *Ledger) Overtaken() (ends []*schemas.End) {
	for _, p := range l.plans {
		if l.overtaken[p.place.Run] {
			ends = append(ends, l.ends[p.place.Run])
		}
	}
	return ends
}
