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
	"github.com/stagewise/stagewise/pipeline/solver/stack"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// gathering reduces the records of a visit in the order of partitions. It adds a partition's records as soon as its turn in its
// group comes. So of a thousand partitions, memory holds only those whose records came before their turn.
type gathering struct {
	protocol.Visit
	part
	spans     coverage.Spans // one of each partition; see Solver.visited
	reduction *accumulate.Reduction
}

// part says which records of a span a gathering needs, and makes a sum of them.
type part struct {
	kinds []wire.Kind
	terms bool                                         // the terms of the increments that the span has too
	sum   func(coverage.Span) (*accumulate.Sum, error) // called once all records of the span have come
}

// gathering returns a gathering of a visit's records that has none yet.
func (s *Solver) gathering(v protocol.Visit, p part) *gathering {
	spans := s.plan.Spans.Hulls()
	if v.Stage != wire.Survey {
		spans = s.visited
	}
	reduction := accumulate.NewReduction(len(spans))
	reduction.Buffers, reduction.Crosses = &s.scratch.grams, s.Crosses
	return &gathering{v, p, spans, reduction}
}

// visitSum gathers the sums of a visit. withGram adds the Gram matrix, which is a record of its own: the visits that fit a
// calibration need it.
func (s *Solver) visitSum(v protocol.Visit, withGram bool) part {
	p := part{kinds: []wire.Kind{statistics.KindVisit}}
	if withGram {
		p.kinds = append(p.kinds, statistics.KindGram)
	}
	p.sum = func(span coverage.Span) (*accumulate.Sum, error) {
		visit, err := statistics.VisitOf(s.inbox.Double(s.identity(statistics.KindVisit, v, span.Partition)))
		if err != nil {
			return nil, err
		}
		if withGram {
			gram, err := statistics.ExactGramOf(s.inbox.Double(s.identity(statistics.KindGram, v, span.Partition)))
			if err != nil {
				return nil, err
			}
			visit.Sums = append(visit.Sums, gramFields(gram)...)
		}
		return s.sumOf(visit.Identity, span, visit.Covered, visit.Sums)
	}
	return p
}

// sealSum gathers the sums that the seals of a stage have.
func (s *Solver) sealSum(v protocol.Visit) part {
	terms := s.sealsTerms(v.Stage)
	return part{kinds: []wire.Kind{statistics.KindSeal}, terms: terms, sum: func(span coverage.Span) (*accumulate.Sum, error) {
		seal, err := statistics.SealOf(s.inbox.Double(s.identity(statistics.KindSeal, v, span.Partition)))
		if err != nil {
			return nil, err
		}
		sum, err := s.sumOf(seal.Identity, span, seal.Covered, seal.Sums)
		if err != nil || !terms {
			return sum, err
		}
		return s.withTerms(sum, v, span.Partition)
	}}
}

// blockGram gathers the Gram matrix of a stage's block.
func (s *Solver) blockGram(v protocol.Visit) part {
	kinds, leaves := []wire.Kind{statistics.KindGram}, false
	if s.plan.Update().TakesAway() {
		kinds, leaves = append(kinds, statistics.KindLeave), true
	}
	return part{kinds: kinds, sum: func(span coverage.Span) (*accumulate.Sum, error) {
		g, err := statistics.BlockGramOf(s.inbox.Single(s.identity(statistics.KindGram, v, span.Partition)), s.scratch.grams.Get)
		if err != nil {
			return nil, err
		}
		weight := wire.Vector(statistics.FieldGramRows, []float64{g.Weight})
		fields := append(gramFields(g), weight)
		if leaves {
			leave, err := statistics.ExactGramOf(s.inbox.Double(s.identity(statistics.KindLeave, v, span.Partition)))
			if err != nil {
				return nil, err
			}
			for _, field := range gramFields(leave) {
				field.Name = statistics.FieldLeave
				fields = append(fields, field, wire.Vector(statistics.FieldLeaveRows, []float64{leave.Weight}))
			}
		}
		return accumulate.NewSum(coverage.Coverage{Spans: coverage.Spans{span}}, fields), nil
	}}
}

