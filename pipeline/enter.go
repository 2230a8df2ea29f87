package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
)

// enter makes sure that the shares have the scores before a stage: those that
// the stage before published. What is not sealed, or is no longer there, is
// computed and published again, if need be from the first stage on.
func (w *worker) enter(ctx context.Context, stage int, shares []*share) error {
	if err := w.settle(shares); err != nil {
		return err
	}
	var outside []*share
	for _, s := range shares {
		if s.entered != stage {
			s.entered = unknown // what is read before it proves wrong stands in the batches
			outside = append(outside, s)
		}
	}
	if len(outside) == 0 {
		return nil
	}
	if stage == 0 {
		for _, s := range outside {
			for _, segment := range s.segments {
				for _, b := range segment.batches {
					clear(b.score.Data)
				}
			}
			s.entered = 0
		}
		return nil
	}
	before := w.scoresBefore(stage)
	lacking, err := w.restore(ctx, before, outside)
	if err != nil {
		return err
	}
	if len(lacking) > 0 {
		err := w.within(ctx, stage-1, lacking, func() error { return w.publishStage(ctx, stage-1, lacking) })
		if err != nil {
			return fmt.Errorf("publish the residuals of stage %d again: %w", stage-1, err)
		}
		if lacking, err = w.restore(ctx, before, lacking); err != nil {
			return err
		}
		if len(lacking) > 0 {
			return fmt.Errorf("partition %d: %w, although they were published again", lacking[0].span.Partition, errUnsealed)
		}
	}
	for _, s := range outside {
		s.entered = stage
	}
	return nil
}

// mostRepetitions of a visit that finds the scores before its stage gone: what
// takes them away so often will do so again.
const mostRepetitions = 3

// within has do read the scores before a stage, which the shares have by then.
// Where residuals are gone meanwhile, they are made again.
func (w *worker) within(ctx context.Context, stage int, shares []*share, do func() error) error {
	for repetition := 0; ; repetition++ {
		err := w.enter(ctx, stage, shares)
		if err == nil {
			err = do()
		}
		if !errors.Is(err, errUnsealed) || repetition == mostRepetitions {
			return err
		}
		for _, s := range shares {
			s.entered = unknown
		}
	}
}

// restore reads the scores of shares, and answers with those whose residuals
// have to be made again.
func (w *worker) restore(ctx context.Context, before *residualsOf, shares []*share) (lacking []*share, err error) {
	for _, s := range shares {
		switch err := before.restore(ctx, w.desk, s); {
		case errors.Is(err, errUnsealed):
			lacking = append(lacking, s)
		case err != nil:
			return nil, fmt.Errorf("read residuals %s[%d] of stage %d: %w", w.residuals, s.span.Partition, before.stage, err)
		}
	}
	return lacking, nil
}

// scoresBefore is where the scores before a stage are; nil for the first.
func (w *worker) scoresBefore(stage int) *residualsOf {
	if stage == 0 {
		return nil
	}
	_, parent := w.chain.final(stage - 1)
	return &residualsOf{
		run: w.run, stage: stage - 1, parent: parent, classes: w.chain.prepared.Labels.Len(),
		from: link.Named(w.plan.Stages[stage-1].Link), to: link.Named(w.plan.Stages[stage].Link),
	}
}

// settle tells shares what the survey has covered of them.
func (w *worker) settle(shares []*share) error {
	if w.covered == nil {
		covered, ok := w.chain.accepted[0].Tensors.Find(schemas.TensorCovered)
		if !ok {
			return &schemas.ShapeError{Tensor: schemas.TensorCovered, Want: []int{len(w.plan.Spans)}}
		}
		w.covered = map[int]accumulate.Coverage{}
		for _, text := range covered.Text {
			c, err := coverageOf(text)
			if err != nil {
				return err
			}
			if len(c.Spans) == 1 {
				w.covered[c.Spans[0].Partition] = c
			}
		}
	}
	for _, s := range shares {
		s.covered = w.covered[s.span.Partition]
	}
	return nil
}

// sealStage publishes the residuals of a final stage, of those partitions for
// which nobody has.
func (w *worker) sealStage(ctx context.Context, stage int) error {
	_, parent := w.chain.final(stage)
	var open []*share
	for _, s := range w.shares {
		if seal := s.seals[stage]; seal == nil || seal.parent != parent {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		return nil
	}
	began := time.Now()
	if err := w.within(ctx, stage, open, func() error { return w.publishStage(ctx, stage, open) }); err != nil {
		return err
	}
	w.rec.Record(Sealed{Run: w.run, Stage: stage, Partitions: partitionsOf(open), Rows: w.counts(open), Elapsed: time.Since(began)})
	return nil
}

// publishStage publishes the residuals of shares that have the scores before
// the stage, and seals each partition's when all of them are acknowledged.
func (w *worker) publishStage(ctx context.Context, stage int, shares []*share) error {
	p, err := w.pass(visit{stage: stage})
	if err != nil {
		return err
	}
	_, p.final = w.chain.final(stage)
	p.attempt = w.fresh()
	sums, open := map[*share]*accumulate.Sum{}, map[*share]*opened{}
	s := &sweep{
		desk: w.desk, plan: w.plan, scores: w.scoresBefore(stage), writers: 1, // residuals are in order of their examples
		bench: func() func(context.Context, *load) (*outcome, error) { return w.bench(p).publish },
		collect: func(s *share, o *outcome) (func(context.Context) error, error) {
			if open[s] == nil {
				open[s] = &opened{seal: seal{parent: p.final, attempt: p.attempt, from: -1}}
			}
			opened := open[s]
			whole, err := merge(sums, s, o, true, &w.buffers)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				if err := w.append(ctx, s, opened, o); err != nil || whole == nil {
					return err
				}
				return w.seal(ctx, stage, s, opened, whole)
			}, nil
		},
	}
	return w.sweep(ctx, s, shares)
}

// opened is a seal in the making.
type opened struct {
	seal
	digester sink.Digester
}

func (w *worker) append(ctx context.Context, s *share, open *opened, o *outcome) error {
	at, err := w.write(ctx, w.residuals, s.span.Partition, o.messages...)
	if err != nil {
		return err
	}
	if open.from < 0 {
		open.from = at
	}
	for _, part := range o.scores {
		open.digester.Add(part.offset, part.row, part.score)
	}
	open.rows += o.rows
	return nil
}

// seal vouches for the residuals of a partition, which are all acknowledged.
func (w *worker) seal(ctx context.Context, stage int, s *share, open *opened, sum *accumulate.Sum) error {
	_, end, err := w.log.Bounds(ctx, w.residuals, s.span.Partition)
	if err != nil {
		return err
	}
	open.from, open.to, open.digest = max(open.from, 0), end, open.digester.Digest()
	r := &schemas.Statistics{
		Identity: w.identity(schemas.KindSeal, visit{stage, 0, open.parent}, s),
		Notes:    append(coverageNotes(sum.Coverage), open.notes()...), Tensors: sum.Tensors(),
	}
	if err := writeRecord(ctx, w.desk, w.statistics, w.statisticsOf(s.span.Partition), r); err != nil {
		return err
	}
	done := open.seal
	s.seals[stage] = &done
	if s.inMemory() {
		s.sealed = stage
	}
	return nil
}
