package solver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
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

// sums gathers the sums of a visit, or those in the seals of a stage.
func (s *Solver) sums(kind wire.Kind) *part {
	return &part{kind: kind, read: func(id wire.Identity, share *schemas.Share) (*accumulate.Sum, error) {
		if kind == statistics.KindSeal {
			seal, err := wire.Read[statistics.Seal](s.inbox.take(id))
			if err != nil {
				return nil, err
			}
			return s.sumOf(&seal.Visit, share)
		}
		visit, err := wire.Read[statistics.Visit](s.inbox.take(id))
		if err != nil {
			return nil, err
		}
		return s.sumOf(visit, share)
	}}
}

// blockGram gathers the Gram matrix of a stage's block, or that of rows that leave the window.
func (s *Solver) blockGram(kind wire.Kind) *part {
	return &part{kind: kind, read: func(id wire.Identity, _ *schemas.Share) (*accumulate.Sum, error) {
		g, err := wire.Read[statistics.Gram](s.inbox.take(id))
		if err != nil {
			return nil, err
		}
		sum, name := &accumulate.Sum{}, statistics.FieldLeave // the window has the weight of these rows
		if kind == statistics.KindGram {
			name = statistics.FieldGram
			sum.Field(statistics.FieldGramRows, 1)[0] = g.Weight
		}
		if g.Matrix != nil {
			sum = accumulate.NewSum(coverage.Coverage{}, append(sum.Tensors(), wire.Vector(name, g.Matrix)))
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
			passed := s.hasPassed(*missing)
			if passed || wait > protocol.MinPatience { // not in each visit that takes longer than the first wait
				if err := s.readAgain(ctx); err != nil {
					return nil, err
				}
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

// failureError means that a worker can't make a visit, and no other worker has made it.
type failureError struct{ schemas.Failure }

// Error returns the worker's reason.
func (e *failureError) Error() string { return e.Reason }

// fail records a failure. It is effective while its visit is due. A failure because of expired weights concerns the due visit, which its
// worker can't determine. A failure of a later visit is kept, since the weights before that visit, on another topic, may arrive later. A
// failure of an earlier visit is ignored: its worker is out of date.
func (s *Solver) fail(failure *schemas.Failure) {
	head := s.chain.Head()
	if failure.Expired {
		failure.Parent = head
	}
	if failure.Parent != head && s.chain.Has(failure.Parent) {
		return
	}
	for _, share := range failure.Partitions {
		s.failures[share] = failure
	}
}

// readAgain reads the run's statistics again, as a worker that waits does: a record may have been dropped as incomplete or damaged, and
// after the brokers have lost messages, others may be at offsets that were read before. Workers do not repeat records that are on the
// topic.
func (s *Solver) readAgain(ctx context.Context) error {
	for partition, from := range s.plan.Since.Statistics {
		for m, err := range s.Remaining(ctx, s.Topics.Statistics, partition, from, math.MaxInt64) {
			if errors.As(err, new(*kafkalog.DeletedError)) {
				break // the subscription handles deletions
			}
			if err != nil {
				return err
			}
			if m.Run() == s.run && m.Kind() != schemas.KindFailure { // a worker repeats one that still holds
				_ = s.collect(m.Message) // what is wrong with it was said when it was first read
			}
		}
	}
	return nil
}

// collect adds a message of the run's statistics. It drops duplicates, and records that are no longer needed.
func (s *Solver) collect(m wire.Message) error {
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err == nil {
			s.fail(failure)
		}
		return err
	}
	if m.Kind() == schemas.KindClaim {
		s.claimed = true
		return nil
	}
	id, err := wire.IdentityOf(m)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(s.sharesOf(id.Stage), func(share schemas.Share) bool { return share.First == id.Partition })
	if id.Stage < s.inbox.stage || id.Stage >= len(s.plan.Stages) || !known {
		return nil // of a solved stage, or of a stage or share outside the plan
	}
	if id.Kind != statistics.KindSeal && s.isAccepted(id.Stage) {
		return nil // no longer needed
	}
	if digest, twice := s.inbox.digests[id]; twice {
		// Two workers may seal the same scores at different offsets.
		if digest != m.Digest() && id.Kind != statistics.KindSeal {
			return fmt.Errorf("another %v with other content", id)
		}
		return nil
	}
	r, err := s.inbox.chunks.Add(m, s.Memory)
	if err == nil && r != nil { // complete
		s.inbox.records[id], s.inbox.digests[id] = r, m.Digest()
	}
	return err
}

// isAccepted reports whether the final weights of a stage, or the survey's result, are accepted. From then on, only the
// stage's seals are needed.
func (s *Solver) isAccepted(stage int) bool {
	if s.plan.Chain != nil {
		return false // the state for the next run of the chain is a fold over all statistics
	}
	if stage == wire.Survey {
		return s.chain.Survey != nil
	}
	final, _ := s.chain.Final(stage)
	return final != nil
}

// inbox buffers statistics until they are reduced: the first complete record of each identity.
type inbox struct {
	stage   int // current stage: records of earlier stages are not needed
	records map[wire.Identity]*wire.Record[float64]
	digests map[wire.Identity]wire.Digest // of all records that have arrived, reduced or not
	chunks  statistics.Collector
}

// Begin sets the current stage, and drops records of earlier stages.
func (b *inbox) Begin(stage int) {
	b.stage = stage
	maps.DeleteFunc(b.records, func(id wire.Identity, _ *wire.Record[float64]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.digests, func(id wire.Identity, _ wire.Digest) bool { return id.Stage < stage })
}

// has reports whether a record has arrived, reduced or not.
func (b *inbox) has(id wire.Identity) bool {
	_, come := b.digests[id]
	return come
}

// holds reports whether a record is buffered.
func (b *inbox) holds(id wire.Identity) bool { return b.records[id] != nil }

// take removes and returns a buffered record; nil if there is none.
func (b *inbox) take(id wire.Identity) *wire.Record[float64] {
	r := b.records[id]
	delete(b.records, id)
	return r
}
