package solver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/protocol/ownership"
	"github.com/stagewise/stagewise/pipeline/solver/inbox"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve/linear"
)

// Solver turns the statistics of one run into its weights, and ends the run. [New] makes solvers. A solver belongs to one
// goroutine.
type Solver struct {
	*protocol.Client
	blas      *kernel.BLAS
	rec       event.Recorder
	plan      *schemas.Plan
	run       string
	watch     int64 // the run's end is not on the plans topic before this offset
	owner     ownership.Owner
	chain     *protocol.Chain
	began     time.Time
	preserved time.Time // when the run's weights were last looked at: see preserve

	subscription protocol.Subscription
	inbox        inbox.Inbox
	failures     map[int]*schemas.Failure  // by partition, of the visit that is due
	early        map[int]*schemas.Failure  // by partition, of a visit whose weights have not come
	read         map[int]*protocol.Written // by partition of the statistics, what has come last
	missed       bool                      // the statistics may have what has not come: see readMissed
	claims       int                       // that have come
	scratch      *scratch
	aheads       map[int]*ahead // of an update, by stage
	stages       []schemas.StageReport
	last         *accumulate.Sum // of the seals of the last stage that is sealed; at the end of a member, of the mean of the members so far
	// of each partition that visits to stages read, the span of the plan; empty if an update has nothing new there
	visited  coverage.Spans
	surveyed coverage.Spans // of each partition that the survey reads
	options  Options
	chained  chained
}

// Options says what a solver works with beside its client.
type Options struct {
	// Store has what the run before has left in memory, if the run is of a chain; nil: it is read from the state topic.
	Store *Store
	// Retention returns how long the weights topic keeps messages, or 0: for ever. The weights of a run that takes longer
	// are written again. It is asked in long runs only. nil: the topic keeps them for ever.
	Retention func(context.Context) (time.Duration, error)
}

// New returns the solver of an unfinished run. If somebody else ends the run, the end is at offset watch of the plans topic or
// later. owner says whether this process owns the plans topic, which has one partition.
func New(client *protocol.Client, blas *kernel.BLAS, plan *schemas.Plan, watch int64, owner ownership.Owner, o Options,
	rec event.Recorder) *Solver {
	chain := protocol.NewChain(plan, client.Codec, rec)
	return &Solver{
		visited: visitedSpans(plan), surveyed: plan.Spans.Hulls(), options: o,
		Client: client, blas: blas, rec: rec, plan: plan, run: chain.Run, watch: watch, owner: owner, chain: chain,
		began: client.Clock.Now(), preserved: client.Clock.Now(),
		inbox: inbox.New(), failures: map[int]*schemas.Failure{}, early: map[int]*schemas.Failure{}, read: map[int]*protocol.Written{},
	}
}

// ErrNotOwner says that another process owns the plans topic now, so its solver continues the run.
var ErrNotOwner = errors.New("another process owns the plans topic and continues the run")

// errDiffers says that the weights topic has other accepted weights than this solver: a new solver goes on from what is there.
var errDiffers = errors.New("the weights topic has other accepted weights")

// errEnded says that somebody else has ended the run.
var errEnded = errors.New("the run has ended")

// Solve goes on with the run until it has ended, and writes its end to the plans topic. If the run can't go on, that end says that
// it has failed, and why; Solve then returns nil. The error is that of ctx or of the brokers, [ErrNotOwner], or a
// *[ownership.MembershipError]. Brokers that refuse this process (*[kafkalog.AccessError]) end it, and no run: another solver may go on.
func (s *Solver) Solve(ctx context.Context) error {
	done, err := s.solve(ctx)
	if err == nil {
		err = s.publishReport(ctx, done.report)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errEnded):
		return nil
	case errors.Is(err, errDiffers):
		return New(s.Client, s.blas, s.plan, s.watch, s.owner, s.options, s.rec).Solve(ctx)
	case errors.Is(err, ErrNotOwner), errors.As(err, new(*ownership.MembershipError)):
		return err
	case errors.As(err, new(*kafkalog.AccessError)), errors.Is(err, kafkalog.ErrClosed):
		return err // it says something about this process, and nothing about the run
	}
	if err != nil {
		// A solver that was slow may lack what others have removed after the run had ended.
		if goesOn, unknown := s.GoesOn(ctx, s.run, s.plan.Since); unknown == nil && !goesOn {
			return nil
		}
	}
	end := &schemas.End{Run: s.run, State: schemas.Done, Attempt: s.Fresh()}
	if err == nil {
		end.Version = done.version
	} else {
		end.State, end.Reason = schemas.Failed, err.Error()
		if failure, ok := errors.AsType[*FailureError](err); ok {
			end.Source = failure.Source
		}
	}
	if end.Since, err = s.Now(ctx); err != nil {
		return fmt.Errorf("end run %s: %w", s.run, err)
	}
	if _, err := s.Log.Append(ctx, s.Topics.Plans, 0, end.Message()); err != nil {
		return fmt.Errorf("end run %s: %w", s.run, err)
	}
	return nil
}

