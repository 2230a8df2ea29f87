package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// stageVisit returns a visit to a stage with its weights.
func (w *Worker) stageVisit(ctx context.Context, v protocol.Visit) (*visit.Visit, error) {
	s, err := visit.New(w.Run, w.chain, v)
	if err == nil && w.judgesAgain(v) {
		s.Offered, err = w.offeredAgain(ctx)
	}
	return s, err
}

// maxWrites is the number of shares whose sums are written concurrently, because a large Gram matrix takes long to
// write.
const maxWrites = 2

// sum publishes the sums of shares whose scores before the stage are loaded.
func (w *Worker) sum(ctx context.Context, v protocol.Visit, shares []*partition.Share) error {
	current, err := w.stageVisit(ctx, v)
	if err != nil {
		return err
	}
	extent := (*partition.Share).Staying
	if u := w.Plan.Update(); v.Number == 0 && u == nil || u.SumsGrams() {
		if err := w.sumGrams(ctx, v, shares); err != nil {
			return err
		}
	}
	return w.sums(ctx, current, shares, extent)
}

// fewValues is the maximum size of a cross moment, in values of 8 bytes, for shares to be summed concurrently: 32 MB.
const fewValues = 1 << 22

// sumsApart reports whether the sums of a visit are so large that shares are summed sequentially. Otherwise memory would
// hold the sums of as many of the last shares as there are cores.
func (w *Worker) sumsApart(v *visit.Visit) bool {
	return v.Of.Features.Sparse() && w.Plan.Update() == nil && v.Of.Features.Size() > fewValues/v.Of.Classes
}

// sums publishes the sums of a visit to shares, over the leading segments of each, as many as extent returns.
func (w *Worker) sums(ctx context.Context, current *visit.Visit, shares []*partition.Share, extent func(*partition.Share) int) error {
	for _, p := range shares {
		if extent(p) > 0 {
			continue
		}
		if err := w.publishSums(ctx, current, p, &accumulate.Sum{}, &accumulate.Sample{}); err != nil {
			return err
		}
	}
	progress := func(int64) {}
	if !current.Gram { // not part of what a visit has read
		progress = w.progress(current.Visit, shares)
	}
	sums := map[*partition.Share]*accumulate.Sum{}
	left, samples := leaving{}, map[*partition.Share]*accumulate.Sample{}
	var processors []*visit.Processor
	err := w.executor.Run(ctx, &visit.Scan{
		Run: w.Run, Shares: shares, Scores: w.scoresBefore(current.Stage), Increment: current.Increment, Extent: extent,
		MaxWrites: maxWrites, Apart: w.sumsApart(current),
		Processor: visit.Outcomes(func() func(context.Context, *visit.Load) (*visit.Outcome, error) {
			p := current.Processor(&w.idle)
			processors = append(processors, p)
			return p.Sum
		}, func(at *visit.Load, o *visit.Outcome) (visit.Write, error) {
			p := at.Share
			progress(o.Rows)
			left.add(at, o)
			if o.Sample != nil {
				if samples[p] == nil {
					samples[p] = o.Sample
				} else {
					samples[p].Merge(o.Sample)
				}
			}
			whole, err := merge(sums, at, o.Sum, extent(p), w.Grams, w.Crosses)
			if err != nil || whole == nil {
				return nil, err
			}
			if err := w.checkLeaving(p, left[p]); err != nil {
				return nil, err
			}
			sample := samples[p]
			return func(ctx context.Context) error { return w.publishSums(ctx, current, p, whole, sample) }, nil
		}),
	})
	if err != nil || !current.Of.Features.Sparse() {
		processors = nil // processors for other rows have memory for a Gram matrix, which only its own visit needs
	}
	w.idle = processors
	return err
}

// merge adds a segment's sum to the sum of its share, which has the given number of segments. It returns the share's sum when it
// is complete, otherwise nil. The sum must have the coverage of the survey, even if it is only a
// Gram matrix or that of a sample: the error is a *coverageError if it differs.
func merge(sums map[*partition.Share]*accumulate.Sum, at *visit.Load, sum *accumulate.Sum, segments int, buffers *accumulate.BufferPool,
	crosses *accumulate.CrossPool) (*accumulate.Sum, error) {
	p := at.Share
	if sums[p] == nil {
		sum.Spread(crosses)
		sums[p] = sum
	} else if err := sums[p].MergeWhole(sum, buffers, crosses); err != nil {
		return nil, err
	}
	if at.Index < segments-1 {
		return nil, nil
	}
	whole, covered := sums[p], p.CoveredOf(segments)
	delete(sums, p)
	if !whole.Coverage.Same(covered) {
		return nil, fmt.Errorf("partitions %v: %w", numbers(p), &coverageError{whole.Coverage, covered})
	}
	return whole, nil
}

