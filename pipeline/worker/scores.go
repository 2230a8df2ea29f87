package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// loadScores loads the scores before a stage, which the previous stage has published, for shares that lack them.
// Residuals that are not sealed, or no longer on the topic, are computed and published again, if necessary from stage 0.
func (w *Worker) loadScores(ctx context.Context, stage int, shares []*partition.Share) error {
	w.setCovered(shares)
	if w.Plan.Update() != nil {
		w.beginScores(shares)
		return nil
	}
	var without []*partition.Share
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
			return fmt.Errorf("partitions %v: %w, although they were published again", numbers(unsealed[0]), visit.ErrUnsealed)
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
func (w *Worker) withScores(ctx context.Context, stage int, shares []*partition.Share, do func() error) error {
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
func (w *Worker) restore(ctx context.Context, before *visit.ResidualsReader, shares []*partition.Share) (unsealed []*partition.Share,
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
		Seal: func(p *partition.Share) *statistics.Seal { return w.seals.of(w.first(p), stage-1) },
		From: model.LinkOf(w.Plan, stage-1), To: model.LinkOf(w.Plan, stage), Begins: w.Plan.BeginsMember(stage), Votes: w.Plan.Votes(stage - 1),
	}
}

// setCovered sets the coverage of each share from the survey's result.
func (w *Worker) setCovered(shares []*partition.Share) {
	if w.covered == nil {
		w.surveyed = map[int]coverage.Coverage{}
		for _, c := range w.chain.Survey.Covered {
			if len(c.Spans) > 0 {
				w.surveyed[c.Spans[0].Partition] = c
			}
		}
		w.covered = maps.Clone(w.surveyed)
		if u := w.Plan.Update(); u != nil {
			for i := range u.Refresh {
				for _, c := range u.Refresh[i].Covered {
					number := c.Spans[0].Partition
					all := w.covered[number]
					if all.Merge(c) == nil { // overlapping spans of a plan are detected when their sums are merged
						w.covered[number] = all
					}
				}
			}
		}
	}
	for _, p := range shares {
		surveyed, covered := coverage.Coverage{}, coverage.Coverage{}
		for _, part := range p.Parts { // partitions have no offsets in common
			_ = surveyed.Merge(w.surveyed[part.Span.Partition])
			_ = covered.Merge(w.covered[part.Span.Partition])
		}
		p.Surveyed, p.Covered = surveyed, covered
	}
}

// beginScores restores the batches of an earlier run, with the scores before stage 0. Visits of an update advance them.
func (w *Worker) beginScores(shares []*partition.Share) {
	var without []*partition.Share
	for _, p := range shares {
		if p.Scores != 0 {
			without = append(without, p)
		}
	}
	if len(without) == 0 {
		return
	}
	w.reuse(without)
	for _, p := range without {
		p.ZeroScores()
	}
}
