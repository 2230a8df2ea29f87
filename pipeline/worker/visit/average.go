package visit

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/sink"
)

// EndsMember reports whether a stage is the last of a member, in a plan that averages several.
func EndsMember(plan *schemas.Plan, stage int) bool {
	return plan.Members() > 1 && plan.EndsMember(stage)
}

// votesAfter returns the votes of a batch's rows (n × k) after the stage, for [Processor.vote] to fill if the stage ends a
// member; empty if no member is finished. They stay valid until they are written to the log.
func (p *Processor) votesAfter(b *partition.Batch) kernel.Dense {
	switch {
	case !p.Plan.Votes(p.visit.Stage):
		return kernel.Dense{}
	case !p.Plan.EndsMember(p.visit.Stage):
		return b.Votes
	}
	return kernel.NewDense(b.Len(), p.visit.Of.Classes)
}

// vote computes the votes of some rows after the last stage of a member, with predictions in p.score, and adds the metrics
// of the leading rows, those of the message, to average: the metrics of the mean of the members so far.
func (p *Processor) vote(average *accumulate.Sum, rows accumulate.Rows, examples int, votes, before kernel.Dense) {
	copy(votes.Data, before.Data)
	sink.Vote(votes, p.score)
	sink.Average(p.score, votes, p.Plan.Member(p.visit.Stage)+1)
	p.visit.Of.Link.MeasurePredictions(p.score, rows.Truth, p.loss, p.predicted)
	measured, prediction := rows.Slice(0, examples), p.score.Slice(0, examples)
	average.AddLosses(measured, p.loss[:examples], p.predicted[:examples], prediction)
	p.measureQuality(average, measured, prediction)
}

// measureQuality adds the quality of the predictions of some rows after the stage. Large sums are kept only for the last
// stage.
func (p *Processor) measureQuality(sum *accumulate.Sum, rows accumulate.Rows, probabilities kernel.Dense) {
	predicted, last := p.predicted[:len(rows.Classes)], p.visit.Stage == len(p.Plan.Stages)-1
	if last || p.Plan.Task() != examples.SeveralLabels {
		sum.AddQuality(rows, probabilities, predicted)
	}
	if last {
		sum.AddRanking(rows, probabilities, predicted, p.Plan.Threshold.At)
	}
}