// coverageError means that a visit read other rows than the survey: the topic has changed during the run.
type coverageError struct{ Got, Want coverage.Coverage }

// Error includes the numbers of rows and messages, and the checksums, of both.
func (e *coverageError) Error() string {
	return fmt.Sprintf("%d rows in %d messages (checksum %016x), the survey had %d in %d (%016x)",
		e.Got.Rows, e.Got.Messages, e.Got.Checksum, e.Want.Rows, e.Want.Messages, e.Want.Checksum)
}

// numbers returns the partitions of a share.
func numbers(p *partition.Share) []int { return partition.Numbers([]*partition.Share{p}) }

// publishSums writes a share's sums. In a visit that grows trees, it writes the sample before them, since no record of a visit may
// follow its sums.
func (w *Worker) publishSums(ctx context.Context, v *visit.Visit, p *partition.Share, sum *accumulate.Sum,
	sample *accumulate.Sample) error {
	if v.Gram {
		return w.publishGram(ctx, v, p, sum)
	}
	if v.Number == wire.Growth {
		if err := publish(ctx, w, sample.Record(w.identity(statistics.KindSample, v.Visit, p)).Record()); err != nil {
			return err
		}
	}
	if u := w.Plan.Update(); u.SumsGrams() && !schemas.KeepsTerms(v.Number, u.Passes) {
		visit.AddTerms(u, sum, w.Crosses)
	}
	r := statistics.Visit{Identity: w.identity(statistics.KindVisit, v.Visit, p), Covered: sum.Coverage, Sums: sum.Tensors()}
	return publish(ctx, w, r.Record())
}

// publishGram writes the Gram matrix of a stage's block. It was summed in single precision and is sent in it. A share without rows
// in the sample has no matrix, unless it is the plan's first.
func (w *Worker) publishGram(ctx context.Context, v *visit.Visit, p *partition.Share, sum *accumulate.Sum) error {
	if w.Plan.Update().TakesAway() {
		if err := w.publishLeaving(ctx, v, p, sum); err != nil {
			return err
		}
	}
	if n := v.Of.Features.Size(); p.Parts[0].Ordinal == 0 && w.Plan.Update() == nil { // even without rows
		sum.Field(statistics.FieldGram, n*(n+1)/2)
	}
	gram := statistics.GramOf(w.identity(statistics.KindGram, v.Visit, p), sum.Tensors())
	if w.records == nil { // otherwise the solver keeps the matrix
		defer w.Grams.Put(sum)
	}
	record := gram.BlockRecord()
	if of, shared := w.grams[p]; shared {
		w.Cache.KeepGram(p.Parts[0].Span.Partition, of, record)
	}
	return publish(ctx, w, record)
}

// gramsOf returns the digests of everything that the Gram matrices of shares depend on; nil if only this run has the matrices: those of
// a stage with scores among its features, or with trees, depend on the weights of earlier stages, and those of a chain are sums over
// increments.
func (w *Worker) gramsOf(v *visit.Visit, shares []*partition.Share) map[*partition.Share]wire.Digest {
	if w.Plan.Chain != nil || v.Of.Features.Leaves() > 0 || w.Plan.Stages[v.Stage].Scores {
		return nil
	}
	type sample struct{ Want, Total int64 }
	var of *sample // nil: all rows
	if v.Sample != nil {
		of = &sample{v.Sample.Want, v.Sample.Total}
	}
	rows, grams := w.made().Rows, map[*partition.Share]wire.Digest{}
	for _, p := range shares {
		grams[p] = wire.DigestJSON([]any{rows, p.Covered, p.Parts[0].Ordinal, w.Plan.Segment, v.Stage, w.Plan.Stages[v.Stage].Features,
			w.Plan.Intercept && w.Plan.BeginsMember(v.Stage), of})
	}
	return grams
}

