package link

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
)

// A row whose truth is not known has no residual.
func TestResiduals(t *testing.T) {
	classes := Truth{Classes: []int32{1, -1, 0}}
	r := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{0.25, 0.75, 0.5, 0.5, 2, -1}}
	classes.Residuals(r)
	if want := []float32{-0.25, 0.25, 0, 0, -1, 1}; !slices.Equal(r.Data, want) {
		t.Errorf("the residuals are %v, expected %v", r.Data, want)
	}
	numbers := Truth{Classes: []int32{0, -1, 0}, Targets: kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, 2, 3, 4, 5, 6}}}
	r = kernel.Dense{Rows: 3, Cols: 2, Data: []float32{0.25, 0.75, 0.5, 0.5, 2, -1}}
	numbers.Residuals(r)
	if want := []float32{0.75, 1.25, 0, 0, 3, 7}; !slices.Equal(r.Data, want) {
		t.Errorf("the residuals of numbers are %v, expected %v", r.Data, want)
	}
	classes.Write(r)
	if want := []float32{0, 1, 0, 0, 1, 0}; !slices.Equal(r.Data, want) {
		t.Errorf("the indicators are %v, expected %v", r.Data, want)
	}
	numbers.Write(r)
	if want := []float32{1, 2, 0, 0, 5, 6}; !slices.Equal(r.Data, want) {
		t.Errorf("the numbers are %v, expected %v", r.Data, want)
	}
}

func TestProjections(t *testing.T) {
	for region, want := range map[Region][]float32{
		Simplex:   {0, 1, 0.25, 0.75},
		Hypercube: {0, 1, 0.25, 0.75},
		Space:     {-1, 2, 0.25, 0.75},
	} {
		x := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{-1, 2, 0.25, 0.75}}
		if region.Project(x, new(Scratch)); !slices.Equal(x.Data, want) {
			t.Errorf("region %d: %v, expected %v", region, x.Data, want)
		}
	}
}

// The residual of a softmax is y − softmax(score). A row without a label has none.
func ExampleTruth_Residuals() {
	score := kernel.Dense{Rows: 2, Cols: 4, Data: []float32{0, 0, 0, 0, 1, 2, 3, 4}}
	Named(Softmax).Predict(score)
	Truth{Classes: []int32{2, -1}}.Residuals(score)
	fmt.Printf("%.2f\n", score.Data)
	// Output: [-0.25 -0.25 0.75 -0.25 0.00 0.00 0.00 0.00]
}
