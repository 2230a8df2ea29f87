package solver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// gathering reduces the records of a visit, in the order of their shares.
type gathering struct {
	protocol.Visit
	shares []schemas.Share
	parts  []*part
}

// part is the records of one kind in a gathering: which are needed, and how they become sums.
type part struct {
	kind wire.Kind
	// read returns the sum in a record that has arrived.
	read  func(wire.Identity, *schemas.Share) (*accumulate.Sum, error)
	next  int // the first share whose record is not part of total
	total *accumulate.Sum
}

// gathering returns an empty gathering of a visit's records.
func (s *Solver) gathering(v protocol.Visit, parts ...*part) *gathering {
	return &gathering{Visit: v, shares: s.sharesOf(v.Stage), parts: parts}
}

// sharesOf returns the shares for which visits to a stage have records.
func (s *Solver) sharesOf(stage int) []schemas.Share {
	if stage == wire.Survey {
		return s.surveyed
	}
	return s.visited
}

// sum returns the sum of all records once they have arrived.
func (g *gathering) sum() *accumulate.Sum {
	all := cmp.Or(g.parts[0].total, &accumulate.Sum{})
	for _, p := range g.parts[1:] {
		if p.total != nil {
			all = accumulate.NewSum(all.Coverage, append(all.Tensors(), p.total.Tensors()...))
		}
	}
	return all
}

// visitSum gathers the sums of a visit.
func (s *Solver) visitSum() *part {
	return &part{kind: statistics.KindVisit, read: func(id wire.Identity, share *schemas.Share) (*accumulate.Sum, error) {
		visit, err := wire.Read[statistics.Visit](s.inbox.take(id))
		if err != nil {
			return nil, err
		}
		return s.sumOf(visit, share)
	}}
}

// sealSum gathers the sums in the seals of a stage.
func (s *Solver) sealSum() *part {
	return &part{kind: statistics.KindSeal, read: func(id wire.Identity, share *schemas.Share) (*accumulate.Sum, error) {
		seal, err := wire.Read[statistics.Seal](s.inbox.take(id))
		if err != nil {
			return nil, err
		}
		return s.sumOf(&seal.Visit, share)
	}}
}

// blockGram gathers the Gram matrix of a stage's block, or that of rows that leave the window.
func (s *Solver) blockGram(kind wire.Kind) *part {
	return &part{kind: kind, read: func(id wire.Identity, _ *schemas.Share) (*accumulate.Sum, error) {
		g, err := wire.Read[statistics.Gram](s.inbox.take(id))
		if err != nil {
			return nil, err
		}
		sum := accumulate.NewSum(coverage.Coverage{}, g.Fields())
		if kind == statistics.KindLeave { // the sum of all parts has both; the window has the weight of these rows
			sum.Move(sum, statistics.FieldGram, statistics.FieldLeave)
		} else {
			sum.Field(statistics.FieldGramRows, 1)[0] = g.Weight
		}
		return sum, nil
	}}
}

// sumOf returns the sum of a record of a share. The record must cover all spans of the plan in its partitions, and in an
// update also their revisited rows.
func (s *Solver) sumOf(v *statistics.Visit, share *schemas.Share) (*accumulate.Sum, error) {
	var want coverage.Spans
	for _, number := range share.Partitions {
		of, err := s.coveredOf(v.Stage, number)
		if err != nil {
			return nil, err
		}
		want = append(want, of...)
	}
	if digest := want.Digest(); v.Covered.Spans != digest {
		return nil, fmt.Errorf("%v covers spans with digest %s, expected %s", v.Identity, v.Covered.Spans.Short(), digest.Short())
	}
	return accumulate.NewSum(v.Covered.Of(want), v.Sums), nil
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

// identity returns the identity of a share's record of a visit.
func (s *Solver) identity(kind wire.Kind, v protocol.Visit, share int) wire.Identity {
	return wire.Identity{Kind: kind, Run: s.run, Stage: v.Stage, Visit: v.Number, Partition: share, Parent: v.Parent}
}

// errAccepted means that another solver was faster: the weights that the statistics were gathered for are already
// accepted.
var errAccepted = errors.New("the weights are accepted")

// errGone means that statistics were deleted during the run: no worker will write them again.
var errGone = errors.New("it was deleted during the run")

// gather waits until a gathering has the records of all spans of the plan, and returns their sum. In the meantime it also
// reduces the records of others, so that these do not accumulate in memory. The error is errAccepted if the records are no
// longer needed.
func (s *Solver) gather(ctx context.Context, g *gathering, others ...*gathering) (*accumulate.Sum, error) {
	if s.plan.Update().IsLocal() {
		return s.gatherLocal(ctx, g)
	}
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
		missing, err := s.reduce(g)
		if err != nil {
			return nil, fmt.Errorf("reduce visit %d: %w", g.Number, err)
		}
		if missing == nil {
			return g.sum(), nil
		}
		failure := s.failure(g)
		if failure != nil && alone { // no other process can make the visit
			return nil, &failureError{*failure}
		}
		known := len(s.inbox.digests)
		late, err := s.receive(ctx, s.Clock.Until(deadline))
		if err != nil {
			return nil, err
		}
		switch {
		case late && failure != nil:
			return nil, &failureError{*failure}
		case late && s.GiveUp > 0 && waited+wait >= s.GiveUp && !s.claimed && len(s.inbox.digests) == 0 && g.Stage == wire.Survey:
			return nil, &protocol.UnclaimedError{What: "worker", After: s.GiveUp, Arithmetic: s.plan.Arithmetic}
		case late:
			waited += wait
			if err := s.checkGoesOn(ctx); err != nil {
				return nil, err
			}
			if s.isNeedless(g) {
				return nil, errAccepted
			}
			// After a long wait, the record may be at offsets that were read before the brokers lost the messages there, even if the
			// brokers still have the last message that was read.
			long := wait < protocol.MaxPatience && protocol.Patience(wait) == protocol.MaxPatience
			passed := s.hasPassed(*missing)
			s.missed = s.missed || passed || long
			if err := s.readMissed(ctx); err != nil {
				return nil, err
			}
			if passed && !s.inbox.has(*missing) {
				return nil, fmt.Errorf("the %v is gone: %w", *missing, errGone)
			}
			if !alone { // otherwise this process is still making the visit
				event.Notice(s.rec, "no worker has sent the %v yet: waiting", *missing)
			}
			wait = protocol.Patience(wait)
		case len(s.inbox.digests) > known, failure == nil && s.failure(g) != nil:
			wait = protocol.MinPatience
		default:
			continue
		}
		deadline = s.Clock.Now().Add(wait)
	}
}