// solve solves the survey and each stage in turn, and publishes the version.
func (s *Solver) solve(ctx context.Context) (*finished, error) {
	earlier, err := s.chain.Warm(ctx, s.Client)
	if err != nil {
		return nil, fmt.Errorf("warm start: %w", err)
	}
	if s.plan.Update() != nil {
		if err := s.loadHead(ctx, earlier.Manifest); err != nil {
			return nil, fmt.Errorf("read what version %d was updated to: %w", earlier.Manifest.Version, err)
		}
	}
	next, err := s.chain.Read(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	s.subscription = s.Log.Subscribe(ctx, s.owner.Changed(), s.positions(next)...)
	defer s.subscription.Close()
	s.scratch = s.options.Store.lend()
	defer func() { s.options.Store.giveBack(s.scratch) }()
	defer s.endAhead()
	defer s.chained.left.endEncoding()
	if err := s.survey(ctx, earlier); err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	for t := range s.plan.Stages {
		if err := s.stage(ctx, t); err != nil {
			return nil, fmt.Errorf("%s: %w", event.StageName(t), err)
		}
	}
	return s.finish(ctx)
}

// visitedSpans returns of each partition that visits to stages read the hull of the plan's spans, which is empty if an update has nothing
// new there.
func visitedSpans(plan *schemas.Plan) (spans coverage.Spans) {
	for _, number := range plan.Partitions() {
		span := coverage.Span{Partition: number}
		if hulls := plan.Spans.On(number).Hulls(); len(hulls) > 0 {
			span = hulls[0]
		}
		spans = append(spans, span)
	}
	return spans
}

// factorsOf returns the memory for the factors of a stage.
func (s *Solver) factorsOf(stage int) *linear.Buffer {
	return &s.scratch.factors[stage%len(s.scratch.factors)]
}

// positions returns what a solver follows: the weights from where it has read the chain to, the plans, as somebody may end the run,
// and the statistics from where those of the run begin.
func (s *Solver) positions(weights int64) []protocol.Position {
	list := []protocol.Position{
		{Topic: s.Topics.Weights, Offset: weights, Compacted: true},
		{Topic: s.Topics.Plans, Offset: s.watch, Compacted: true},
	}
	for p, from := range s.plan.Since.Statistics {
		// Not Compacted: if retention has deleted statistics of the run, the run ends. Otherwise it might wait for them for ever.
		list = append(list, protocol.Position{Topic: s.Topics.Statistics, Partition: p, Offset: from})
	}
	return list
}

// receive takes one message of any of the topics. late reports that none came before the timeout. The error may be errEnded,
// ErrNotOwner or a *run.MembershipError.
func (s *Solver) receive(ctx context.Context, timeout time.Duration) (late bool, err error) {
	d, late, err := s.subscription.Next(ctx, timeout)
	switch {
	case err != nil || late:
		return late, err
	case d == nil:
		mine, err := ownership.Owns(s.owner, 0)
		if err == nil && !mine {
			err = ErrNotOwner
		}
		return false, err
	}
	m := d.Message.Message
	switch {
	case m.Run() != s.run:
		return false, nil
	case d.Topic == s.Topics.Statistics:
		s.see(d.Partition, d.Message)
		s.take(m)
		return false, nil
	case d.Topic == s.Topics.Weights:
		grown, err := s.chain.Follow(d.Message)
		if grown {
			s.grown()
		}
		return false, err
	case protocol.Ends(m, s.run):
		return false, errEnded
	}
	return false, nil
}

// grown is called when another record is accepted: then another visit is due.
func (s *Solver) grown() {
	clear(s.failures)
	for partition, failure := range s.early {
		if s.chain.Has(failure.Parent) {
			delete(s.early, partition)
			s.fail(failure)
		}
	}
}

// checkGoesOn returns errEnded if the run has ended, or its plan is gone, and errDiffers if the weights topic has
// another chain. If it has more of the same chain, that is accepted.
func (s *Solver) checkGoesOn(ctx context.Context) error {
	goesOn, err := s.GoesOn(ctx, s.run, s.plan.Since)
	if err != nil {
		return err
	}
	if !goesOn {
		return errEnded
	}
	head := s.chain.Head()
	differs, err := s.chain.Renew(ctx, s.Client)
	if err == nil && differs {
		err = errDiffers
	}
	if s.chain.Head() != head {
		s.grown()
	}
	if err != nil {
		return err
	}
	return s.preserve(ctx)
}

// preserveEvery is how often a solver looks whether the run's weights are so old that they must be written again. No
// topic keeps them for less than four times as long.
const preserveEvery = 15 * time.Minute

// preserve sees to it that the weights of the run do not expire under those who may take it up: workers that start
// again, and another solver. None is older than three quarters of their retention.
func (s *Solver) preserve(ctx context.Context) error {
	if s.options.Retention == nil || s.Clock.Since(s.preserved) < preserveEvery {
		return nil
	}
	s.preserved = s.Clock.Now()
	retention, err := s.options.Retention(ctx)
	if err != nil || retention == 0 {
		return err
	}
	return s.Preserve(ctx, s.chain, retention/2)
}

// publishWeights writes the next record of the chain, and waits until it is accepted, or a record of another solver with the same
// parent. While it waits it writes the record again from time to time.
func (s *Solver) publishWeights(ctx context.Context, r *wire.Record[float32]) error {
	if err := s.preserve(ctx); err != nil {
		return err
	}
	for wait := protocol.MinPatience; ; wait = protocol.Patience(wait) {
		if _, err := protocol.WriteRecord(ctx, s.Client, s.Topics.Weights, 0, r); err != nil {
			return err
		}
		for deadline := s.Clock.Now().Add(wait); ; {
			late, err := s.receive(ctx, s.Clock.Until(deadline))
			if err != nil || s.chain.Head() != r.Parent {
				return err
			}
			if late {
				if err := s.checkGoesOn(ctx); err != nil || s.chain.Head() != r.Parent {
					return err
				}
				break
			}
		}
	}
}
