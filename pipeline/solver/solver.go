// Package solver is the role that computes weights from statistics, stage by stage:
//
//	statistics ──gather──▶ sums ──reduce──▶ sum ──solve──▶ weights
//
// Its state is a fold over messages, and is not stored outside the topics. So if a solver is killed, another one continues
// and computes the same bits. Concurrent solvers are safe, since only the first record with the accepted parent counts.
package solver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Solver computes the weights of one run from its statistics, and ends the run. Create solvers with [New]. A solver is not
// safe for concurrent use.
type Solver struct {
	*protocol.Client
	blas      *kernel.BLAS
	rec       event.Recorder
	plan      *schemas.Plan
	run       string
	owner     protocol.Owner
	chain     *protocol.Chain
	began     time.Time
	preserved time.Time // last check of the run's weights: see preserve

	plans    *protocol.Plans // followed with the weights and statistics topics
	inbox    inbox
	failures map[int]*schemas.Failure // by share, the last of the due visit or a later one
	claimed  bool                     // a worker has begun the survey
	factors  [2]solve.Buffer          // of alternating stages: those of the previous stage may still be in use
	stages   []schemas.StageReport
	last     *accumulate.Sum // seals of the last sealed stage; at the end of a member, of the mean of the members so far
	visited  []schemas.Share // that visits to stages read
	surveyed []schemas.Share // that the survey reads
	options  Options
	visits   Visits // of an update that is too small to distribute
	chained  chained
}

// Options are the resources of a solver besides its client.
type Options struct {
	// Local begins the visits of an update that is too small to distribute. chain is the accepted records, which grow between visits, and
	// earlier the version that the run starts from. Nil is valid for other runs.
	Local func(chain *protocol.Chain, earlier *model.Model) Visits
	// Store is the in-memory state of the previous run of the chain; nil: it is read from the state topic.
	Store *Store
	// Retention returns the retention of the weights topic, or 0 if it is unlimited. The weights of a run that exceeds it are
	// written again. It is only called in long runs. nil: unlimited.
	Retention func(context.Context) (time.Duration, error)
}

// New returns the solver of an unfinished run. owner tells whether this process owns the plans topic, which has one partition.
func New(client *protocol.Client, blas *kernel.BLAS, plan *schemas.Plan, owner protocol.Owner, o Options, rec event.Recorder) *Solver {
	chain := protocol.NewChain(plan, client.Memory, rec)
	if o.Store == nil {
		o.Store = &Store{}
	}
	return &Solver{
		visited: plan.Shares(plan.Partitions()), surveyed: plan.Shares(plan.Surveyed()), options: o,
		Client: client, blas: blas, rec: rec, plan: plan, run: chain.Run, owner: owner, chain: chain,
		began: client.Clock.Now(), preserved: client.Clock.Now(),
		inbox:    inbox{records: map[wire.Identity]*wire.Record[float64]{}, digests: map[wire.Identity]wire.Digest{}},
		failures: map[int]*schemas.Failure{},
	}
}

// ErrNotOwner means that another process owns the plans topic now, and its solver continues the run.
var ErrNotOwner = errors.New("another process owns the plans topic and continues the run")

// errDiffers means that the weights topic has other accepted weights than this solver: a fresh solver continues from the
// topic.
var errDiffers = errors.New("the weights topic has other accepted weights")

// errEnded means that another process has ended the run.
var errEnded = errors.New("the run has ended")

