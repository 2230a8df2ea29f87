package worker

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A worker that owns all partitions of a group, or of the first groups, sends one record for them, with the same bits that
// the solver would have computed. So the traffic on the topic does not grow with the number of partitions.

// block is a range of partitions that share one record of a visit.
type block struct {
	*Worker
	visit protocol.Visit
	first *partition.State
	at    map[*partition.State]int // partition to its index in the block
	tree  coverage.Tree
	// partial sums by kind of record
	gram, leave, rest *merging
	sample            *accumulate.Sample
	samples           int // number of partitions whose samples are included
	// of the survey
	found   *visit.Findings
	covered []coverage.Coverage  // by partition
	chained []statistics.Chained // by partition; nil outside a chain
}

// merging reduces the sums of a block's partitions in partition order, whatever their order of arrival.
type merging struct {
	reduction *accumulate.Reduction
	early     map[int]*accumulate.Sum
}

// blocks divides partitions into blocks; a single partition is not a block. sample is the maximum number of rows of a
// sample; 0: that of the survey.
func (w *Worker) blocks(v protocol.Visit, partitions []*partition.State, sample int) map[*partition.State]*block {
	numbers, places := w.numbers(v.Stage), map[int]int{}
	for ordinal, number := range numbers {
		places[number] = ordinal
	}
	states, ordinals := map[int]*partition.State{}, make([]int, len(partitions))
	for i, p := range partitions {
		ordinals[i] = places[p.Partition()]
		states[ordinals[i]] = p
	}
	tree, all := w.plan.Merges(len(numbers)), map[*partition.State]*block{}
	for _, of := range tree.Blocks(ordinals) {
		if len(of) == 1 {
			continue
		}
		b := &block{Worker: w, visit: v, first: states[of[0]], at: map[*partition.State]int{},
			tree: coverage.Tree{Parts: len(of), Group: tree.Group}, sample: &accumulate.Sample{Max: sample}}
		b.gram, b.leave, b.rest = b.merging(), b.merging(), b.merging()
		for i, ordinal := range of {
			b.at[states[ordinal]] = i
			all[states[ordinal]] = b
		}
	}
	return all
}

// merging returns the empty sum of the block's partitions.
func (b *block) merging() *merging {
	r := accumulate.NewReduction(b.tree)
	r.Buffers, r.Crosses = b.Grams, b.Crosses
	return &merging{reduction: r, early: map[int]*accumulate.Sum{}}
}

// numbers returns the partitions that visits to a stage read, in the order of the plan.
func (w *Worker) numbers(stage int) (numbers []int) {
	if stage != wire.Survey {
		return w.plan.Partitions()
	}
	for _, span := range w.plan.Spans.Hulls() {
		numbers = append(numbers, span.Partition)
	}
	return numbers
}

// identity returns the identity of the block's record.
func (b *block) identity(kind wire.Kind) wire.Identity {
	id := b.Worker.identity(kind, b.visit, b.first)
	id.Merged = len(b.at)
	return id
}

// add adds the sum of a partition. It returns the sum of the block once it is complete; otherwise nil.
func (m *merging) add(at int, sum *accumulate.Sum) (*accumulate.Sum, error) {
	m.early[at] = sum
	lacking, err := m.reduction.AddReady(func(from, to int) (*accumulate.Sum, error) {
		if to-from > 1 {
			return nil, nil
		}
		sum := m.early[from]
		delete(m.early, from)
		return sum, nil
	})
	if err != nil || lacking >= 0 {
		return nil, err
	}
	return m.reduction.Sum()
}

// addSample adds the sample of a partition. It returns the sample of the block once it is complete; otherwise nil.
func (b *block) addSample(of *accumulate.Sample) *wire.Record[float32] {
	if of != nil {
		b.sample.Merge(of)
	}
	if b.samples++; b.samples < len(b.at) {
		return nil
	}
	return b.sample.Record(b.identity(statistics.KindSample)).Record()
}

// writes is a list of writes, in order.
type writes []func(context.Context) error

// add adds the write of a record.
func add[T wire.Number](all *writes, w *Worker, r *wire.Record[T]) {
	*all = append(*all, func(ctx context.Context) error { return publish(ctx, w, r) })
}

