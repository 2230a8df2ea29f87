package worker

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
)

// endsMember reports whether a stage is the last of a member, of a plan that averages several.
func (w *Worker) endsMember(stage int) bool {
	return w.plan.Members() > 1 && w.plan.EndsMember(stage)
}

// values returns how many values of k classes a row in memory has beside its inputs: see [partition.Batch].
func (w *Worker) values(k int) int {
	if w.plan.Members() > 1 {
		return 3 * k
	}
	return 2 * k
}

// votesAfter returns the votes of a batch's rows (n × k) after the stage, for [stageProcessor.vote] to write if the stage ends a member; without
// rows if no member is finished. They stay valid until they are written to the log.
func (p *stageProcessor) votesAfter(b *partition.Batch) kernel.Dense {
	switch {
	case !p.plan.Votes(p.visit.Stage):
		return kernel.Dense{}
	case !p.plan.EndsMember(p.visit.Stage):
		return b.Votes
	}
	return kernel.NewDense(b.Len(), p.visit.stage.Classes)
}

// vote writes the votes of some rows after the last stage of a member, whose predictions are in p.score, and adds the metrics of those rows that
// are examples, the first ones, to average: those of the mean of the members so far.
func (p *stageProcessor) vote(average *accumulate.Sum, rows accumulate.Rows, examples int, votes, before kernel.Dense) {
	copy(votes.Data, before.Data)
	sink.Vote(votes, p.score)
	sink.Average(p.score, votes, p.plan.Member(p.visit.Stage)+1)
	p.visit.stage.Link.MeasurePredictions(p.score, rows.Truth, p.loss, p.predicted, p.workspace.Link())
	measured, prediction := rows.Slice(0, examples), p.score.Slice(0, examples)
	average.AddLosses(measured, p.loss[:examples], p.predicted[:examples], prediction)
	if p.measuresQuality() {
		average.AddQuality(measured, prediction, p.predicted[:examples])
	}
}

// measuresQuality reports whether the quality of predictions is measured after the stage: of several labels the sums are large.
func (p *stageProcessor) measuresQuality() bool {
	return p.plan.Task() != schemas.SeveralLabels || p.visit.Stage == len(p.plan.Stages)-1
}
