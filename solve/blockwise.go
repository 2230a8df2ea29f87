package solve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// blockwise fits the inputs of sparse rows a block at a time: the stagewise regression of the paper (section 3.3) on sparse features,
// whose next block is the inputs with the largest gradient. A visit gives the gradient of all inputs, k values each, and the Gram matrix of the
// block that the last visit's gradient has chosen. The fit moves the weights of the block, and of the intercept, by (L·S+λI)⁻¹ times their
// gradient: to the minimum over them, if the loss is quadratic. λ applies to a whole weight, whichever round moves it. So J never rises.
//
// The gradient that chooses a block is the one before the last step. One that is a step newer would take another visit a block. On NEWS20 with
// blocks of 1000 the order makes no difference of 0.1 points after a round.
type blockwise struct {
	common
	visit     int
	objective float64
	w         []float64 // p × k
	norms     []float64 // Ê[x²] of each input
	had       []bool    // the inputs that have had their turn in this round
	block     []int32   // of the next visit
}

func (b *blockwise) Observe(v int, step Step, sums schemas.Tensors[float64]) (*Evaluation, error) {
	first := !b.opened
	losses, err := b.open(sums)
	if err != nil {
		return nil, err
	}
	if first {
		if err := b.begin(sums); err != nil {
			return nil, err
		}
	}
	weights, penalised, ridge := b.start(step)
	gradient, err := b.ridgeGradient(sums, penalised)
	if err != nil {
		return nil, err
	}
	b.visit, b.passes, b.w = v, b.passes+1, wide(weights)
	e := &Evaluation{Number: b.passes, Objective: losses[schemas.Train].MeanLoss() + ridge}
	e.Accepted = first || e.Objective <= b.objective*(1+1e-6) // scores are of single precision
	b.objective = e.Objective
	if step.Block != nil {
		if err := b.solve(step.Block, gradient, sums); err != nil {
			return nil, err
		}
	}
	b.block = b.choose(step.Block, gradient)
	return e, nil
}

// begin reads the norms of the inputs, of the first visit. Inputs that are 0 in all training rows are left out of all rounds.
func (b *blockwise) begin(sums schemas.Tensors[float64]) error {
	squares, err := sums.Shaped(schemas.FieldDiagonal, b.shape.Columns)
	if err != nil {
		return err
	}
	b.norms, b.had = make([]float64, b.shape.Penalised), make([]bool, b.shape.Penalised)
	for j := range b.norms {
		b.norms[j] = squares[j] / b.weight
		b.had[j] = b.norms[j] == 0
	}
	return nil
}

// solve moves the weights of a block and of the intercept.
func (b *blockwise) solve(block []int32, gradient []float64, sums schemas.Tensors[float64]) error {
	k, columns := b.shape.Classes, slices.Clone(block)
	for j := b.shape.Penalised; j < b.shape.Columns; j++ {
		columns = append(columns, int32(j))
	}
	n := len(columns)
	gram, err := sums.Shaped(schemas.FieldBlock, n*(n+1)/2)
	if err != nil {
		return err
	}
	own := make([]float64, 0, n*k)
	for _, j := range columns {
		own = append(own, gradient[int(j)*k:(int(j)+1)*k]...)
	}
	metric, err := newPreconditioner(gram, n, len(block), b.weight, b.lambda, b.link.Smoothness, b.buffer)
	if err != nil {
		return fmt.Errorf("factor the Gram matrix of a block: %w", err)
	}
	step := metric.Solve(own, k)
	for i, j := range columns {
		for c := range k {
			b.w[int(j)*k+c] -= step[i*k+c]
		}
	}
	for _, j := range block {
		b.had[j] = true
	}
	return nil
}

// choose returns the next block, given the gradient before the last one was solved: of the inputs that have not had their turn, those with the largest
// norm of the gradient over that of the input, which is nearly the largest fall of J. Of equal ones the first are chosen.
func (b *blockwise) choose(solved []int32, gradient []float64) []int32 {
	var left []int32
	for j, had := range b.had {
		if !had {
			left = append(left, int32(j))
		}
	}
	if len(left) == 0 { // another round; the gradient of what was solved is about 0
		for j, norm := range b.norms {
			if b.had[j] = norm == 0; norm == 0 {
				continue
			}
			if _, just := slices.BinarySearch(solved, int32(j)); !just {
				left = append(left, int32(j))
			}
		}
		if len(left) == 0 && !b.link.Quadratic { // a block of all inputs, which another step moves further
			left = slices.Clone(solved)
		}
	}
	if len(left) > b.shape.AtATime {
		k, falls := b.shape.Classes, make([]float64, len(b.norms))
		for _, j := range left {
			square := 0.0
			for _, v := range gradient[int(j)*k : (int(j)+1)*k] {
				square += v * v
			}
			falls[j] = square / (b.norms[j] + b.lambda)
		}
		slices.SortStableFunc(left, func(i, j int32) int { return cmp.Compare(falls[j], falls[i]) })
		left = left[:b.shape.AtATime]
		slices.Sort(left)
	}
	return left
}

func (b *blockwise) Next() (Step, error) {
	step := Step{W: narrow(b.w)}
	if b.passes >= b.stage.Passes || len(b.block) == 0 {
		step.Final, step.Of = true, b.visit+1
		return step, nil
	}
	if !finite(b.objective) {
		return step, &NotFiniteError{"J"}
	}
	step.Block = b.block
	return step, nil
}
