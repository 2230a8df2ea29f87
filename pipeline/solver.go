package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
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
	chain *chain
	began time.Time
	now   func() time.Time

	inbox   chan schemas.Message
	sums    schemas.Collector[float64]
	samples schemas.Collector[float32]
	records map[schemas.Identity]*schemas.Statistics // the first complete one of each identity
	sampled map[schemas.Identity]*schemas.Sample
	digests map[schemas.Identity]schemas.Digest
	latest  map[int]schemas.Identity // by partition, of the last visit that came
	barrier *kafkalog.Follower       // of the weights topic
	current int                      // the stage that is solved

	quarantined int64
	rows        [schemas.Splits]int64
	stages      []StageReport
	last        *accumulate.Sum // the seals of the last stage, reduced
}

func newSolver(d desk, plan *schemas.Plan, now func() time.Time, rec Recorder) *solver {
	return &solver{
		desk: d, rec: rec, plan: plan, run: plan.Run(), chain: newChain(plan, d.mem, rec), now: now, began: now(),
		inbox: make(chan schemas.Message, 64), records: map[schemas.Identity]*schemas.Statistics{},
		sampled: map[schemas.Identity]*schemas.Sample{}, digests: map[schemas.Identity]schemas.Digest{}, latest: map[int]schemas.Identity{},
	}
}

// FailureError is a failure that a worker put on the statistics topic.
type FailureError struct{ schemas.Failure }

func (e *FailureError) Error() string { return e.Reason }

// solve goes on with the run until it has ended, and says so on the plans
// topic. An error is of the brokers, or of ctx; a run that can't go on is an
// end like another.
func (s *solver) solve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	followers := sync.WaitGroup{}
	defer followers.Wait()
	defer cancel()
	report, err := s.stagesOf(ctx, &followers)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	end := &schemas.End{Run: s.run, Content: s.plan.Content(), State: schemas.Done}
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

// tell publishes the report: with many classes its confusion matrices are more
// than one message.
func (s *solver) tell(ctx context.Context, report *Report) error {
	content, err := json.Marshal(report)
	if err != nil {
		return err
	}
	r := &schemas.Weights{
		Identity: schemas.Identity{Kind: schemas.KindReport, Run: s.run, Stage: len(s.plan.Stages), Parent: s.chain.head()},
		Tensors:  schemas.Tensors[float32]{schemas.Words[float32](schemas.TensorReport, pieces(string(content)))},
	}
	return writeRecord(ctx, s.desk, s.plans, 0, r)
}

// stagesOf solves the survey and each stage in turn.
func (s *solver) stagesOf(ctx context.Context, followers *sync.WaitGroup) (*Report, error) {
	kept, err := s.chain.warm(ctx, s.desk)
	if err != nil {
		return nil, fmt.Errorf("warm start: %w", err)
	}
	next, err := s.chain.read(ctx, s.desk)
	if err != nil {
		return nil, err
	}
	s.barrier = s.log.Follow(s.weights, 0, next)
	s.barrier.SkipDeleted = true
	defer s.barrier.Close()
	if err := s.follow(ctx, followers); err != nil {
		return nil, err
	}
	if err := s.survey(ctx, kept); err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	for t := range s.plan.Stages {
		if err := s.stage(ctx, t); err != nil {
			return nil, fmt.Errorf("stage %d: %w", t, err)
		}
	}
	return s.finish(ctx)
}

// follow starts a goroutine for each partition of statistics, from where the
// run's own begin.
func (s *solver) follow(ctx context.Context, followers *sync.WaitGroup) error {
	partitions, err := s.log.Partitions(ctx, s.statistics)
	if err != nil {
		return err
	}
	for p := range partitions {
		// If retention has deleted any of the run's own, it ends: what is missing
		// might be waited for for ever.
		from := int64(0)
		if p < len(s.plan.Since.Statistics) {
			from = s.plan.Since.Statistics[p]
		}
		follower := s.log.Follow(s.statistics, p, from)
		followers.Go(func() {
			defer follower.Close()
			for {
				m, err := follower.Next(ctx)
				out := message(m)
				if err != nil {
					reason := fmt.Sprintf("follow %s[%d]: %v", s.statistics, p, err)
					out = (&schemas.Failure{Run: s.run, Reason: reason}).Message()
				}
				if out.Get("run") != s.run {
					continue
				}
				select {
				case s.inbox <- out:
				case <-ctx.Done():
				}
				if err != nil || ctx.Err() != nil {
					return
				}
			}
		})
	}
	return nil
}