// sumOf returns the sum of a record, which must cover all spans of the plan in the partition of a span, and in an
// update what is visited again of the partition.
func (s *Solver) sumOf(id wire.Identity, span coverage.Span, covered coverage.Coverage,
	sums wire.Tensors[float64]) (*accumulate.Sum, error) {
	want := s.plan.Spans.On(span.Partition)
	if u := s.plan.Update(); u != nil && id.Stage != wire.Survey {
		past := coverage.Spans{}
		for i := range u.Refresh {
			if c, any := u.Refresh[i].On(span.Partition); any {
				past = append(past, c.Spans...)
			}
		}
		var err error
		if want, err = want.Union(past); err != nil {
			return nil, err
		}
	}
	if !slices.Equal(covered.Spans, want) {
		return nil, fmt.Errorf("%v covers %v, expected %v", id, covered.Spans, want)
	}
	if s.plan.Chain != nil {
		return stack.Unstack(covered, sums, s.places(), s.apart(id.Visit))
	}
	return accumulate.NewSum(covered, sums), nil
}

// gramFields returns a Gram matrix as a field of a sum; no field if it is of no rows.
func gramFields(g *statistics.Gram) wire.Tensors[float64] {
	if g.Matrix == nil {
		return nil
	}
	return wire.Tensors[float64]{wire.Vector(statistics.FieldGram, g.Matrix)}
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
			return g.reduction.Sum()
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
			s.missed = s.missed || passed
			if err := s.readMissed(ctx); err != nil {
				return nil, err
			}
			if _, come := s.inbox.Digest(*missing); passed && !come {
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
	return !slices.Contains(g.kinds, statistics.KindSeal) && s.isAccepted(g.Stage)
}

// hasPassed reports whether no worker repeats a record: it is of a visit before the one that is due, whose weights another solver has
// published, or this process before it was started again. So it has been on the topic, and is gone if it is not there.
func (s *Solver) hasPassed(id wire.Identity) bool {
	due, _ := s.chain.Due()
	ends := id.Kind == statistics.KindSeal || id.Kind == statistics.KindIncrement // missing knows of these
	grams := id.Kind == statistics.KindGram || id.Kind == statistics.KindLeave    // an update repeats them with each visit to the stage
	repeated := grams && s.plan.Update() != nil && id.Stage == due.Stage
	return !ends && !repeated && id.Before(wire.Identity{Stage: due.Stage, Visit: due.Number})
}

// failure returns the failure of a partition whose records have not come; nil if there is none.
func (s *Solver) failure(g *gathering) *schemas.Failure {
	for _, partition := range slices.Sorted(maps.Keys(s.failures)) {
		for _, id := range s.identities(g, partition) {
			if _, come := s.inbox.Digest(id); !come {
				return s.failures[partition]
			}
		}
	}
	return nil
}

// reduce adds the records that have come, and returns the first that has not come; nil if all have.
func (s *Solver) reduce(g *gathering) (missing *wire.Identity, err error) {
	for group := range g.reduction.Groups() {
		for ordinal, more := g.reduction.Next(group); more; ordinal, more = g.reduction.Next(group) {
			span := g.spans[ordinal]
			lacking, err := s.missing(s.identities(g, span.Partition))
			if err != nil {
				return nil, err
			}
			if lacking != nil {
				missing = cmp.Or(missing, lacking)
				break
			}
			sum, err := g.sum(span)
			if err != nil {
				return nil, err
			}
			if err := g.reduction.Add(group, sum); err != nil {
				return nil, err
			}
		}
	}
	return missing, nil
}

// identities returns those of the records of a partition that a gathering needs.
func (s *Solver) identities(g *gathering, partition int) (list []wire.Identity) {
	for _, kind := range g.kinds {
		list = append(list, s.identity(kind, g.Visit, partition))
	}
	if g.terms && s.sealLacksTerms(list[0]) {
		list = append(list, s.termsIdentities(g.Visit, partition)...)
	}
	return list
}

// missing returns the first of a partition's records that has not come; nil if all have. The error is a *[GoneError] if a record
// will never come.
func (s *Solver) missing(records []wire.Identity) (*wire.Identity, error) {
	for _, id := range records {
		if s.inbox.Has(id) {
			continue
		}
		// A worker makes the visits of a partition in order, and seals a stage before it visits the next one.
		last, any := s.inbox.Last(id.Partition)
		seals := id.Kind == statistics.KindSeal || id.Kind == statistics.KindIncrement
		if any && (last.Stage > id.Stage || !seals && id.Before(last)) {
			return nil, &GoneError{id}
		}
		return &id, nil
	}
	return nil, nil
}
