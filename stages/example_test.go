package stages_test

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// A block has a row of features for each row of inputs, and in the first stage an intercept.
func ExampleMap_Expand() {
	prepared := &prepare.Preparation{Center: []float32{0, 0}, Scale: []float32{1, 1}, Spread: 2}
	features := schemas.Features{Kind: stages.RFF, Size: 4, BandwidthScale: 1, Degree: 2}
	m, err := stages.NewMap(features, 1, 0, prepared, 0, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	inputs := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{0.5, 1, -1, 0}}
	var block, scratch kernel.Dense
	m.Expand(kernel.Gonum(), &block, &scratch, inputs, kernel.Dense{})
	for i := range block.Rows {
		fmt.Printf("%.3f\n", block.Row(i))
	}
	fmt.Println(m.Penalised(), "of", m.Size(), "columns are penalised")
	// Output:
	// [-0.181 -0.286 -0.128 -0.698 1.000]
	// [-0.671 0.539 0.503 0.626 1.000]
	// 4 of 5 columns are penalised
}

// Later stages may take the predictions of the stage before as features too. They follow the others.
func ExampleMap_Expand_scores() {
	prepared := &prepare.Preparation{Center: []float32{0, 0, 0}, Scale: []float32{1, 1, 1}, Spread: 1}
	features := stages.DefaultsOf(stages.Columns)
	m, err := stages.NewMap(features, 1, 1, prepared, 2, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	inputs := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{7, 8, 9}}
	predictions := kernel.Dense{Rows: 1, Cols: 2, Data: []float32{0.25, 0.75}}
	var block, scratch kernel.Dense
	m.Expand(kernel.Gonum(), &block, &scratch, inputs, predictions)
	fmt.Println(block.Data)
	// Output:
	// [7 8 9 0.25 0.75]
}

// The same seed, stage and purpose always give the same draws, and a draw needs none of those before it.
func ExampleStream() {
	s := stages.NewStream(1, 2, 3)
	fmt.Printf("%x\n", s.Word(0))
	fmt.Printf("%.6f\n", s.Uniform(1))
	fmt.Printf("%.6f\n", s.Normal(2))
	fmt.Println(s.Below(1_000_000, 10))
	// Output:
	// 12588d809dce88a7
	// 0.863332
	// -1.434211
	// 2
}

// A preparation centres and scales each feature. A missing value becomes the mean, which is 0 then.
func ExamplePreparation_Apply() {
	prepared, err := prepare.New(schemas.Prepare{Scale: prepare.ScaleStandard}, wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{10, 100}),
		wire.Vector(statistics.TensorScale, []float32{0.5, 0.01}),
		wire.Vector(statistics.TensorSpread, []float32{4}),
		wire.Words[float32](statistics.TensorLabels, []string{"cat", "dog"}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	missing := float32(math.NaN())
	rows := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{12, 150, missing, 0}}
	prepared.Apply(kernel.Gonum(), rows, rows)
	for i := range rows.Rows {
		fmt.Println(rows.Row(i))
	}
	// Output:
	// [1 0.5]
	// [0 -1]
}

// Check lists everything that is wrong, by key.
func ExampleCheck() {
	features := stages.Defaults()
	features.Kind, features.Size, features.Degree = "fourier", 0, 9
	for _, p := range stages.Check(features) {
		fmt.Println(p)
	}
	// Output:
	// kind: fourier: expected rff, sorf, logits, polynomial, columns, gradient, class_counts, patches, patch_polynomial or trees
	// size: 0: expected a whole number from 1 to 32768
	// degree: 9: expected a whole number from 1 to 8
}

// The defaults of each kind of features, in one line for people.
func ExampleDescribe() {
	for _, kind := range []string{stages.RFF, stages.SORF, stages.Logits, stages.Polynomial, stages.Columns} {
		fmt.Println(stages.Describe(stages.DefaultsOf(kind)))
	}
	// Output:
	// 1024 rff bandwidth 1
	// 1024 sorf bandwidth 1
	// 1024 logits
	// 1024 polynomial degree 2
	// all columns
}