// receive takes one message of the run's statistics. Records that come twice,
// and parts of records that nobody asked for any more, are dropped.
func (s *solver) receive(ctx context.Context) error {
	var m schemas.Message
	select {
	case m = <-s.inbox:
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.Kind() == schemas.KindFailure {
		failure, err := schemas.DecodeJSON[schemas.Failure](m)
		if err != nil {
			return err
		}
		return &FailureError{*failure}
	}
	id, err := schemas.IdentityOf(m)
	if err != nil {
		s.drop(err)
		return nil
	}
	if id.Stage < s.current && id.Kind != schemas.KindSeal {
		return nil // of a stage that is solved
	}
	if digest, twice := s.digests[id]; twice {
		// seals of the same scores may be of other offsets
		if digest != schemas.Digest(m.Get("digest")) && id.Kind != schemas.KindSeal {
			s.drop(fmt.Errorf("another %v with other content", id))
		}
		return nil
	}
	if m.Kind() == schemas.KindSample {
		r, err := s.samples.Add(m, s.mem)
		if err != nil {
			s.drop(err)
		} else if r != nil {
			s.sampled[id], s.digests[id] = r, r.Digest()
		}
		return nil
	}
	r, err := s.sums.Add(m, s.mem)
	if err != nil {
		s.drop(err)
	} else if r != nil {
		s.records[id], s.digests[id] = r, r.Digest()
		if last, any := s.latest[id.Partition]; id.Kind == schemas.KindVisit && (!any || last.Before(id)) {
			s.latest[id.Partition] = id
		}
	}
	return nil
}

// GoneError says that statistics that were there are not any more: those of a
// later visit, which follow them on the log, are.
type GoneError struct{ schemas.Identity }

func (e *GoneError) Error() string {
	return fmt.Sprintf("the %v is gone: it was deleted under the run", e.Identity)
}

func (s *solver) drop(err error) {
	s.rec.Record(Noticed{fmt.Sprintf("a message of the statistics topic is passed over: %v", err)})
}

// identity of a partition's record for a visit.
func (s *solver) identity(kind schemas.Kind, v visit, partition int) schemas.Identity {
	return schemas.Identity{Kind: kind, Run: s.run, Stage: v.stage, Visit: v.number, Partition: partition, Parent: v.parent}
}

// gather waits until every span of the plan is covered by records of these
// kinds, and reduces them in the order of partitions.
func (s *solver) gather(ctx context.Context, v visit, kinds ...schemas.Kind) (*accumulate.Sum, error) {
	var parts []*accumulate.Sum
	for _, span := range s.plan.Spans {
		var part *accumulate.Sum
		for _, kind := range kinds {
			r, err := s.wait(ctx, s.identity(kind, v, span.Partition))
			if err != nil {
				return nil, err
			}
			if part != nil {
				part = accumulate.NewSum(part.Coverage, append(part.Tensors(), r.Tensors...))
				continue
			}
			covered, err := coverageOf(r.Note(noteCovered))
			if err != nil {
				return nil, err
			}
			if len(covered.Spans) != 1 || covered.Spans[0] != span {
				return nil, fmt.Errorf("%v covers %v, expected %v", r.Identity, covered.Spans, span)
			}
			part = accumulate.NewSum(covered, r.Tensors)
		}
		parts = append(parts, part)
	}
	sum, err := accumulate.Reduce(parts)
	if err != nil {
		return nil, fmt.Errorf("reduce visit %d: %w", v.number, err)
	}
	return sum, nil
}

// wait for a record, which is handed over: the solver keeps nothing.
func (s *solver) wait(ctx context.Context, id schemas.Identity) (*schemas.Statistics, error) {
	for s.records[id] == nil {
		if last, any := s.latest[id.Partition]; any && id.Kind != schemas.KindSeal && id.Before(last) {
			return nil, &GoneError{id}
		}
		if err := s.receive(ctx); err != nil {
			return nil, err
		}
	}
	r := s.records[id]
	delete(s.records, id)
	return r, nil
}

// survey turns its statistics into the preparation, unless that is accepted
// already; kept is the earlier version's in a warm start.
func (s *solver) survey(ctx context.Context, kept schemas.Tensors[float32]) error {
	if s.current = schemas.Survey; len(s.chain.accepted) == 0 {
		v := visit{stage: schemas.Survey, parent: s.plan.Digest()}
		r, err := s.surveyed(ctx, v)
		if err != nil {
			return err
		}
		if err := s.prepare(ctx, v, r, kept); err != nil {
			return err
		}
	}
	rows := map[schemas.Split]int64{}
	if _, err := fmt.Sscan(s.chain.accepted[0].Note(noteRows), &s.rows[0], &s.rows[1], &s.rows[2]); err != nil {
		return fmt.Errorf("read the survey's rows: %w", err)
	}
	if _, err := fmt.Sscan(s.chain.accepted[0].Note(noteQuarantined), &s.quarantined); err != nil {
		return fmt.Errorf("read how much is in quarantine: %w", err)
	}
	for split, n := range s.rows {
		rows[schemas.Split(split)] = n
	}
	for t, stage := range s.plan.Stages {
		if stage.Stop == nil {
			continue
		}
		if split, err := schemas.ParseSplit(stage.Stop.Split); err == nil && s.rows[split] == 0 {
			s.rec.Record(Noticed{fmt.Sprintf("stage %d is to stop by the loss of the %s rows, of which there are none: it won't", t, split)})
		}
	}
	p := s.chain.prepared
	s.rec.Record(Surveyed{Rows: rows, Features: p.Width(), Inputs: p.Inputs(), Classes: p.Labels.Len(), Elapsed: s.now().Sub(s.began)})
	return nil
}

// surveyed is the reduced statistics of the survey.
type surveyed struct {
	sum         *accumulate.Sum
	labels      accumulate.LabelSet
	sample      *accumulate.Sample
	shift       []float32
	covered     []string // of each span, as its record says
	quarantined int64
}

func (s *solver) surveyed(ctx context.Context, v visit) (*surveyed, error) {
	all := &surveyed{labels: accumulate.LabelSet{}, sample: &accumulate.Sample{}}
	var parts []*accumulate.Sum
	for _, span := range s.plan.Spans {
		part, err := s.surveyedSpan(ctx, v, span, all)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	var err error
	all.sum, err = accumulate.Reduce(parts)
	return all, err
}

// surveyedSpan adds the statistics of one span to all, and answers with its sums.
func (s *solver) surveyedSpan(ctx context.Context, v visit, span schemas.Span, all *surveyed) (*accumulate.Sum, error) {
	r, err := s.wait(ctx, s.identity(schemas.KindVisit, v, span.Partition))
	if err != nil {
		return nil, err
	}
	tensors := schemas.Tensors[float64]{}
	for _, t := range r.Tensors {
		switch t.Name {
		case tensorShift:
			all.shift = make([]float32, len(t.Data))
			for j, x := range t.Data {
				all.shift[j] = float32(x)
			}
		case schemas.FieldLabels:
			for _, text := range t.Text {
				all.labels[text] = struct{}{}
			}
		default:
			tensors = append(tensors, t)
		}
	}
	if s.plan.Prepare.PCA > 0 {
		gram, err := s.wait(ctx, s.identity(schemas.KindGram, v, span.Partition))
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, gram.Tensors...)
	}
	rows, err := s.waitSample(ctx, s.identity(schemas.KindSample, v, span.Partition))
	if err != nil {
		return nil, err
	}
	all.sample.Merge(rows)
	n, err := strconv.ParseInt(r.Note(noteQuarantined), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", schemas.ErrDamaged, r.Identity, err)
	}
	all.quarantined += n
	all.covered = append(all.covered, r.Note(noteCovered))
	coverage, err := coverageOf(r.Note(noteCovered))
	if err != nil {
		return nil, err
	}
	return accumulate.NewSum(coverage, tensors), nil
}

func (s *solver) waitSample(ctx context.Context, id schemas.Identity) (*accumulate.Sample, error) {
	for s.sampled[id] == nil {
		if err := s.receive(ctx); err != nil {
			return nil, err
		}
	}
	r := s.sampled[id]
	delete(s.sampled, id)
	return accumulate.SampleOf(r.Tensors)
}

// prepare publishes the survey's result, with what later solvers report of it.
func (s *solver) prepare(ctx context.Context, v visit, all *surveyed, kept schemas.Tensors[float32]) error {
	tensors, err := s.preparation(all, kept)
	if err != nil {
		return err
	}
	scores := schemas.ScoresOf(all.sum.Tensors())
	return s.publish(ctx, &schemas.Weights{
		Identity: schemas.Identity{Kind: schemas.KindPrepare, Run: s.run, Stage: schemas.Survey, Parent: v.parent},
		Notes: []schemas.Header{
			{Key: noteRows, Value: fmt.Sprintf("%.0f %.0f %.0f", scores[0].Rows, scores[1].Rows, scores[2].Rows)},
			{Key: noteQuarantined, Value: strconv.FormatInt(all.quarantined, 10)},
		},
		Tensors: append(tensors, schemas.Words[float32](schemas.TensorCovered, all.covered)),
	})
}

// preparation is the survey's result, or in a warm start the earlier version's,
// if these examples fit it.
func (s *solver) preparation(all *surveyed, kept schemas.Tensors[float32]) (schemas.Tensors[float32], error) {
	if kept == nil {
		labels := s.plan.Classes
		if len(labels) == 0 {
			labels = all.labels.Text()
		}
		return solve.Survey(s.plan.Prepare, solve.Surveyed{
			Sums: all.sum.Tensors(), Shift: all.shift, Sample: all.sample.Rows().Data, Labels: labels,
		})
	}
	frozen, _ := kept.Find(schemas.TensorLabels)
	center, _ := kept.Find(schemas.TensorCenter)
	if len(center.Data) != len(all.shift) {
		return nil, fmt.Errorf("%d features, the version that this run starts from has %d", len(all.shift), len(center.Data))
	}
	if len(s.plan.Classes) > 0 && !slices.Equal(s.plan.Classes, frozen.Text) {
		return nil, fmt.Errorf("examples.classes are not those of the version that this run starts from, %q", frozen.Text)
	}
	if err := within(all.labels, frozen.Text); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(kept), func(t schemas.Tensor[float32]) bool { return t.Name == schemas.TensorCovered }), nil
}

