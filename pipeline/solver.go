package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// solver turns the statistics of one run into its weights, and ends it. Its
// state is a fold over what is on the topics.
type solver struct {
	desk
	rec   Recorder
	plan  *schemas.Plan
	run   string
	watch int64 // where on the plans topic the run's end may be
	owner owner // of the one partition of the plans topic
	chain *chain
	began time.Time

	mail    mail
	doubles schemas.Collector[float64]
	singles schemas.Collector[float32] // Gram matrices of blocks
	samples schemas.Collector[float32]
	records map[schemas.Identity]*schemas.Statistics // the first complete one of each identity
	sampled map[schemas.Identity]*schemas.Sample
	digests map[schemas.Identity]schemas.Digest
	latest  map[int]schemas.Identity // by partition, of the last visit that came
	current int                      // the stage that is solved
	buffers accumulate.BufferPool
	buffer  solve.Buffer

	quarantined int64
	rows        [schemas.Splits]int64
	stages      []StageReport
	last        *accumulate.Sum // the seals of the last stage, reduced
}

// newSolver is the solver of an unfinished run. Its end, if somebody else ends
// it, is on the plans topic from watch on.
func newSolver(d desk, plan *schemas.Plan, watch int64, o owner, rec Recorder) *solver {
	c := newChain(plan, d.codec, rec)
	return &solver{
		desk: d, rec: rec, plan: plan, run: c.run, watch: watch, owner: o, chain: c, began: time.Now(),
		records: map[schemas.Identity]*schemas.Statistics{}, sampled: map[schemas.Identity]*schemas.Sample{},
		digests: map[schemas.Identity]schemas.Digest{}, latest: map[int]schemas.Identity{},
	}
}

// Why a solver stops before it has come to the run's end.
var (
	errEnded    = errors.New("the run has ended")
	errNotOwner = errors.New("another solver goes on")
)

// solve goes on with the run until it has ended, and says so on the plans
// topic. An error is of the brokers, or of ctx; a run that can't go on is an
// end like another. It answers errNotOwner when the run is another solver's now.
func (s *solver) solve(ctx context.Context) error {
	report, err := s.stagesOf(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errEnded):
		return nil
	case errors.Is(err, errNotOwner), errors.As(err, new(*MembershipError)):
		return err
	}
	end := &schemas.End{Run: s.run, Content: s.plan.Content(), State: schemas.Done, Attempt: s.fresh()}
	if err != nil {
		end.State, end.Reason = schemas.Failed, err.Error()
	} else if err := s.tell(ctx, report); err != nil {
		return fmt.Errorf("report run %s: %w", s.run, err)
	}
	if _, err := s.write(ctx, s.plans, 0, end.Message()); err != nil {
		return fmt.Errorf("end run %s: %w", s.run, err)
	}
	return nil
}

// stagesOf solves the survey and each stage in turn.
func (s *solver) stagesOf(ctx context.Context) (*Report, error) {
	kept, err := s.chain.warm(ctx, s.desk)
	if err != nil {
		return nil, fmt.Errorf("warm start: %w", err)
	}
	next, err := s.chain.read(ctx, s.desk)
	if err != nil {
		return nil, err
	}
	s.mail = s.log.Mail(ctx, s.owner.Changed(), s.addresses(next)...)
	defer s.mail.Close()
	if err := s.survey(ctx, kept); err != nil {
		return nil, during("survey", err)
	}
	for t := range s.plan.Stages {
		if err := s.stage(ctx, t); err != nil {
			return nil, during(stageName(t), err)
		}
	}
	return s.finish(ctx)
}

func during(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }

