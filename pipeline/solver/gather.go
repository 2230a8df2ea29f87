package solver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver/inbox"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// gathering reduces the records of a visit. It adds what has come of a partition as soon as its turn in its group comes, and
// the merged records of workers that have all partitions of a group as they come. So of a thousand partitions, memory holds only those
// whose records came before their turn.
type gathering struct {
	protocol.Visit
	spans coverage.Spans // one of each partition; see Solver.visited
	parts []*part
}

// part says which records of a kind a gathering needs, and makes sums of them.
type part struct {
	kind  wire.Kind
	alone bool // records are of single partitions
	// further returns the identities of what else is needed with a record, once that has come; nil: nothing is
	further func(wire.Identity) []wire.Identity
	// sum returns the sum of a record of partitions, given their spans. It is called once all records of them have come.
	sum       func(wire.Identity, coverage.Spans) (*accumulate.Sum, error)
	reduction *accumulate.Reduction
}

// gathering returns a gathering of a visit's records that has none yet.
func (s *Solver) gathering(v protocol.Visit, parts ...*part) *gathering {
	g := &gathering{Visit: v, spans: s.spansOf(v.Stage), parts: parts}
	for _, p := range parts {
		p.reduction = accumulate.NewReduction(s.plan.Merges(len(g.spans)))
		p.reduction.Buffers, p.reduction.Crosses = s.Grams, s.Crosses
	}
	return g
}

// spansOf returns one span of each partition whose records visits to a stage have.
func (s *Solver) spansOf(stage int) coverage.Spans {
	if stage == wire.Survey {
		return s.surveyed
	}
	return s.visited
}

// sum returns the sum of all records, once they have come.
func (g *gathering) sum() (*accumulate.Sum, error) {
	all, err := g.parts[0].reduction.Sum()
	if err != nil {
		return nil, err
	}
	for _, p := range g.parts[1:] {
		sum, err := p.reduction.Sum()
		if err != nil {
			return nil, err
		}
		all = accumulate.NewSum(all.Coverage, append(all.Tensors(), sum.Tensors()...))
	}
	return all, nil
}

// visitSum gathers the sums of a visit, in records of a kind. withGram adds the Gram matrix, which is a record of its own: the visits that
// fit a calibration need it.
func (s *Solver) visitSum(kind wire.Kind, withGram bool) []*part {
	parts := []*part{{kind: kind, sum: func(id wire.Identity, spans coverage.Spans) (*accumulate.Sum, error) {
		visit, err := statistics.VisitOf(s.inbox.Double(id))
		if err != nil {
			return nil, err
		}
		return s.sumOf(visit, spans)
	}}}
	if withGram {
		parts = append(parts, s.exactGram())
	}
	return parts
}

// exactGram gathers the Gram matrices of the survey, or of a calibration.
func (s *Solver) exactGram() *part {
	return &part{kind: statistics.KindGram, sum: func(id wire.Identity, _ coverage.Spans) (*accumulate.Sum, error) {
		gram, err := statistics.ExactGramOf(s.inbox.Double(id))
		if err != nil {
			return nil, err
		}
		return accumulate.NewSum(coverage.Coverage{}, gram.Fields()), nil
	}}
}

// sealSum gathers the sums that the seals of a stage have.
func (s *Solver) sealSum(v protocol.Visit) *part {
	p := &part{kind: statistics.KindSeal, alone: s.plan.Chain != nil}
	terms := s.sealsTerms(v.Stage)
	if terms {
		p.further = func(id wire.Identity) []wire.Identity {
			if s.sealLacksTerms(id) {
				return s.termsIdentities(v, id.Partition)
			}
			return nil
		}
	}
	p.sum = func(id wire.Identity, spans coverage.Spans) (*accumulate.Sum, error) {
		seal, err := statistics.SealOf(s.inbox.Double(id))
		if err != nil {
			return nil, err
		}
		sum, err := s.sumOf(&statistics.Visit{Identity: seal.Identity, Covered: seal.Covered, Spans: seal.Spans, Sums: seal.Sums}, spans)
		if err != nil || !terms {
			return sum, err
		}
		return s.withTerms(sum, v, id.Partition)
	}
	return p
}