// within tells whether all labels are among those that an earlier version has
// frozen.
func within(found accumulate.LabelSet, frozen []string) error {
	known := map[string]bool{}
	for _, t := range frozen {
		known[t] = true
	}
	var others []string
	for t := range found {
		if !known[t] {
			others = append(others, t)
		}
	}
	if sort.Strings(others); len(others) > 0 {
		return fmt.Errorf("labels %q are not among the classes of the version that this run starts from: start without it", others)
	}
	return nil
}

// stage solves one stage: it folds the visits that are accepted, and goes on
// from there.
func (s *solver) stage(ctx context.Context, t int) error {
	began := s.now()
	m, err := s.chain.featureMap(t)
	if err != nil {
		return err
	}
	shape := s.chain.shape(m)
	s.current = t
	fit, passes := solve.NewFit(s.plan.Stages[t], shape), 0
	final, parent := s.chain.final(t)
	if final != nil { // by a solver before this one
		passes = gradients(s.plan.Stages[t].Link, len(s.chain.visits(t)))
	}
	for seen := 0; final == nil; final, parent = s.chain.final(t) {
		visits := s.chain.visits(t)
		for ; seen < len(visits); seen++ {
			v := visits[seen]
			step, err := s.chain.step(t, v.number, shape)
			if err != nil {
				return err
			}
			kinds := []schemas.Kind{schemas.KindVisit}
			if v.number == 0 || s.plan.Stages[t].Link == schemas.LinkCalibrated && v.number%2 == 1 {
				kinds = append(kinds, schemas.KindGram)
			}
			sum, err := s.gather(ctx, v, kinds...)
			if err != nil {
				return err
			}
			pass, err := fit.Observe(v.number, step, sum.Tensors())
			if err != nil {
				return err
			}
			if pass != nil {
				passes = pass.Number
				s.rec.Record(Passed{Stage: t, Visit: v.number, Pass: pass.Number, Accepted: pass.Accepted, Objective: pass.Objective, Scores: scoresOf(sum)})
			}
		}
		if final, _ := s.chain.final(t); final != nil {
			continue
		}
		step, err := fit.Next()
		if err != nil {
			return err
		}
		last := visits[len(visits)-1]
		r := &schemas.Weights{
			Identity: schemas.Identity{Kind: schemas.KindWeights, Run: s.run, Stage: t, Visit: last.number + 1, Parent: s.chain.head()},
			Tensors:  step.Tensors(shape),
		}
		if step.Final {
			r.Notes = []schemas.Header{{Key: noteFinal, Value: strconv.Itoa(step.Of)}, {Key: noteLinks, Value: strconv.Itoa(step.Links)}}
		}
		if err := s.publish(ctx, r); err != nil {
			return err
		}
	}
	sealed, err := s.gather(ctx, visit{t, 0, parent}, schemas.KindSeal)
	if err != nil {
		return err
	}
	s.last = sealed
	report := stageReport(t, s.plan.Stages[t].Link, passes, s.now().Sub(began), sealed)
	s.stages = append(s.stages, report)
	s.rec.Record(StageEnded{StageReport: report, Stages: len(s.plan.Stages)})
	return nil
}

