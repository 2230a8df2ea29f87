package linear

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/spill"
)

// quadraticOf is a function with a different diagonal Hessian for each class: its value and its gradient at a point.
type quadraticOf struct{ hessian, target []float64 }

func (q quadraticOf) at(w []float32) (value float64, gradient []float64) {
	gradient = make([]float64, len(w))
	for i, x := range w {
		d := float64(x) - q.target[i]
		gradient[i] = q.hessian[i] * d
		value += gradient[i] * d / 2
	}
	return value, gradient
}

// steps makes count steps, and returns the minimum, the value there according to the steps, and the ends of the steps.
// It calls before, with the number of file uses so far, before it uses the file.
func steps(q quadraticOf, p, k, count int, file *spill.File, before func(use int)) (minimum []float32, value float64, ends [][]float32,
	err error) {
	metric := &Diagonal{slices.Repeat([]float64{0.5}, p)}
	w := make([]float32, p*k)
	value, gradient := q.at(w)
	uses := 0
	use := func(do func() error) {
		if before(uses); err == nil {
			err = do()
		}
		uses++
	}
	var c *Conjugate
	turn := func() error { _, err := c.Turn(gradient); return err }
	use(func() (err error) { c, err = NewConjugate(w, gradient, k, metric, 0.1, file); return err })
	for range count {
		use(turn)
		use(func() (err error) { w, err = c.Next(gradient); return err })
		if err != nil {
			break
		}
		ends = append(ends, w)
		_, gradient = q.at(w)
		use(func() (err error) { value, err = c.Step(w, gradient, value); return err })
	}
	use(turn)
	use(func() (err error) { minimum, err = c.Minimum(); return err })
	return minimum, value, ends, err
}

// Matrices in a file have the bits of those in memory, for any number of windows.
func TestConjugateInAFile(t *testing.T) {
	r, ignore := rand.New(rand.NewPCG(1, 2)), func(int) {}
	for _, k := range []int{1, 3} {
		for _, p := range []int{1, 7, partRows(k)*windowParts - 1, partRows(k)*windowParts + 1, 2*partRows(k)*windowParts + 5} {
			q := quadraticOf{make([]float64, p*k), make([]float64, p*k)}
			for i := range q.hessian {
				q.hessian[i], q.target[i] = 0.5+float64(r.IntN(4)), r.NormFloat64()
			}
			want, value, wantEnds, err := steps(q, p, k, 4, nil, ignore)
			if err != nil {
				t.Fatal(err)
			}
			file := spill.New(t.TempDir())
			got, gotValue, gotEnds, err := steps(q, p, k, 4, file, ignore)
			if err != nil {
				t.Fatal(err)
			}
			file.Close()
			if !slices.Equal(got, want) || gotValue != value || !slices.EqualFunc(gotEnds, wantEnds, slices.Equal) {
				t.Errorf("%d × %d: other bits in a file", p, k)
			}
			if at, _ := q.at(want); at > 1e-6*float64(p*k) { // a diagonal Hessian of four values: four steps find its minimum
				t.Errorf("%d × %d: %v is left", p, k, at)
			}
		}
	}
}

// If the file fails at any time, the fit returns its error.
func TestConjugateFailsWithItsFile(t *testing.T) {
	const p, k, uses = 9, 2, 9 // NewConjugate, twice three of a step, and two at the end
	q := quadraticOf{slices.Repeat([]float64{1}, p*k), slices.Repeat([]float64{2}, p*k)}
	for fails := range uses + 1 {
		file := spill.New(t.TempDir())
		_, _, _, err := steps(q, p, k, 2, file, func(use int) {
			if use == fails {
				file.Close()
			}
		})
		if file.Close(); (fails < uses) != errors.Is(err, fs.ErrClosed) {
			t.Errorf("the file is closed before use %d: %v", fails, err)
		}
	}
}