// blockGram gathers the Gram matrix of a stage's block.
func (s *Solver) blockGram() []*part {
	parts := []*part{{kind: statistics.KindGram, sum: func(id wire.Identity, _ coverage.Spans) (*accumulate.Sum, error) {
		var g *statistics.Gram
		var err error
		if inbox.IsSingle(id) {
			g, err = statistics.BlockGramOf(s.inbox.Single(id), s.Grams.Get)
		} else {
			g, err = statistics.ExactGramOf(s.inbox.Double(id))
		}
		if err != nil {
			return nil, err
		}
		weight := wire.Vector(statistics.FieldGramRows, []float64{g.Weight})
		return accumulate.NewSum(coverage.Coverage{}, append(g.Fields(), weight)), nil
	}}}
	if s.plan.Update().TakesAway() {
		parts = append(parts, &part{kind: statistics.KindLeave, sum: func(id wire.Identity, _ coverage.Spans) (*accumulate.Sum, error) {
			leave, err := statistics.ExactGramOf(s.inbox.Double(id))
			if err != nil {
				return nil, err
			}
			return accumulate.NewSum(coverage.Coverage{}, leaveFields(leave)), nil
		}})
	}
	return parts
}

// leaveFields returns what leaves the window as fields of a sum; none if it is of no rows.
func leaveFields(leave *statistics.Gram) wire.Tensors[float64] {
	fields := leave.Fields()
	if fields == nil {
		return nil
	}
	fields[0].Name = statistics.FieldLeave
	return append(fields, wire.Vector(statistics.FieldLeaveRows, []float64{leave.Weight}))
}

// sumOf returns the sum of a record of partitions, given one span of each. It must cover all spans of the plan in these partitions, and
// in an update what is visited again of them.
func (s *Solver) sumOf(v *statistics.Visit, spans coverage.Spans) (*accumulate.Sum, error) {
	var want coverage.Spans
	for _, span := range spans {
		of, err := s.coveredOf(v.Stage, span.Partition)
		if err != nil {
			return nil, err
		}
		want = append(want, of...)
	}
	covered := v.Covered
	if v.Merged > 0 {
		if got := want.Digest(); v.Spans != got {
			return nil, fmt.Errorf("%v covers spans with digest %s, expected %s", v.Identity, v.Spans.Short(), got.Short())
		}
		covered.Spans = want
	}
	if !slices.Equal(covered.Spans, want) {
		return nil, fmt.Errorf("%v covers %v, expected %v", v.Identity, covered.Spans, want)
	}
	sum := accumulate.NewSum(covered, v.Sums)
	if s.plan.Chain == nil {
		return sum, nil
	}
	return sum, sum.Unstack(s.places(), s.apart(v.Visit))
}

// coveredOf returns the spans that a visit to a stage covers in a partition.
func (s *Solver) coveredOf(stage, partition int) (coverage.Spans, error) {
	want := s.plan.Spans.On(partition)
	u := s.plan.Update()
	if u == nil || stage == wire.Survey {
		return want, nil
	}
	past := coverage.Spans{}
	for i := range u.Refresh {
		if c, any := u.Refresh[i].On(partition); any {
			past = append(past, c.Spans...)
		}
	}
	return want.Union(past)
}

// identity returns the identity of a partition's record for a visit.
func (s *Solver) identity(kind wire.Kind, v protocol.Visit, partition int) wire.Identity {
	return wire.Identity{Kind: kind, Run: s.run, Stage: v.Stage, Visit: v.Number, Partition: partition, Parent: v.Parent}
}

// errAccepted says that another solver was faster: the weights that statistics were gathered for are accepted.
var errAccepted = errors.New("the weights are accepted")

// GoneError says that statistics were deleted during the run: statistics of a later visit, which come after them, are there.
type GoneError struct{ wire.Identity } // of the statistics that are gone

// Error returns which statistics are gone.
func (e *GoneError) Error() string {
	return fmt.Sprintf("the %v is gone: it was deleted during the run", e.Identity)
}