// gradients is how many of so many visits gave a loss and a gradient.
func gradients(link schemas.Link, visits int) int {
	if link == schemas.LinkCalibrated {
		return (visits + 1) / 2
	}
	return visits
}

// publish writes the next record of the chain, and waits until it, or another
// solver's, is accepted; after a while it writes it again.
func (s *solver) publish(ctx context.Context, r *schemas.Weights) error {
	for wait := patience; ; wait = min(2*wait, mostPatience) {
		if err := writeRecord(ctx, s.desk, s.weights, 0, r); err != nil {
			return err
		}
		if grown, err := s.accepted(ctx, wait); err != nil || grown {
			return err
		}
	}
}

// accepted waits until the chain has grown; it answers false after wait.
func (s *solver) accepted(ctx context.Context, wait time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		m, err := s.barrier.Next(limited)
		if err != nil {
			if ctx.Err() == nil && limited.Err() != nil {
				return false, nil
			}
			return false, fmt.Errorf("follow weights: %w", err)
		}
		if grown, err := s.chain.add(message(m)); err != nil || grown {
			return grown, err
		}
	}
}

// finish publishes the manifest of the version, which makes it count.
func (s *solver) finish(ctx context.Context) (*Report, error) {
	l, err := s.ledger(ctx)
	if err != nil {
		return nil, err
	}
	if end := l.ends[s.run]; end != nil && end.State != schemas.Done {
		return nil, &RunError{s.run, end.State, end.Reason}
	}
	earlier, err := s.versions(ctx)
	if err != nil {
		return nil, err
	}
	version := 1
	for _, m := range earlier {
		if m.Run == s.run { // a solver before this one came as far
			version = m.Version
			break
		}
		version = max(version, m.Version+1)
	}
	report := s.report(version)
	manifest := &schemas.Manifest{
		Name: s.plan.Name, Version: version, Run: s.run, Plan: s.plan, Labels: report.Labels,
		Rows: map[string]int64{}, Prepare: s.chain.digests[0], Metrics: map[string]float64{"train_error": report.TrainError},
	}
	if report.TestError != nil {
		manifest.Metrics["test_error"] = *report.TestError
	}
	for name, split := range report.Splits {
		manifest.Rows[name] = split.Rows
	}
	for t := range s.plan.Stages {
		final, digest := s.chain.final(t)
		links, _ := strconv.Atoi(final.Note(noteLinks)) // written by a solver
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: t, Visit: final.Visit, Links: links, Digest: digest})
	}
	model, err := modelOf(s.chain, manifest)
	if err != nil {
		return nil, err
	}
	manifest.WeightsDigest = model.Digest()
	report.WeightsDigest = manifest.WeightsDigest
	if _, err := s.write(ctx, s.weights, 0, manifest.Message()); err != nil {
		return nil, fmt.Errorf("publish version %d: %w", version, err)
	}
	report.Seconds = s.now().Sub(s.began).Seconds()
	return report, nil
}