// isNeedless reports whether the records of a gathering are no longer needed, because another solver has published the
// result. [Solver.collect] drops records that arrive now, so a missing record may never have been deleted.
func (s *Solver) isNeedless(g *gathering) bool {
	return g.parts[0].kind != statistics.KindSeal && s.isAccepted(g.Stage)
}

// hasPassed reports whether no worker will write a record again: it belongs to a visit before the due one, whose weights
// another solver has published, or this process before a restart. So the record was on the topic, and if it is missing it
// was deleted.
func (s *Solver) hasPassed(id wire.Identity) bool {
	due, _ := s.chain.Due()
	if id.Kind == statistics.KindSeal { // workers write it again with the next stage's first visit
		return id.Stage < due.Stage-1 || id.Stage == due.Stage-1 && due.Number > 0
	}
	grams := statistics.OfGram(id.Kind) // an update writes these again with each visit to the stage
	repeated := grams && s.plan.Update() != nil && id.Stage == due.Stage
	return !repeated && id.Before(wire.Identity{Stage: due.Stage, Visit: due.Number})
}

// failure returns the failure of a share with missing records; nil if there is none.
func (s *Solver) failure(g *gathering) *schemas.Failure {
	for i := range g.shares {
		failure := s.failures[g.shares[i].First]
		if failure == nil || failure.Parent != s.chain.Head() {
			continue
		}
		for _, p := range g.parts {
			if !s.inbox.has(s.identity(p.kind, g.Visit, g.shares[i].First)) {
				return failure
			}
		}
	}
	return nil
}

// reduce adds the records that have arrived, and returns the first missing one of a part; nil if none is missing.
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
	for ; p.next < len(g.shares); p.next++ {
		share := &g.shares[p.next]
		id := s.identity(p.kind, g.Visit, share.First)
		if !s.inbox.holds(id) {
			return &id, nil
		}
		sum, err := p.read(id, share)
		if err != nil {
			return nil, err
		}
		if p.total == nil {
			p.total = sum
		} else if err := p.total.Merge(sum); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// places returns the number of increments in a visit to a stage.
func (s *Solver) places() int {
	if u := s.plan.Update(); u != nil {
		return 1 + len(u.Refresh)
	}
	return max(len(s.plan.Chain.Increments), 1)
}

// An update of few rows takes longer to distribute than to visit, so its solver visits them: with the code of workers, and the same
// records, which are not sent. A solver that takes over makes the visits again.

// Visits makes the visits of an update that is too small to distribute.
type Visits interface {
	// Visit makes a visit to all partitions, or sums the Gram matrices of its stage, and returns the records.
	Visit(ctx context.Context, v protocol.Visit, grams bool) ([]*wire.Record[float64], error)
	// End ends the visits, and releases their memory.
	End()
}

// gatherLocal returns the sum of a gathering, whose visit it makes unless that was made.
func (s *Solver) gatherLocal(ctx context.Context, g *gathering) (*accumulate.Sum, error) {
	missing, err := s.reduce(g)
	if err == nil && missing != nil {
		if err = s.visitLocal(ctx, g); err == nil {
			missing, err = s.reduce(g)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case missing != nil:
		return nil, fmt.Errorf("%w: the visit has no %v", wire.ErrDamaged, *missing)
	}
	return g.sum(), nil
}

// visitLocal makes the visit of a gathering.
func (s *Solver) visitLocal(ctx context.Context, g *gathering) (err error) {
	v, grams := g.Visit, statistics.OfGram(g.parts[0].kind)
	if grams { // of the first visit to the stage
		v = protocol.Visit{Stage: g.Stage}
	}
	records, err := s.visits.Visit(ctx, v, grams)
	if err != nil {
		return fmt.Errorf("visit %d: %w", g.Number, err)
	}
	for _, r := range records {
		s.inbox.records[r.Identity] = r
	}
	return nil
}