// Solve continues the run until it has ended, and writes its end to the plans topic. If the run can't continue, Solve ends
// it as failed with the reason, and returns nil. The error is that of ctx or of the brokers, [ErrNotOwner], or a
// *[protocol.MembershipError]. If the brokers deny access (*[kafkalog.AccessError]), the process ends but not the run:
// another solver may continue.
func (s *Solver) Solve(ctx context.Context) error {
	version, err := s.solve(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errEnded):
		return nil
	case errors.Is(err, errDiffers):
		return New(s.Client, s.blas, s.plan, s.owner, s.options, s.rec).Solve(ctx)
	case errors.Is(err, ErrNotOwner), errors.As(err, new(*protocol.MembershipError)):
		return err
	case errors.As(err, new(*kafkalog.AccessError)), errors.Is(err, kafkalog.ErrClosed):
		return err // it concerns this process, not the run
	}
	if err != nil {
		// A slow solver may lack records that other processes have deleted after the run had ended.
		if l, unknown := s.RereadLedger(ctx); unknown == nil && !l.Current(s.run, s.plan.Since) {
			return nil
		}
	}
	end := &schemas.End{Run: s.run, State: schemas.Done, Attempt: s.Fresh()}
	if err == nil {
		end.Version = version
	} else {
		end.State, end.Reason = schemas.Failed, err.Error()
		if failure, ok := errors.AsType[*failureError](err); ok {
			end.Source = failure.Source
		} else if lost, ok := errors.AsType[*protocol.IncompleteSourceError](err); ok { // of a visit in this process
			end.Source = schemas.SourceName(lost.Source, lost.Attempt)
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
func (s *Solver) solve(ctx context.Context) (*schemas.Place, error) {
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
	if s.plans, err = s.FollowPlans(ctx, nil, s.owner.Changed(), s.positions(next)...); err != nil {
		return nil, err
	}
	defer s.plans.Close()
	if s.plan.Update().IsLocal() {
		s.visits = s.options.Local(s.chain, earlier)
		defer s.visits.End()
	}
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

// factorsOf returns the buffer for the factors of a stage.
func (s *Solver) factorsOf(stage int) *solve.Buffer {
	return &s.factors[stage%len(s.factors)]
}

// positions returns the positions from which a solver follows topics, besides the plans topic, on which another process may end the run:
// the weights from the end of its chain, and the statistics from the start of the run.
func (s *Solver) positions(weights int64) []protocol.Position {
	list := []protocol.Position{{Topic: s.Topics.Weights, Offset: weights, Compacted: true}}
	for p, from := range s.plan.Since.Statistics {
		// Not Compacted: if retention has deleted statistics of the run, the run ends. Otherwise it might wait for them forever.
		list = append(list, protocol.Position{Topic: s.Topics.Statistics, Partition: p, Offset: from})
	}
	return list
}

// receive processes one message of any of the topics. late reports a timeout. The error may be errEnded, ErrNotOwner or an
// *[protocol.MembershipError].
func (s *Solver) receive(ctx context.Context, timeout time.Duration) (late bool, err error) {
	ended := func() bool { return s.plans.End(s.run) != nil }
	if ended() {
		return false, errEnded
	}
	d, late, err := s.plans.Deliver(ctx, timeout)
	switch {
	case err == nil && ended():
		return false, errEnded
	case err != nil || late:
		return late, err
	case d == nil:
		mine, err := protocol.Owns(s.owner, 0)
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
		if err := s.collect(m); err != nil {
			event.Skip(s.rec, "statistics", err)
		}
		return false, nil
	case d.Topic == s.Topics.Weights:
		_, err := s.chain.Follow(d.Message)
		return false, err
	}
	return false, nil
}

// checkGoesOn returns errEnded if the run has ended, or its plan is gone, and errDiffers if the weights topic has a
// different chain. If the topic has more of the same chain, it accepts those records.
func (s *Solver) checkGoesOn(ctx context.Context) error {
	current, err := s.plans.IsCurrent(ctx, s.run, s.plan.Since)
	if err != nil {
		return err
	}
	if !current {
		return errEnded
	}
	switch differs, err := s.chain.Renew(ctx, s.Client); {
	case err != nil:
		return err
	case differs:
		return errDiffers
	}
	return s.preserve(ctx)
}

// preserveEvery is the interval at which a solver checks the age of the run's weights. The retention of the topic is at
// least four times as long.
const preserveEvery = 15 * time.Minute

// preserve keeps the run's weights from expiring while restarted workers or another solver may need them. None gets older
// than three quarters of the retention.
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

// publishWeights writes the next record of the chain, and waits until it, or another solver's record with the same parent,
// is accepted. It writes the record again from time to time.
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
