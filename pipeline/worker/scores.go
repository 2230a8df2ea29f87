package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// loadScores loads the scores before a stage, which the previous stage has published, for shares that lack them. Visits of an update
// compute them from those before stage 0.
// Residuals that are not sealed, or no longer on the topic, are computed and published again, if necessary from stage 0.
func (w *Worker) loadScores(ctx context.Context, stage int, shares []*visit.Share) error {
	w.setCovered(shares)
	if w.Plan.Update() != nil {
		stage = 0
	}
	var without []*visit.Share
	for _, p := range shares {
		if p.Scores != stage {
			p.Scores = protocol.NoStage // restore overwrites the scores before it detects wrong ones
			without = append(without, p)
		}
	}
	if len(without) == 0 {
		return nil
	}
	w.reuse(without)
	if stage == 0 {
		for _, p := range without {
			p.ZeroScores()
		}
		return nil
	}
	before := w.scoresBefore(stage)
	unsealed, err := w.restore(ctx, before, without)
	if err != nil {
		return err
	}
	if len(unsealed) > 0 {
		err := w.withScores(ctx, stage-1, unsealed, func() error { return w.publishStage(ctx, stage-1, unsealed) })
		if err != nil {
			return fmt.Errorf("publish the residuals of stage %d again: %w", stage-1, err)
		}
		if unsealed, err = w.restore(ctx, before, unsealed); err != nil {
			return err
		}
		if len(unsealed) > 0 {
			return fmt.Errorf("partitions %v: %w, although they were published again", unsealed[0].Numbers(), visit.ErrUnsealed)
		}
	}
	for _, p := range without {
		p.Scores = stage
	}
	return nil
}

// maxRepetitions is the maximum number of times that a visit restarts because the scores before its stage were deleted. A
// cause of repeated deletion, such as a short retention, will persist.
const maxRepetitions = 3

// withScores calls do once the scores before a stage are loaded. If residuals are deleted in the meantime, it computes
// them again and repeats do.
func (w *Worker) withScores(ctx context.Context, stage int, shares []*visit.Share, do func() error) error {
	for repetition := 0; ; repetition++ {
		err := w.loadScores(ctx, stage, shares)
		if err == nil {
			err = do()
		}
		if !errors.Is(err, visit.ErrUnsealed) || repetition == maxRepetitions {
			return err
		}
		for _, p := range shares {
			p.Scores = protocol.NoStage
		}
	}
}

// restore reads the scores of shares. It returns the shares whose residuals must be computed again.
func (w *Worker) restore(ctx context.Context, before *visit.ResidualsReader, shares []*visit.Share) (unsealed []*visit.Share,
	err error) {
	for _, p := range shares {
		switch err := before.Restore(ctx, p); {
		case errors.Is(err, visit.ErrUnsealed):
			unsealed = append(unsealed, p)
		case err != nil:
			return nil, err
		}
	}
	return unsealed, nil
}

// scoresBefore returns a reader of the scores before a stage; nil for stage 0, whose scores are zero.
func (w *Worker) scoresBefore(stage int) *visit.ResidualsReader {
	if stage == 0 || w.Plan.Update() != nil {
		return nil
	}
	_, parent := w.chain.Final(stage - 1)
	return &visit.ResidualsReader{
		Run: w.Run, Stage: stage - 1, Parent: parent, Classes: w.chain.Prepared.Labels.Len(),
		Seal: func(p *visit.Share) *statistics.Seal { return w.seals.of(w.first(p), stage-1) },
	}
}

// setCovered sets the coverage of shares that lack it, from the survey's result and the plan of an update.
func (w *Worker) setCovered(shares []*visit.Share) {
	for _, p := range shares {
		if p.Surveyed.Spans != nil || p.Covered.Spans != nil {
			continue
		}
		numbers := p.Numbers()
		add := func(to *coverage.Coverage, list []coverage.Coverage) {
			for _, c := range list {
				if len(c.Spans) > 0 && slices.Contains(numbers, c.Spans[0].Partition) {
					_ = to.Merge(c) // overlapping spans of a plan are detected when their sums are merged
				}
			}
		}
		add(&p.Surveyed, w.chain.Survey.Covered)
		p.Covered = p.Surveyed
		if u := w.Plan.Update(); u != nil {
			for i := range u.Refresh {
				add(&p.Covered, u.Refresh[i].Covered)
			}
		}
	}
}