// gather waits until a gathering has the records of every span of the plan, and returns their sum. Meanwhile it also reduces the
// records of others, so that these do not wait in memory. The error is errAccepted if the records are no longer needed.
func (s *Solver) gather(ctx context.Context, g *gathering, others ...*gathering) (*accumulate.Sum, error) {
	alone := s.owner.Changed() == nil // the only worker is in this process
	wait, waited := protocol.MinPatience, time.Duration(0)
	for deadline := s.Clock.Now().Add(wait); ; {
		if s.isNeedless(g) {
			return nil, errAccepted
		}
		for _, other := range others {
			if _, err := s.reduce(other); err != nil {
				return nil, fmt.Errorf("reduce visit %d: %w", other.Number, err)
			}
		}
		if err := s.lookAhead(s.inbox.Solves()); err != nil {
			return nil, fmt.Errorf("look ahead of stage %d: %w", s.inbox.Solves(), err)
		}
		missing, err := s.reduce(g)
		if err != nil {
			return nil, fmt.Errorf("reduce visit %d: %w", g.Number, err)
		}
		if missing == nil {
			return g.sum()
		}
		failure := s.failure(g)
		if failure != nil && alone { // nobody else can make the visit
			return nil, &FailureError{*failure}
		}
		known, claims := s.inbox.Count(), s.claims
		late, err := s.receive(ctx, s.Clock.Until(deadline))
		if err != nil {
			return nil, err
		}
		switch {
		case late && failure != nil:
			return nil, &FailureError{*failure}
		case late && s.GiveUp > 0 && waited+wait >= s.GiveUp && s.inbox.Count() == 0 && g.Stage == wire.Survey:
			return nil, &protocol.UnclaimedError{What: "worker", After: s.GiveUp, Arithmetic: s.plan.Arithmetic}
		case late:
			waited += wait
			if err := s.checkGoesOn(ctx); err != nil {
				return nil, err
			}
			if s.isNeedless(g) {
				return nil, errAccepted
			}
			passed := s.hasPassed(*missing)
			// After a long wait, the record may be at offsets that were read before the brokers lost what was there, even if they have not
			// lost the last message that was read.
			long := wait < protocol.MaxPatience && protocol.Patience(wait) == protocol.MaxPatience
			s.missed = s.missed || passed || long
			if err := s.readMissed(ctx); err != nil {
				return nil, err
			}
			if passed && !s.come(*missing) {
				return nil, &GoneError{*missing}
			}
			if !alone { // otherwise the visit takes long
				event.Notice(s.rec, "no worker has sent the %v yet: waiting", *missing)
			}
			wait = protocol.Patience(wait)
		case s.claims > claims:
			wait, waited = protocol.MinPatience, 0
		case s.inbox.Count() > known, failure == nil && s.failure(g) != nil:
			wait = protocol.MinPatience
		default:
			continue
		}
		deadline = s.Clock.Now().Add(wait)
	}
}

// isNeedless reports whether the records of a gathering are no longer needed, as another solver has published what follows from them.
// [Solver.collect] drops those that come now, so a record that has not come need not be gone.
func (s *Solver) isNeedless(g *gathering) bool {
	return g.parts[0].kind != statistics.KindSeal && s.isAccepted(g.Stage)
}

// hasPassed reports whether no worker repeats a record: it is of a visit before the one that is due, whose weights another solver has
// published, or this process before it was started again. So it has been on the topic, and is gone if it is not there.
func (s *Solver) hasPassed(id wire.Identity) bool {
	due, _ := s.chain.Due()
	if id.Kind == statistics.KindSeal || id.Kind == statistics.KindIncrement { // which workers repeat with the next stage's first visit
		return id.Stage < due.Stage-1 || id.Stage == due.Stage-1 && due.Number > 0
	}
	grams := id.Kind == statistics.KindGram || id.Kind == statistics.KindLeave // an update repeats them with each visit to the stage
	repeated := grams && s.plan.Update() != nil && id.Stage == due.Stage
	return !repeated && id.Before(wire.Identity{Stage: due.Stage, Visit: due.Number})
}

// failure returns the failure of a partition whose records have not come; nil if there is none.
func (s *Solver) failure(g *gathering) *schemas.Failure {
	for _, partition := range slices.Sorted(maps.Keys(s.failures)) {
		for _, p := range g.parts {
			for _, id := range p.needs(s.identity(p.kind, g.Visit, partition)) {
				if !s.come(id) {
					return s.failures[partition]
				}
			}
		}
	}
	return nil
}

