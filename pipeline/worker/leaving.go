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

// leaving is the coverage of the increments that leave the window, by share and place among them.
type leaving map[*partition.Share]map[int]*coverage.Coverage

// add adds a segment.
func (l leaving) add(at visit.LoadPlace, o *visit.Outcome) {
	if o.Left == nil {
		return
	}
	p := at.Share
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
func (w *Worker) checkLeaving(p *partition.Share, read map[int]*coverage.Coverage) error {
	u := w.plan.Update()
	for _, place := range slices.Sorted(maps.Keys(read)) {
		increment := u.Leave[place]
		if increment.Uncounted {
			continue
		}
		want := coverage.Coverage{}
		for _, part := range p.Parts() {
			of, _ := increment.On(part.Span.Partition)
			if err := want.Merge(of); err != nil {
				return err
			}
		}
		got := *read[place]
		got.Spans = want.Spans
		if !got.Same(want) {
			return fmt.Errorf("partitions %v, rows that came with run %d of the chain: %w", numbers(p), increment.Number,
				&coverageError{got, want})
		}
	}
	return nil
}

// publishLeaving writes the weighted Gram matrices of a share's rows that leave the window.
func (w *Worker) publishLeaving(ctx context.Context, v *visit.Visit, p *partition.Share, sum *accumulate.Sum) error {
	r := statistics.Gram{Identity: w.identity(statistics.KindLeave, v.Visit, p)}
	r.Matrix = visit.LeavingGram(w.plan.Update(), sum)
	return publish(ctx, w, r.ExactRecord())
}