// write returns a function that executes all writes; nil if there are none.
func (all writes) write() func(context.Context) error {
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		for _, write := range all {
			if err := write(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// sums adds the sums of a partition: see publishSums. It returns a function that writes the complete records; nil if there
// are none.
func (b *block) sums(v *visit.Visit, p *partition.State, sum *accumulate.Sum, sample *accumulate.Sample, gram,
	rest bool) (func(context.Context) error, error) {
	var all writes
	if v.Number == wire.Growth {
		if r := b.addSample(sample); r != nil {
			add(&all, b.Worker, r)
		}
	}
	if gram {
		if err := b.addGram(&all, v, p, sum); err != nil {
			return nil, err
		}
	}
	if !rest {
		return all.write(), nil
	}
	update, places, keeps := b.plan.Update(), 0, false
	if update != nil {
		places, keeps = 1+len(update.Refresh), schemas.KeepsTerms(v.Number, update.Passes)
	}
	// Terms of each increment add up as they are, and are stacked once. Of a visit with a sum over all increments, that is one of each
	// partition first.
	stacksOnce := keeps && update.SumsGrams()
	if update != nil && !stacksOnce {
		visit.StackTerms(b.plan, v.Of, v.Number, sum, b.Crosses)
		if err := sum.Unstack(places, keeps); err != nil {
			return nil, err
		}
	}
	whole, err := b.rest.add(b.at[p], sum)
	if err != nil || whole == nil {
		return all.write(), err
	}
	switch {
	case stacksOnce:
		visit.StackTerms(b.plan, v.Of, v.Number, whole, b.Crosses)
	case update != nil && !v.Of.Link.Learnt:
		whole.Stack(places, keeps, v.Of.Features.Size(), v.Of.Classes)
	}
	r := statistics.Visit{Identity: b.identity(statistics.KindVisit), Covered: whole.Coverage, Sums: whole.Tensors()}
	add(&all, b.Worker, r.Record())
	return all.write(), nil
}

// addGram adds the Gram matrix in a partition's sum: see publishGram.
func (b *block) addGram(all *writes, v *visit.Visit, p *partition.State, sum *accumulate.Sum) error {
	if b.plan.Update().TakesAway() {
		if err := b.addLeaving(all, v, p, sum); err != nil {
			return err
		}
	}
	if !v.Calibrates() {
		sum.RoundGram() // rounded as if it were sent separately
	}
	gram := b.extractGram(v, p, sum)
	if !v.Calibrates() && b.store.Shares() {
		b.keepGram(v, p, statistics.GramOf(b.Worker.identity(statistics.KindGram, v.Visit, p), gram.Tensors()))
	}
	return b.mergeGram(all, p, gram)
}

// addLeaving adds the Gram matrix of rows that leave the window: see publishLeaving.
func (b *block) addLeaving(all *writes, v *visit.Visit, p *partition.State, sum *accumulate.Sum) error {
	leave := &statistics.Gram{}
	leave.Matrix = visit.LeavingGram(b.plan.Update(), sum)
	whole, err := b.leave.add(b.at[p], gramSum(leave))
	if err == nil && whole != nil {
		add(all, b.Worker, statistics.GramOf(b.identity(statistics.KindLeave), whole.Tensors()).ExactRecord())
	}
	return err
}

// mergeGram adds the Gram matrix of a partition.
func (b *block) mergeGram(all *writes, p *partition.State, gram *accumulate.Sum) error {
	whole, err := b.gram.add(b.at[p], gram)
	if err != nil || whole == nil {
		return err
	}
	add(all, b.Worker, statistics.GramOf(b.identity(statistics.KindGram), whole.Tensors()).ExactRecord())
	return nil
}

// gramSum converts a Gram matrix to a sum; [statistics.GramOf] is the inverse.
func gramSum(g *statistics.Gram) *accumulate.Sum {
	sum := accumulate.NewSum(coverage.Coverage{}, nil)
	if g.Matrix != nil {
		sum.AddGram(g.Matrix)
	}
	if g.Weight != 0 {
		sum.Field(statistics.FieldGramRows, 1)[0] = g.Weight
	}
	return sum
}

// survey adds the findings of a partition, and returns a function that writes the complete records.
func (b *block) survey(of *visit.Survey, p *partition.State, found *visit.Findings) (func(context.Context) error, error) {
	var all writes
	at, sums := b.at[p], of.Sums(found)
	if b.covered == nil {
		b.covered, b.found = make([]coverage.Coverage, len(b.at)), &visit.Findings{}
	}
	b.covered[at] = sums.Sum.Coverage
	b.found.Join(found)
	if b.plan.Chain != nil {
		if b.chained == nil {
			b.chained = make([]statistics.Chained, len(b.at))
		}
		b.chained[at] = found.Chained()
	}
	whole, err := b.rest.add(at, sums.Sum)
	if err != nil {
		return nil, err
	}
	if whole != nil {
		r := of.Visit(b.found, b.identity(statistics.KindVisit), whole, b.chained, b.covered...)
		b.found = nil // the record has its columns, which may be millions
		add(&all, b.Worker, r)
	}
	if sums.Sample != nil {
		if sample := b.addSample(sums.Sample); sample != nil {
			add(&all, b.Worker, sample)
		}
	}
	if sums.Gram != nil {
		err = b.mergeGram(&all, p, sums.Gram)
	}
	return all.write(), err
}
