package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// leaving is the coverage of the increments that leave the window, by partition and place among them.
type leaving map[*partition.State]map[int]*coverage.Coverage

// add adds a segment.
func (l leaving) add(at visit.LoadPlace, o *visit.Outcome) {
	if o.Left == nil {
		return
	}
	p := at.Partition
	place := p.Segments()[at.Segment].Increment
	if l[p] == nil {
		l[p] = map[int]*coverage.Coverage{}
	}
	if l[p][place] == nil {
		l[p][place] = &coverage.Coverage{}
	}
	read := l[p][place]
	read.Messages, read.Rows, read.Checksum = read.Messages+o.Left.Messages, read.Rows+o.Left.Rows, read.Checksum+o.Left.Checksum
}

// checkLeaving returns a *coverageError if the rows read for leaving increments differ from those that were added with
// them: then the sums can't be corrected.
func (w *Worker) checkLeaving(p *partition.State, read map[int]*coverage.Coverage) error {
	u := w.plan.Update()
	for _, place := range slices.Sorted(maps.Keys(read)) {
		increment := u.Leave[place]
		if increment.Uncounted {
			continue
		}
		want, _ := increment.On(p.Partition())
		got := *read[place]
		got.Spans = want.Spans
		if !got.Same(want) {
			return fmt.Errorf("partition %d, rows that came with run %d of the chain: %w", p.Partition(), increment.Number,
				&coverageError{got, want})
		}
	}
	return nil
}

// publishLeaving writes the weighted Gram matrices of a partition's rows that leave the window.
func (w *Worker) publishLeaving(ctx context.Context, v *visit.Visit, p *partition.State, sum *accumulate.Sum) error {
	r := statistics.Gram{Identity: w.identity(statistics.KindLeave, v.Visit, p)}
	r.Matrix = visit.LeavingGram(w.plan.Update(), sum)
	return publish(ctx, w, r.ExactRecord())
}