// come reports whether a record of one partition has come, reduced or not, or a merged one that has it.
func (s *Solver) come(id wire.Identity) bool {
	if _, come := s.inbox.Digest(id); come {
		return true
	}
	return s.isMerged(id)
}

// isMerged reports whether a merged record has come that has all partitions of another record.
func (s *Solver) isMerged(id wire.Identity) bool {
	return slices.ContainsFunc(s.merging(id), func(other wire.Identity) bool {
		_, come := s.inbox.Digest(other)
		return come
	})
}

// merging returns the identities of the merged records that may have all partitions of another record.
func (s *Solver) merging(id wire.Identity) (merged []wire.Identity) {
	spans := s.spansOf(id.Stage)
	tree, end := s.plan.Merges(len(spans)), max(id.Merged, 1)
	from := slices.IndexFunc(spans, func(span coverage.Span) bool { return span.Partition == id.Partition })
	for group := range tree.Groups() {
		first, to := tree.Range(group)
		if from < 0 || from+end > to {
			continue
		}
		for _, begin := range []int{0, first} { // the first groups, or the group
			other := id
			other.Partition, other.Merged = spans[begin].Partition, to-begin
			if begin <= from && other != id {
				merged = append(merged, other)
			}
		}
	}
	return merged
}

// reduce adds the records that have come, and returns the first that has not come; nil if all have.
func (s *Solver) reduce(g *gathering) (missing *wire.Identity, err error) {
	for _, p := range g.parts {
		lacking, err := s.reducePart(g, p)
		if err != nil {
			return nil, err
		}
		missing = cmp.Or(missing, lacking)
	}
	return missing, nil
}

// reducePart is reduce for a part of a gathering.
func (s *Solver) reducePart(g *gathering, p *part) (missing *wire.Identity, err error) {
	lacking, err := p.reduction.Take(func(from, to int) (*accumulate.Sum, error) {
		id := s.identity(p.kind, g.Visit, g.spans[from].Partition)
		if to-from > 1 {
			if id.Merged = to - from; p.alone || !s.inbox.Has(id) {
				return nil, nil
			}
			for _, span := range g.spans[from:to] { // what came before is part of it
				s.inbox.Drop(s.identity(p.kind, g.Visit, span.Partition))
			}
		} else if lacking, err := s.missing(p.needs(id)); lacking != nil || err != nil {
			missing = cmp.Or(missing, lacking)
			return nil, err
		}
		return p.sum(id, g.spans[from:to])
	})
	if lacking < 0 || err != nil {
		return nil, err
	}
	return missing, nil
}

// needs returns the identities of the records that are needed with that of one partition.
func (p *part) needs(id wire.Identity) []wire.Identity {
	if p.further == nil {
		return []wire.Identity{id}
	}
	return append([]wire.Identity{id}, p.further(id)...)
}

// missing returns the first of a partition's records that has not come; nil if all have. The error is a *[GoneError] if a record
// will never come.
func (s *Solver) missing(records []wire.Identity) (*wire.Identity, error) {
	for _, id := range records {
		if s.inbox.Has(id) {
			continue
		}
		if s.isGone(id) {
			return nil, &GoneError{id}
		}
		return &id, nil
	}
	return nil, nil
}

// isGone reports whether a record of one partition that has not come never will. A worker makes the visits of a partition in order, and
// seals a stage before it visits the next one. So it is gone if a later record of that partition has come, unless a merged record on
// another partition of the statistics may have it: that may be of another worker than what has come of that partition. Then
// [Solver.gather] looks for it on the topic once it has waited.
func (s *Solver) isGone(id wire.Identity) bool {
	seals := id.Kind == statistics.KindSeal || id.Kind == statistics.KindIncrement
	last, any := s.inbox.Last(id.Partition)
	if passed := any && (last.Stage > id.Stage || !seals && id.Before(last)); !passed {
		return false
	}
	alone := seals && s.plan.Chain != nil
	elsewhere := func(merged wire.Identity) bool { return merged.Partition != id.Partition }
	return alone || !slices.ContainsFunc(s.merging(id), elsewhere)
}