// publishKnownGrams publishes the Gram matrices that an earlier run has summed, and returns the shares that have none.
func (w *Worker) publishKnownGrams(ctx context.Context, v *visit.Visit, shares []*partition.Share) (rest []*partition.Share, err error) {
	for _, p := range shares {
		var known *wire.Record[float32]
		if of, shared := w.grams[p]; shared {
			known = w.Cache.Gram(p.Parts[0].Span.Partition, of)
		}
		if known == nil {
			rest = append(rest, p)
			continue
		}
		record := &wire.Record[float32]{Identity: w.identity(statistics.KindGram, v.Visit, p), Notes: known.Notes, Tensors: known.Tensors}
		if err := publish(ctx, w, record); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// sumGrams publishes the Gram matrices of a stage for the shares that have not published them; first is the first visit to the stage. A
// matrix does not depend on weights, so it is summed in a visit of its own, before the first visit.
func (w *Worker) sumGrams(ctx context.Context, first protocol.Visit, shares []*partition.Share) error {
	shares = slices.DeleteFunc(slices.Clone(shares), func(p *partition.Share) bool { return first.Stage < p.Grams })
	if len(shares) == 0 {
		return nil
	}
	extent := (*partition.Share).Recent
	if u := w.Plan.Update(); u != nil {
		first = w.chain.GramVisit(first.Stage)
		if u.Restart {
			extent = (*partition.Share).Staying
		}
	}
	if w.Plan.Update() == nil || w.Plan.Update().TakesAway() {
		extent = (*partition.Share).All
	}
	current, err := visit.NewGram(w.Run, w.chain, first)
	if err != nil || current.Of.Features.Sparse() {
		return err
	}
	w.grams = w.gramsOf(current, shares)
	rest, err := w.publishKnownGrams(ctx, current, shares)
	if err == nil && len(rest) > 0 {
		err = w.sums(ctx, current, rest, extent)
	}
	if err != nil {
		return err
	}
	for _, p := range shares {
		p.Grams = first.Stage + 1
	}
	return nil
}

// leaving is the coverage of the increments that leave the window, by share and place among them.
type leaving map[*partition.Share]map[int]*coverage.Coverage

// add adds a segment.
func (l leaving) add(at *visit.Load, o *visit.Outcome) {
	if o.Left == nil {
		return
	}
	p := at.Share
	place := at.Segment().Increment
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
	u := w.Plan.Update()
	for _, place := range slices.Sorted(maps.Keys(read)) {
		increment := u.Leave[place]
		if increment.Uncounted {
			continue
		}
		want := coverage.Coverage{}
		for _, part := range p.Parts {
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
	r.Matrix = visit.LeavingGram(w.Plan.Update(), sum)
	return publish(ctx, w, r.ExactRecord())
}

// terms sums the terms of increments at the end of a stage of a full run of a chain, by share.
type terms struct {
	*Worker
	visit *visit.Visit
	of    map[*partition.Share]*visit.IncrementTerms
}

// termsOf returns empty terms.
func (w *Worker) termsOf(v *visit.Visit) *terms {
	return &terms{Worker: w, visit: v, of: map[*partition.Share]*visit.IncrementTerms{}}
}

// add adds the terms of a segment. It returns a function that writes those of an increment if they are complete in the
// share; otherwise nil.
func (t *terms) add(at *visit.Load, of *accumulate.Sum) (visit.Write, error) {
	p := at.Share
	if t.of[p] == nil {
		t.of[p] = visit.NewIncrementTerms(p)
	}
	segment := at.Segment()
	sum, err := t.of[p].Add(segment, of)
	if err != nil || sum == nil {
		return nil, err
	}
	id := t.identity(statistics.KindIncrement, protocol.Visit{Stage: t.visit.Stage, Number: segment.Increment, Parent: t.visit.Parent}, p)
	return func(ctx context.Context) error { return t.publish(ctx, id, sum) }, nil
}

// publish writes the terms of an increment.
func (t *terms) publish(ctx context.Context, id wire.Identity, sum *accumulate.Sum) error {
	columns, classes := t.visit.Of.Features.Size(), t.visit.Of.Classes
	if t.visit.Of.Features.Sparse() {
		o, err := statistics.OccurringOf(sum.Tensors(), statistics.FieldOccurring, columns, classes)
		if err != nil {
			return err
		}
		sparse := statistics.OccurringTerms{Identity: id, Occurring: o, Classes: classes}
		return publish(ctx, t.Worker, sparse.Record())
	}
	both, _ := sum.Take(statistics.FieldTerms)
	dense := statistics.Terms{Identity: id, Sums: wire.Tensor[float64]{Shape: []int{2, columns, classes}, Data: both.Data}}
	return publish(ctx, t.Worker, dense.Record())
}