// stage solves one stage: it folds the visits that are accepted, and goes on
// from there.
func (s *solver) stage(ctx context.Context, t int) error {
	began := time.Now()
	m, err := s.chain.featureMap(t)
	if err != nil {
		return err
	}
	shape := s.chain.shape(m)
	s.current = t
	s.forget(t)
	fit, chosen, passes := solve.NewFit(s.plan.Stages[t], shape, &s.buffer), link.Named(s.plan.Stages[t].Link), 0
	final, parent := s.chain.final(t)
	if final != nil { // by a solver before this one
		passes = chosen.Passes(len(s.chain.visits(t)))
	}
	var gathered time.Time
	var waited time.Duration
	for seen := 0; final == nil; final, parent = s.chain.final(t) {
		visits := s.chain.visits(t)
		for ; seen < len(visits); seen++ {
			v := visits[seen]
			step, err := s.chain.step(t, v.number, shape)
			if err != nil {
				return err
			}
			kinds := []schemas.Kind{schemas.KindVisit}
			if !chosen.HasGradient(v.number) {
				kinds = append(kinds, schemas.KindGram)
			}
			waiting, factored := time.Now(), time.Duration(0)
			sums := s.sums(v, kinds...)
			if v.number == 0 {
				factored, err = s.precondition(ctx, v, fit, sums)
			}
			var sum *accumulate.Sum
			if err == nil {
				sum, err = s.gather(ctx, sums)
			}
			if errors.Is(err, errAccepted) {
				break
			}
			if err != nil {
				return err
			}
			gathered, waited = time.Now().Add(-factored), time.Since(waiting)-factored
			pass, err := fit.Observe(v.number, step, sum.Tensors())
			if err != nil {
				return err
			}
			if pass != nil {
				passes = pass.Number
				s.rec.Record(Passed{Stage: t, Visit: v.number, Pass: pass.Number, Accepted: pass.Accepted, Objective: pass.Objective, Scores: scoresOf(sum)})
			}
		}
		// Another solver's may have been accepted meanwhile.
		if final, _ := s.chain.final(t); final != nil || len(s.chain.visits(t)) > seen {
			continue
		}
		step, err := fit.Next()
		if err != nil {
			return err
		}
		last := visits[len(visits)-1]
		r := &schemas.Weights{
			Identity: schemas.Identity{Kind: schemas.KindWeights, Run: s.run, Stage: t, Visit: last.number + 1, Parent: last.parent},
			Tensors:  step.Tensors(shape),
		}
		if step.Final {
			r.Notes = []schemas.Header{{Key: noteFinal, Value: strconv.Itoa(step.Of)}, {Key: notePasses, Value: strconv.Itoa(step.Passes)}}
		}
		if err := s.publish(ctx, r); err != nil {
			return err
		}
		s.rec.Record(Solved{Run: s.run, Stage: t, Visit: r.Visit, Waited: waited, Elapsed: time.Since(gathered)})
	}
	sealed, err := s.gather(ctx, s.sums(visit{t, 0, parent}, schemas.KindSeal))
	if err != nil {
		return err
	}
	s.last = sealed
	report := stageReport(t, chosen.Name, passes, time.Since(began), sealed)
	s.stages = append(s.stages, report)
	if err := s.tellStage(ctx, report); err != nil {
		return err
	}
	s.rec.Record(StageEnded{StageReport: report, Stages: len(s.plan.Stages)})
	return nil
}

// precondition factors a stage's Gram matrix, while the workers sum the rest of
// its first visit, and tells how long that took.
func (s *solver) precondition(ctx context.Context, v visit, fit solve.Fit, rest *gathering) (time.Duration, error) {
	gram, err := s.gather(ctx, s.gathering(v, func(span schemas.Span) (*accumulate.Sum, error) {
		r := s.record(s.identity(schemas.KindGram, v, span.Partition))
		weight, err := strconv.ParseFloat(r.Note(noteWeight), 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %v: %w", schemas.ErrDamaged, r.Identity, err)
		}
		rows := schemas.Vector(schemas.FieldGramRows, []float64{weight})
		return accumulate.NewSum(accumulate.Coverage{Spans: schemas.Spans{span}}, append(r.Tensors, rows)), nil
	}, schemas.KindGram), rest)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = fit.Precondition(gram.Tensors())
	return time.Since(began), err
}

// publish writes the next record of the chain, and waits until it, or another
// solver's, is accepted; after a while it writes it again.
func (s *solver) publish(ctx context.Context, r *schemas.Weights) error {
	for wait := patience; ; wait = min(2*wait, mostPatience) {
		if err := writeRecord(ctx, s.desk, s.weights, 0, r); err != nil {
			return err
		}
		for deadline := time.Now().Add(wait); ; {
			late, err := s.receive(ctx, time.Until(deadline))
			if err != nil || s.chain.head() != r.Parent {
				return err
			}
			if late {
				break
			}
		}
	}
}
