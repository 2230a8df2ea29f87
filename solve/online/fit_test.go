package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/solve"
)

// squares is a stage whose rows have one value each, in the loss (w − target)² / 2 of it.
type squares struct{ targets []float64 }

func (s squares) visit(w []float32) (v Visit) {
	n := len(s.targets)
	columns, reach := make([]int32, n), make([]float64, n)
	gradient, curvature := make([]float64, n), make([]float64, n)
	for i, target := range s.targets {
		d := target - float64(w[i])
		v.Losses.Loss += d * d / 2
		columns[i], gradient[i], curvature[i], reach[i] = int32(i), d, 0.3, 1 // L-BFGS must learn the curvature, which is 1
	}
	v.Losses.Weight = float64(n)
	v.Gradient = statistics.Occurring{Columns: columns, Values: gradient}
	v.Curvature = statistics.Occurring{Columns: columns, Values: curvature}
	v.Reach = statistics.Occurring{Columns: columns, Values: reach}
	return v
}

// fit returns the weights that an update ends with, and the number of its visits. needs reports whether a visit has a gradient.
func (s squares) fit(t *testing.T, passes int, needs func(visit, passes int) bool) ([]float32, int) {
	n := len(s.targets)
	shape := solve.Shape{Columns: n, Penalised: n, Classes: 1}
	initial, columns := make([]float32, n), make([]int32, n)
	for i := range columns {
		columns[i] = int32(2 * i)
	}
	fit := NewUpdate(schemas.Stage{Link: "softmax"}, shape, NewSums(1, 0.01, math.Exp2(-30)), columns, passes, &Memory{})
	for number, step := 0, (solve.Step{W: initial}); ; number++ {
		w := initial
		if number > 0 {
			w = step.Rows
		}
		v := s.visit(w)
		if !needs(number, passes) {
			v.Gradient = statistics.Occurring{}
		}
		if _, err := fit.ObserveVisit(number, step, v); err != nil {
			t.Fatal(err)
		}
		var err error
		if step, err = fit.Next(); err != nil {
			t.Fatal(err)
		}
		if step.Final {
			return step.Rows, number + 1
		}
	}
}

// After the last trial no step follows, so its gradient is not needed: the weights have the same bits without it.
func TestLastTrialsNeedNoGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for passes := range 9 {
		s := squares{make([]float64, 65)}
		for i := range s.targets {
			s.targets[i] = 10 * r.NormFloat64()
		}
		want, visits := s.fit(t, passes, func(int, int) bool { return true })
		got, number := s.fit(t, passes, NeedsGradient)
		if !slices.Equal(got, want) || number != visits {
			t.Errorf("%d passes: %v after %d visits, expected %v after %d", passes, got, number, want, visits)
		}
		if passes > 0 && slices.Max(got) <= 0 {
			t.Errorf("%d passes: nothing is learnt", passes)
		}
	}
}

// A visit before the last trial must have a gradient.
func TestGradientsAreNeededBeforeTheLastTrial(t *testing.T) {
	s := squares{[]float64{3, 4}}
	shape := solve.Shape{Columns: 2, Penalised: 2, Classes: 1}
	fit := NewUpdate(schemas.Stage{Link: "softmax"}, shape, NewSums(1, 0.01, math.Exp2(-30)), []int32{0, 1}, 3, &Memory{})
	if _, err := fit.ObserveVisit(0, solve.Step{W: make([]float32, 2)}, s.visit(make([]float32, 2))); err != nil {
		t.Fatal(err)
	}
	step, err := fit.Next()
	if err != nil {
		t.Fatal(err)
	}
	v := s.visit(step.Rows)
	v.Gradient = statistics.Occurring{}
	if _, err := fit.ObserveVisit(1, step, v); err == nil {
		t.Error("a visit without a gradient is accepted")
	}
}

// Sums have the row of each column, in however many blocks, and forget all of them.
func TestSumsOfManyColumns(t *testing.T) {
	const k = 2
	sums := NewSums(k, 0, 1)
	for range 2 {
		columns := 2*blockRows + 65
		for column := range columns {
			sums.Add(1, Terms{Columns: []int32{int32(3 * column)}, Values: []float64{float64(column), 1}})
		}
		for column := range columns {
			if row := sums.Row(int32(3 * column)); !slices.Equal(row, []float64{float64(column), 1}) {
				t.Fatalf("the sums of column %d are %v", 3*column, row)
			}
			if row := sums.Row(int32(3*column + 1)); row != nil {
				t.Fatalf("column %d has sums %v", 3*column+1, row)
			}
		}
		sums.Clear()
	}
}
