package solve_test

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/linear"
)

// sums returns the sums of a visit over three rows with x = 1, 2 and 3 and y = 2x, at the scores w·x.
func sums(w float64) wire.Tensors[float64] {
	gram, cross, loss := 0.0, 0.0, 0.0
	for _, x := range []float64{1, 2, 3} {
		residual := 2*x - w*x
		gram, cross, loss = gram+x*x, cross+x*residual, loss+residual*residual/2
	}
	splits := make([]float64, examples.Splits*statistics.LossFields)
	copy(splits, []float64{3, 3, 0, loss}) // Σw, rows, Σw of wrong rows, Σw·loss of the training rows
	return wire.Tensors[float64]{
		wire.Matrix(statistics.FieldSplits, examples.Splits, statistics.LossFields, splits),
		wire.Vector(statistics.FieldGram, []float64{gram}), wire.Vector(statistics.FieldGramRows, []float64{3}),
		wire.Matrix(statistics.FieldCross, 1, 1, []float64{cross}),
	}
}

// One pass with the Gram matrix of all rows solves least squares.
func ExampleNewFit() {
	stage := solve.Defaults()
	stage.Link, stage.Ridge = link.Identity, 0
	fit := solve.NewFit([]schemas.Stage{stage}, 0, false, solve.Shape{Columns: 1, Penalised: 1, Classes: 1}, new(linear.Buffer))

	first := sums(0)
	if err := fit.Precondition(first); err != nil {
		fmt.Println(err)
	}
	evaluation, err := fit.Observe(0, solve.Step{}, first)
	if err != nil {
		fmt.Println(err)
	}
	step, err := fit.Next()
	fmt.Printf("J = %.3f, then W = %v, final: %v, %v\n", evaluation.Objective, step.W, step.Final, err)
	// Output: J = 9.333, then W = [2], final: true, <nil>
}

// Data that can't be fitted is an error of its own type.
func ExampleSingularError() {
	stage := solve.Defaults()
	stage.Link, stage.Ridge = link.Identity, 0
	fit := solve.NewFit([]schemas.Stage{stage}, 0, false, solve.Shape{Columns: 1, Penalised: 1, Classes: 1}, new(linear.Buffer))

	constant := sums(0)
	constant[1].Data[0] = 0 // the only feature is always 0
	err := fit.Precondition(constant)
	if err == nil {
		_, err = fit.Observe(0, solve.Step{}, constant)
	}
	fmt.Println(errors.As(err, new(*linear.SingularError)))
	// Output: true
}

// The passes of a softmax stage need a Gram matrix of few rows for each column.
func ExampleGramRows() {
	stage := solve.Defaults()
	fmt.Println(solve.GramRows(stage, 1024, false, 60_000))
	stage.Method = solve.MethodPaper
	fmt.Println(solve.GramRows(stage, 1024, false, 60_000))
	// Output:
	// 10000
	// 60000
}

// Check names the keys that are wrong and says what is expected.
func ExampleCheck() {
	stage := solve.Defaults()
	stage.Method = "newton"
	for _, problem := range solve.Check(stage) {
		fmt.Println(problem)
	}
	// Output: method: newton: expected auto, paper, accelerated, lbfgs or cg
}
